"""Copy graphs and problems while changing types and attributes."""

from __future__ import annotations

from collections.abc import Callable

from shardproof.ir.graph import Attrs, Graph, Node, TensorType, Value
from shardproof.spec.problem import Obligation

TypeOf = Callable[[Value], TensorType]
AttrsOf = Callable[[Node], Attrs]


def copy_graph(graph: Graph, type_of: TypeOf, attrs_of: AttrsOf, rank: int | None = None) -> Graph:
    """A copy of ``graph`` with fresh values; ``rank`` replaces the graph's own if given."""
    new: dict[Value, Value] = {}

    def fresh(v: Value) -> Value:
        new[v] = Value(v.name, type_of(v))
        return new[v]

    inputs = [fresh(v) for v in graph.inputs]
    nodes = []
    for n in graph.nodes:
        operands = tuple(new[v] for v in n.inputs)
        outs = tuple(fresh(v) for v in n.outputs)
        nodes.append(Node(n.op, operands, dict(attrs_of(n)), outs, n.origin, n.source))
    outputs = [None if v is None else new[v] for v in graph.outputs]
    kept_rank = graph.rank if rank is None else rank
    return Graph(graph.name, inputs, nodes, outputs, list(graph.output_names), kept_rank)


def copy_obligation(old: Obligation, expected: list[Graph | None]) -> Obligation:
    """``old`` with other expected graphs."""
    return Obligation(old.seq_output, old.dist_output, expected, old.placement, old.partial_over)
