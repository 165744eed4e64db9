"""Stored modules of JAX are verified without JAX."""

from __future__ import annotations

import pytest
from tests.frontends.hlo.stored import FOLDER, STORED, stem

from shardproof.examples.jax_programs import PROGRAMS


@pytest.mark.parametrize(("name", "fault", "compiled"), STORED)
def test_stored_modules(name: str, fault: str, compiled: bool) -> None:
    texts = [
        (FOLDER / f"{stem(name, fault, compiled)}.{kind}.hlo.txt").read_text()
        for kind in ("plain", "spread")
    ]
    verdict = PROGRAMS[name].spec_of(name, *texts, compiled).check()
    assert verdict.status == ("refuted" if fault else "refines"), verdict.findings
    assert not verdict.unknown_operators


def test_findings_name_the_source_line() -> None:
    name, fault = "tensor parallel MLP", "mean for sum"
    texts = [
        (FOLDER / f"{stem(name, fault, True)}.{kind}.hlo.txt").read_text()
        for kind in ("plain", "spread")
    ]
    problem = PROGRAMS[name].spec_of(name, *texts, True).resolve()
    reduce = next(n for n in problem.distributed.graphs[0].nodes if n.op == "all_reduce")
    assert reduce.origin.file.endswith("jax_programs.py")
    assert reduce.origin.line > 0
    assert reduce.origin.function == "_mlp_body"
    assert "psum" in reduce.origin.module or "pmean" in reduce.origin.module
