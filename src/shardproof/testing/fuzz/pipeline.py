"""Random pipelines: stages on a mesh axis, micro-batches sent from stage to stage, forward and
(sometimes) backward; inside a stage the products may be cut over another axis."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.spec.problem import Obligation, Problem
from shardproof.testing.fuzz.build import builder, relation_graph
from shardproof.testing.fuzz.generate import Generator, Layout, Rng
from shardproof.testing.fuzz.parallel import BUFFERED

MESHES = (
    Mesh.of(pp=2), Mesh.of(pp=3), Mesh.of(pp=2, tp=2), Mesh.of(pp=2, tp=1), Mesh.of(tp=2, pp=2),
)  # fmt: skip
ACTS = ("tanh", "gelu", "silu", "softmax", "rms_norm")
Held = dict[str, Value]


@dataclass
class Layer:
    """x -> act(x @ w1) @ w2, with x added where ``residual``; the first product by columns and
    the second by rows over the axis ``tp``."""

    name: str
    act: str
    residual: bool

    def names(self) -> tuple[str, str]:
        return f"{self.name}_in", f"{self.name}_out"


@dataclass
class Plan:
    """What is drawn: the stages, the pieces of the batch, the widths."""

    g: Generator
    stages: list[list[Layer]]
    rows: list[int]
    width: int
    inner: int
    backward: bool

    @property
    def batch(self) -> int:
        return self.rows[-1]


def pipeline_program(seed: int) -> tuple[Generator, Problem, Rng]:
    """The random pipeline of a seed."""
    rng = np.random.default_rng([seed, 3])
    mesh = MESHES[int(rng.integers(len(MESHES)))]
    plan = _plan(Generator(rng, mesh), rng)
    g = plan.g
    for name, shape in _shapes(plan).items():
        g.inputs[name] = ("f32", shape)
        g.places[name] = _layout(g, name)
    layers = [x for stage in plan.stages for x in stage]
    seq = {n: g.seq.input(n, "f32", s) for n, (_, s) in g.inputs.items()}
    outs = _Stage(plan, g.seq, seq, None).whole(layers)
    sequential = g.seq.returns(*outs.values(), names=tuple(outs))
    ranks = [_rank(plan, r) for r in range(g.ranks)]
    relations = [_relation(plan, r) for r in range(g.ranks)]
    owed = [_owed(plan, n, v, ranks) for n, v in outs.items()]
    return g, Problem(f"pipeline {seed}", sequential, Program(mesh, ranks), relations, owed), rng


def _plan(g: Generator, rng: Rng) -> Plan:
    pieces = int(rng.integers(1, 4))
    sizes = rng.integers(1, 3, size=pieces)
    backward = bool(rng.random() < 0.4)
    acts = ("tanh",) if backward else ACTS
    stages = []
    for s in range(g.size[g.axes.index("pp")]):
        count = int(rng.integers(1, 3))
        stages.append([
            Layer(f"l{s}{k}", str(rng.choice(acts)), bool(rng.random() < 0.4) and not backward)
            for k in range(count)
        ])  # fmt: skip
    rows = [0, *map(int, np.cumsum(sizes))]
    return Plan(g, stages, rows, 2, int(rng.choice([2, 4])), backward)


def _shapes(plan: Plan) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {"x": (plan.batch, plan.width)}
    for layer in (x for stage in plan.stages for x in stage):
        first, second = layer.names()
        out[first], out[second] = (plan.width, plan.inner), (plan.inner, plan.width)
    return out


def _layout(g: Generator, name: str) -> Layout:
    dim = {"n": 1, "t": 0}.get(name[-1]) if name.startswith("l") else None  # l.._in, l.._out
    return tuple(dim if a == "tp" and dim is not None else "R" for a in g.axes)


class _Stage:
    """Emits layers for one graph; ``rank`` is None for the sequential side."""

    def __init__(self, plan: Plan, b: Builder, held: Held, rank: int | None) -> None:
        self.plan, self.b, self.held, self.rank = plan, b, held, rank

    def tp(self) -> int | None:
        axes = self.plan.g.axes
        return axes.index("tp") if self.rank is not None and "tp" in axes else None

    def summed(self, x: Value) -> Value:
        """The sum over the axis ``tp``."""
        axis = self.tp()
        if axis is None or self.rank is None:
            return x
        return self.b.emit("all_reduce", x, op="sum", **self.plan.g.group(axis, self.rank))

    def whole_inner(self, x: Value) -> Value:
        axis = self.tp()
        if axis is None or self.rank is None:
            return x
        return self.b.emit("all_gather", x, dim=1, **self.plan.g.group(axis, self.rank))

    def own_inner(self, x: Value) -> Value:
        axis = self.tp()
        if axis is None or self.rank is None:
            return x
        lo, hi = self.plan.g.own(axis, self.plan.inner, self.rank)
        return self.b.emit("slice", x, dim=1, start=lo, stop=hi)

    def forward(self, layer: Layer, x: Value) -> tuple[Value, Value]:
        """The result of a layer and its activation."""
        b = self.b
        first, second = (self.held[n] for n in layer.names())
        h = b.emit("matmul", x, first)
        if layer.act in ("softmax", "rms_norm"):
            attrs: dict[str, Any] = {"dim": 1}
            if layer.act == "rms_norm":
                attrs = {"naxes": 1, "eps": Fraction(1, 100)}
            a = self.own_inner(b.emit_all(layer.act, self.whole_inner(h), **attrs)[0])
        else:
            a = b.emit(layer.act, h, **({"approximate": "none"} if layer.act == "gelu" else {}))
        y = self.summed(b.emit("matmul", a, second))
        return (b.emit("add", x, y) if layer.residual else y), a

    def backward(self, layer: Layer, x: Value, a: Value, dy: Value) -> tuple[Value, Value, Value]:
        """Gradients of x and of the two weights."""
        b = self.b
        first, second = (self.held[n] for n in layer.names())
        dsecond = b.emit("matmul", self.turned(a), dy)
        dh = b.emit("tanh_grad", b.emit("matmul", dy, self.turned(second)), a)
        dfirst = b.emit("matmul", self.turned(x), dh)
        return self.summed(b.emit("matmul", dh, self.turned(first))), dfirst, dsecond

    def turned(self, x: Value) -> Value:
        return self.b.emit("permute", x, perm=(1, 0))

    def run(self, layers: list[Layer], x: Value) -> tuple[Value, list[tuple[Value, Value]]]:
        """Layers after one another, with what their backward passes need."""
        saved = []
        for layer in layers:
            y, a = self.forward(layer, x)
            saved.append((x, a))
            x = y
        return x, saved

    def unwind(
        self, layers: list[Layer], saved: list[tuple[Value, Value]], dy: Value
    ) -> tuple[Value, Held]:
        """Backward through layers: the gradient of their input and those of the weights."""
        grads: Held = {}
        for layer, (x, a) in zip(layers[::-1], saved[::-1], strict=True):
            dy, dfirst, dsecond = self.backward(layer, x, a, dy)
            first, second = layer.names()
            grads["d" + first], grads["d" + second] = dfirst, dsecond
        return dy, grads

    def whole(self, layers: list[Layer]) -> Held:
        """The sequential program: the whole batch through every stage."""
        y, saved = self.run(layers, self.held["x"])
        outs = {"y": y}
        if self.plan.backward:
            outs.update(self.unwind(layers, saved, self.b.emit("scale", y, by=2))[1])
        return outs


def _peers(g: Generator, rank: int) -> tuple[int, int, int]:
    """The stage of a rank, and the ranks of the stage before and after it."""
    axis = g.axes.index("pp")
    k, line = g.coords[rank][axis], g.group(axis, rank)["group"]
    return k, line[k - 1] if k else -1, line[k + 1] if k + 1 < len(line) else -1


def _own_names(plan: Plan, rank: int) -> list[str]:
    stage, before, _ = _peers(plan.g, rank)
    names = [n for layer in plan.stages[stage] for n in layer.names()]
    return names if before >= 0 else ["x", *names]


def _relation(plan: Plan, rank: int) -> Graph:
    g = plan.g
    return relation_graph(
        g.inputs, {n: g.place(g.places[n]) for n in _own_names(plan, rank)}, rank
    )  # fmt: skip


def _rank(plan: Plan, rank: int) -> Graph:
    """All pieces forward through a rank's stage, then all of them backward."""
    g, b = plan.g, plan.g.dist[rank]
    held = {
        n: b.input(n, "f32", g.local(g.inputs[n][1], g.places[n], rank))
        for n in _own_names(plan, rank)
    }
    s = _Stage(plan, b, held, rank)
    stage, before, behind = _peers(g, rank)
    layers = plan.stages[stage]
    results, saved = [], []
    for k, (lo, hi) in enumerate(zip(plan.rows[:-1], plan.rows[1:], strict=True)):
        if before < 0:
            x = b.emit("slice", held["x"], dim=0, start=lo, stop=hi)
        else:
            x = _receive(plan, b, rank, before, k)
        y, kept = s.run(layers, x)
        results.append(y)
        saved.append(kept)
        if behind >= 0:
            _send(b, y, rank, behind, k)
    outs = {} if behind >= 0 else {"y": b.emit("concat", *results, dim=0)}
    if plan.backward:
        outs.update(_backward(plan, s, rank, results, saved))
    graph = b.returns(*outs.values(), names=tuple(outs))
    graph.rank = rank
    return graph


def _backward(
    plan: Plan, s: _Stage, rank: int, results: list[Value], saved: list[list[tuple[Value, Value]]]
) -> Held:
    stage, before, behind = _peers(plan.g, rank)
    b = s.b
    total: Held = {}
    for k, y in enumerate(results):
        dy = _receive(plan, b, rank, behind, k) if behind >= 0 else b.emit("scale", y, by=2)
        dx, grads = s.unwind(plan.stages[stage], saved[k], dy)
        if before >= 0:
            _send(b, dx, rank, before, k)
        total = {n: b.emit("add", total[n], v) if total else v for n, v in grads.items()}
    return total


def _pair(rank: int, other: int) -> dict[str, Any]:
    return {"group": (min(rank, other), max(rank, other)), "group_size": 2}


def _send(b: Builder, x: Value, rank: int, to: int, piece: int) -> None:
    # Buffered, so that a stage goes on with its next piece.
    b.emit_all("send", x, dst=to, tag=piece, **_pair(rank, to), **BUFFERED)


def _receive(plan: Plan, b: Builder, rank: int, source: int, piece: int) -> Value:
    shape = (plan.rows[piece + 1] - plan.rows[piece], plan.width)
    return b.emit("recv", src=source, tag=piece, shape=shape, dtype="f32", **_pair(rank, source))


def _owed(plan: Plan, name: str, v: Value, ranks: list[Graph]) -> Obligation:
    """An output on the ranks that return it, placed as the weight of a gradient is."""
    g = plan.g
    lay = g.places[name[1:]] if name != "y" else ("R",) * len(g.size)
    expected: list[Graph | None] = []
    for r, graph in enumerate(ranks):
        if name not in graph.output_names:
            expected.append(None)
            continue
        e = builder("expected")
        x = e.input(name, v.dtype, v.shape)
        expected.append(e.returns(g.place(lay)(e, x, r), names=(name,)))
    return Obligation(name, name, expected, "")
