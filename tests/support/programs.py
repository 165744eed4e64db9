"""Small problems written by hand: a sequential function, one function for every rank, and where
each input and output lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Union

import shardproof.ops  # noqa: F401 - declares the operators
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.ir.sizes import Size
from shardproof.ops import base
from shardproof.spec.problem import Obligation, Problem

Place = Callable[[Builder, Value, int], Value]
"""What the rank holds of a sequential value, built from rearrangements."""

Outs = Union[Value, tuple[Value, ...]]  # noqa: UP007 - used at run time
Inputs = Mapping[str, tuple[str, tuple[Size, ...]]]


def builder(name: str) -> Builder:
    return Builder(Graph(name), base.infer_types)


def whole(b: Builder, x: Value, rank: int) -> Value:
    """Every rank holds all of it."""
    return x


def shard(dim: int, *cuts: int) -> Place:
    """Rank ``r`` holds ``[cuts[r], cuts[r + 1])`` along ``dim``."""

    def place(b: Builder, x: Value, rank: int) -> Value:
        return b.emit("slice", x, dim=dim, start=cuts[rank], stop=cuts[rank + 1])

    return place


def even(dim: int, parts: int, index: Callable[[int], int] = lambda rank: rank) -> Place:
    """Equal parts along ``dim``; rank ``r`` holds part ``index(r)``."""

    def place(b: Builder, x: Value, rank: int) -> Value:
        extent = x.shape[dim]
        assert isinstance(extent, int)
        assert extent % parts == 0
        w, k = extent // parts, index(rank)
        return b.emit("slice", x, dim=dim, start=k * w, stop=k * w + w)

    return place


def relation_graph(values: Inputs, places: Mapping[str, Place], rank: int) -> Graph:
    b = builder("relation")
    ins = {name: b.input(name, t, shape) for name, (t, shape) in values.items()}
    outs = [places[name](b, ins[name], rank) for name in places]
    return b.returns(*outs, names=tuple(places))


def problem(
    mesh: Mesh | int,
    inputs: Inputs,
    sequential: Callable[..., Outs],
    distributed: Callable[..., Outs],
    places: Mapping[str, Place] | None = None,
    outputs: Place | Sequence[Place] = whole,
    partial_over: tuple[str, ...] = (),
    name: str = "case",
    extra: Inputs | None = None,
) -> Problem:
    """A problem over concrete ranks. ``sequential(b, **inputs)`` and ``distributed(b, rank,
    **inputs)`` return the outputs; inputs without a place are whole, ``extra`` inputs of the
    ranks have no meaning."""
    if isinstance(mesh, int):
        mesh = Mesh.of(tp=mesh)
    lie = {k: (places or {}).get(k, whole) for k in inputs}
    b = builder("sequential")
    outs = _tuple(sequential(b, **{k: b.input(k, t, s) for k, (t, s) in inputs.items()}))
    names = tuple(f"y{k}" for k in range(len(outs)))
    seq = b.returns(*outs, names=names)
    wanted = outputs if isinstance(outputs, Sequence) else [outputs] * len(outs)
    graphs, relations = [], []
    expected: list[list[Graph | None]] = [[] for _ in outs]
    size = mesh.size
    assert isinstance(size, int)
    for r in range(size):
        rel = relation_graph(inputs, lie, r)
        relations.append(rel)
        b = builder(f"rank{r}")
        held = {
            k: b.input(k, inputs[k][0], v.shape)
            for k, v in zip(rel.output_names, rel.outputs, strict=True)
            if v is not None
        }
        held |= {k: b.input(k, t, s) for k, (t, s) in (extra or {}).items()}
        graphs.append(b.returns(*_tuple(distributed(b, r, **held)), names=names))
        graphs[-1].rank = r
        for k, y in enumerate(outs):
            e = builder("expected")
            v = e.input(names[k], y.dtype, y.shape)
            expected[k].append(e.returns(wanted[k](e, v, r), names=(names[k],)))
    obligations = [
        Obligation(n, n, list(expected[k]), "", partial_over) for k, n in enumerate(names)
    ]
    return Problem(name, seq, Program(mesh, graphs), relations, obligations)


def live(graph: Graph) -> Graph:
    """The graph without the nodes that no output depends on."""
    needed = {v for v in graph.outputs if v is not None}
    kept = []
    for n in reversed(graph.nodes):
        if any(v in needed for v in n.outputs):
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


def _tuple(x: Outs) -> tuple[Value, ...]:
    return x if isinstance(x, tuple) else (x,)


def group(n: int) -> dict[str, object]:
    """Attributes of a collective over all of ``n`` ranks."""
    return {"group": tuple(range(n)), "group_size": n}
