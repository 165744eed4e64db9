"""Small problems written by hand: a sequential function, one function for every rank, and where
each input and output lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Union

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.spec.problem import Obligation, Problem
from shardproof.testing.fuzz.build import (
    Inputs,
    Place,
    builder,
    live_problem,
    relation_graph,
)

__all__ = [
    "Place", "builder", "even", "group", "live_problem", "problem", "relation_graph", "shard",
    "whole",
]  # fmt: skip

Outs = Union[Value, tuple[Value, ...]]  # noqa: UP007 - used at run time


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


def _tuple(x: Outs) -> tuple[Value, ...]:
    return x if isinstance(x, tuple) else (x,)


def group(n: int) -> dict[str, object]:
    """Attributes of a collective over all of ``n`` ranks."""
    return {"group": tuple(range(n)), "group_size": n}
