"""Concrete instances: numbers for symbols, one graph a rank for an SPMD graph.

A rank symbol ``@axis`` becomes the rank's coordinate, a group of axis names the ranks that share
the other coordinates (the first named axis varies slowest, as in the mesh).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product as tuples

from shardproof.ir.graph import Attrs, AttrValue, Graph, Mesh, Node, Program, TensorType, Value
from shardproof.ir.sizes import Poly, Size, Symbol, substitute, symbols
from shardproof.replay.errors import NotReplayable
from shardproof.replay.rewrite import copy_graph, copy_obligation
from shardproof.spec.problem import Problem

Numbers = Mapping[str, int]


def is_concrete(problem: Problem) -> bool:
    """Whether every graph is one rank's and every size a number."""
    return not problem.distributed.spmd and not size_symbols(problem)


def size_symbols(problem: Problem) -> list[Symbol]:
    """The size symbols of a problem (mesh extents included, coordinates ``@axis`` not)."""
    found: set[Symbol] = set()
    for s in _all_symbols(problem):
        if not s.name.startswith("@"):
            found.add(s)
        elif s.extent is not None:
            found |= symbols(s.extent)
    return sorted(found)


def _all_symbols(problem: Problem) -> Iterable[Symbol]:
    for _, extent in problem.distributed.mesh.axes:
        yield from symbols(extent)
    for graph in all_graphs(problem):
        for v in graph.values():
            for size in v.shape:
                yield from symbols(size)
        for n in graph.nodes:
            yield from _attr_symbols(tuple(n.attrs.values()))


def _attr_symbols(value: AttrValue) -> Iterable[Symbol]:
    if isinstance(value, Poly):
        yield from symbols(value)
    elif isinstance(value, tuple):
        for v in value:
            yield from _attr_symbols(v)


def all_graphs(problem: Problem) -> list[Graph]:
    """Every graph of a problem: sequential, distributed, relation, expected."""
    expected = [g for ob in problem.obligations for g in ob.expected if g is not None]
    return [problem.sequential, *problem.distributed.graphs, *problem.relation, *expected]


def instantiate_mesh(mesh: Mesh, sizes: Numbers) -> Mesh:
    """The mesh with numbers for its symbolic extents."""
    return Mesh(tuple((name, _number(n, sizes)) for name, n in mesh.axes))


def instantiate_program(program: Program, sizes: Numbers) -> Program:
    """One concrete graph a rank.

    Raises:
        NotReplayable: a symbol has no number.
    """
    mesh = instantiate_mesh(program.mesh, sizes)
    if not program.spmd:
        graphs = [instantiate_graph(g, sizes) for g in program.graphs]
        return Program(mesh, graphs)
    (graph,) = program.graphs
    return Program(mesh, [instantiate_rank(graph, mesh, r, sizes) for r in _ranks(mesh)])


def instantiate_problem(problem: Problem, sizes: Numbers) -> Problem:
    """``problem`` for given numbers: concrete graphs, one a rank, with their relations."""
    program = instantiate_program(problem.distributed, sizes)
    mesh, spmd = program.mesh, problem.distributed.spmd

    def each(graphs: list[Graph] | list[Graph | None]) -> list[Graph | None]:
        if not spmd:
            return [None if g is None else instantiate_graph(g, sizes) for g in graphs]
        (g,) = graphs
        return [None if g is None else instantiate_rank(g, mesh, r, sizes) for r in _ranks(mesh)]

    return Problem(
        problem.name,
        instantiate_graph(problem.sequential, sizes),
        program,
        [g for g in each(problem.relation) if g is not None],
        [copy_obligation(ob, each(ob.expected)) for ob in problem.obligations],
        problem.assumptions,
        problem.left_out,
    )


def instantiate_graph(graph: Graph, sizes: Numbers) -> Graph:
    """``graph`` with numbers for symbols; groups stay as they are."""
    return copy_graph(
        graph,
        lambda v: _concrete_type(v, sizes),
        lambda n: {k: _concrete_attr(a, sizes) for k, a in n.attrs.items()},
    )


def instantiate_rank(graph: Graph, mesh: Mesh, rank: int, sizes: Numbers) -> Graph:
    """The graph of one rank from a graph written for all ranks of a concrete ``mesh``."""
    coordinates = {"@" + axis: k for axis, k in mesh.coordinates(rank).items()}
    numbers = {**sizes, **coordinates}

    def attrs_of(node: Node) -> Attrs:
        attrs = {k: _concrete_attr(a, numbers) for k, a in node.attrs.items()}
        axes = node.attrs.get("group")
        if isinstance(axes, tuple) and all(isinstance(a, str) for a in axes):
            attrs["group"] = group_ranks(mesh, rank, tuple(str(a) for a in axes))
        return attrs

    return copy_graph(graph, lambda v: _concrete_type(v, numbers), attrs_of, rank)


def group_ranks(mesh: Mesh, rank: int, axes: tuple[str, ...]) -> tuple[int, ...]:
    """The ranks that differ from ``rank`` along ``axes`` only, the first axis slowest."""
    here = mesh.coordinates(rank)
    ranks = []
    for there in tuples(*(range(_int(mesh.extent(a))) for a in axes)):
        at = {**here, **dict(zip(axes, there, strict=True))}
        index = 0
        for name, n in mesh.axes:
            index = index * _int(n) + at[name]
        ranks.append(index)
    return tuple(ranks)


def _ranks(mesh: Mesh) -> range:
    return range(_int(mesh.size))


def _int(size: Size) -> int:
    if not isinstance(size, int):
        raise NotReplayable(f"size {size} has no number")
    return size


def _number(size: Size, numbers: Numbers) -> int:
    if isinstance(size, int):
        return size
    known: dict[Symbol, Size] = {s: numbers[s.name] for s in symbols(size) if s.name in numbers}
    return _int(substitute(size, known))


def _concrete_type(v: Value, numbers: Numbers) -> TensorType:
    return TensorType(v.dtype, tuple(_number(s, numbers) for s in v.shape))


def _concrete_attr(value: AttrValue, numbers: Numbers) -> AttrValue:
    if isinstance(value, Poly):
        return _number(value, numbers)
    if isinstance(value, tuple):
        return tuple(_concrete_attr(v, numbers) for v in value)
    return value
