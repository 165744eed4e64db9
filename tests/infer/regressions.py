"""Pairs that inference once judged wrongly, or that look like those."""

from __future__ import annotations

from typing import Any

from tests.infer.traps import F, G, case, pair, reduce, total
from tests.support.programs import even

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.spec.problem import Problem


def cut(b: Builder, x: Value, start: int, stop: int, dim: int = 0) -> Value:
    return b.emit("slice", x, dim=dim, start=start, stop=stop)


def numbers(b: Builder, start: int, step: int) -> Value:
    return b.emit("iota", size=4, start=start, step=step, dtype="i64")


for _op in ("softmax", "log_softmax", "cumsum", "sort", "argmax"):

    @case(f"{_op} along another dim", False)
    def _(op: str = _op) -> Problem:
        def apply(b: Builder, x: Value, dim: int) -> Value:
            y = b.emit_all(op, x, dim=dim)[0]
            return y if y.shape == x.shape else b.emit("cast", y, dtype=F)

        return pair(
            {"x": (F, (4, 4))}, lambda b, x: apply(b, x, 0), lambda b, r, x: apply(b, x, 1), ranks=1
        )


@case("a scan over another order of the elements", False)
def _() -> Problem:
    def scan(b: Builder, x: Value, perm: tuple[int, int]) -> Value:
        y = b.emit("permute", x, perm=perm)
        flat = b.emit("cumsum", b.emit("reshape", y, shape=(6,)), dim=0)
        return b.emit("permute", b.emit("reshape", flat, shape=y.shape), perm=perm)

    return pair(
        {"x": (F, (2, 3))},
        lambda b, x: scan(b, x, (0, 1)),
        lambda b, r, x: scan(b, x, (1, 0)),
        ranks=1,
    )


@case("a scan of a sum of which one term is constant along it", False)
def _() -> Problem:
    def scan(b: Builder, r: int, x: Value, y: Value) -> Value:
        both = b.emit("cumsum", b.emit("add", x, b.emit("expand", y, shape=(4, 3))), dim=0)
        return b.emit("sub", both, b.emit("cumsum", x, dim=0))

    return pair({"x": (F, (4, 3)), "y": (F, (3,))},
                lambda b, x, y: b.emit("expand", y, shape=(4, 3)), scan, ranks=1)  # fmt: skip


@case("partial sums in different places of a product", False)
def _() -> Problem:
    def mixed(b: Builder, r: int, x: Value) -> Value:
        part = total(b, x, 1)
        full = reduce(b, part)
        one, two = (part, full) if r == 0 else (full, part)
        return reduce(b, b.emit("mul", cut(b, one, 0, 3), cut(b, two, 1, 4)))

    def product(b: Builder, x: Value) -> Value:
        s = total(b, x, 1)
        return b.emit("mul", cut(b, s, 0, 3), cut(b, s, 1, 4))

    return pair({"x": (F, (4, 4))}, product, mixed, {"x": even(1, 2)})


@case("one place of a product is a partial sum", True, True)
def _() -> Problem:
    def product(b: Builder, x: Value) -> Value:
        s = total(b, x, 1)
        return b.emit("mul", cut(b, s, 0, 3), cut(b, s, 1, 4))

    def same(b: Builder, r: int, x: Value) -> Value:
        part = total(b, x, 1)
        full = reduce(b, part)
        return reduce(b, b.emit("mul", cut(b, part, 0, 3), cut(b, full, 1, 4)))

    return pair({"x": (F, (4, 4))}, product, same, {"x": even(1, 2)})


@case("symmetric function of unlike sums", False)
def _() -> Problem:
    def difference(b: Builder, r: int, x: Value, y: Value, z: Value) -> Value:
        one = b.emit("add", cut(b, x, 0, 2), cut(b, y, 0, 2))
        two = b.emit("add", cut(b, x, 0, 2), cut(b, y, 2, 4))
        return b.emit("sub", b.emit("maximum", one, z), b.emit("maximum", two, z))

    return pair(
        {"x": (F, (4,)), "y": (F, (4,)), "z": (F, (2,))},
        lambda b, x, y, z: b.emit("scale", z, by=0),
        difference,
        ranks=1,
    )


# ------------------------------------------------------------------ extrema


def _top(b: Builder, x: Value, kind: str = "max") -> Value:
    return b.emit(kind, x, dims=(1,))


@case("maximum over ranks of maxima", True, True)
def _() -> Problem:
    return pair({"x": (F, (3, 4))}, _top, lambda b, r, x: reduce(b, _top(b, x), "max"),
                {"x": even(1, 2)})  # fmt: skip


@case("maximum over ranks of minima", False)
def _() -> Problem:
    return pair(
        {"x": (F, (3, 4))},
        lambda b, x: _top(b, x, "min"),
        lambda b, r, x: reduce(b, _top(b, x, "min"), "max"),
        {"x": even(1, 2)},
    )


@case("maximum over ranks of y times a maximum", False)
def _() -> Problem:
    return pair(
        {"x": (F, (3, 4)), "y": (F, (3,))},
        lambda b, x, y: b.emit("mul", y, _top(b, x)),
        lambda b, r, x, y: reduce(b, b.emit("mul", y, _top(b, x)), "max"),
        {"x": even(1, 2)},
    )


@case("maximum over ranks of a contraction of maxima", False)
def _() -> Problem:
    return pair(
        {"x": (F, (3, 4)), "y": (F, (3,))},
        lambda b, x, y: b.emit("matmul", y, _top(b, x)),
        lambda b, r, x, y: reduce(b, b.emit("matmul", y, _top(b, x)), "max"),
        {"x": even(1, 2)},
    )


# ------------------------------------------------------------------ the rank as an index


@case("another unknown on every rank", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4,))},
        lambda b, x: x,
        lambda b, r, x, n: b.emit("add", x, b.emit("sub", reduce(b, n, "avg"), n)),
        extra={"n": (F, (4,))},
    )


@case("all_to_all along one dim is no identity", False)
def _() -> Problem:
    return pair(
        {"x": (F, (8,))},
        lambda b, x: x,
        lambda b, r, x: b.emit("all_to_all", x, split_dim=0, concat_dim=0, **G),
        {"x": even(0, 2)},
        even(0, 2),
    )


@case("all_to_all along one dim, twice", True, True)
def _() -> Problem:
    def twice(b: Builder, r: int, x: Value) -> Value:
        y = b.emit("all_to_all", x, split_dim=0, concat_dim=0, **G)
        return b.emit("all_to_all", y, split_dim=0, concat_dim=0, **G)

    return pair({"x": (F, (8,))}, lambda b, x: x, twice, {"x": even(0, 2)}, even(0, 2))


def _rank(b: Builder, r: int) -> Value:
    return b.emit("full", value=r, shape=(4,), dtype=F)


@case("the rank as a number, broadcast", False)
def _() -> Problem:
    def shifted(b: Builder, r: int, x: Value) -> Value:
        y = b.emit("broadcast", b.emit("shift", x, by=r), src=0, **G)
        return b.emit("sub", y, _rank(b, r))

    return pair({"x": (F, (4,))}, lambda b, x: x, shifted)


@case("the rank as a number, largest of all", False)
def _() -> Problem:
    def shifted(b: Builder, r: int, x: Value) -> Value:
        top = reduce(b, _rank(b, r), "max")
        return b.emit("add", x, b.emit("sub", top, _rank(b, r)))

    return pair({"x": (F, (4,))}, lambda b, x: x, shifted)


@case("a row by rank of rows in another order", False)
def _() -> Problem:
    def mine(b: Builder, r: int, x: Value) -> Value:
        y = b.emit("concat", cut(b, x, 1, 2), cut(b, x, 0, 1), dim=0)
        return total(b, cut(b, y, r, r + 1), 0)

    return pair(
        {"x": (F, (2, 3))}, lambda b, x: b.emit("scale", total(b, x, 0), by=1), mine
    )  # fmt: skip


_DIFFER: dict[str, Any] = {
    "clamp": ({"min": 0}, {"min": 0, "max": 1}),
    "scale": ({"by": 1}, {"by": 2}),
    "power": ({"exponent": 2}, {"exponent": 3}),
    "softmax": ({"dim": 0}, {"dim": 1}),
    "permute": ({"perm": (0, 1)}, {"perm": (1, 0)}),
    "cumsum": ({"dim": 0}, {"dim": 1}),
    "gelu": ({"approximate": "none"}, {"approximate": "tanh"}),
}
for _op, _attrs in _DIFFER.items():

    @case(f"{_op} with other attributes on the second rank", False)
    def _(op: str = _op, attrs: Any = _attrs) -> Problem:
        return pair(
            {"x": (F, (4, 4))},
            lambda b, x: b.emit(op, x, **attrs[0]),
            lambda b, r, x: b.emit(op, x, **attrs[r]),
        )


@case("reductions that the members call differently", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4,))},
        lambda b, x: total(b, x, 0),
        lambda b, r, x: reduce(b, total(b, x, 0), ("sum", "max")[r]),
        {"x": even(0, 2)},
    )


# ------------------------------------------------------------------ integers


@case("bf16 holds no integers", False)
def _() -> Problem:
    def small(b: Builder, x: Value, kind: str, value: int) -> Value:
        return b.emit("compare", b.emit("shift", x, by=3), kind=kind, value=value)

    return pair(
        {"x": ("bf16", (40,))},
        lambda b, x: small(b, x, "le", 3),
        lambda b, r, x: small(b, x, "lt", 4),
        ranks=1,
    )


@case("int64 holds integers", True, True)
def _() -> Problem:
    def small(b: Builder, x: Value, kind: str, value: int) -> Value:
        return b.emit("compare", b.emit("shift", x, by=3), kind=kind, value=value)

    return pair(
        {"x": ("i64", (40,))},
        lambda b, x: small(b, x, "le", 3),
        lambda b, r, x: small(b, x, "lt", 4),
        ranks=1,
    )


@case("rows added at descending positions", False)
def _() -> Problem:
    return pair(
        {"g": (F, (4, 2))},
        lambda b, g: b.emit("scale", g, by=0),
        lambda b, r, g: b.emit("add_rows", g, numbers(b, 3, -1), rows=4),
        ranks=1,
    )


@case("rows taken at descending positions", False)
def _() -> Problem:
    return pair(
        {"g": (F, (4, 2))},
        lambda b, g: b.emit("scale", g, by=1),
        lambda b, r, g: b.emit("take_rows", g, numbers(b, 3, -1)),
        ranks=1,
    )


@case("elements put at descending positions", False)
def _() -> Problem:
    return pair(
        {"g": (F, (4, 4)), "v": (F, (4,))},
        lambda b, g, v: b.emit("scale", g, by=1),
        lambda b, r, g, v: b.emit("put_along", g, numbers(b, 3, -1), v),
        ranks=1,
    )


@case("a product over no dims is no square", False)
def _() -> Problem:
    return pair(
        {"x": (F, (4,))},
        lambda b, x: b.emit("mul", x, x),
        lambda b, r, x: b.emit("prod", b.emit("scale", x, by=2), dims=()),
        ranks=1,
    )
