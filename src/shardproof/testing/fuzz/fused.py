"""Steps of random programs: attention, gradients, rarer functions and constants."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from shardproof.testing.fuzz.generate import Generator, Lay, Layout, Tensor
from shardproof.testing.fuzz.steps import (
    EXTENTS,
    Skip,
    after,
    fit,
    partner,
    pick,
    some_dim,
)

PLAIN = (
    "cos atan sinh cosh erfc ceil round trunc sign logsigmoid mish hardsigmoid hardswish neg "
    "expm1 exp2"
).split()
WITH: dict[str, dict[str, Any]] = {
    "leaky_relu": {"slope": Fraction(1, 4)},
    "elu": {"alpha": Fraction(1, 2)},
    "clamp": {"min": -1, "max": Fraction(1, 2)},
    "gelu": {"approximate": "tanh"},
}
OF_POSITIVE = ("log1p", "log2", "log10", "asin", "tan")
GRADIENTS: dict[str, dict[str, Any]] = {
    "gelu_grad": {"approximate": "none"},
    "silu_grad": {},
    "relu_grad": {"threshold": 0},
    "tanh_grad": {},
    "sigmoid_grad": {},
    "leaky_relu_grad": {"slope": Fraction(1, 4)},
    "elu_grad": {"alpha": 1},
    "clamp_grad": {"min": -1, "max": 1},
    "softplus_grad": {},
    "logsigmoid_grad": {},
    "hardsigmoid_grad": {},
    "hardswish_grad": {},
}


def outputs(
    g: Generator, op: str, operands: Sequence[Tensor], lays: Sequence[Layout], attrs: dict[str, Any]
) -> list[Tensor]:
    """All results of one operator on both sides."""
    seq = g.seq.emit_all(op, *(t.seq for t in operands), **attrs)
    dist = [b.emit_all(op, *(t.dist[r] for t in operands), **attrs) for r, b in enumerate(g.dist)]
    return [
        g.keep(Tensor(seq[k], tuple(d[k] for d in dist), lay)) for k, lay in enumerate(lays)
    ]  # fmt: skip


# ------------------------------------------------------------------ elementwise


def rare(g: Generator) -> Tensor:
    """A function of one operand that models seldom use; exponentials get small operands."""
    t = g.mended(pick(g))
    op = str(g.rng.choice([*PLAIN, *WITH]))
    if op in ("sinh", "cosh", "expm1", "exp2"):
        t = g.emit("tanh", [t], t.lay)
    return g.emit(op, [t], t.lay, WITH.get(op, {}))


def rare_of_positive(g: Generator) -> Tensor:
    """The same with an operand in (0, 1)."""
    t = g.mended(pick(g))
    t = g.emit("sigmoid", [t], t.lay, positive=True)
    return g.emit(str(g.rng.choice(OF_POSITIVE)), [t], t.lay)


def rare_pair(g: Generator) -> Tensor:
    """A function of two operands; divisors are positive."""
    op = str(g.rng.choice(["atan2", "remainder", "fmod", "floor_divide", "pow"]))
    a = g.mended(pick(g, positive=op == "pow"))
    b = fit(g, partner(g, a, positive=op not in ("atan2", "pow")), a, "R")
    if op == "pow":
        b = g.emit("tanh", [b], b.lay)
    return g.emit(op, [a, b], a.lay)


def gradient(g: Generator) -> Tensor:
    """The backward pass of an elementwise function; the gradient may be a partial sum."""
    dy = pick(g)
    x = fit(g, partner(g, dy), dy, "R")
    op = str(g.rng.choice(list(GRADIENTS)))
    if op == "elu_grad":
        x = g.emit("tanh", [x], x.lay)
    return g.emit(op, [dy, x], dy.lay, GRADIENTS[op])


def constant(g: Generator) -> Tensor:
    """A tensor of one number, of the shape of another, added to it."""
    t = g.mended(pick(g))
    value = Fraction(int(g.rng.integers(-2, 3)), 2)
    c = g.emit(
        "full", [], t.lay, {"value": value, "shape": t.shape, "dtype": "f32"},
        lambda r: {"value": value, "shape": g.local(t.shape, t.lay, r), "dtype": "f32"},
    )  # fmt: skip
    return g.emit(str(g.rng.choice(["add", "mul", "maximum"])), [t, c], t.lay)


def cast(g: Generator) -> Tensor:
    """To half precision and back, which changes nothing over the reals."""
    t = pick(g)
    small = g.emit("cast", [t], t.lay, {"dtype": str(g.rng.choice(["bf16", "f16"]))})
    g.pool.pop()
    return g.emit("cast", [small], t.lay, {"dtype": "f32"}, positive=t.positive)


# ------------------------------------------------------------------ whole axes


def softmax_gradient(g: Generator) -> Tensor:
    dy = pick(g)
    d = some_dim(g, dy)
    for axis, where in enumerate(dy.lay):
        if where == d:
            dy = g.to(dy, axis, "R")
    found = [t for t in g.pool if t.kind == "f" and t.shape == dy.shape]
    y = g.relay(
        found[int(g.rng.integers(len(found)))], tuple("R" if w == "P" else w for w in dy.lay)
    )
    op = str(g.rng.choice(["softmax_grad", "log_softmax_grad"]))
    return g.emit(op, [dy, y], dy.lay, {"dim": d})


def order(g: Generator) -> Tensor:
    """The largest elements, positions of the smallest, a product, along one dim."""
    t = pick(g)
    d = some_dim(g, t)
    t = g.mended(t, keep=(d,))
    op = str(g.rng.choice(["topk", "argmin", "prod", "max"]))
    if op == "topk":
        k = int(g.rng.integers(1, t.shape[d] + 1))
        return g.emit("topk", [t], t.lay, {"k": k, "dim": d, "largest": True})
    lay = tuple(after(where, d, False) for where in t.lay)
    if op == "argmin":
        out = g.emit(op, [t], lay, {"dim": d, "keepdim": False})
        return g.emit("cast", [out], lay, {"dtype": "f32"})
    return g.emit(op, [t], lay, {"dims": (d,), "keepdim": False})


def any_or_all(g: Generator) -> Tensor:
    """Whether some element, or each, passes a test."""
    t = pick(g)
    d = some_dim(g, t)
    t = g.mended(t, keep=(d,))
    c = g.emit("compare", [t], t.lay, {"kind": "gt", "value": 0})
    lay = tuple(after(where, d, False) for where in t.lay)
    out = g.emit(str(g.rng.choice(["max", "min"])), [c], lay, {"dims": (d,), "keepdim": False})
    return g.emit("cast", [out], lay, {"dtype": "f32"})


def norm_gradient(g: Generator) -> Tensor:
    """Forward and backward of a norm: the gradient of the input, or that of the weight, which is
    a sum over the rows."""
    x = pick(g)
    if len(x.shape) < 2:
        raise Skip
    d = len(x.shape) - 1
    x = g.mended(x, keep=(d,))
    w = g.input("f32", x.shape[-1:], ("R",) * len(g.size))
    dy = g.input("f32", x.shape, x.lay)
    stats = x.lay
    attrs: dict[str, Any] = {"naxes": 1, "eps": Fraction(1, 100)}
    if g.rng.random() < 0.5:
        y, rstd = outputs(g, "rms_norm", [x, w], (x.lay, stats), attrs)
        dx = g.emit("rms_norm_grad", [dy, x, rstd, w], x.lay, {"naxes": 1})
        centred = x
    else:
        y, mean, rstd = outputs(g, "layer_norm_affine", [x, w], (x.lay, stats, stats), attrs)
        dx = g.emit("layer_norm_grad", [dy, x, mean, rstd, w], x.lay, {"naxes": 1})
        centred = g.emit("sub", [x, _column(g, mean)], x.lay)
    if g.rng.random() < 0.4:
        return dx
    unit = g.emit("mul", [centred, _column(g, rstd)], x.lay)
    product = g.emit("mul", [dy, unit], x.lay)
    assert y.shape == x.shape
    rows = tuple(range(d))
    lay: Layout = tuple("P" if isinstance(v, int) else v for v in x.lay)
    return g.emit("sum", [product], lay, {"dims": rows, "keepdim": False})


def _column(g: Generator, t: Tensor) -> Tensor:
    """Statistics of rows as a column."""
    shape = (*t.shape, 1)
    return g.emit(
        "reshape", [t], t.lay, {"shape": shape}, lambda r: {"shape": g.local(shape, t.lay, r)}
    )


def attention(g: Generator) -> Tensor:
    """Attention cut by batch, by head, or by query (where it is not causal); its gradient."""
    b, h, t, s, d = (int(g.rng.choice(EXTENTS[:3])) for _ in range(5))
    causal = bool(g.rng.random() < 0.4)
    s = t if causal else s
    keep = (2, 3) if causal else (3,)
    lay = g.random_layout((b, h, t, d), keep)
    other: list[Lay] = ["R" if w == 2 else w for w in lay]
    q = g.input("f32", (b, h, t, d), lay)
    k, v = (g.input("f32", (b, h, s, d), tuple(other)) for _ in range(2))
    attrs: dict[str, Any] = {"causal": causal, "scale": Fraction(1, 2)}
    out, lse = outputs(g, "attention", [q, k, v], (lay, lay), attrs)
    if g.rng.random() < 0.6 or 2 in lay:
        return out
    dout = g.input("f32", (b, h, t, d), lay)
    operands = [dout, q, k, v, out, lse]
    grads = outputs(g, "attention_grad", operands, (lay, lay, lay), attrs)
    return grads[int(g.rng.integers(3))]
