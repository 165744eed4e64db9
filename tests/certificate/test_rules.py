"""Rules of the comparison of sums one by one: where each holds, and near misses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from shardproof.certificate.algebra import Algebra, Noted
from shardproof.certificate.claimed import Claimed
from shardproof.certificate.claims import Atom, Claims, Term
from shardproof.certificate.exact import NotChecked, Quotient, const, quotient, variable
from shardproof.certificate.products import AtLeast, Equal, Exp, Product, Read, Sum
from shardproof.certificate.region import Region
from shardproof.certificate.roots import nonnegative, root_of
from shardproof.ir.graph import Mesh
from shardproof.ir.sizes import symbol

HERE = Region({}, ())
N, M = symbol("N"), symbol("M")


def unknown(name: str, axes: int) -> Atom:
    return Atom(name, "", (), (), (), (), axes, ())


def scalar(k: int, restr: Any = ()) -> Term:
    return Term.of(k, (), (), restr)


def along(k: int, axes: int = 1) -> Term:
    return Term.of(k, ((0, 1),) if axes == 1 else (None,) * axes, (0,) if axes == 1 else (), ())


def defined(fn: str, *operands: Any, attrs: Any = (), bound: int = 0) -> Atom:
    return Atom(fn, fn, attrs, operands, (0,) * bound, (4,) * bound, 0, ())


def one(k: int) -> Any:
    return ((scalar(k), 1),)


# 2 x and 3 y are unknown numbers, 4 v is an unknown of one axis, 5 is its sum over [0, 4)
BASE = [unknown("1", 0), unknown("index", 1), unknown("x", 0), unknown("y", 0), unknown("v", 1),
        defined("sum", ((along(4), 1),), bound=1)]  # fmt: skip
SUM = ("sum", 5, 0)
X, Y = (Read(2, ()), 1), (Read(3, ()), 1)


def algebra(*more: Atom) -> Algebra:
    """The atoms above, and more of them from number 6."""
    return Algebra([*BASE, *more])


def term(*factors: Any, c: Any = 1, ranges: Any = ()) -> Sum:
    return [(Product(tuple(ranges), tuple(factors)), c)]


def read(k: int, restr: Any = ()) -> Read:
    return Read(k, (), restr)


# ------------------------------------------------------------------ definitions


def test_which_factors_are_opened() -> None:
    at = algebra(defined("lin", ((scalar(2), 1), (scalar(3), 1))), defined("prod", one(2), one(3)))
    part = ((SUM, 0, 2),)
    assert at.opens(read(6), 1)
    assert not at.opens(read(6), 2)  # the square of a sum is no sum of squares
    assert not at.opens(read(6, part), 1)
    assert at.opens(read(5), 1)
    assert not at.opens(read(5), 2)
    assert at.opens(read(7), 1)
    assert at.opens(read(7), 2)
    assert not at.opens(read(7, part), 2)
    assert not at.opens(read(2), 1)
    assert not at.opens(AtLeast(read(2), 0), 1)


def test_a_square_is_no_sum_of_squares() -> None:
    at = algebra(defined("lin", ((scalar(2), 1), (scalar(3), 1))))
    assert at.equal(term((read(6), 1)), [*term(X), *term(Y)], HERE)
    assert not at.equal(term((read(6), 2)), [*term(X), *term(Y)], HERE)
    assert not at.equal(term((read(6), 2)), [*term((X[0], 2)), *term((Y[0], 2))], HERE)


@pytest.mark.parametrize("power", [Fraction(1, 2), Quotient(N, M)])
def test_a_power_that_is_no_whole_number(power: Any) -> None:
    at = algebra(defined("prod", ((scalar(2), power),)))
    with pytest.raises(NotChecked, match="no whole number"):
        at.opened(term((read(6), 1))[0][0], 0)


def test_part_of_a_sum_is_opened_as_one() -> None:
    at = algebra()
    ((p, c),) = at.opened(term((read(5, ((SUM, 1, 3),)), 1))[0][0], 0)
    assert c == 1
    assert [r[1:] for r in p.ranges] == [(1, 3)]
    whole = [*term((read(5, ((SUM, 0, 1),)), 1)), *term((read(5, ((SUM, 1, 4),)), 1))]
    assert at.equal(whole, term((read(5), 1)), HERE)
    assert not at.equal(whole[:1], term((read(5), 1)), HERE)


def test_in_which_intervals_an_atom_is_additive() -> None:
    at = algebra(
        defined("prod", one(5), one(2)),
        defined("prod", ((scalar(5), 2),)),
        defined("prod", ((scalar(5, ((SUM, 0, 2),)), 1),)),
        defined("f", one(5)),
        defined("max", ((along(4), 1),), bound=1),
        defined("prod", one(10)),
    )
    assert at.canonical.splits(5, SUM)
    assert at.canonical.splits(6, ("in", 6, 0, SUM))
    assert not at.canonical.splits(7, ("in", 7, 0, SUM))  # the square of a sum
    assert not at.canonical.splits(8, ("in", 8, 0, SUM))  # part of it already
    assert not at.canonical.splits(9, ("in", 9, 0, SUM))
    at.linear[9] = frozenset({0})
    assert at.canonical.splits(9, ("in", 9, 0, SUM))
    at.linear[9] = frozenset({1})
    assert not at.canonical.splits(9, ("in", 9, 0, SUM))
    assert not at.canonical.splits(10, ("max", 10, 0))
    assert not at.canonical.splits(11, ("in", 11, 0, ("max", 10, 0)))


def test_a_sum_over_nothing_and_one_over_equal_terms() -> None:
    at = algebra()
    v = (8, 3, 3)
    assert at.zero(term((Read(4, (variable(8),)), 1), ranges=[v]), HERE)
    assert at.zero(term(X, ranges=[v]), HERE)
    assert at.equal(term(X, ranges=[(8, 1, 4)]), term(X, c=3), HERE)
    assert not at.equal(term(X, ranges=[(8, 1, 4)]), term(X), HERE)
    used = term((Read(4, (variable(8),)), 1), ranges=[(8, 0, N)])
    assert not at.equal(used, term((Read(4, (const(0),)), 1), c=quotient(N, 1)), HERE)


def test_a_position_is_a_sum() -> None:
    at = algebra()
    region = Region({8: (0, 4), 9: (0, 3)}, ())

    def index(c: int, *slopes: tuple[int, int]) -> Sum:
        return term((Read(1, ((c, slopes),)), 1))

    i, j = index(0, (8, 1)), index(0, (9, 1))
    three = [(p, 3) for p, _ in i]
    assert at.equal(index(2, (8, 3), (9, 1)), [*term(c=2), *three, *j], region)
    assert not at.equal(index(2, (8, 3), (9, 1)), [*term(c=2), *i, *j], region)
    assert not at.equal(index(2, (8, 1)), i, region)
    assert not at.equal(index(0, (8, 3)), i, region)
    assert not at.equal(i, j, region)
    by_x = term((Read(1, ((1, ((8, 1),)),)), 1), X)
    assert at.equal(by_x, [*term((Read(1, (variable(8),)), 1), X), *term(X)], region)


# ------------------------------------------------------------------ exponentials and logarithms


def test_an_exponential_of_another_form() -> None:
    at = algebra(
        defined("exp", one(2)), defined("exp", one(2), one(3)), defined("exp", one(2), attrs=(1,)),
        defined("lin", ((scalar(2), 1), (scalar(3), 1))),
    )  # fmt: skip
    assert at.exponential(read(6)) == [(Exp(read(2)), 1)]
    assert at.exponential(read(6, ((("in", 6, 0, SUM), 0, 1),))) is None
    assert at.exponential(read(7)) is None
    assert at.exponential(read(8)) is None
    assert at.exponential(read(2)) is None
    assert at.opens(Exp(read(9)), 1)
    assert not at.opens(Exp(read(9, ((SUM, 0, 1),))), 1)
    assert not at.opens(Exp(read(2)), 1)


def logarithms() -> Algebra:
    """Logarithms of x (6) and of x + y (7), which nodes of the program compute; and of y (8), which
    none does."""
    two = ((scalar(2), 1), (scalar(3), 1))
    at = algebra(defined("log", one(2)), defined("log", two), defined("log", one(3)),
                 defined("exp", one(2)),
                 defined("log", ((scalar(9), 1), (scalar(2), 1))))  # fmt: skip
    at.linear.update({6: frozenset(), 7: frozenset(), 10: frozenset()})
    return at


def test_the_exponential_of_a_logarithm() -> None:
    at = logarithms()
    assert at.equal(term((Exp(read(6)), 3)), term((X[0], 3)), HERE)
    assert list(at.assumed) == ["x is positive (the program takes its logarithm)"]
    assert at.equal(term((Exp(read(7)), 1)), [*term(X), *term(Y)], HERE)
    assert list(at.assumed)[1:] == ["x + y is positive (the program takes its logarithm)"]


def test_one_positive_term_is_not_enough() -> None:
    at = logarithms()
    assert at.equal(term((Exp(read(10)), 1)), [*term((Exp(read(2)), 1)), *term(X)], HERE)
    assert len(at.assumed) == 1


@pytest.mark.parametrize(
    ("inner", "e", "to"),
    [
        (read(7), 2, [*term((X[0], 2)), *term((Y[0], 2))]),  # the square of a sum
        (read(6), Fraction(1, 2), term((X[0], Fraction(1, 2)))),
        (read(6, ((("in", 6, 0, SUM), 0, 1),)), 1, term(X)),
        (read(8), 1, term(Y)),  # it may have no value, and nothing in the program says so
    ],
)
def test_no_exponential_of_a_logarithm(inner: Read, e: Any, to: Sum) -> None:
    at = logarithms()
    assert not at.equal(term((Exp(inner), e)), to, HERE)
    assert not at.assumed


def test_what_is_positive() -> None:
    at = algebra(
        defined("exp", one(2)), defined("prod", one(6), one(0)), defined("prod", one(6), one(2))
    )
    assert [at.positive(scalar(k)) for k in (0, 2, 6, 7, 8)] == [True, False, True, True, False]


@pytest.mark.parametrize(
    ("lo", "hi", "restr", "expected"),
    [(0, 4, None, True), (0, N, None, True), (0, 4, (1, 3), True), (0, 0, None, False),
     (0, N - 1, None, False), (0, 4, (2, 2), False), (0, 4, (N, 2 * N - 1), False)],
)  # fmt: skip
def test_an_empty_sum_is_zero(lo: Any, hi: Any, restr: Any, expected: bool) -> None:
    same = Term.of(6, (None,), (), ())
    total = Atom("s", "sum", (), (((same, 1),),), (lo,), (hi,), 0, ())
    at = algebra(defined("exp", one(2)), total)
    part = ((("sum", 7, 0), *restr),) if restr else ()
    assert at.positive(scalar(7, part)) is expected
    quotient_ = term((read(7, part), 1), (read(7, part), -1))
    if expected:
        assert at.equal(quotient_, term(), HERE)
        return
    at.divides(7)
    if not part:  # then it is said
        assert at.equal(quotient_, term(), HERE)
        assert list(at.assumed) == ["s is nowhere zero (the program divides by it)"]
        return
    with pytest.raises(NotChecked, match="may be empty"):
        at.equal(quotient_, term(), HERE)


# ------------------------------------------------------------------ powers and divisors


def test_powers_of_coefficients() -> None:
    at = algebra()
    assert at.raised(2, 64) == 2**64
    assert at.raised(2, -64) == Fraction(1, 2**64)
    assert at.raised(quotient(N, 1), -1) == Quotient(1, N)
    assert at.raised(quotient(-1 * N, 1), -1) == Quotient(1, -1 * N)
    assert at.raised(quotient(N - M, 1), 2) == quotient((N - M) * (N - M), 1)
    assert not at.assumed
    at.raised(quotient(N - M, 1), -1)
    assert list(at.assumed) == [f"{N - M} is not zero (the program divides by it)"]


def test_powers_of_conditions() -> None:
    at = algebra(defined("compare_ge", one(2), attrs=(1,)))
    assert at.equal(term((read(6), 3)), term((read(6), 1)), HERE)
    assert not at.equal(term((X[0], 3)), term(X), HERE)
    at.boolean.add(2)
    assert at.equal(term((X[0], 3)), term(X), HERE)
    assert not at.equal(term((Y[0], 3)), term(Y), HERE)
    assert at.equal(term((AtLeast(read(3), 1), 2)), term((AtLeast(read(3), 1), 1)), HERE)


def test_what_a_layer_rests_on_is_noted() -> None:
    at = algebra()
    at.divides(2)
    at.assume_of_atom("a")
    at.noted = noted = Noted()
    assert (noted.divisors, noted.owned, noted.assumed) == (set(), set(), False)
    at.assume("a size")
    at.divides(3)
    assert (noted.divisors, noted.assumed) == ({3}, False)
    at.assume_of_atom("b")
    assert noted.assumed
    assert at.divisors == {2, 3}
    assert list(at.assumed) == ["a", "a size", "b"]


@pytest.mark.parametrize("boolean", [True, False])
def test_unknowns_that_are_tied(boolean: bool) -> None:
    run = Claimed(Claims(list(BASE), {}, []))
    run._owned(3, boolean)
    run.algebra.noted = noted = Noted()
    run._owned(2, boolean)
    assert noted.owned == {2}
    assert run.algebra.boolean == ({2, 3} if boolean else set())
    assert not run.differs
    run.mesh = Mesh.of(tp=2)
    run._owned(2, boolean)
    assert not run.differs
    run.sequentially = False
    run._owned(2, boolean)
    assert run.differs == {2}


# ------------------------------------------------------------------ guards


def guard(fn: str, *operands: Any, attrs: Any = ()) -> Any:
    at = algebra(Atom(fn, fn, attrs, operands, (0,) * 1, (4,), 1, ()))
    return at._as_guard(Read(6, (variable(8),)))


WALK, PLACE = along(4), along(1)


def test_guards() -> None:
    ids = Read(4, (variable(8),))
    assert guard("ge", ((WALK, 1),), attrs=(2,)) == AtLeast(ids, 2)
    assert guard("ge", ((WALK, 1),), attrs=(N,)) == AtLeast(ids, N)
    assert guard("eq", ((WALK, 1),), ((PLACE, 1),)) == Equal(ids, variable(8))


@pytest.mark.parametrize(
    ("fn", "operands", "attrs"),
    [
        ("ge", [((WALK, 2),)], (2,)),
        ("ge", [((WALK, 1),)], (Fraction(1, 2),)),
        ("ge", [((WALK, 1),)], (True,)),
        ("ge", [((WALK, 1),)], (2, 3)),
        ("ge", [((WALK, 1),), ((WALK, 1),)], (2,)),
        ("eq", [((WALK, 1),), ((WALK, 1),)], ()),
        ("eq", [((WALK, 2),), ((PLACE, 1),)], ()),
        ("eq", [((WALK, 1),), ((PLACE, 2),)], ()),
        ("eq", [((WALK, 1),), ((PLACE, 1), (WALK, 1))], ()),
        ("eq", [((WALK, 1),), ((PLACE, 1),), ((PLACE, 1),)], ()),
    ],
)
def test_guards_of_another_form(fn: str, operands: Any, attrs: Any) -> None:
    with pytest.raises(NotChecked, match="a guard of another form"):
        guard(fn, *operands, attrs=attrs)


@pytest.mark.parametrize(("fn", "more"), [("ge", ()), ("eq", (((PLACE, 1),),))])
def test_part_of_a_guard(fn: str, more: Any) -> None:
    attrs = (2,) if fn == "ge" else ()
    at = algebra(Atom(fn, fn, attrs, (((WALK, 1),), *more), (0,), (4,), 1, ()))
    with pytest.raises(NotChecked, match="a guard of another form"):
        at._as_guard(Read(6, (variable(8),), ((("in", 6, 0, SUM), 0, 1),)))


# ------------------------------------------------------------------ roots


def rooted(power: Any, *operands: Any, attrs: Any = None) -> Atom:
    return defined("power", *operands, attrs=(power,) if attrs is None else attrs)


HALF = Fraction(1, 2)
SQUARE = defined("prod", ((scalar(2), 2),))


@pytest.mark.parametrize(
    ("atom", "e"),
    [
        (defined("f", one(6), attrs=(HALF,)), 2),
        (rooted(HALF, one(6), attrs=(HALF, HALF)), 2),
        (rooted(HALF, ((scalar(6), 1), (scalar(6), 1))), 2),
        (rooted(HALF, ((scalar(6), -1),)), 2),
        (rooted(HALF, ((scalar(6), Quotient(N, M)),)), 2),
        (rooted(HALF, one(2)), 2),
        (rooted(HALF, one(6)), 1),
        (rooted(HALF, one(6)), HALF),
    ],
)
def test_no_root(atom: Atom, e: Any) -> None:
    assert root_of(algebra(SQUARE, atom).atoms, read(7), e) is None


def test_a_root() -> None:
    atoms = algebra(SQUARE, rooted(HALF, ((scalar(6), 3),))).atoms
    assert root_of(atoms, read(7), 2) == (scalar(6), 3, 1, 0)
    assert root_of(atoms, read(7, ((SUM, 0, 1),)), 2) is None


@pytest.mark.parametrize(
    ("atom", "expected"),
    [
        (defined("exp", one(2)), True),
        (defined("ge", one(2), attrs=(1,)), True),
        (defined("f", one(2)), False),
        (defined("power", one(2), attrs=(HALF,)), True),
        (defined("power", one(2), attrs=(3,)), False),
        (defined("power", one(2), attrs=(Fraction(3),)), False),
        (defined("power", one(2), attrs=(HALF, HALF)), False),
        (defined("prod", ((scalar(2), 2),)), True),
        (defined("prod", ((scalar(2), 3),)), False),
        (defined("prod", ((scalar(2), 1),)), False),
        (defined("prod", ((scalar(2), Fraction(2, 3)),)), False),
        (defined("prod", ((scalar(2), Quotient(N, M)),)), False),
        (defined("prod", ((scalar(2), 2),), one(3)), False),
        (defined("prod", ((scalar(2), 2), (scalar(2), 2))), False),
        (defined("lin", ((scalar(6), 2), (scalar(6), HALF))), True),
        (defined("lin", ((scalar(6), 2), (scalar(2), 1))), False),
        (defined("lin", ((scalar(6), 2), (scalar(6), -1))), False),
        (defined("lin", ((scalar(6), 0),)), False),
        (defined("lin", ((scalar(6), Quotient(N, M)),)), False),
    ],
)
def test_what_is_nowhere_negative(atom: Atom, expected: bool) -> None:
    assert nonnegative(algebra(SQUARE, atom).atoms, scalar(7)) is expected


def test_nested_too_deep_is_not_shown() -> None:
    chain = [defined("lin", one(k)) for k in range(6, 14)]
    atoms = algebra(SQUARE, *chain).atoms
    assert nonnegative(atoms, scalar(13))
    assert not nonnegative(atoms, scalar(14))
