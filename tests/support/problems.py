"""Problems that stand for what real programs do, for concrete ranks and for all numbers of ranks.

One description serves both: :class:`Cut` says how an axis is cut over the ranks, evenly or not,
or with the rank as an index. The faults that a builder knows turn it into a program that computes
something else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
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


# ------------------------------------------------------------------ vocabulary


def _mask(b: Builder, ids: Value, rank: Rank, fault: str) -> tuple[Value, Value]:
    """The mask of ids outside the shard and the local ids, 0 where masked."""
    low = rank.lo + 1 if fault == "strict border" else rank.lo
    below = b.emit("compare", ids, kind="lt", value=low)
    above = b.emit("compare", ids, kind="ge", value=rank.lo + rank.width)
    mask = b.emit("logic", below, above, kind="or")
    local = b.emit("shift", ids, by=-rank.lo)
    return mask, b.emit("masked_fill", local, mask, value=0)


def masked_lookup(cut: Cut, tokens: Size, hidden: Size, fault: str = "") -> Problem:
    """A vocabulary-parallel embedding against a plain one."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("take_rows", v["W"], v["ids"])}

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        mask, local = _mask(b, v["ids"], rank, fault)
        y = b.emit("take_rows", v["W"], local)
        if fault != "rows stay":
            wide = b.emit("reshape", mask, shape=(*mask.shape, 1))
            y = b.emit("masked_fill", y, wide, value=0)
        y = rank.reduce(b, y, "avg" if fault == "averaged" else "sum")
        return {"y": rank.reduce(b, y) if fault == "twice" else y}

    inputs: Spec = {
        "W": ("f32", (cut.total, hidden), 0),
        "ids": ("i64", (tokens,), None),
    }
    return sharded("masked lookup", cut, inputs, sequential, distributed, {"y": None})


LOOKUP_FAULTS = ("rows stay", "strict border", "averaged", "twice")


def cross_entropy(
    cut: Cut, tokens: Size, fault: str = "", *, fused: bool = False, shift: bool = True
) -> Problem:
    """Vocabulary-parallel cross entropy, loss and gradient of the logits. The sequential side is
    the same spelling on one rank or, with ``fused``, log_softmax with its fused gradient."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        if fused:
            return _fused_loss(b, v["x"], v["ids"])
        return _parts_loss(b, v["x"], v["ids"], Rank(0, cut.total, cut.total, (), 1), "", shift)

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        return _parts_loss(b, v["x"], v["ids"], rank, fault, shift)

    inputs: Spec = {
        "x": ("f32", (tokens, cut.total), 1),
        "ids": ("i64", (tokens,), None),
    }
    outputs = {"loss": None, "dx": 1}
    return sharded("cross entropy", cut, inputs, sequential, distributed, outputs)


LOSS_FAULTS = ("local maximum", "local sum", "target twice", "gradient unmasked", "strict border")


def _fused_loss(b: Builder, x: Value, ids: Value) -> dict[str, Value]:
    """log_softmax, nll and their gradients for a gradient of one a token."""
    logp = b.emit("log_softmax", x, dim=1)
    picked = b.emit("take_along", logp, ids)
    zero = b.emit("full", value=0, shape=x.shape, dtype="f32")
    ones = b.emit("full", value=-1, shape=ids.shape, dtype="f32")
    seed = b.emit("put_along", zero, ids, ones)
    dx = b.emit("log_softmax_grad", seed, logp, dim=1)
    return {"loss": b.emit("neg", picked), "dx": dx}


def _parts_loss(
    b: Builder, x: Value, ids: Value, rank: Rank, fault: str, shift: bool
) -> dict[str, Value]:
    def total(v: Value, op: str = "sum") -> Value:
        return rank.reduce(b, v, op) if rank.group else v

    if shift:
        top = b.emit("max", x, dims=(1,), keepdim=True)
        x = b.emit("sub", x, top if fault == "local maximum" else total(top, "max"))
    mask, local = _mask(b, ids, rank, fault)
    target = b.emit("masked_fill", b.emit("take_along", x, local), mask, value=0)
    target = total(target)
    if fault == "target twice":
        target = total(target)
    e = b.emit("exp", x)
    z = b.emit("sum", e, dims=(1,), keepdim=False)
    if fault != "local sum":
        z = total(z)
    loss = b.emit("sub", b.emit("log", z), target)
    p = b.emit("div", e, b.emit("reshape", z, shape=(*z.shape, 1)))
    inside = b.emit("shift", b.emit("neg", b.emit("cast", mask, dtype="f32")), by=1)
    if fault == "gradient unmasked":
        inside = b.emit("full", value=1, shape=mask.shape, dtype="f32")
    lower = b.emit("sub", b.emit("take_along", p, local), inside)
    return {"loss": loss, "dx": b.emit("put_along", p, local, lower)}


# ------------------------------------------------------------------ fused against parts


def softmax(cut: Cut, rows: Size, fault: str = "", *, log: bool = False) -> Problem:
    """Softmax (or log_softmax) and its gradient over a cut axis."""
    op = "log_softmax" if log else "softmax"

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        y = b.emit(op, v["x"], dim=1)
        return {"y": y, "dx": b.emit(f"{op}_grad", v["dy"], y, dim=1)}

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        x, dy = v["x"], v["dy"]
        top = b.emit("max", x, dims=(1,), keepdim=True)
        x = b.emit("sub", x, top if fault == "local maximum" else rank.reduce(b, top, "max"))
        e = b.emit("exp", x)
        z = b.emit("sum", e, dims=(1,), keepdim=True)
        z = z if fault == "local sum" else rank.reduce(b, z)
        p = b.emit("div", e, z)
        inner = b.emit("sum", dy if log else b.emit("mul", p, dy), dims=(1,), keepdim=True)
        inner = inner if fault == "local gradient" else rank.reduce(b, inner)
        if log:
            dx = b.emit("sub", dy, b.emit("mul", p, inner))
            return {"y": b.emit("sub", x, b.emit("log", z)), "dx": dx}
        return {"y": p, "dx": b.emit("mul", p, b.emit("sub", dy, inner))}

    shape = (rows, cut.total)
    inputs: Spec = {"x": ("f32", shape, 1), "dy": ("f32", shape, 1)}
    return sharded(op, cut, inputs, sequential, distributed, {"y": 1, "dx": 1})


SOFTMAX_FAULTS = ("local maximum", "local sum", "local gradient")


def _mean(b: Builder, x: Value, rank: Rank, fault: str = "") -> Value:
    """The mean over the last dim, which is cut."""
    total = b.emit("sum", x, dims=(1,), keepdim=True)
    if fault != "local":
        total = rank.reduce(b, total)
    n = rank.width if fault in ("local", "local count") else rank.total
    return b.emit("div", total, b.emit("full", value=n, shape=(), dtype="f32"))


def layer_norm(cut: Cut, rows: Size, fault: str = "") -> Problem:
    """LayerNorm with weight and bias over a cut hidden axis."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        y, _, _ = b.emit_all("layer_norm_affine", v["x"], v["w"], v["b"], naxes=1, eps=EPS)
        return {"y": y}

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        x = v["x"]
        c = b.emit("sub", x, _mean(b, x, rank, "local" if fault == "local mean" else ""))
        var = _mean(b, b.emit("mul", c, c), rank, fault)
        by = 2 * EPS if fault == "eps twice" else EPS
        r = b.emit("rsqrt", b.emit("shift", var, by=by))
        y = b.emit("mul", b.emit("mul", c, r), v["w"])
        return {"y": b.emit("add", y, v["b"])}

    inputs: Spec = {
        "x": ("f32", (rows, cut.total), 1),
        "w": ("f32", (cut.total,), 0),
        "b": ("f32", (cut.total,), 0),
    }
    return sharded("layer norm", cut, inputs, sequential, distributed, {"y": 1})


NORM_FAULTS = ("local", "local count", "eps twice")


def rms_norm(cut: Cut, rows: Size, fault: str = "") -> Problem:
    """RMSNorm followed by silu; the parts use sigmoid."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        y = b.emit_all("rms_norm", v["x"], v["w"], naxes=1, eps=EPS)[0]
        return {"y": b.emit("silu", y)}

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        x = v["x"]
        square = b.emit("power", x, exponent=2)
        by = 2 * EPS if fault == "eps twice" else EPS
        r = b.emit("rsqrt", b.emit("shift", _mean(b, square, rank, fault), by=by))
        y = b.emit("mul", b.emit("mul", x, r), v["w"])
        return {"y": b.emit("mul", y, b.emit("sigmoid", y))}

    inputs: Spec = {"x": ("f32", (rows, cut.total), 1), "w": ("f32", (cut.total,), 0)}
    return sharded("rms norm", cut, inputs, sequential, distributed, {"y": 1})


def layer_norm_grad(cut: Cut, rows: Size, fault: str = "") -> Problem:
    """The gradient of LayerNorm's operand over a cut hidden axis, statistics given."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        dx = b.emit("layer_norm_grad", v["dy"], v["x"], v["m"], v["r"], v["w"], naxes=1)
        return {"dx": dx}

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        def column(x: Value) -> Value:
            return b.emit("reshape", x, shape=(*x.shape, 1))

        r = column(v["r"])
        hat = b.emit("mul", b.emit("sub", v["x"], column(v["m"])), r)
        h = b.emit("mul", v["dy"], v["w"])
        first = _mean(b, h, rank, fault)
        second = _mean(b, b.emit("mul", h, hat), rank)
        if fault == "no projection":
            return {"dx": b.emit("mul", r, b.emit("sub", h, first))}
        inner = b.emit("sub", b.emit("sub", h, first), b.emit("mul", hat, second))
        return {"dx": b.emit("mul", r, inner)}

    wide, row = (rows, cut.total), (rows,)
    inputs: Spec = {
        "dy": ("f32", wide, 1), "x": ("f32", wide, 1), "m": ("f32", row, None),
        "r": ("f32", row, None), "w": ("f32", (cut.total,), 0),
    }  # fmt: skip
    return sharded("layer norm gradient", cut, inputs, sequential, distributed, {"dx": 1})


GRADIENT_FAULTS = ("local", "local count", "no projection")


def activation(cut: Cut, rows: Size, name: str, fault: str = "") -> Problem:
    """An activation and its gradient, fused, against one in simpler operators."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        kind = {"approximate": "tanh"} if name == "gelu" else {}
        return {
            "y": b.emit(name, v["x"], **kind),
            "dx": b.emit(f"{name}_grad", v["dy"], v["x"], **kind),
        }

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        return (_silu if name == "silu" else _gelu)(b, v["x"], v["dy"], fault)

    shape = (rows, cut.total)
    inputs: Spec = {"x": ("f32", shape, 1), "dy": ("f32", shape, 1)}
    return sharded(name, cut, inputs, sequential, distributed, {"y": 1, "dx": 1})


def _silu(b: Builder, x: Value, dy: Value, fault: str) -> dict[str, Value]:
    s = b.emit("sigmoid", b.emit("neg", x) if fault == "sign" else x)
    rest = b.emit("shift", b.emit("neg", s), by=1)
    slope = b.emit("mul", s, b.emit("shift", b.emit("mul", x, rest), by=1))
    if fault == "slope":
        slope = s
    return {"y": b.emit("mul", x, s), "dx": b.emit("mul", dy, slope)}


def _gelu(b: Builder, x: Value, dy: Value, fault: str) -> dict[str, Value]:
    from shardproof.ops.numbers import exact

    k = exact((2 / 3.141592653589793) ** 0.5)[0]
    cubic = Fraction(44715, 1000000)
    square = b.emit("mul", x, x)
    inner = b.emit(
        "scale", b.emit("add", x, b.emit("scale", b.emit("mul", square, x), by=cubic)), by=k
    )
    t = b.emit("tanh", inner)
    one = b.emit("shift", t, by=1)
    y = b.emit("scale", b.emit("mul", x, one), by=Fraction(1, 2))
    inside = b.emit("scale", b.emit("shift", b.emit("scale", square, by=3 * cubic), by=1), by=k)
    bend = b.emit("shift", b.emit("neg", b.emit("mul", t, t)), by=1)
    if fault == "slope":
        bend = b.emit("shift", b.emit("neg", t), by=1)
    slope = b.emit("mul", b.emit("mul", x, bend), inside)
    both = b.emit("scale", b.emit("add", one, slope), by=Fraction(1, 2))
    return {"y": b.emit("neg", y) if fault == "sign" else y, "dx": b.emit("mul", dy, both)}


ACTIVATION_FAULTS = ("sign", "slope")


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


# ------------------------------------------------------------------ pipeline and repeated layers


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


def stack(cut: Cut, layers: int, fault: str = "", at: int = 0) -> Problem:
    """Layers of norm, MLP and residual; ``fault`` is in layer ``at`` of the ranks' program."""
    rows, hidden = 2, 3

    def layer(b: Builder, h: Value, v: dict[str, Value], k: int, rank: Rank | None) -> Value:
        bad = fault if rank is not None and k == at else ""
        square = b.emit("mean", b.emit("mul", h, h), dims=(1,), keepdim=True)
        by = 2 * EPS if bad == "another eps" else EPS
        n = b.emit("mul", h, b.emit("rsqrt", b.emit("shift", square, by=by)))
        n = b.emit("mul", n, v[f"g{(k + 1) % layers if bad == 'weights swapped' else k}"])
        u = b.emit("gelu", b.emit("matmul", n, v[f"a{k}"]), approximate="none")
        o = b.emit("matmul", u, v[f"b{k}"])
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
    for k in range(layers):
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
