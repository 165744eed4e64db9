"""Pipelines of stages and stacks of repeated layers."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.problems import EPS, Cut, Rank, sharded
from tests.support.programs import builder

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.ir.sizes import Size
from shardproof.spec.problem import Obligation, Problem


def pipeline(stages: int, tp: int, fault: str = "") -> Problem:
    """One exp-MLP with a residual a stage, cut over ``tp``; ranks differ along ``pp`` alone."""
    rows, hidden, width = 2, 3, 2
    weights = {}
    for i in range(stages):
        weights[f"a{i}"] = (hidden, tp * width)
        weights[f"b{i}"] = (tp * width, hidden)
    b = builder("sequential")
    h = b.input("x", "f32", (rows, hidden))
    held = {k: b.input(k, "f32", s) for k, s in weights.items()}
    for i in range(stages):
        h = b.emit("add", h, _exp_mlp(b, h, held[f"a{i}"], held[f"b{i}"]))
    seq = b.returns(h, names=("y",))
    graphs, relations = [], []
    expected: list[Graph | None] = []
    for r in range(stages * tp):
        p, t = divmod(r, tp)
        graphs.append(_stage(r, stages, tp, fault))
        b = builder("relation")
        outs, names = [], []
        if p == 0:
            outs, names = [b.input("x", "f32", (rows, hidden))], ["x"]
        layer = (p + 1) % stages if fault == "weights of the next stage" else p
        for name, dim in ((f"a{layer}", 1), (f"b{layer}", 0)):
            v = b.input(name, "f32", weights[name])
            outs.append(b.emit("slice", v, dim=dim, start=t * width, stop=t * width + width))
            names.append(name[0])
        relations.append(b.returns(*outs, names=tuple(names)))
        b = builder("expected")
        y = b.input("y", "f32", (rows, hidden))
        expected.append(b.returns(y, names=("y",)) if p == stages - 1 else None)
    program = Program(Mesh.of(pp=stages, tp=tp), graphs)
    return Problem("pipeline", seq, program, relations, [Obligation("y", "y", expected, "R")])


PIPELINE_FAULTS = ("not reduced in the last stage", "weights of the next stage", "sent too early")


def _exp_mlp(b: Builder, h: Value, a: Value, c: Value) -> Value:
    return b.emit("matmul", b.emit("exp", b.emit("matmul", h, a)), c)


def _stage(r: int, stages: int, tp: int, fault: str) -> Graph:
    rows, hidden, width = 2, 3, 2
    p = r // tp
    world = {"group": tuple(range(stages * tp)), "group_size": stages * tp, "tag": 0}
    b = builder(f"rank{r}")
    b.graph.rank = r
    x = b.input("x", "f32", (rows, hidden)) if p == 0 else None
    a, c = b.input("a", "f32", (hidden, width)), b.input("b", "f32", (width, hidden))
    if x is None:
        x = b.emit("recv", src=r - tp, shape=(rows, hidden), dtype="f32", **world)
    o = _exp_mlp(b, x, a, c)
    if fault != "not reduced in the last stage" or p < stages - 1:
        group = tuple(range(p * tp, p * tp + tp))
        o = b.emit("all_reduce", o, op="sum", group=group, group_size=tp)
    y = b.emit("add", x, o)
    if p == stages - 1:
        return b.returns(y, names=("y",))
    b.emit_all("send", x if fault == "sent too early" and p == 0 else y, dst=r + tp, **world)
    return b.returns()


def stack(
    cut: Cut,
    layers: int,
    fault: str = "",
    at: int = 0,
    weights: Sequence[int] | None = None,
    held: Sequence[int] | None = None,
) -> Problem:
    """Layers of norm, MLP and residual; ``fault`` is in layer ``at`` of the ranks' program.

    ``weights`` gives every layer its set of weights, by default its own; ``held`` does so for the
    ranks' program where that is another.
    """
    rows, hidden = 2, 3
    one_rank = list(weights) if weights is not None else list(range(layers))
    every_rank = list(held) if held is not None else one_rank
    sets = max(*one_rank, *every_rank) + 1

    def layer(b: Builder, h: Value, v: dict[str, Value], k: int, rank: Rank | None) -> Value:
        bad = fault if rank is not None and k == at else ""
        one = (one_rank if rank is None else every_rank)[k]
        square = b.emit("mean", b.emit("mul", h, h), dims=(1,), keepdim=True)
        by = 2 * EPS if bad == "another eps" else EPS
        n = b.emit("mul", h, b.emit("rsqrt", b.emit("shift", square, by=by)))
        n = b.emit("mul", n, v[f"g{(one + 1) % sets if bad == 'weights swapped' else one}"])
        u = b.emit("gelu", b.emit("matmul", n, v[f"a{one}"]), approximate="none")
        o = b.emit("matmul", u, v[f"b{one}"])
        if rank is not None and bad != "not reduced":
            o = rank.reduce(b, o)
        return b.emit("add", h, o)

    def run(b: Builder, v: dict[str, Value], rank: Rank | None) -> dict[str, Value]:
        h = v["x"]
        for k in range(layers):
            h = layer(b, h, v, k, rank)
        return {"y": h}

    inputs: dict[str, tuple[str, tuple[Size, ...], int | None]] = {
        "x": ("f32", (rows, hidden), None)
    }
    for k in range(sets):
        inputs[f"g{k}"] = ("f32", (hidden,), None)
        inputs[f"a{k}"] = ("f32", (hidden, cut.total), 1)
        inputs[f"b{k}"] = ("f32", (cut.total, hidden), 0)
    return sharded(
        "stack",
        cut,
        inputs,
        lambda b, v: run(b, v, None),
        lambda b, v, r: run(b, v, r),
        {"y": None},
    )


STACK_FAULTS: Sequence[str] = ("weights swapped", "not reduced", "another eps")
