"""In which order inference tries its readings of fused operators. Every reading proves only what
holds, so the order is a question of time."""

from __future__ import annotations

from collections.abc import Iterable

from shardproof.ir.graph import Graph
from shardproof.ops import base as alg
from shardproof.spec.problem import Problem


def spelled_out(problem: Problem) -> bool:
    """Whether one program has a fused operator that the other spells out (a cross entropy of a
    divided vocabulary). Closed operators are only equal to themselves, so that they will hardly
    prove anything then, and opened ones are tried first."""
    return _fused([problem.sequential]) != _fused(problem.distributed.graphs)


def on_both_sides(problem: Problem) -> frozenset[str]:
    """The fused operators of both programs. They may stay closed where others are opened: an
    attention that both have is then one value, however its heads are cut."""
    return frozenset(_fused([problem.sequential]) & _fused(problem.distributed.graphs))


def _fused(graphs: Iterable[Graph]) -> set[str]:
    """The operators that have a definition by simpler ones."""
    ops = {n.op for g in graphs for n in g.nodes}
    return {op for op in ops if alg.lookup(op).define is not None}
