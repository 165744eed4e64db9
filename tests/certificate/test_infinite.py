"""Infinities that a program writes: what the checker lets arithmetic do with them."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import Any

import pytest

from shardproof.certificate.claims import Atom, Cell, Lin, Meaning, Term
from shardproof.certificate.exact import NotChecked, quotient
from shardproof.certificate.infinite import Infinite, _sign
from shardproof.certificate.products import Product, Read
from shardproof.certificate.rules import Moved, Source
from shardproof.ir.sizes import symbol
from shardproof.ops import base as alg


def scalar(k: int) -> Term:
    return Term.of(k, (), (), ())


def one(k: int, c: Any = 1) -> Lin:
    return ((scalar(k), c),)


def defined(fn: str, *operands: Lin, attrs: Any = ()) -> Atom:
    return Atom(fn, fn, attrs, operands, (), (), 0, ())


def unknown(axes: int = 0) -> Atom:
    return Atom("x", "", (), (), (), (), axes, ())


# 2 a number, 3 and 4 filled with inf and -inf where they are masked, 5 filled with a number,
# 6 a condition, 7 an unknown that is a condition, 8 an infinite constant
FILLED = [
    unknown(), unknown(1), unknown(),
    defined(alg.FILL, one(2), attrs=(inf,)), defined(alg.FILL, one(2), attrs=(-inf,)),
    defined(alg.FILL, one(2), attrs=(3,)), defined("compare_ge", one(2), attrs=(1,)),
    unknown(), unknown(),
]  # fmt: skip


def infinite(*more: Atom) -> Infinite:
    """The atoms above and more from number 9."""
    run = Infinite([*FILLED, *more], {7})
    run.constant(value(one(8)), inf)
    return run


def value(lin: Lin) -> Meaning:
    return Meaning((), (Cell((), (), lin),))


def two(a: int, b: int, c: Any = 1) -> Meaning:
    return value((*one(a), *one(b, c)))


def linear(*coefs: Any) -> alg.Linear:
    return alg.Linear(tuple(Fraction(c) for c in coefs))


def test_nothing_is_infinite() -> None:
    run = Infinite(FILLED[:3], set())
    assert not run.some()
    assert not run.reads(2)
    run.check(linear(1), [value(one(2))], value(()))
    run.constant(value(one(2)), inf)
    assert run.some()
    assert run.reads(2)


def test_which_atoms_read_one() -> None:
    run = infinite(
        defined("lin", (*one(2), *one(3))), defined("prod", one(2), one(4)),
        defined("sum", one(9)), defined("power", one(3), attrs=(Fraction(1, 2),)),
        defined("exp", one(3)), defined("max", one(3)),
    )  # fmt: skip
    found = [run.reads(k) for k in range(15)]
    assert [k for k, reads in enumerate(found) if reads] == [3, 4, 8, 9, 10, 11, 12]


def test_what_is_read_is_looked_at_again() -> None:
    run = Infinite([*FILLED, defined("lin", one(2))], set())
    assert not run.reads(9)
    run.constant(value(one(2)), inf)
    assert run.reads(9)


def test_constants_that_are_finite() -> None:
    run = Infinite(FILLED, set())
    run.constant(value(one(2)), 1.0)
    assert not run.reads(2)


GOOD: list[tuple[alg.Algebra, list[Any], Meaning]] = [
    (linear(1, 1), [value(one(2)), value(one(3))], two(2, 3)),
    (linear(1, 1), [value(one(3)), value(one(8))], two(3, 8)),
    (linear(1, -1), [value(one(3)), value(one(4))], two(3, 4, -1)),
    (linear(-1), [value(one(3))], value(one(3, -1))),
    (linear(1, 1), [value(one(2)), value(one(5))], value(one(2))),
    (alg.Monomial((Fraction(1), Fraction(1))), [value(one(2)), value(one(3))], value(one(3))),
    (alg.Pointwise("exp"), [value(one(4))], value(())),  # the exponential of -inf is 0
    (linear(1, 1), [value(one(9)), value(one(3))], two(9, 3)),  # a condition times one of one sign
    (linear(1, 1), [value(one(10)), value(one(3))], two(10, 3)),
]
BAD: list[tuple[str, alg.Algebra, list[Any], Meaning]] = [
    ("vanishes", linear(1, -1), [value(one(3)), value(one(3))], value(())),
    ("vanishes", linear(1, 1), [value(one(2)), value(one(3))], value(one(2))),
    ("vanishes", linear(1, 1), [value(one(3)), value(one(8))], value(one(8))),
    ("vanishes", alg.Monomial((Fraction(1), Fraction(-1))), [value(one(3))] * 2, value(one(0))),
    ("vanishes", alg.Contract((("i",),), ()), [value(one(8))], value(())),
    ("opposite signs", linear(1, 1), [value(one(3)), value(one(4))], two(3, 4)),
    ("opposite signs", linear(1, -1), [value(one(3)), value(one(8))], two(3, 8, -1)),
    ("opposite signs", linear(1, 1), [value(one(3)), value(one(3, -1))], value(one(3))),
    ("opposite signs", linear(1, 1), [value(one(3, quotient(symbol("N"), 1))), value(one(8))],
     two(3, 8)),
    ("opposite signs", linear(1, 1), [value(one(11)), value(one(3))], two(11, 3)),
    ("opposite signs", linear(1, 1), [value(one(12)), value(one(3))], two(12, 3)),
    ("opposite signs", linear(1, 1), [value(one(13)), value(one(3))], two(13, 3)),
    ("opposite signs", linear(1, 1), [value(one(14)), value(one(3))], two(14, 3)),
]  # fmt: skip
MORE = [
    defined("prod", one(3), one(6)), defined("prod", one(7), one(3)),  # times a condition
    defined("prod", one(3), one(2)), defined("power", one(3), attrs=(Fraction(1, 2),)),
    defined("prod", one(3, 2)), defined("lin", one(3, -2)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "operands", "claim"), GOOD)
def test_infinities_that_stay(rule: alg.Algebra, operands: list[Any], claim: Meaning) -> None:
    infinite(*MORE).check(rule, operands, claim)


@pytest.mark.parametrize(("message", "rule", "operands", "claim"), BAD)
def test_infinities_that_do_not(
    message: str, rule: alg.Algebra, operands: list[Any], claim: Meaning
) -> None:
    with pytest.raises(NotChecked, match=message):
        infinite(*MORE).check(rule, operands, claim)


def moved(k: int, c: Any = 1, *more: int) -> Moved:
    """A rearrangement, read as a product of atoms."""
    factors = tuple((Read(x, (), ()), 1) for x in (k, *more))
    source = Source((2,), lambda r, at: [(Product((), factors), c)])
    return Moved(alg.Identity(), source, (value(one(k)),))


def test_rearrangements_are_read_through() -> None:
    run = infinite(*MORE)
    run.check(linear(1, 1), [moved(3), moved(8)], two(3, 8))
    run.check(linear(1, 1), [moved(2), moved(8)], moved(8))
    for other in (moved(4), moved(3, -1), moved(3, 1, 2)):
        with pytest.raises(NotChecked, match="opposite signs"):
            run.check(linear(1, 1), [moved(8), other], value((*two(8, 3).cells[0].lin, *one(4))))
    with pytest.raises(NotChecked, match="vanishes"):
        run.check(linear(1, 1), [moved(2), moved(8)], moved(2))


# ------------------------------------------------------------------ signs, and where they come from


def test_signs() -> None:
    assert [_sign(x) for x in (3, -2, 0, Fraction(-1, 2), inf, -inf)] == [1, -1, 0, -1, 1, -1]
    assert _sign(quotient(symbol("N"), 1)) == _sign("x") == 0


def test_a_filled_tensor_is_enough() -> None:
    """No constant need be infinite."""
    assert Infinite(FILLED, set()).some()
    assert Infinite(FILLED, set()).reads(3)
    assert not Infinite(FILLED, set()).reads(2)
    assert not Infinite(FILLED[:3], set()).some()
    with pytest.raises(NotChecked, match="that vanishes"):
        Infinite(FILLED, set()).check(alg.Linear((Fraction(1),)), [value(one(3))], value(one(2)))


def test_a_product_with_what_is_no_condition() -> None:
    """Its sign is not known."""
    run = infinite(
        defined("prod", one(3), one(6), one(2)), defined("prod", one(3), one(6), one(7)),
        defined("prod", one(3, 2), one(6)),
    )  # fmt: skip
    assert run._atom(9) == {3: {0}}
    assert run._atom(10) == {3: {1}}
    assert run._atom(11) == {3: {0}}


def test_one_of_several_parts_is_infinite() -> None:
    def at_(r: Any, at: Any) -> Any:
        return [(Product((), ((Read(3, ()), 1),)), 1)]

    joined = Moved(alg.Concat(0), Source((2,), at_), (value(one(2)), value(one(3))))
    assert infinite()._of(joined) == {3: {1}}
    plain = Moved(alg.Concat(0), Source((2,), at_), (value(one(2)), value(one(2))))
    assert infinite()._of(plain) == {}
