"""Every operator of the core can be resized: random calls, as a problem of one node."""

from __future__ import annotations

import pytest
from tests.ops.samples import SAMPLERS, calls

from shardproof.ir.builder import Builder
from shardproof.ir.graph import AttrValue, Graph, Mesh, Program
from shardproof.ops.base import Collective, infer_types, known
from shardproof.replay.resize import Wish, resize
from shardproof.replay.run import run_graph
from shardproof.spec.problem import Problem

LOCAL = sorted(name for name, op in known().items() if op.evaluate is not None)


def test_every_operator_has_samples() -> None:
    assert set(LOCAL) <= set(SAMPLERS)
    for name in set(known()) - set(LOCAL) - {"opaque", "wait_sent"}:
        group: dict[str, AttrValue] = {"group": (0,), "group_size": 1}
        assert isinstance(known()[name].algebra((), group)[0], Collective)


@pytest.mark.parametrize("op", LOCAL)
def test_operator_resizes(op: str) -> None:
    """The shape rules accept the result, nothing grows, and the original sizes come back."""
    for call in calls(op, 12):
        graph = Graph("one", rank=0)
        b = Builder(graph, infer_types)
        operands = [b.input(f"x{k}", t.dtype, t.shape) for k, t in enumerate(call.types)]
        b.returns(*b.emit_all(op, *operands, **call.attrs))  # type: ignore[arg-type]
        problem = Problem(op, graph, Program(Mesh(()), [graph]), [Graph("relation")], [])
        for wish in (Wish(), Wish(least=10**6, wide=10**6)):
            small = resize(problem, wish).problem.sequential
            for old, new in zip(graph.values(), small.values(), strict=True):
                assert all(n <= m for m, n in zip(old.shape, new.shape, strict=True))
                assert wish == Wish() or old.type == new.type
            assert wish == Wish() or [n.attrs for n in graph.nodes] == [
                n.attrs for n in small.nodes
            ]
        names = [f"x{k}" for k in range(len(call.arrays))]
        run_graph(graph, dict(zip(names, call.arrays, strict=True)))
