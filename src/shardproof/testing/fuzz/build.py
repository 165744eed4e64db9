"""Building blocks of hand-made problems: builders, relation graphs, removal of dead code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import shardproof.ops  # noqa: F401 - declares the operators
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Program, Value
from shardproof.ir.sizes import Size
from shardproof.ops import base
from shardproof.spec.problem import Problem

Place = Callable[[Builder, Value, int], Value]
"""What the rank holds of a sequential value, built from rearrangements."""

Inputs = Mapping[str, tuple[str, tuple[Size, ...]]]


def builder(name: str) -> Builder:
    """A builder of an empty graph."""
    return Builder(Graph(name), base.infer_types)


def relation_graph(values: Inputs, places: Mapping[str, Place], rank: int) -> Graph:
    """What a rank holds of the sequential inputs that have a place."""
    b = builder("relation")
    ins = {name: b.input(name, t, shape) for name, (t, shape) in values.items()}
    outs = [places[name](b, ins[name], rank) for name in places]
    return b.returns(*outs, names=tuple(places))


def live(graph: Graph) -> Graph:
    """The graph without the nodes that no output depends on; messages stay, as they come in
    pairs."""
    needed = {v for v in graph.outputs if v is not None}
    kept = []
    for n in reversed(graph.nodes):
        if n.op in ("send", "recv") or any(v in needed for v in n.outputs):
            kept.append(n)
            needed.update(n.inputs)
    return Graph(
        graph.name,
        graph.inputs,
        kept[::-1],
        graph.outputs,
        graph.output_names,
        graph.rank,
    )


def live_problem(problem: Problem) -> Problem:
    """Both sides without dead code."""
    program = problem.distributed
    graphs = [live(g) for g in program.graphs]
    return replace(
        problem,
        sequential=live(problem.sequential),
        distributed=Program(program.mesh, graphs, program.spmd),
    )
