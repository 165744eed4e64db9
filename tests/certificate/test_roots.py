"""The checker's rule for powers of roots, and what it must not be applied to."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.support.problems import Rank, Spec, even, sharded

from shardproof.certificate.claims import Atom, Term
from shardproof.certificate.products import Read
from shardproof.certificate.roots import root_of
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.spec.problem import Problem
from shardproof.verify import verify


def whole(atom: int) -> Term:
    return Term.of(atom, ((0, 1),), (0,), ())


def atoms(under: str, power: Fraction | int) -> list[Atom]:
    """An unknown x, x * x or x (``under``), and the power of that."""
    one, iota = (Atom(n, "", (), (), (), (), k, ()) for k, n in enumerate(("1", "iota")))
    x = Atom("x", "", (), (), (), (), 1, ())
    square = Fraction(2) if under == "square" else Fraction(1)
    y = Atom("y", "prod", (), (((whole(2), square),),), (0,), (4,), 1, ())
    r = Atom("r", "power", (power,), (((whole(3), 1),),), (0,), (4,), 1, ())
    return [one, iota, x, y, r]


@pytest.mark.parametrize(
    ("root", "e", "n", "rest"),
    [
        (Fraction(1, 2), 2, 1, 0),
        (Fraction(-1, 2), 3, -1, 1),
        (Fraction(-1, 2), -3, 1, -1),
        (Fraction(2, 3), 7, 4, 1),
    ],
)
def test_a_power_of_a_root(root: Fraction, e: int, n: int, rest: int) -> None:
    found = root_of(atoms("square", root), Read(4, ((0, ()),), ()), e)
    assert found is not None
    assert found[2:] == (n, rest)
    value = 1.7
    assert (value**root) ** e == pytest.approx(value**n * (value**root) ** rest)


@pytest.mark.parametrize(
    ("under", "power", "e"),
    [
        ("anything", Fraction(1, 2), 2),  # where it is negative only one side has a value
        ("square", Fraction(1, 3), 2),  # less than a whole power
        ("square", 3, 3),  # no root: the cube of something may be negative
    ],
)
def test_not_applied(under: str, power: Fraction | int, e: int) -> None:
    assert root_of(atoms(under, power), Read(4, ((0, ()),), ()), e) is None


def inverse_norms(factor: Fraction) -> Problem:
    """The cube of a row's inverse root, against the root over the square; right for factor 1."""

    def root(b: Builder, x: Value) -> tuple[Value, Value]:
        total = b.emit("sum", b.emit("mul", x, x), dims=(1,), keepdim=True)
        total = b.emit("shift", total, by=Fraction(1, 8))
        return total, b.emit("rsqrt", total)

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        total, r = root(b, v["x"])
        return {"y": b.emit("div", r, total)}

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        cube = b.emit("power", root(b, v["x"])[1], exponent=Fraction(3))
        return {"y": b.emit("scale", cube, by=factor)}

    inputs: Spec = {"x": ("f32", (4, 6), 0)}
    return sharded("inverse norms", even(2, 2), inputs, sequential, distributed, {"y": 0})


def test_a_proof_with_the_cube_of_a_root_is_checked() -> None:
    verdict = verify(inverse_norms(Fraction(1)))
    assert verdict.status == "refines"
    assert verdict.certificate_note == ""
    assert verdict.certificate == "certificate checked"


def test_another_factor_is_refuted() -> None:
    assert verify(inverse_norms(Fraction(5, 4))).status == "refuted"
