"""Programs of JAX on several devices: right ones refine, each faulty twin is refuted."""

from __future__ import annotations

import pytest
from tests.frontends.hlo.jax_support import DIALECTS, jax

from shardproof.examples.jax_programs import PROGRAMS

TWINS = [(name, fault) for name, p in PROGRAMS.items() for fault in p.faults]


@pytest.fixture(autouse=True)
def _devices() -> None:
    if len(jax.devices()) < 4:
        pytest.skip("JAX was started with fewer devices")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_right_programs_refine(name: str, dialect: str) -> None:
    verdict = PROGRAMS[name].spec(name, compiled=dialect == "compiled").check()
    assert verdict.status == "refines", verdict.findings
    assert not verdict.unknown_operators
    assert verdict.replay.startswith("replayed")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("name", "fault"), TWINS)
def test_faulty_twins_are_refuted(name: str, fault: str, dialect: str) -> None:
    verdict = PROGRAMS[name].spec(name, fault, compiled=dialect == "compiled").check()
    assert verdict.status == "refuted", verdict.findings
    assert any(f.counterexample is not None for f in verdict.findings)
