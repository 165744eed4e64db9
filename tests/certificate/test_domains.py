"""What only the distributed program divides by, or takes a root or a logarithm of, is said."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from tests.certificate.corpus import as_data
from tests.certificate.test_rules import N, algebra, defined, one, read, scalar
from tests.support.problems import Rank, even, sharded

from shardproof.certificate.domains import Domains
from shardproof.certificate.exact import NotChecked, Quotient
from shardproof.certificate.reading import check_file
from shardproof.certificate.write import write
from shardproof.infer.run import Inference, infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.spec.problem import Problem

HALF = Fraction(1, 2)
SUM = ("sum", 5, 0)


def domains(*more: Any, stating: bool = False) -> Domains:
    made = Domains(algebra(*more))
    made.stating = stating
    return made


def said(run: Callable[[Domains], None], *more: Any) -> list[str]:
    made = domains(*more)
    run(made)
    return list(made.algebra.assumed)


EXP = defined("exp", one(2))
SQUARE = defined("prod", ((scalar(2), 2),))


@pytest.mark.parametrize(
    ("atom", "expected"),
    [
        (defined("log", one(2)), ["the argument of log is positive"]),
        (defined("log", one(6)), []),
        (defined("log", ((scalar(6), 2), (scalar(6), HALF))), []),
        (defined("log", ((scalar(6), 1), (scalar(2), 1))), ["the argument of log is positive"]),
        (defined("log", ((scalar(6), -1),)), ["the argument of log is positive"]),
        (defined("log", ((scalar(6), Quotient(N, 1)),)), ["the argument of log is positive"]),
        (defined("log", ()), ["the argument of log is positive"]),  # of zero
        (defined("log1p", one(6)), ["the argument of log1p is greater than -1"]),
        (defined("tanh", one(2)), []),
    ],
)
def test_a_function(atom: Any, expected: list[str]) -> None:
    assert said(lambda d: d.applied(read(7)), EXP, atom) == expected


NEGATIVE = "what power takes a root of is nowhere negative"
POSITIVE = "what power takes a root of is positive"
ZERO = "power divides by what is nowhere zero"


@pytest.mark.parametrize(
    ("operand", "root", "over_root"),
    [
        (one(2), [NEGATIVE], [POSITIVE]),
        (one(6), [], []),
        (one(7), [], [ZERO]),
        (((scalar(7), 1), (scalar(0), HALF)), [], []),  # a square and a number
        (((scalar(7), 1), (scalar(7), 1)), [], [ZERO]),
        (((scalar(7), 1), (scalar(0), -1)), [NEGATIVE], [POSITIVE]),
        (((scalar(7), Quotient(N, 1)),), [NEGATIVE], [POSITIVE]),
        ((), [], [ZERO]),
    ],
)
def test_a_root(operand: Any, root: list[str], over_root: list[str]) -> None:
    atom = defined("power", operand, attrs=(HALF,))
    assert said(lambda d: d.root(read(8), HALF), EXP, SQUARE, atom) == root
    assert said(lambda d: d.root(read(8), -HALF), EXP, SQUARE, atom) == over_root


INVERSE = defined("prod", ((scalar(2), -1),))
X_SAID = ["x is nowhere zero (the program divides by it)"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (INVERSE, ["prod divides by what is nowhere zero"]),
        (defined("prod", one(3), ((scalar(2), -2),)), ["prod divides by what is nowhere zero"]),
        (defined("prod", ((scalar(3), -1),)), X_SAID),
        (defined("prod", one(2)), X_SAID),
        (defined("prod", ((scalar(2), 0),)), X_SAID),
        (defined("prod", ((scalar(2), Quotient(-1, N)),)), X_SAID),
        (defined("f", ((scalar(2), -1),)), X_SAID),
    ],
)
def test_a_division(name: Any, expected: list[str]) -> None:
    assert said(lambda d: d.divided(read(2), [read(6)]), name) == expected
    assert said(lambda d: d.divided(read(2), []), name) == X_SAID
    assert said(lambda d: d.divided(read(2), [read(6)], rooted=True), name) == []


def test_a_division_by_what_is_positive() -> None:
    assert said(lambda d: d.divided(read(6), []), EXP) == []


def test_what_the_sequential_program_does_is_not_said() -> None:
    log, root = defined("log", one(2)), defined("power", one(2), attrs=(HALF,))
    mine = domains(log, root, log, stating=True)
    mine.applied(read(6))
    mine.root(read(7), HALF)
    mine.divided(read(2), [])
    mine.stating = False
    mine.applied(read(6))
    mine.root(read(7), HALF)
    mine.divided(read(2), [])
    assert not mine.algebra.assumed
    assert mine.algebra.divisors == {2}
    mine.applied(read(8))
    mine.divided(read(3), [])
    assert len(mine.algebra.assumed) == 2


LOG_OF_SUM = (defined("log", one(5)), defined("power", one(5), attrs=(HALF,)))


def of_part(k: int) -> Any:
    return read(k, ((("in", k, 0, SUM), 0, 2),))


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(
    "apply",
    [
        lambda d: d.applied(of_part(6)),
        lambda d: d.root(of_part(7), HALF),
        lambda d: d.divided(read(5, ((SUM, 0, 2),)), []),
    ],
)
def test_part_of_a_sum_is_another_argument(stated: bool, apply: Any) -> None:
    """The sequential program takes it of the whole sum, or of a part: that says nothing here."""
    mine = domains(*LOG_OF_SUM, stating=True)
    if stated:
        mine.applied(read(6))
        mine.root(read(7), HALF)
        mine.divided(read(5), [])
    else:
        apply(mine)
        assert not mine.stated
        assert not mine.divisors
    mine.stating = False
    with pytest.raises(NotChecked, match="part of a sum"):
        apply(mine)


def test_a_name_divides_by_the_same_part() -> None:
    part = (SUM, 0, 2)
    inverse = defined("prod", ((scalar(5, (part,)), -1),))
    text = "prod divides by what is nowhere zero"
    assert said(lambda d: d.divided(read(5, (part,)), [read(6)]), inverse) == [text]
    with pytest.raises(NotChecked, match="part of a sum"):
        said(lambda d: d.divided(read(5, ((SUM, 0, 1),)), [read(6)]), inverse)


# ------------------------------------------------------------------ whole certificates


def detour(op: str, inner: str = "plain") -> Problem:
    """The sum of x; the ranks add a number to it, and subtract that again."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("sum", v["x"], dims=(0,), keepdim=False)}

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        x = v["x"]
        y = rank.reduce(b, b.emit("sum", x, dims=(0,), keepdim=False))
        if inner == "empty":
            x = b.emit("exp", b.emit("slice", x, dim=0, start=0, stop=0))
        x = b.emit("mul", x, x) if inner == "square" else x
        z = b.emit(op, b.emit("sum", x, dims=(0,), keepdim=False))
        return {"y": b.emit("sub", b.emit("add", y, z), z)}

    inputs: Any = {"x": ("f32", (4,), 0)}
    return sharded("detour", even(2, 2), inputs, sequential, ranks, {"y": None})


def without_assumptions(problem: Problem) -> tuple[Inference, str]:
    """What the checker says of the proof, and of the proof that lists nothing."""
    inf = infer(problem)
    data: Any = as_data(write(problem, inf))
    first = check_file(msgspec.json.encode(data))[0]
    assert first.agrees == inf.holds
    data["assumed"] = []
    return inf, check_file(msgspec.json.encode(data))[0].problem


@pytest.mark.parametrize(
    ("op", "inner", "text"),
    [
        ("log", "plain", "the argument of log is positive"),
        ("log", "square", "the argument of log is positive"),
        ("log", "empty", "the argument of log is positive"),
        ("sqrt", "plain", "what sqrt takes a root of is nowhere negative"),
        ("rsqrt", "plain", "what rsqrt takes a root of is positive"),
        ("rsqrt", "square", "rsqrt divides by what is nowhere zero"),
        ("reciprocal", "plain", "reciprocal divides by what is nowhere zero"),
        ("reciprocal", "square", "reciprocal divides by what is nowhere zero"),
    ],
)
def test_a_certificate_lists_what_a_detour_needs(op: str, inner: str, text: str) -> None:
    inf, refused = without_assumptions(detour(op, inner))
    assert inf.holds
    assert refused.endswith(f"an assumption that is not listed: {text}")


@pytest.mark.parametrize("op", ["sqrt", "tanh"])
def test_a_detour_that_needs_nothing(op: str) -> None:
    assert without_assumptions(detour(op, "square"))[1] == ""


@pytest.mark.parametrize("op", ["rsqrt", "reciprocal"])
def test_a_division_by_an_empty_sum_does_not_cancel(op: str) -> None:
    """It has no value on any input."""
    inf, refused = without_assumptions(detour(op, "empty"))
    assert not inf.holds
    assert "undefined contents that cancel" in refused
