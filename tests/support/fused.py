"""Fused operators against the same in parts over a cut axis."""

from __future__ import annotations

from fractions import Fraction

from tests.support.problems import EPS, Cut, Rank, Spec, sharded

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.ir.sizes import Size
from shardproof.ops.numbers import exact
from shardproof.spec.problem import Problem


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
