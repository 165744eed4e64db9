"""Mutations of the input relation: two ranks get each other's part of an input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardproof.ir.graph import Graph, Node, Value
from shardproof.spec.problem import Problem


def swaps(problem: Problem) -> Iterator[tuple[str, int, int]]:
    """Inputs, with two ranks, whose parts may be swapped: they differ, and have one type."""
    ranks = len(problem.relation)
    for name in problem.relation[0].output_names:
        for i in range(ranks):
            j = (i + 1) % ranks
            if i < j and _differ(problem.relation[i], problem.relation[j], name):
                yield name, i, j


def _differ(a: Graph, b: Graph, name: str) -> bool:
    x, y = _output(a, name), _output(b, name)
    if x is None or y is None or x.type != y.type:
        return False
    return [(n.op, n.attrs) for n in _cone(a, x)] != [(n.op, n.attrs) for n in _cone(b, y)]


def swap_parts(problem: Problem, name: str, i: int, j: int) -> Problem:
    """``problem`` with the parts of input ``name`` of two ranks swapped."""
    relation = list(problem.relation)
    relation[i] = _with_part(problem.relation[i], problem.relation[j], name)
    relation[j] = _with_part(problem.relation[j], problem.relation[i], name)
    return replace(problem, relation=relation)


def _output(graph: Graph, name: str) -> Value | None:
    return graph.output(name) if name in graph.output_names else None


def _cone(graph: Graph, v: Value) -> list[Node]:
    needed, found = {v}, []
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            found.append(node)
    return found[::-1]


def _with_part(graph: Graph, other: Graph, name: str) -> Graph:
    """``graph`` with its output ``name`` defined as in ``other``."""
    v = _output(other, name)
    assert v is not None
    inputs = list(graph.inputs)
    known = {u.name: u for u in inputs}
    new: dict[Value, Value] = {}
    for u in other.inputs:
        if u.name not in known:
            known[u.name] = Value(u.name, u.type)
            inputs.append(known[u.name])
        new[u] = known[u.name]
    nodes = list(graph.nodes)
    for n in _cone(other, v):
        for u in n.outputs:
            new[u] = Value(f"{u.name}#mutant", u.type)
        outs = tuple(new[u] for u in n.outputs)
        nodes.append(replace(n, inputs=tuple(new[u] for u in n.inputs), outputs=outs))
    outputs = [
        new[v] if given == name else old
        for given, old in zip(graph.output_names, graph.outputs, strict=True)
    ]
    return Graph(graph.name, inputs, nodes, outputs, list(graph.output_names), graph.rank)
