"""What mixtures of experts need: the best elements of a row, their places as indices, and sums over
several mesh axes one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.infer.run import infer

BEST = """graph sequential
%x = input f32[4, 6]
%w = input f32[6, 3]
%v, %i = topk(%x) {k=2, dim=1, largest=true}
%e = take_rows(%w, %i)
%s = sum(%e) {dims=(1,), keepdim=false}
return %v as v, %s as s
"""
BEST_OF_RANKS = BEST.replace("x = input f32[4,", "x = input f32[2,").replace(
    "sequential", "ranks\nmesh dp=2"
)


def spec(sequential: str, ranks: str, inputs: Mapping[str, Any], outputs: Any, **mesh: int) -> Spec:
    return Spec.from_graphs(
        sequential=sequential, distributed=ranks, mesh=Mesh(**mesh), inputs=inputs, outputs=outputs
    )


def best(ranks: str, sequential: str = BEST, cut: int = 0) -> Spec:
    inputs = {"x": Shard(cut), "*": Replicate()}
    return spec(sequential, ranks, inputs, {"v": Shard(0), "s": Shard(0)}, dp=2)


def test_the_best_of_a_part_of_the_rows() -> None:
    verdict = best(BEST_OF_RANKS).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    # Places are inside their axis; that is no assumption.
    assert not [text for kind, text in verdict.assumptions if kind == "range"]
    assert infer(best(BEST_OF_RANKS).resolve()).holds


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("largest=true", "largest=false"),
        ("take_rows(%w, %i)\n", "take_rows(%w, %i)\n%j = shift(%i) {by=1}\n"),
        ("%v as v", "%u as v"),
        ("topk(%x)", "topk(%n)"),
    ],
)
def test_the_best_of_something_else(right: str, wrong: str) -> None:
    assert right in BEST_OF_RANKS
    ranks = BEST_OF_RANKS.replace(right, wrong)
    if "%j" in ranks:
        ranks = ranks.replace("take_rows(%w, %i)", "take_rows(%w, %j)")
        lines = ranks.splitlines(keepends=True)
        at = next(k for k, line in enumerate(lines) if line.startswith("%j"))
        lines[at - 1], lines[at] = lines[at], lines[at - 1]
        ranks = "".join(lines)
    if "%u" in ranks:
        ranks = ranks.replace("return", "%u = scale(%v) {by=2}\nreturn")
    if "%n" in ranks:
        ranks = ranks.replace("%v, %i", "%n = neg(%x)\n%v, %i")
    assert best(ranks).check().status == "refuted"


def test_the_best_of_a_part_of_each_row() -> None:
    ranks = BEST.replace("x = input f32[4, 6]", "x = input f32[4, 3]")
    ranks = ranks.replace("sequential", "ranks\nmesh dp=2")
    made = spec(BEST, ranks, {"x": Shard(1), "*": Replicate()}, {"v": Replicate()}, dp=2)
    assert made.check().status == "refuted"


def test_places_in_a_shorter_table_are_assumed_to_be_inside() -> None:
    short = BEST.replace("f32[6, 3]", "f32[5, 3]")
    ranks = BEST_OF_RANKS.replace("f32[6, 3]", "f32[5, 3]")
    assumed = best(ranks, short).check().assumptions
    assert any("< 5 (it indexes a table of 5 rows)" in text for _, text in assumed)


TOTAL = """graph sequential
%x = input f32[8, 3]
%t = sum(%x) {dims=(0,), keepdim=false}
return %t as t
"""
TOTAL_OF_RANKS = """graph ranks
mesh dp=2, ep=2
%x = input f32[2, 3]
%s = sum(%x) {dims=(0,), keepdim=false}
%a = all_reduce(%s) {op="sum", group=("dp",)}
%t = all_reduce(%a) {op="sum", group=("ep",)}
return %t as t
"""


def total(ranks: str, sequential: str = TOTAL) -> Spec:
    rows = {"x": {"dp": Shard(0), "ep": Shard(0)}}
    return spec(sequential, ranks, rows, {"t": Replicate()}, dp=2, ep=2)


@pytest.mark.parametrize("order", ["dp ep", "ep dp"])
def test_sums_over_two_axes_in_either_order(order: str) -> None:
    first, second = order.split()
    ranks = TOTAL_OF_RANKS.replace('"dp"', '"1"').replace('"ep"', f'"{second}"')
    verdict = total(ranks.replace('"1"', f'"{first}"')).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert infer(total(TOTAL_OF_RANKS).resolve()).symbolic_ranks


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('%t = all_reduce(%a) {op="sum", group=("ep",)}\nreturn %t', "return %a"),
        ('%a) {op="sum", group=("ep",)}', '%a) {op="sum", group=("dp",)}'),
        ('%a) {op="sum"', '%a) {op="avg"'),
        ('%s) {op="sum"', '%s) {op="max"'),
    ],
)
def test_sums_over_less_than_both_axes(right: str, wrong: str) -> None:
    assert right in TOTAL_OF_RANKS
    assert total(TOTAL_OF_RANKS.replace(right, wrong)).check().status == "refuted"


ROWS = """graph sequential
%x = input f32[4, 3]
%a = slice(%x) {dim=0, start=0, stop=1}
%b = slice(%x) {dim=0, start=1, stop=2}
%c = slice(%x) {dim=0, start=2, stop=3}
%d = slice(%x) {dim=0, start=3, stop=4}
%e = add(%a, %b)
%f = add(%e, %c)
%t = add(%f, %d)
return %t as t
"""
ROWS_OF_RANKS = """graph ranks
mesh dp=2, ep=2
%x = input f32[1, 3]
%t = all_reduce(%x) {op="sum", group=("dp", "ep")}
return %t as t
"""


def test_a_sum_over_ranks_of_their_rows() -> None:
    verdict = total(ROWS_OF_RANKS, ROWS).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    other = ROWS.replace("start=3, stop=4", "start=2, stop=3")
    assert total(ROWS_OF_RANKS, other).check().status == "refuted"


def long_sum(count: int, kept: str) -> str:
    """``x`` and so many values that are added and, but for ``kept``, taken away again."""
    lines = ["graph ranks", "mesh dp=2", "%x = input f32[2, 3]", "%s0 = scale(%x) {by=1}"]
    for k in range(count):
        lines += [f"%y{k} = scale(%x) {{by={k + 2}}}", f"%t{k} = tanh(%y{k})",
                  f"%s{k + 1} = add(%s{k}, %t{k})"]  # fmt: skip
    last = f"%s{count}"
    for k in range(count):
        if f"%t{k}" != kept:
            lines.append(f"%u{k} = sub({last}, %t{k})")
            last = f"%u{k}"
    return "\n".join([*lines, f"return {last} as t", ""])


def test_a_long_sum_without_sequential_meaning_may_cancel() -> None:
    same = "graph sequential\n%x = input f32[4, 3]\n%t = scale(%x) {by=1}\nreturn %t as t\n"

    def check(ranks: str) -> str:
        return spec(same, ranks, {"x": Shard(0)}, {"t": Shard(0)}, dp=2).check().status

    assert check(long_sum(24, "")) == "refines"
    assert check(long_sum(24, "%t7")) == "refuted"


def test_a_constant_index_states_nothing() -> None:
    constant = """graph sequential
%w = input f32[4, 3]
%i = full() {value=1, shape=(2,), dtype="i64"}
%t = take_rows(%w, %i)
return %t as t
"""
    ranks = constant.replace("sequential", "ranks\nmesh dp=2")
    made = spec(constant, ranks, {"w": Replicate()}, {"t": Replicate()}, dp=2)
    assert not [text for kind, text in made.check().assumptions if kind == "range"]
