"""Random programs and mutants: no false claim, no false verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.infer.fuzz import Stats, fuzz, program, summary

from shardproof.testing.fuzz.layers import deep_program


def accept(stats: Stats, share: float) -> None:
    """Nothing is wrong, and most correct programs are proved."""
    assert not stats.bad, summary(stats)
    assert stats.claims.checked > 20 * stats.programs
    assert stats.mutants == 0 or stats.different > stats.mutants // 4
    assert stats.proved >= share * stats.programs, summary(stats)


@pytest.mark.parametrize("first", [0, 20, 40])
def test_random_programs_and_mutants(first: int) -> None:
    accept(fuzz(first, first + 20, mutants=5), share=0.75)


def test_random_programs_opened_to_definitions() -> None:
    accept(fuzz(100, 115, mutants=3, deep=True), share=0.7)


def test_repeated_layers() -> None:
    accept(fuzz(0, 4, mutants=2, make=deep_program), share=0.75)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("first", "last", "options"),
    [
        (1000, 1600, {}),
        (2000, 2200, {"deep": True}),
        (0, 60, {"make": deep_program}),
    ],
)
def test_many(first: int, last: int, options: dict[str, Any]) -> None:
    accept(fuzz(first, last, mutants=6, **options), share=0.75)


@pytest.mark.parametrize("make", [program, deep_program])
def test_programs_depend_on_the_seed_alone(make: Callable[[int], Any]) -> None:
    one, two = make(3)[1], make(3)[1]
    assert [n.op for n in one.sequential.nodes] == [n.op for n in two.sequential.nodes]
    assert [len(g.nodes) for g in one.distributed.graphs] == [
        len(g.nodes) for g in two.distributed.graphs
    ]
