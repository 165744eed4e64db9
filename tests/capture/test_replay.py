"""The live cases: captured ranks, replayed in lock-step, compute what the sequential program does;
the engine proves it; and the faulty twins are refuted."""

from __future__ import annotations

import pytest
from benchmarks.live import all_cases
from tests.capture.oracle import TOLERANCE, replayed

from shardproof.testing.cases import file_of, marks

pytestmark = pytest.mark.filterwarnings("ignore")

CASES = all_cases()
TWINS = [(case, twin) for case in CASES for twin in CASES[case].twins]
# One of each case, not always of the same phase of a step.
SLICE = [
    (name, list(case.twins)[k % len(case.twins)])
    for k, (name, case) in enumerate(CASES.items())
    if case.twins and not case.long
]
NAMES = [
    pytest.param(n, marks=[pytest.mark.slow] if case.long else []) for n, case in CASES.items()
]


@pytest.mark.parametrize("name", NAMES)
def test_ranks_equal_the_sequential_program(name: str) -> None:
    spec = CASES[name].spec().named(name)
    assert replayed(spec) < TOLERANCE
    assert spec.check().status == CASES[name].expected


@pytest.mark.parametrize(("case", "twin"), TWINS)
def test_the_fault_is_marked(case: str, twin: str) -> None:
    assert marks(file_of(CASES[case].twins[twin]), twin).planted


@pytest.mark.parametrize(("case", "twin"), SLICE)
def test_a_twin_is_refuted(case: str, twin: str) -> None:
    assert CASES[case].twins[twin]().named(twin).check().status == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize(("case", "twin"), sorted(set(TWINS) - set(SLICE)))
def test_every_other_twin_is_refuted(case: str, twin: str) -> None:
    assert CASES[case].twins[twin]().named(twin).check().status == "refuted"
