"""``shardproof trace``: the graphs as the verifier sees them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from shardproof.cli.target import load_target
from shardproof.errors import InputError
from shardproof.ir.graph import Graph, Value
from shardproof.ir.text import format_node, print_graph
from shardproof.report.progress import progress
from shardproof.spec.patterns import unknown_name
from shardproof.spec.problem import Problem


def trace_target(target: str, *, rank: int | None, value: str | None, meanings: bool) -> int:
    """Print the graph of ``rank`` (None: the sequential one), or one value of it."""
    spec = load_target(target)
    problem = spec.resolve()
    graph = _graph(problem, rank)
    if value is not None and value.lstrip("%") not in graph.by_name():
        name = value.lstrip("%")
        raise unknown_name(name, graph.by_name(), f"value of {graph.name}", f"--value {name}")
    means: dict[Value, str] = {}
    if meanings and rank is not None:
        with progress(sys.stderr) as show:
            means = _meanings(problem, spec.fixed_values, rank, show)
    if value is None:
        lines = _whole(problem, graph, rank, means)
    else:
        lines = _value(graph, graph.by_name()[value.lstrip("%")], means)
    sys.stdout.write("\n".join(lines).rstrip() + "\n")
    return 0


def _meanings(
    problem: Problem,
    fixed: dict[str, float],
    rank: int,
    show: Callable[[str], None] | None,
) -> dict[Value, str]:
    """What each value of a rank's graph is, in terms of sequential values."""
    from shardproof.infer.describe import describe
    from shardproof.infer.run import infer

    found = infer(problem, fixed=fixed, symbolic_ranks=False, progress=show)
    env = found.env[0 if problem.distributed.spmd else rank]
    return {v: describe(found.evaluator, meaning) for v, meaning in env.items()}


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


def _whole(
    problem: Problem, graph: Graph, rank: int | None, means: dict[Value, str]
) -> Iterator[str]:
    program = problem.distributed
    mesh = program.mesh if rank is not None else None
    lines = print_graph(graph, mesh, origins=False).splitlines()
    defined = [*((v,) for v in graph.inputs), *(n.outputs for n in graph.nodes)]
    header = len(lines) - len(defined) - 1
    yield from lines[:header]
    for line, values in zip(lines[header:-1], defined, strict=True):
        yield line
        yield from (f"    # {means[v]}" for v in values if v in means)
    yield lines[-1]
    if rank is not None:
        yield ""
        yield "# What the inputs of this graph are, over sequential inputs:"
        yield print_graph(problem.relation[0 if program.spmd else rank], program.mesh)


def _value(graph: Graph, value: Value, means: dict[Value, str]) -> Iterator[str]:
    node = graph.producers().get(value)
    if node is None:
        yield f"%{value.name} = input {value.type}"
    else:
        yield format_node(node)
        if node.source:
            yield f"  from node {node.source}"
        if node.origin.file:
            yield f"  at {node.origin}"
        if node.origin.code:
            yield f"  code: {node.origin.code}"
    if value in means:
        yield f"  means {means[value]}"
    for user in graph.nodes:
        if value in user.inputs:
            yield f"  used by {format_node(user)}"
    for out_name, out in zip(graph.output_names, graph.outputs, strict=True):
        if out is value:
            yield f"  returned as {out_name}"
