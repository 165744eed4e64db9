"""Stated bounds of integer inputs, written into the sequential graph.

A lookup of the sequential program states that its ids index the table; the verdict lists that, and
a replay draws no other ids. A bound that a Spec states is such a lookup, of a table of zeros, whose
result nothing reads. So the engine, the checker of certificates and replay know no second kind of
fact, and a bound holds for exactly the inputs on which the sequential program is defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, is_integer
from shardproof.ops.base import infer_types
from shardproof.spec.arguments import argument_error
from shardproof.spec.problem import Assumption


def is_bound(n: object) -> bool:
    """Whether integers can be below it and at least 0."""
    return isinstance(n, int) and not isinstance(n, bool) and n > 0


def bounded(graph: Graph, below: Mapping[str, int]) -> Graph:
    """The graph in which ``0 <= x < below[x]`` is stated of inputs, before anything else is;
    ``graph`` itself stays.

    Raises:
        InputError: there is no such input, or it holds no integers.
    """
    if not below:
        return graph
    inputs = {v.name: v for v in graph.inputs if is_integer(v.dtype)}
    out = replace(graph, nodes=[])
    b = Builder(graph, infer_types)  # knows the names that are taken
    b.graph = out
    for name, rows in below.items():
        if name not in inputs:
            raise argument_error(
                f"{name!r} is no input of integers of the sequential program",
                "below",
                f"one of: {', '.join(inputs) or '(there is none)'}",
            )
        table = b.emit("full", name=f"{name}_bound", value=0, shape=(rows,), dtype="f32")
        b.emit("take_rows", table, inputs[name], name=f"{name}_bounded")
    out.nodes += graph.nodes
    return out


def facts(below: Mapping[str, int]) -> list[Assumption]:
    """The bounds as they are listed in a verdict."""
    return [
        Assumption("fact", f"{name}: every value is at least 0 and below {n}, as the Spec says")
        for name, n in below.items()
    ]
