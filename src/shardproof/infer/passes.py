"""In which order inference tries its readings of fused operators."""

from __future__ import annotations

from collections.abc import Iterable

from shardproof.ir.graph import Graph
from shardproof.ops import base as alg
from shardproof.spec.problem import Problem


def opened_first(problem: Problem) -> bool:
    """Whether to open fused operators before trying them closed. Closed ones are only equal to
    themselves; where one program has an operator that the other spells out (a cross entropy of a
    divided vocabulary), they will hardly prove anything. Either reading proves what it proves, so
    this is a question of time only."""
    fused = _fused([problem.sequential])
    return fused != _fused(problem.distributed.graphs)


def _fused(graphs: Iterable[Graph]) -> set[str]:
    """The operators that have a definition by simpler ones."""
    ops = {n.op for g in graphs for n in g.nodes}
    return {op for op in ops if alg.lookup(op).define is not None}
