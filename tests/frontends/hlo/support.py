"""Small modules for tests without JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shardproof.frontends.import_hlo import HloResult, import_hlo
from shardproof.ir.check import check_program
from shardproof.ir.graph import Mesh, Program
from shardproof.ops.base import infer_types
from shardproof.replay.run import run_program

ADD = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""


def module(*lines: str, header: str = "", before: str = "") -> str:
    """A module with one computation; the last line is its root."""
    body = "\n".join(f"  {line}" for line in (*lines[:-1], "ROOT " + lines[-1]))
    return f"HloModule m{header}\n\n{before}\nENTRY main {{\n{body}\n}}\n"


def imported(
    text: str, ranks: int = 1, kernels: Mapping[str, Callable[..., Any]] | None = None
) -> list[HloResult]:
    """The graphs of all ranks, checked."""
    results = import_hlo(text, ranks=ranks, kernels=kernels)
    program = Program(Mesh.of(r=ranks), [r.graph for r in results])
    flaws = check_program(program, infer_types)
    assert not flaws, str(flaws[0])
    return results


def outputs(results: Sequence[HloResult], inputs: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Outputs of every rank for inputs by position."""
    graphs = [r.graph for r in results]
    given = [
        {v.name: np.asarray(x) for v, x in zip(g.inputs, xs, strict=True)}
        for g, xs in zip(graphs, inputs, strict=True)
    ]
    envs = run_program(Program(Mesh.of(r=len(graphs)), graphs), given)
    return [[env[v] for v in g.outputs if v] for g, env in zip(graphs, envs, strict=True)]


def evaluated(text: str, *inputs: Any, ranks: int = 1) -> Any:
    """The first output of the first rank (of all ranks where there are several)."""
    found = outputs(imported(text, ranks), [inputs] * ranks)
    return found[0][0] if ranks == 1 else [out[0] for out in found]
