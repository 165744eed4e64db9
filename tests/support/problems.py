"""Problems that stand for what real programs do, for concrete ranks and for all numbers of ranks.

One description serves both: :class:`Cut` says how an axis is cut over the ranks, evenly or not,
or with the rank as an index. The faults that a builder knows turn it into a program that computes
something else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.support.programs import builder

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.ir.sizes import Size, symbol
from shardproof.spec.problem import Obligation, Problem

EPS = Fraction(1, 100000)
Spec = Mapping[str, tuple[str, tuple[Size, ...], int | None]]
"""Dtype, shape and cut dim (None: replicated) of each sequential input."""


@dataclass(frozen=True)
class Rank:
    """The part ``[lo, lo + width)`` of the cut axis and the group of all ranks."""

    lo: Size
    width: Size
    total: Size
    group: tuple[Any, ...]
    size: Size

    def reduce(self, b: Builder, v: Value, op: str = "sum") -> Value:
        return b.emit("all_reduce", v, op=op, group=self.group, group_size=self.size)


@dataclass(frozen=True)
class Cut:
    """How one axis is cut over the ranks of the mesh axis ``tp``."""

    mesh: Mesh
    spans: tuple[tuple[Size, Size], ...]
    total: Size

    @property
    def symbolic(self) -> bool:
        return not isinstance(self.mesh.size, int)

    def ranks(self) -> list[Rank]:
        n = self.mesh.size
        group: tuple[Any, ...] = ("tp",) if self.symbolic else tuple(range(len(self.spans)))
        return [Rank(lo, hi - lo, self.total, group, n) for lo, hi in self.spans]


def uneven(*borders: int) -> Cut:
    """Concrete ranks, rank ``r`` holds ``[borders[r], borders[r + 1])``."""
    spans = tuple(itertools.pairwise(borders))
    return Cut(Mesh.of(tp=len(spans)), spans, borders[-1])


def even(n: int, width: int) -> Cut:
    return uneven(*range(0, n * width + 1, width))


def all_ranks() -> Cut:
    """N ranks with w each, both any size."""
    n, w = symbol("N"), symbol("w")
    mesh = Mesh.of(tp=n)
    r = mesh.index("tp")
    return Cut(mesh, ((r * w, r * w + w),), n * w)


def sharded(
    name: str,
    cut: Cut,
    inputs: Spec,
    sequential: Callable[[Builder, dict[str, Value]], dict[str, Value]],
    distributed: Callable[[Builder, dict[str, Value], Rank], dict[str, Value]],
    outputs: Mapping[str, int | None],
) -> Problem:
    """A problem over one cut: ``outputs`` says along which dim each result is cut."""
    b = builder("sequential")
    done = sequential(b, {k: b.input(k, t, s) for k, (t, s, _) in inputs.items()})
    seq = b.returns(*done.values(), names=tuple(done))
    graphs, relations = [], []
    expected: dict[str, list[Graph | None]] = {k: [] for k in outputs}
    for k, rank in enumerate(cut.ranks()):
        b = builder("relation")
        parts = {}
        for x, (t, shape, dim) in inputs.items():
            v = b.input(x, t, shape)
            parts[x] = v if dim is None else _part(b, v, dim, rank)
        relations.append(b.returns(*parts.values(), names=tuple(parts)))
        b = builder(f"rank{k}")
        held = {x: b.input(x, v.dtype, v.shape) for x, v in parts.items()}
        results = distributed(b, held, rank)
        graphs.append(b.returns(*results.values(), names=tuple(results)))
        graphs[-1].rank = k
        for x, dim in outputs.items():
            b = builder("expected")
            v = b.input(x, done[x].dtype, done[x].shape)
            expected[x].append(b.returns(v if dim is None else _part(b, v, dim, rank), names=(x,)))
    obligations = [Obligation(x, x, expected[x], f"{dim}") for x, dim in outputs.items()]
    return Problem(name, seq, Program(cut.mesh, graphs, spmd=cut.symbolic), relations, obligations)


def _part(b: Builder, v: Value, dim: int, rank: Rank) -> Value:
    return b.emit("slice", v, dim=dim, start=rank.lo, stop=rank.lo + rank.width)


# ------------------------------------------------------------------ linear layers


def mlp(cut: Cut, rows: Size, hidden: Size, fault: str = "") -> Problem:
    """Columns then rows cut, one all_reduce, a residual."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        h = b.emit("gelu", b.emit("matmul", v["x"], v["a"]), approximate="none")
        return {"y": b.emit("add", b.emit("matmul", h, v["b"]), v["x"])}

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        h = b.emit("gelu", b.emit("matmul", v["x"], v["a"]), approximate="none")
        o = b.emit("matmul", h, v["b"])
        if fault == "residual inside":
            return {"y": rank.reduce(b, b.emit("add", o, v["x"]))}
        if fault != "not reduced":
            o = rank.reduce(b, o, "avg" if fault == "averaged" else "sum")
        if fault == "reduced twice":
            o = rank.reduce(b, o)
        return {"y": b.emit("add", o, v["x"])}

    inputs: Spec = {
        "x": ("f32", (rows, hidden), None),
        "a": ("f32", (hidden, cut.total), 1),
        "b": ("f32", (cut.total, hidden), 0),
    }
    return sharded("mlp", cut, inputs, sequential, distributed, {"y": None})


MLP_FAULTS = ("not reduced", "reduced twice", "averaged", "residual inside")


def data_parallel(cut: Cut, hidden: Size, fault: str = "") -> Problem:
    """Mean loss over a cut batch and the gradient of one weight."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return _mean_gradient(b, v, cut.total)

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        n = rank.width if fault == "missing 1/N" else rank.total
        out = _mean_gradient(b, v, n)
        if fault == "averaged":
            return {k: rank.reduce(b, x, "avg") for k, x in out.items()}
        return {k: rank.reduce(b, x) for k, x in out.items()}

    inputs: Spec = {"x": ("f32", (cut.total, hidden), 0), "w": ("f32", (hidden,), None)}
    return sharded(
        "data parallel", cut, inputs, sequential, distributed, {"loss": None, "dw": None}
    )


def _mean_gradient(b: Builder, v: dict[str, Value], n: Size) -> dict[str, Value]:
    count = b.emit("full", value=n, shape=(), dtype="f32")
    y = b.emit("matmul", v["x"], v["w"])
    loss = b.emit("div", b.emit("sum", b.emit("mul", y, y), dims=(0,), keepdim=False), count)
    dw = b.emit("matmul", b.emit("permute", v["x"], perm=(1, 0)), b.emit("scale", y, by=2))
    return {"loss": loss, "dw": b.emit("div", dw, count)}


DATA_FAULTS = ("missing 1/N", "averaged")
