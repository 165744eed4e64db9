"""``shardproof trace``: the graphs as the verifier sees them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from shardproof.cli.target import load_target
from shardproof.errors import InputError
from shardproof.ir.graph import Graph
from shardproof.ir.text import format_node, print_graph
from shardproof.spec.patterns import unknown_name
from shardproof.spec.problem import Problem


def trace_target(target: str, *, rank: int | None, value: str | None) -> int:
    """Print the graph of ``rank`` (None: the sequential one), or one value of it."""
    problem = load_target(target).resolve()
    graph = _graph(problem, rank)
    lines = _whole(problem, graph, rank) if value is None else _value(graph, value.lstrip("%"))
    sys.stdout.write("\n".join(lines).rstrip() + "\n")
    return 0


def _graph(problem: Problem, rank: int | None) -> Graph:
    if rank is None:
        return problem.sequential
    program = problem.distributed
    if program.spmd:
        return program.graphs[0]
    if not 0 <= rank < len(program.graphs):
        raise InputError(
            f"there is no rank {rank}",
            where=f"--rank {rank}",
            expected=f"a rank from 0 to {len(program.graphs) - 1}",
            next_step="name a rank of the mesh",
        )
    return program.graphs[rank]


def _whole(problem: Problem, graph: Graph, rank: int | None) -> Iterator[str]:
    if rank is None:
        yield print_graph(graph, origins=False)
        return
    program = problem.distributed
    yield print_graph(graph, program.mesh, origins=False)
    yield "# What the inputs of this graph are, over sequential inputs:"
    relation = problem.relation[0 if program.spmd else rank]
    yield print_graph(relation, program.mesh)


def _value(graph: Graph, name: str) -> Iterator[str]:
    values = graph.by_name()
    if name not in values:
        raise unknown_name(name, values, f"value of {graph.name}", f"--value {name}")
    value = values[name]
    node = graph.producers().get(value)
    if node is None:
        yield f"%{name} = input {value.type}"
    else:
        yield format_node(node)
        if node.source:
            yield f"  from node {node.source}"
        if node.origin.file:
            yield f"  at {node.origin}"
        if node.origin.code:
            yield f"  code: {node.origin.code}"
    for user in graph.nodes:
        if value in user.inputs:
            yield f"  used by {format_node(user)}"
    for out_name, out in zip(graph.output_names, graph.outputs, strict=True):
        if out is value:
            yield f"  returned as {out_name}"
