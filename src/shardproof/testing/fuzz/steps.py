"""Steps of random programs: one function a kind of operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.testing.fuzz.generate import Generator, Lay, Tensor

SMOOTH = "tanh sigmoid gelu silu relu sin erf abs softplus floor".split()
POSITIVE = ("sigmoid", "softplus")
EXTENTS = (2, 4, 6, 3, 8)


class Skip(Exception):
    """The step does not apply to the tensors at hand."""


def pick(g: Generator, kind: str = "f", rank: int | None = None, positive: bool = False) -> Tensor:
    found = [
        t for t in g.pool
        if t.kind == kind
        and (rank is None or len(t.shape) == rank)
        and (t.positive or not positive)
    ]  # fmt: skip
    if not found:
        raise Skip
    # Recent tensors more often, so that programs get deep.
    k = len(found) - 1 - min(int(g.rng.exponential(3)), len(found) - 1)
    return found[k]


def some_dim(g: Generator, t: Tensor) -> int:
    if not t.shape:
        raise Skip
    return int(g.rng.integers(len(t.shape)))


# ------------------------------------------------------------------ elementwise


def unary(g: Generator) -> Tensor:
    op = str(g.rng.choice(SMOOTH))
    attrs = {"approximate": "none"} if op == "gelu" else {}
    t = g.mended(pick(g))
    return g.emit(op, [t], t.lay, attrs, positive=op in POSITIVE)


def exponential(g: Generator) -> Tensor:
    t = g.mended(pick(g))
    small = g.emit("tanh", [t], t.lay)
    return g.emit("exp", [small], small.lay, positive=True)


def of_positive(g: Generator) -> Tensor:
    t = g.mended(pick(g, positive=True))
    op = str(g.rng.choice(["log", "sqrt", "rsqrt", "reciprocal", "power"]))
    attrs = {"exponent": Fraction(int(g.rng.integers(-3, 4)), 2)} if op == "power" else {}
    return g.emit(op, [t], t.lay, attrs, positive=op != "log")


def square(g: Generator) -> Tensor:
    t = g.mended(pick(g))
    s = g.emit("power", [t], t.lay, {"exponent": 2})
    return g.emit("shift", [s], s.lay, {"by": Fraction(1, 2)}, positive=True)


def linear(g: Generator) -> Tensor:
    t = pick(g)
    if g.rng.random() < 0.3:
        t = g.mended(t)
        return g.emit("shift", [t], t.lay, {"by": Fraction(int(g.rng.integers(-3, 4)), 2)})
    by = Fraction(int(g.rng.choice([-2, -1, 1, 2, 3])), int(g.rng.choice([1, 2, 3])))
    return g.emit("scale", [t], t.lay, {"by": by}, positive=t.positive and by > 0)


def partner(g: Generator, a: Tensor, positive: bool = False) -> Tensor:
    """A tensor of the same shape or of a trailing part of it, old or new."""
    fits = [
        t for t in g.pool
        if t.kind == "f" and t.shape and a.shape[len(a.shape) - len(t.shape) :] == t.shape
        and (t.positive or not positive)
    ]  # fmt: skip
    if fits and (positive or g.rng.random() < 0.8):
        return fits[int(g.rng.integers(len(fits)))]
    if positive:
        raise Skip
    return g.input("f32", a.shape[int(g.rng.integers(len(a.shape))) :] if a.shape else ())


def fit(g: Generator, b: Tensor, a: Tensor, partial: str) -> Tensor:
    """``b`` in the layout that broadcasting against ``a`` needs; where ``a`` is a partial sum,
    ``b`` becomes what ``partial`` says."""
    skip = len(a.shape) - len(b.shape)
    want: list[Lay] = []
    for where in a.lay:
        if where == "P":
            want.append(partial)
        else:
            want.append(where - skip if isinstance(where, int) and where >= skip else "R")
    return g.relay(b, want)


def add(g: Generator) -> Tensor:
    a = pick(g)
    b = partner(g, a)
    if g.rng.random() < 0.6 or "P" in b.lay:
        a = g.mended(a)
    b = fit(g, b, a, "P")
    op = "add" if g.rng.random() < 0.7 else "sub"
    return g.emit(op, [a, b], a.lay, positive=op == "add" and a.positive and b.positive)


def mul(g: Generator) -> Tensor:
    a = pick(g)
    b = fit(g, partner(g, a), a, "R")
    return g.emit("mul", [a, b], a.lay, positive=a.positive and b.positive)


def div(g: Generator) -> Tensor:
    a = pick(g)
    b = fit(g, partner(g, a, positive=True), a, "R")
    return g.emit("div", [a, b], a.lay, positive=a.positive)


def pairwise(g: Generator) -> Tensor:
    a = g.mended(pick(g))
    b = fit(g, partner(g, a), a, "R")
    op = str(g.rng.choice(["maximum", "minimum"]))
    return g.emit(op, [a, b], a.lay)


# ------------------------------------------------------------------ reductions


def reduce(g: Generator) -> Tensor:
    op = str(g.rng.choice(["sum", "sum", "mean", "max", "min"]))
    t = pick(g)
    if op in ("max", "min"):
        t = g.mended(t)
    d = some_dim(g, t)
    keep = bool(g.rng.random() < 0.5)
    if op == "mean":
        for axis in g.uneven:
            t = g.to(t, axis, "R") if t.lay[axis] == d else t
    cut = [axis for axis, where in enumerate(t.lay) if where == d]
    lay = tuple("P" if axis in cut else after(w, d, keep) for axis, w in enumerate(t.lay))
    attrs: dict[str, Any] = {"dims": (d,), "keepdim": keep}
    out = g.emit(op, [t], lay, attrs, positive=t.positive)
    if op == "sum" or not cut:
        return out
    g.pool.pop()  # the ranks' values do not add up to it yet
    if op == "mean":
        share = Fraction(1, math.prod(g.size[axis] for axis in cut))
        return g.on_ranks(out, lay, lambda b, x, r: b.emit("scale", x, by=share))
    for axis in cut:
        lay = (*lay[:axis], "R", *lay[axis + 1 :])
        out = g.on_ranks(out, lay, _reduced(g, op, axis))
        g.pool.pop()
    return g.keep(out)


def _reduced(g: Generator, op: str, axis: int) -> Callable[[Builder, Value, int], Value]:
    return lambda b, x, r: b.emit("all_reduce", x, op=op, **g.group(axis, r))


def after(where: Lay, d: int, keep: bool) -> Lay:
    if not isinstance(where, int) or keep or where < d:
        return where
    return where - 1


def matmul(g: Generator) -> Tensor:
    a = pick(g)
    if len(a.shape) < 2:
        raise Skip
    n = int(g.rng.choice(EXTENTS))
    k = a.shape[-1]
    fits = [t for t in g.pool if t.kind == "f" and len(t.shape) == 2 and t.shape[0] == k]
    b = fits[int(g.rng.integers(len(fits)))] if fits and g.rng.random() < 0.4 else None
    if b is None:
        b = g.input("f32", (k, n))
    rows, inner = len(a.shape) - 2, len(a.shape) - 1
    out: list[Lay] = []
    for axis in range(len(g.size)):
        roles = ["columns", "inner", "other"]
        role = str(g.rng.choice(roles))
        taken_a = [w for x, w in enumerate(a.lay) if x != axis]
        taken_b = [w for x, w in enumerate(b.lay) if x != axis]
        if role == "inner" and g.can_cut(axis, k) and inner not in taken_a and 0 not in taken_b:
            a, b = g.to(a, axis, inner), g.to(b, axis, 0)
            out.append("P")
        elif role == "columns" and g.can_cut(axis, b.shape[1]) and 1 not in taken_b:
            a, b = g.to(a, axis, "R"), g.to(b, axis, 1)
            out.append(inner)
        else:
            have = a.lay[axis]
            if have == inner:
                a, have = g.to(a, axis, "R"), "R"
            b = g.to(b, axis, "R")
            out.append(have)
    assert rows >= 0
    return g.emit("matmul", [a, b], tuple(out))


def whole_axis(g: Generator) -> Tensor:
    op = str(
        g.rng.choice(["softmax", "log_softmax", "cumsum", "sort", "argmax", "logsumexp", "prod"])
    )
    t = pick(g)
    d = some_dim(g, t)
    t = g.mended(t, keep=(d,))
    if op in ("softmax", "log_softmax"):
        return g.emit(op, [t], t.lay, {"dim": d}, positive=op == "softmax")
    if op == "cumsum":
        return g.emit(op, [t], t.lay, {"dim": d})
    if op == "sort":
        seq = g.seq.emit_all("sort", t.seq, dim=d)[0]
        dist = tuple(b.emit_all("sort", t.dist[r], dim=d)[0] for r, b in enumerate(g.dist))
        return g.keep(Tensor(seq, dist, t.lay, t.positive))
    lay = tuple(after(where, d, False) for where in t.lay)
    if op == "argmax":
        out = g.emit(op, [t], lay, {"dim": d, "keepdim": False})
        return g.emit("cast", [out], lay, {"dtype": "f32"})
    return g.emit(op, [t], lay, {"dims": (d,), "keepdim": False})


def norm(g: Generator) -> Tensor:
    t = pick(g)
    if not t.shape:
        raise Skip
    d = len(t.shape) - 1
    t = g.mended(t, keep=(d,))
    w = g.input("f32", t.shape[-1:], ("R",) * len(g.size))
    op = str(g.rng.choice(["layer_norm_affine", "rms_norm"]))
    attrs: dict[str, Any] = {"naxes": 1, "eps": Fraction(1, 1000)}
    seq = g.seq.emit_all(op, t.seq, w.seq, **attrs)[0]
    dist = tuple(b.emit_all(op, t.dist[r], w.dist[r], **attrs)[0] for r, b in enumerate(g.dist))
    return g.keep(Tensor(seq, dist, t.lay))


Step = Callable[[Generator], Tensor]
