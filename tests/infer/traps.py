"""Pairs of programs that look alike: false identities, each with a right relative where there is
one. Every pair is judged by numbers too, so that a trap that is none is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.support.programs import Outs, even, group, problem, shard

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.numeric import Ranges

F = "f32"
G: dict[str, Any] = group(2)


@dataclass(frozen=True)
class Case:
    """``equal``: what numbers say; ``proved``: whether inference must prove it (None: may)."""

    name: str
    problem: Callable[[], Problem]
    equal: bool
    proved: bool | None = None
    ranges: Ranges = field(default_factory=dict)
    deep: bool = False


CASES: list[Case] = []


Maker = Callable[[], Problem]


def case(
    name: str, equal: bool, proved: bool | None = None, **options: Any
) -> Callable[[Maker], Maker]:
    """Register a function that makes a problem."""

    def add(make: Maker) -> Maker:
        CASES.append(Case(name, make, equal, proved if equal else False, **options))
        return make

    return add


def pair(
    inputs: dict[str, Any], seq: Callable[..., Outs], dist: Callable[..., Outs], *rest: Any,
    ranks: int = 2, **options: Any,
) -> Problem:  # fmt: skip
    return problem(ranks, inputs, seq, dist, *rest, **options)


def reduce(b: Builder, x: Value, op: str = "sum") -> Value:
    return b.emit("all_reduce", x, op=op, **G)


def total(b: Builder, x: Value, *dims: int, keepdim: bool = False) -> Value:
    return b.emit("sum", x, dims=dims, keepdim=keepdim)


# ------------------------------------------------------------------ statistics of shards (T01-T06)

for _name, _cuts, _right in (("T01 uneven", (0, 2, 3), False), ("T01 even", (0, 2, 4), True)):

    @case(f"{_name}: mean of local means", _right, True)
    def _(cuts: tuple[int, ...] = _cuts) -> Problem:
        n = cuts[-1]
        return pair(
            {"x": (F, (n,))},
            lambda b, x: b.emit("mean", x, dims=(0,)),
            lambda b, r, x: reduce(b, b.emit("mean", x, dims=(0,)), "avg"),
            {"x": shard(0, *cuts)},
        )


def _lse(b: Builder, x: Value, shared: bool) -> Value:
    top = b.emit("max", x, dims=(0,), keepdim=True)
    if shared:
        top = reduce(b, top, "max")
    e = total(b, b.emit("exp", b.emit("sub", x, top)), 0, keepdim=True)
    return b.emit("add", b.emit("log", reduce(b, e)), top)


for _shared in (False, True):

    @case(f"T02 log-sum-exp, {'common' if _shared else 'local'} maximum", _shared, True, deep=True)
    def _(shared: bool = _shared) -> Problem:
        return pair(
            {"x": (F, (4,))},
            lambda b, x: b.emit("logsumexp", x, dims=(0,), keepdim=True),
            lambda b, r, x: _lse(b, x, shared),
            {"x": even(0, 2)},
        )


@case("T03 softmax of a shard over the number of ranks", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4,))},
        lambda b, x: b.emit("softmax", x, dim=0),
        lambda b, r, x: b.emit("scale", b.emit("softmax", x, dim=0), by=Fraction(1, 2)),
        {"x": even(0, 2)},
        even(0, 2),
    )


@case("T04b sum of norms", False)
def _() -> Problem:
    def norm(b: Builder, x: Value) -> Value:
        return total(b, b.emit("power", x, exponent=2), 0)

    return pair(
        {"x": (F, (4,))},
        lambda b, x: b.emit("sqrt", norm(b, x)),
        lambda b, r, x: reduce(b, b.emit("sqrt", norm(b, x))),
        {"x": even(0, 2)},
    )


@case("T04 norm of a sharded gradient", True, True)
def _() -> Problem:
    def squares(b: Builder, x: Value) -> Value:
        return total(b, b.emit("power", x, exponent=2), 0)

    return pair(
        {"x": (F, (4,))},
        lambda b, x: b.emit("sqrt", squares(b, x)),
        lambda b, r, x: b.emit("sqrt", reduce(b, squares(b, x))),
        {"x": even(0, 2)},
    )


@case("T04d clip partial sums, then add", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4, 3))},
        lambda b, x: b.emit("clamp", total(b, x, 0), min=-1, max=1),
        lambda b, r, x: reduce(b, b.emit("clamp", total(b, x, 0), min=-1, max=1)),
        {"x": even(0, 2)},
    )


@case("T06 root-mean-square norm of a hidden shard", False)
def _() -> Problem:
    return pair(
        {"x": (F, (3, 4))},
        lambda b, x: b.emit_all("rms_norm", x, naxes=1, eps=Fraction(1, 10))[0],
        lambda b, r, x: b.emit_all("rms_norm", x, naxes=1, eps=Fraction(1, 10))[0],
        {"x": even(1, 2)},
        even(1, 2),
    )


def _rms(b: Builder, x: Value, eps_each: bool, op: str) -> Value:
    s = b.emit("mean", b.emit("mul", x, x), dims=(1,), keepdim=True)
    if eps_each:
        s = reduce(b, b.emit("shift", s, by=Fraction(1, 2)), op)
    else:
        s = b.emit("shift", reduce(b, s, op), by=Fraction(1, 2))
    return b.emit("mul", x, b.emit("rsqrt", s))


for _each, _op in ((False, "avg"), (True, "sum"), (False, "sum")):

    @case(f"T06 eps {'on each' if _each else 'once'}, {_op}", not _each and _op == "avg", True,
          deep=True)  # fmt: skip
    def _(each: bool = _each, op: str = _op) -> Problem:
        return pair(
            {"x": (F, (3, 4))},
            lambda b, x: b.emit_all("rms_norm", x, naxes=1, eps=Fraction(1, 2))[0],
            lambda b, r, x: _rms(b, x, each, op),
            {"x": even(1, 2)},
            even(1, 2),
        )


# ------------------------------------------------------------------ partial sums (T07-T12, T25)


@case("T07 norm weight gradient from own tokens", False)
def _() -> Problem:
    return pair(
        {"dy": (F, (4, 3)), "h": (F, (4, 3))},
        lambda b, dy, h: total(b, b.emit("mul", dy, h), 0),
        lambda b, r, dy, h: total(b, b.emit("mul", dy, h), 0),
        {"dy": even(0, 2), "h": even(0, 2)},
    )


@case("T07b the same, averaged", False)
def _() -> Problem:
    return pair(
        {"dy": (F, (4, 3)), "h": (F, (4, 3))},
        lambda b, dy, h: total(b, b.emit("mul", dy, h), 0),
        lambda b, r, dy, h: reduce(b, total(b, b.emit("mul", dy, h), 0), "avg"),
        {"dy": even(0, 2), "h": even(0, 2)},
    )


for _fn in ("relu", "gelu", "softmax", "exp"):

    @case(f"T08 {_fn} of partial sums", False)
    def _(fn: str = _fn) -> Problem:
        more: dict[str, dict[str, Any]] = {
            "gelu": {"approximate": "none"},
            "softmax": {"dim": 0},
        }
        attrs = more.get(fn, {})
        return pair(
            {"x": (F, (4, 3))},
            lambda b, x: b.emit(fn, total(b, x, 0), **attrs),
            lambda b, r, x: reduce(b, b.emit(fn, total(b, x, 0), **attrs)),
            {"x": even(0, 2)},
        )


@case("T08b product of partial sums", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4, 3)), "y": (F, (4, 3))},
        lambda b, x, y: b.emit("mul", total(b, x, 0), total(b, y, 0)),
        lambda b, r, x, y: reduce(b, b.emit("mul", total(b, x, 0), total(b, y, 0))),
        {"x": even(0, 2), "y": even(0, 2)},
    )


@case("T08c maximum of partial sums", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4, 3))},
        lambda b, x: b.emit("max", total(b, x, 0), dims=(0,)),
        lambda b, r, x: reduce(b, b.emit("max", total(b, x, 0), dims=(0,))),
        {"x": even(0, 2)},
    )


for _each in (True, False):

    @case(f"T08d bias {'on each rank' if _each else 'after the sum'}", not _each, True)
    def _(each: bool = _each) -> Problem:
        def right(b: Builder, r: int, x: Value, w: Value, c: Value) -> Value:
            y = b.emit("matmul", x, w)
            return reduce(b, b.emit("add", y, c)) if each else b.emit("add", reduce(b, y), c)

        return pair(
            {"x": (F, (3, 4)), "w": (F, (4, 5)), "c": (F, (5,))},
            lambda b, x, w, c: b.emit("add", b.emit("matmul", x, w), c),
            right,
            {"x": even(1, 2), "w": even(0, 2)},
        )


@case("T09 softmax backward with a local dot product", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4,)), "dy": (F, (4,))},
        lambda b, x, dy: b.emit("softmax_grad", dy, x, dim=0),
        lambda b, r, x, dy: b.emit("softmax_grad", dy, x, dim=0),
        {"x": even(0, 2), "dy": even(0, 2)},
        even(0, 2),
    )


@case("T10 micro-batch means averaged, unequal counts", False)
def _() -> Problem:
    def halves(b: Builder, r: int, x: Value) -> Value:
        parts = [b.emit("slice", x, dim=0, start=a, stop=c) for a, c in ((0, 4), (4, 6))]
        a, c = (b.emit("mean", p, dims=(0,)) for p in parts)
        return b.emit("scale", b.emit("add", a, c), by=Fraction(1, 2))

    return pair({"x": (F, (6,))}, lambda b, x: b.emit("mean", x, dims=(0,)), halves, ranks=1)


@case("T10b divided by the global count, then averaged", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4,))},
        lambda b, x: b.emit("mean", x, dims=(0,)),
        lambda b, r, x: reduce(b, b.emit("scale", total(b, x, 0), by=Fraction(1, 4)), "avg"),
        {"x": even(0, 2)},
    )


def _step(b: Builder, g: Value) -> Value:
    return b.emit("div", g, b.emit("shift", b.emit("sqrt", b.emit("mul", g, g)), by=1))


@case("T12 average of Adam updates", False)
def _() -> Problem:
    return pair(
        {"g": (F, (4, 3))},
        lambda b, g: _step(b, b.emit("mean", g, dims=(0,))),
        lambda b, r, g: reduce(b, _step(b, b.emit("mean", g, dims=(0,))), "avg"),
        {"g": even(0, 2)},
    )


@case("T25 average of partial sums", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4,))},
        lambda b, x: total(b, x, 0),
        lambda b, r, x: reduce(b, total(b, x, 0), "avg"),
        {"x": even(0, 2)},
    )


@case("T22 Adam(4 g) = Adam(g) with eps", False)
def _() -> Problem:
    return pair(
        {"g": (F, (3,))},
        _step,
        lambda b, r, g: _step(b, b.emit("scale", g, by=4)),
        ranks=1,
    )


@case("T24 exp(log(x * x) / 2) = x", False, deep=True)
def _() -> Problem:
    def back(b: Builder, r: int, x: Value) -> Value:
        half = b.emit("scale", b.emit("log", b.emit("mul", x, x)), by=Fraction(1, 2))
        return b.emit("exp", half)

    return pair({"x": (F, (4,))}, lambda b, x: b.emit("scale", x, by=1), back, ranks=1)


# ------------------------------------------------------------------ lookups and positions


def _embed(b: Builder, w: Value, ids: Value, low: int, n: int, zero: bool, strict: bool) -> Value:
    below = b.emit("compare", ids, kind="le" if strict else "lt", value=low)
    above = b.emit("compare", ids, kind="ge", value=low + n)
    out = b.emit("logic", below, above, kind="or")
    j = b.emit("masked_fill", b.emit("shift", ids, by=-low), out, value=0)
    y = b.emit("take_rows", w, j)
    if zero:
        y = b.emit("masked_fill", y, b.emit("reshape", out, shape=(*out.shape, 1)), value=0)
    return reduce(b, y)


for _zero, _strict in ((True, False), (False, False), (True, True)):

    @case(f"T11 vocabulary shard, zeroed={_zero}, strict bound={_strict}", _zero and not _strict,
          True, ranges={"ids": (0, 6)})  # fmt: skip
    def _(zero: bool = _zero, strict: bool = _strict) -> Problem:
        return pair(
            {"w": (F, (6, 3)), "ids": ("i64", (8,))},
            lambda b, w, ids: b.emit("take_rows", w, ids),
            lambda b, r, w, ids: _embed(b, w, ids, 3 * r, 3, zero, strict),
            {"w": even(0, 2)},
        )


for _local in (True, False):

    @case(f"T15b positions {'restart' if _local else 'go on'} on each shard", not _local, True)
    def _(local: bool = _local) -> Problem:
        def turned(b: Builder, x: Value, start: int) -> Value:
            n = x.shape[0]
            i = b.emit("iota", size=n, start=start, step=1, dtype="i64")
            return b.emit("mul", x, b.emit("sin", b.emit("cast", i, dtype=F)))

        return pair(
            {"x": (F, (6,))},
            lambda b, x: turned(b, x, 0),
            lambda b, r, x: turned(b, x, 0 if local else 3 * r),
            {"x": even(0, 2)},
            even(0, 2),
        )


@case("T16 tile for repeat", False)
def _() -> Problem:
    def spread(b: Builder, x: Value, repeat: bool) -> Value:
        y = b.emit("reshape", x, shape=(2, 1, 3) if repeat else (1, 2, 3))
        return b.emit("reshape", b.emit("expand", y, shape=(2, 2, 3)), shape=(4, 3))

    return pair(
        {"x": (F, (2, 3))},
        lambda b, x: spread(b, x, True),
        lambda b, r, x: spread(b, x, False),
        ranks=1,
    )


@case("T17e weight before a non-linear expert", False)
def _() -> Problem:
    return pair(
        {"x": (F, (3,)), "w": (F, (3,))},
        lambda b, x, w: b.emit("mul", b.emit("silu", x), w),
        lambda b, r, x, w: b.emit("silu", b.emit("mul", x, w)),
        ranks=1,
    )


for _local in (True, False):

    @case(f"T18 causal mask, {'local' if _local else 'global'} offset", not _local, True)
    def _(local: bool = _local) -> Problem:
        def masked(b: Builder, x: Value, start: int) -> Value:
            rows = b.emit("iota", size=x.shape[0], start=start, step=1, dtype="i64")
            cols = b.emit("iota", size=4, start=0, step=1, dtype="i64")
            rows = b.emit("reshape", rows, shape=(x.shape[0], 1))
            hidden = b.emit("compare", cols, rows, kind="gt")
            return b.emit("softmax", b.emit("masked_fill", x, hidden, value=-9), dim=1)

        return pair(
            {"x": (F, (4, 4))},
            lambda b, x: masked(b, x, 0),
            lambda b, r, x: masked(b, x, 0 if local else 2 * r),
            {"x": even(0, 2)},
            even(0, 2),
        )


@case("T18b labels rolled in each shard", False)
def _() -> Problem:
    def rolled(b: Builder, x: Value) -> Value:
        n = x.shape[0]
        assert isinstance(n, int)
        first = b.emit("slice", x, dim=0, start=0, stop=1)
        return b.emit("concat", b.emit("slice", x, dim=0, start=1, stop=n), first, dim=0)

    return pair(
        {"x": (F, (4,))},
        rolled,
        lambda b, r, x: rolled(b, x),
        {"x": even(0, 2)},
        even(0, 2),
    )


def _zigzag(b: Builder, x: Value, rank: int) -> Value:
    parts = [b.emit("slice", x, dim=0, start=k, stop=k + 1) for k in (rank, 3 - rank)]
    return b.emit("concat", *parts, dim=0)


for _sorted in (False, True):

    @case(f"T18c zigzag {'put in order' if _sorted else 'joined by rank'}", _sorted, True)
    def _(in_order: bool = _sorted) -> Problem:
        def joined(b: Builder, r: int, x: Value) -> Value:
            y = b.emit("all_gather", b.emit("tanh", x), dim=0, **G)
            if not in_order:
                return y
            at = (0, 2, 3, 1)
            parts = [b.emit("slice", y, dim=0, start=k, stop=k + 1) for k in at]
            return b.emit("concat", *parts, dim=0)

        return pair({"x": (F, (4,))}, lambda b, x: b.emit("tanh", x), joined, {"x": _zigzag})


@case("T21f padding counted in a mean", False)
def _() -> Problem:
    def padded(b: Builder, r: int, x: Value) -> Value:
        zeros = b.emit("full", value=0, shape=(2,), dtype=F)
        return b.emit("mean", b.emit("concat", x, zeros, dim=0), dims=(0,))

    return pair({"x": (F, (2,))}, lambda b, x: b.emit("mean", x, dims=(0,)), padded, ranks=1)


@case("T27 batch statistics per micro-batch", False)
def _() -> Problem:
    def centred(b: Builder, x: Value) -> Value:
        return b.emit("sub", x, b.emit("mean", x, dims=(0,), keepdim=True))

    return pair(
        {"x": (F, (4, 2))},
        centred,
        lambda b, r, x: centred(b, x),
        {"x": even(0, 2)},
        even(0, 2),
    )
