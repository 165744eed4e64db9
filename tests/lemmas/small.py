"""One small problem for every lemma that the larger test problems do not need; with ``fault`` a
program that violates what the lemma asks for."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.problems import Cut, Rank, Spec, sharded

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.ir.sizes import Size
from shardproof.lemmas import names
from shardproof.spec.problem import Problem

Values = dict[str, Value]
H = 3


def split_contraction(cut: Cut, rows: Size, fault: bool) -> Problem:
    """Columns in another order, the same on both sides of the product."""

    def sequential(b: Builder, v: Values) -> Values:
        return {"y": b.emit("matmul", v["x"], v["w"])}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        at, n = rank.width, cut.total
        turned = {}
        for k, dim in (("x", 1), ("w", 0)):
            lower = b.emit("slice", v[k], dim=dim, start=0, stop=at)
            upper = b.emit("slice", v[k], dim=dim, start=at, stop=n)
            parts = [lower, upper] if fault and k == "w" else [upper, lower]
            turned[k] = b.emit("concat", *parts, dim=dim)
        return {"y": b.emit("matmul", turned["x"], turned["w"])}

    inputs: Spec = {"x": ("f32", (rows, cut.total), None), "w": ("f32", (cut.total, H), None)}
    return sharded("split contraction", cut, inputs, sequential, distributed, {"y": None})


def sum_of_constant(cut: Cut, rows: Size, fault: bool) -> Problem:
    """The gradient of a bias of one column: each column counts."""

    def total(b: Builder, v: Values, width: Size) -> Value:
        wide = b.emit("expand", v["c"], shape=(rows, width))
        return b.emit("sum", wide, dims=(1,), keepdim=False)

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        y = total(b, v, rank.width)
        return {"y": y if fault else rank.reduce(b, y)}

    def sequential(b: Builder, v: Values) -> Values:
        return {"y": total(b, v, cut.total)}

    inputs: Spec = {"c": ("f32", (rows, 1), None)}
    return sharded("bias", cut, inputs, sequential, distributed, {"y": None})


def sum_of_sums(cut: Cut, rows: Size, fault: bool) -> Problem:
    def sequential(b: Builder, v: Values) -> Values:
        inner = b.emit("sum", v["x"], dims=(1,), keepdim=False)
        return {"y": b.emit("sum", inner, dims=(0,), keepdim=False)}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        y = b.emit("sum", v["x"], dims=(0, 1), keepdim=False)
        return {"y": y if fault else rank.reduce(b, y)}

    inputs: Spec = {"x": ("f32", (rows, cut.total), 1)}
    return sharded("nested sums", cut, inputs, sequential, distributed, {"y": None})


def sum_respelled(cut: Cut, rows: Size, fault: bool) -> Problem:
    """Three summands in two spellings; a part of the second one has a name of its own."""

    def sequential(b: Builder, v: Values) -> Values:
        part = b.emit("exp", b.emit("add", v["p"], v["q"]))
        y = b.emit("exp", b.emit("add", b.emit("add", v["x"], v["p"]), v["q"]))
        return {"part": part, "y": y}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        inner = b.emit("add", v["q"], v["p"])
        last = b.emit("sub" if fault else "add", inner, v["x"])
        return {"part": b.emit("exp", inner), "y": b.emit("exp", last)}

    inputs: Spec = dict.fromkeys(("x", "p", "q"), ("f32", (rows, cut.total), 1))
    return sharded("brackets", cut, inputs, sequential, distributed, {"part": 1, "y": 1})


def extremum_of_constant(cut: Cut, rows: Size, fault: bool) -> Problem:
    def sequential(b: Builder, v: Values) -> Values:
        wide = b.emit("expand", v["c"], shape=(rows, cut.total))
        return {"y": b.emit("max", wide, dims=(1,), keepdim=False)}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        wide = b.emit("expand", v["c"], shape=(rows, rank.width))
        return {
            "y": b.emit("max", b.emit("neg", wide) if fault else wide, dims=(1,), keepdim=False)
        }

    inputs: Spec = {"c": ("f32", (rows, 1), None)}
    return sharded("constant maximum", cut, inputs, sequential, distributed, {"y": None})


def replicas(cut: Cut, rows: Size, fault: bool) -> Problem:
    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        n = b.emit("full", value=rank.size, shape=(), dtype="f32")
        x = v["x"] if fault else b.emit("div", v["x"], n)
        return {"y": rank.reduce(b, x)}

    def sequential(b: Builder, v: Values) -> Values:
        return {"y": b.emit("scale", v["x"], by=1)}

    inputs: Spec = {"x": ("f32", (rows, H), None)}
    return sharded("replicas", cut, inputs, sequential, distributed, {"y": None})


def gathered(cut: Cut, rows: Size, fault: bool) -> Problem:
    def sequential(b: Builder, v: Values) -> Values:
        return {"y": b.emit("matmul", b.emit("exp", v["x"]), v["w"])}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        x = b.emit("exp", v["x"])
        full = b.emit("all_gather", x, dim=0, group=rank.group, group_size=rank.size)
        y = b.emit("matmul", full, v["w"])
        return {"y": rank.reduce(b, y) if fault else y}

    inputs: Spec = {"x": ("f32", (cut.total, rows), 0), "w": ("f32", (rows, H), None)}
    return sharded("gather", cut, inputs, sequential, distributed, {"y": None})


def positions(cut: Cut, rows: Size, fault: bool) -> Problem:
    def sequential(b: Builder, v: Values) -> Values:
        ids = b.emit("iota", size=cut.total, start=0, step=1, dtype="i64")
        return {"y": b.emit("take_rows", v["W"], ids)}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        first = 0 if fault else rank.lo
        ids = b.emit("iota", size=rank.width, start=first, step=1, dtype="i64")
        return {"y": b.emit("take_rows", v["W"], ids)}

    inputs: Spec = {"W": ("f32", (cut.total, rows), None)}
    return sharded("positions", cut, inputs, sequential, distributed, {"y": 0})


def scatter(cut: Cut, rows: Size, fault: bool) -> Problem:
    """The gradient of a table whose ids are cut over the ranks."""

    def sequential(b: Builder, v: Values) -> Values:
        # A lookup states the range of the ids.
        y = b.emit("take_rows", v["W"], v["ids"])
        return {"dw": b.emit("add_rows", b.emit("mul", v["g"], y), v["ids"], rows=H)}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        y = b.emit("take_rows", v["W"], v["ids"])
        dw = b.emit("add_rows", b.emit("mul", v["g"], y), v["ids"], rows=H)
        return {"dw": dw if fault else rank.reduce(b, dw)}

    inputs: Spec = {
        "W": ("f32", (H, rows), None),
        "ids": ("i64", (cut.total,), 0),
        "g": ("f32", (cut.total, rows), 0),
    }
    return sharded("scatter", cut, inputs, sequential, distributed, {"dw": None})


def exp_product(cut: Cut, rows: Size, fault: bool) -> Problem:
    """A rescaled exponential, as in a merge of attention blocks (deep)."""

    def sequential(b: Builder, v: Values) -> Values:
        return {"y": b.emit("exp", b.emit("sub", v["x"], v["m"]))}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        old = b.emit("exp", b.emit("sub", v["x"], v["m1"]))
        new = [v["m"], v["m1"]] if fault else [v["m1"], v["m"]]
        return {"y": b.emit("mul", old, b.emit("exp", b.emit("sub", *new)))}

    inputs: Spec = {
        "x": ("f32", (rows, cut.total), 1),
        "m": ("f32", (rows, 1), None),
        "m1": ("f32", (rows, 1), None),
    }
    return sharded("rescaling", cut, inputs, sequential, distributed, {"y": 1})


def exp_of_sum(cut: Cut, rows: Size, fault: bool) -> Problem:
    """The exponential of a sum as a product of two (deep), or as their sum."""

    def sequential(b: Builder, v: Values) -> Values:
        return {"y": b.emit("exp", b.emit("add", v["x"], v["m"]))}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        x, m = b.emit("exp", v["x"]), b.emit("exp", v["m"])
        return {"y": b.emit("add" if fault else "mul", x, m)}

    inputs: Spec = {"x": ("f32", (rows, cut.total), 1), "m": ("f32", (rows, 1), None)}
    return sharded("exponential of a sum", cut, inputs, sequential, distributed, {"y": 1})


def power_of_root(cut: Cut, rows: Size, fault: bool) -> Problem:
    """A norm over shards from the norms of the shards. In the faulty one what is under the root
    is no square, so that it has no root where the sum is there."""

    def total(b: Builder, x: Value) -> Value:
        return b.emit("sum", x if fault else b.emit("mul", x, x), dims=(1,), keepdim=False)

    def sequential(b: Builder, v: Values) -> Values:
        return {"y": total(b, v["x"])}

    def distributed(b: Builder, v: Values, rank: Rank) -> Values:
        norm = b.emit("sqrt", total(b, v["x"]))
        return {"y": rank.reduce(b, b.emit("mul", norm, norm))}

    inputs: Spec = {"x": ("f32", (rows, cut.total), 1)}
    return sharded("norm", cut, inputs, sequential, distributed, {"y": None})


def pieces_of_axis(cut: Cut, rows: Size, fault: bool) -> Problem:
    """A normalised row joined of two tensors; its rows are cut."""

    def joined(b: Builder, v: Values, turned: bool) -> Values:
        parts = [v["x"], v["p"]]
        z = b.emit("concat", *(parts[::-1] if turned else parts), dim=1)
        return {"y": b.emit("softmax", z, dim=1)}

    inputs: Spec = {"x": ("f32", (cut.total, H), 0), "p": ("f32", (cut.total, H), 0)}
    return sharded(
        "joined row", cut, inputs, lambda b, v: joined(b, v, False),
        lambda b, v, rank: joined(b, v, fault), {"y": 0},
    )  # fmt: skip


SMALL: dict[str, Callable[[Cut, Size, bool], Problem]] = {
    names.SPLIT_CONTRACTION: split_contraction,
    names.CONSTANT_SUM: sum_of_constant,
    names.SUM_OF_SUMS: sum_of_sums,
    names.SUM_RESPELLED: sum_respelled,
    names.EXTREMUM_OF_CONSTANT: extremum_of_constant,
    names.REPLICAS: replicas,
    names.GATHERED: gathered,
    names.POSITIONS: positions,
    names.SCATTER: scatter,
    names.EXP_OF_SUM: exp_of_sum,
    names.EXP_PRODUCT: exp_product,
    names.POWER_OF_ROOT: power_of_root,
    names.PIECES_OF_AXIS: pieces_of_axis,
}
