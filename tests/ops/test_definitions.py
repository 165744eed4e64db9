"""Operators evaluate like their spelling with simpler operators."""

from __future__ import annotations

import numpy as np
import pytest
from tests.ops.algebra import same
from tests.ops.samples import Call, calls

import shardproof.ops  # noqa: F401 - registers the operators
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Value
from shardproof.ops.base import Array, infer_types, known, lookup

DEFINED = sorted(name for name, op in known().items() if op.define is not None)


def opened(call: Call) -> Graph:
    """The graph of an operator's definition."""
    b = Builder(Graph("definition"), infer_types)
    operands = [b.input(f"x{k}", t.dtype, t.shape) for k, t in enumerate(call.types)]
    assert call.definition.define is not None
    return b.returns(*call.definition.define(b, tuple(operands), call.attrs))


def evaluate(graph: Graph, arrays: tuple[Array, ...]) -> list[Array]:
    """Run a graph node by node; every array has the shape that the shape rule says."""
    values: dict[Value, Array] = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes:
        run = lookup(node.op).evaluate
        assert run is not None
        results = run(tuple(values[v] for v in node.inputs), node.attrs)
        for v, array in zip(node.outputs, results, strict=True):
            assert array.shape == v.shape, node.op
            values[v] = array
    return [values[v] for v in graph.outputs if v is not None]


@pytest.mark.parametrize("op", DEFINED)
def test_definition_equals_evaluation(op: str) -> None:
    for call in calls(op, 20, seed=5):
        graph = opened(call)
        declared = call.definition.types(call.types, call.attrs)
        assert tuple(v.type for v in graph.outputs if v is not None) == declared
        for got, expected in zip(evaluate(graph, call.arrays), call.run(), strict=True):
            same(got, expected, f"{op} {call.attrs}")


@pytest.mark.parametrize("op", DEFINED)
def test_definitions_end(op: str) -> None:
    """Opening an operator again and again reaches operators without a definition."""

    def depth(call_op: str, seen: tuple[str, ...]) -> None:
        assert call_op not in seen, seen
        if lookup(call_op).define is None or (call_op == op and seen):
            return
        for call in calls(call_op, 4):
            for node in opened(call).nodes:
                depth(node.op, (*seen, call_op))

    depth(op, ())


def test_mean_of_a_symbolic_axis_is_a_quotient() -> None:
    from shardproof.ir.sizes import symbol

    n = symbol("N")
    b = Builder(Graph("mean"), infer_types)
    x = b.input("x", "f32", (n, 3))
    define = lookup("mean").define
    assert define is not None
    (out,) = define(b, (x,), {"dims": (0, 1), "keepdim": True})
    assert out.shape == (1, 1)
    assert [node.op for node in b.graph.nodes] == ["sum", "full", "div"]
    assert b.graph.nodes[1].attrs["value"] == 3 * n


def test_a_wrong_definition_is_found() -> None:
    call = Call("softmax", (np.array([[0.0, 1.0], [2.0, 5.0]]),), {"dim": 1})
    graph = opened(call)
    graph.nodes[1].attrs["dims"] = (0,)
    with pytest.raises(AssertionError):
        same(evaluate(graph, call.arrays)[0], call.run()[0], "softmax")
