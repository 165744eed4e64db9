"""The finding names what was done wrong: where it entered, and where it was decided."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from tests.replay.programs import pair as program

from shardproof import Replicate, Shard
from shardproof.report.diagnostic import Finding
from shardproof.testing.judge import Pair, names_in
from shardproof.testing.mutate import mutants
from shardproof.testing.pairs import PAIRS
from shardproof.verify import verify


@cache
def pair(name: str) -> Pair:
    return PAIRS[name]()


def blame(name: str, kind: str, start: str) -> list[Finding]:
    """Findings of the mutant whose description starts with ``start``."""
    made = mutants(pair(name).small.problem, kinds=(kind,))
    m = next(m for m in made if m.description.startswith(start))
    fixed = dict(pair(name).fixed)
    return verify(m.problem, fixed=fixed, replay=False, fixes=False).findings


def notes(findings: list[Finding]) -> Iterator[str]:
    return (n for f in findings for n in f.notes)


GPT, GRID, STEPS = "gpt_tp2_layers1", "grid_block", "grad_accumulation"


@pytest.mark.parametrize(
    ("name", "kind", "start", "code", "names"),
    [
        # A missing reduction: the value that should have been reduced.
        (GPT, "drop a collective", "all_reduce_3", "SP110", {"sum_1"}),
        (GPT, "drop a collective", "reduce_scatter_tensor:", "SP110", {"reduce_scatter_tensor"}),
        # Repeated pieces are seen where they arise, not where they meet something else.
        (GRID, "drop a collective", "full", "SP115", {"full"}),
        (GPT, "change a collective's dim", "all_gather_into_tensor: all_gather along dim 1",
         "SP115", {"all_gather_into_tensor"}),
        (GRID, "change a collective's dim", "n: all_gather along dim 2", "SP115", {"n"}),
        # A wrong part is followed back through what only passes it on, or acts elementwise.
        (GPT, "shift a slice", "split_with_sizes: slice shifted by -3", "SP114",
         {"split_with_sizes"}),
        (GRID, "change a group", "ds: reduce_scatter over the group in reverse", "SP114", {"ds"}),
        (GPT, "swap two ranks' shards", "%primals_12", "SP114", {"primals_12"}),
        (GRID, "swap two ranks' shards", "%wk: parts of ranks 0 and 1", "SP114", {"wk"}),
        # Factors: where each came from.
        (GRID, "change a reduction's op", "rows: all_reduce with avg", "SP112", {"rows"}),
        (GRID, "change a group", "loss: all_reduce over mesh axis tp", "SP121", {"loss"}),
        (STEPS, "scale by N or 1/N", "pow_1: result of power times 2", "SP111", {"pow_1"}),
        # Parts of a sum with a gap; bounds of ids.
        ("gpt_tp8_layers1", "mask bound off by one", "lt: value of compare +1, on rank 5", "SP113",
         {"lt"}),
        (GPT, "mask bound off by one", "sub: by of shift -1, on rank 0", "SP131", {"sub"}),
    ],
)  # fmt: skip
def test_the_finding_names_it(name: str, kind: str, start: str, code: str, names: set[str]) -> None:
    findings = blame(name, kind, start)
    assert findings[0].code == code
    assert names <= names_in(findings[0])


def test_a_correct_first_step_is_not_blamed_for_the_second() -> None:
    (f,) = blame(STEPS, "change a constant", "pow_2: exponent of power is 3")
    assert f.primary is not None
    assert f.primary.node == "pow_2"


def test_a_gap_between_the_parts_of_a_sum_is_located() -> None:
    start = "lt: value of compare +1, on rank 5"
    (f,) = blame("gpt_tp8_layers1", "mask bound off by one", start)
    assert "rank 4 ends at 15, rank 5 begins at 16" in f.message
    assert "the indices on rank 5 pass %lt (< 16), %ge (>= 18)" in f.notes


def test_the_parts_that_meet_say_where_they_were_decided() -> None:
    found = blame(GRID, "change a group", "ds: reduce_scatter over the group in reverse")
    assert "which part %downb is was decided at %ds (reduce_scatter)" in list(notes(found))


def test_the_bounds_of_ids_are_listed() -> None:
    found = blame(GPT, "mask bound off by one", "sub: by of shift -1, on rank 0")
    (text,) = [n for n in notes(found) if n.startswith("the indices")]
    assert text == "the indices on rank 0 pass %sub (shift -1), %lt (< 0), %ge (>= 3)"


def test_the_factors_on_the_way_are_listed() -> None:
    found = blame(GRID, "change a reduction's op", "rows: all_reduce with avg")
    (text,) = [n for n in notes(found) if n.startswith("the factor")]
    for step in ("%rows (all_reduce, times 1/2)", "%per (scale, times 1/32)"):
        assert step in text


def finding_of(sequential: str, rank: str, ranks: int, inputs: dict[str, Any]) -> Finding:
    verdict = program(sequential, rank, inputs, ranks).check()
    assert verdict.status == "refuted"
    return verdict.findings[0]


def test_the_sum_of_means_is_blamed_not_the_mean_of_a_ranks_own_part() -> None:
    mean = "%m = mean(%x) {dims=(0,), keepdim=false}\n"
    reduced = mean + '%r = all_reduce(%m) {op="sum", group=(0, 1), group_size=2}\n'
    f = finding_of(
        f"%x = input f32[4, 3]\n{mean}return %m as y\n",
        f"%x = input f32[2, 3]\n{reduced}return %r as y\n",
        2,
        {"x": Shard(0)},
    )
    assert f.code == "SP111"
    assert f.primary is not None
    assert f.primary.node == "r"
    assert "the mean over its own part" in f.message


def test_parts_of_a_sum_that_overlap_on_one_rank() -> None:
    head = "%x = input f32[4, 3]\n"
    parts = "".join(
        f"%{n} = slice(%x) {{dim=0, start={a}, stop={b}}}\n%s{n} = sum(%{n}) {{dims=(0,)}}\n"
        for n, a, b in (("a", 0, 3), ("b", 2, 4))
    )
    f = finding_of(
        f"{head}%y = sum(%x) {{dims=(0,)}}\nreturn %y as y\n",
        f"{head}{parts}%t = add(%sa, %sb)\nreturn %t as y\n",
        1,
        {"x": Replicate()},
    )
    assert f.code == "SP113"
    assert f.primary is not None
    assert f.primary.node == "t"
    assert "%sa ends at 3, %sb begins at 2" in f.message
