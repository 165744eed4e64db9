"""Runs a JAX function both in JAX and through the importer and the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from shardproof.frontends.import_hlo import HloResult, import_hlo
from shardproof.ir.check import check_program
from shardproof.ir.graph import Mesh, Program
from shardproof.ops.base import infer_types
from shardproof.replay.run import run_program

jax = pytest.importorskip("jax")
DIALECTS = ["compiled", "lowered"]


def text_of(f: Callable[..., Any], args: Sequence[Any], dialect: str) -> str:
    """HLO of ``f``, as compiled or as handed to the compiler."""
    lowered = jax.jit(f, keep_unused=True).lower(*args)
    return lowered.compile().as_text() if dialect == "compiled" else lowered.as_text(dialect="hlo")


def imported(text: str, ranks: int = 1) -> list[HloResult]:
    """The graphs of all ranks, checked."""
    results = import_hlo(text, ranks=ranks)
    program = Program(Mesh.of(r=ranks), [r.graph for r in results])
    flaws = check_program(program, infer_types)
    assert not flaws, str(flaws[0])
    return results


def run(results: Sequence[HloResult], inputs: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Outputs of every rank for inputs by position."""
    graphs = [r.graph for r in results]
    given = [
        {v.name: np.asarray(x) for v, x in zip(g.inputs, xs, strict=True)}
        for g, xs in zip(graphs, inputs, strict=True)
    ]
    envs = run_program(Program(Mesh.of(r=len(graphs)), graphs), given)
    return [[env[v] for v in g.outputs if v] for g, env in zip(graphs, envs, strict=True)]


def compare(f: Callable[..., Any], args: Sequence[Any], dialect: str) -> HloResult:
    """Import ``f`` and compare its outputs with JAX's."""
    (result,) = imported(text_of(f, args, dialect))
    assert not result.unknown, (result.unknown, result.reasons)
    (found,) = run([result], [args])
    wanted = [np.asarray(x) for x in jax.tree.leaves(f(*args))]
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x.astype(np.float64), y.astype(np.float64), rtol=2e-4, atol=2e-5)
    return result
