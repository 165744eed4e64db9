"""What it means that a finding names the fault."""

from __future__ import annotations

import pytest

from shardproof.report.diagnostic import Finding, OperandMeaning, Span
from shardproof.testing.judge import judge, named, names_in
from shardproof.testing.mutate import mutants
from shardproof.testing.pairs import PAIRS
from shardproof.verify import verify


def finding(**parts: object) -> Finding:
    return Finding("SP117", "title", "message about %mm_1", certain=True, **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parts",
    [
        {"primary": Span("distributed", "mm_1")},
        {"operands": [OperandMeaning("mm_1", "h[0:2]")]},
        {"operands": [OperandMeaning("mm_1 (rank 3)", "h[0:2]")]},
        {"collective": "all_reduce mm_1"},
        {"notes": ["%x has its meaning from %mm_1 (file.py:3) on rank 0: h"]},
        {"notes": ["rank 1: all_reduce mm_1 (sum)"]},
    ],
)
def test_places_where_a_name_counts(parts: dict[str, object]) -> None:
    assert named([finding(**parts)], frozenset({"mm_1"}))


@pytest.mark.parametrize(
    "parts",
    [
        {},  # the message alone does not count
        {"secondary": Span("sequential", "mm_1")},
        {"operands": [OperandMeaning("x", "mm_1[0:2]")]},
        {"found": "mm_1[0:2]", "expected": "mm_1"},
        {"notes": ["%x has its meaning from %y (no source line) on rank 0: mm_1[0:2]"]},
        {"primary": Span("distributed", "mm_10")},
    ],
)
def test_places_where_a_name_does_not_count(parts: dict[str, object]) -> None:
    assert not named([finding(**parts)], frozenset({"mm_1"}))


def test_names_are_whole() -> None:
    f = finding(notes=["%a.b#1, %c"], collective="wait d")
    assert names_in(f) == {"a.b#1", "c", "wait", "d"}
    assert names_in(f, notes=False) == {"wait", "d"}


@pytest.mark.parametrize("name", ["grid_block", "grad_accumulation", "micro_batches"])
def test_the_pairs_are_correct(name: str) -> None:
    pair = PAIRS[name]()
    for problem in (pair.original, pair.small.problem):
        assert verify(problem, fixed=dict(pair.fixed)).status == "refines"


def test_a_mutant_without_effect_is_judged_the_same() -> None:
    pair = PAIRS["gpt_tp2_layers1"]()
    kinds = ("duplicate a reduction",)
    made = mutants(pair.small.problem, kinds=kinds)
    twice = next(m for m in made if m.description.startswith("all_reduce_1:"))
    j = judge(pair, twice)  # a maximum taken twice
    assert (j.truth, j.status, j.wrong, j.missed) == ("same", "refines", False, False)
