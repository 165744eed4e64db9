"""Results that are named functions or powers, step by step: what fits, and near misses."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from tests.certificate.test_rules import HERE, SUM, M, N, algebra, along, defined, one, read, scalar
from tests.certificate.test_rules import term as product

from shardproof.certificate.claims import Atom, Term
from shardproof.certificate.exact import NotChecked, Quotient, const, quotient, total, variable
from shardproof.certificate.functions import Functions
from shardproof.certificate.products import AtLeast, Exp, Read, Sum
from shardproof.certificate.region import Boxes, Region
from shardproof.certificate.rules import Source
from shardproof.ops import base as alg

X, Y, TOTAL = (read(2), 1), (read(3), 1), (read(5), 1)
HALF = Fraction(1, 2)


def functions(*more: Any, stating: bool = True) -> Functions:
    """The functions of atoms 0 to 5 of ``test_rules``, and more from 6."""
    out = Functions(algebra(*more))
    out.domains.stating = stating
    return out


def scalars(*sums: Sum) -> list[Source]:
    return [Source((), lambda r, at, x=x: list(x)) for x in sums]  # type: ignore[misc]


def follows(f: Functions, rule: Any, operands: Sequence[Sum], claimed: Sum) -> bool:
    """Whether a claim about a number follows; what raises does not."""
    check = f.monomial if isinstance(rule, alg.Monomial) else f.pointwise
    try:
        return check(rule, scalars(*operands), (), HERE, (), claimed)  # type: ignore[arg-type]
    except NotChecked:
        return False


# ------------------------------------------------------------------ exponentials and logarithms


def test_which_exponentials_are_products() -> None:
    exponential = Functions._exponential
    assert exponential(product(X, c=3)) == product((Exp(read(2)), 3))
    assert exponential([*product(X), *product(Y, c=-2)]) == product(
        (Exp(read(2)), 1), (Exp(read(3)), -2)
    )
    for x in (
        product(X, ranges=[(8, 0, 4)]),
        product(X, Y),
        product((read(2), 2)),
        product(),
        product((AtLeast(read(2), 1), 1)),
        product((Exp(read(2)), 1)),
        product(X, c=Quotient(N, M)),
        [*product(X), *product(X, Y)],
    ):
        assert exponential(x) is None


def test_an_exponential() -> None:
    exp = alg.Pointwise(alg.EXP)
    f = functions(defined("exp", one(2)), defined("exp", one(7)), defined("prod", one(2), one(3)))
    assert follows(f, exp, [product(X)], product((read(6), 1)))
    assert follows(f, exp, [product(X, c=2)], product((read(6), 2)))
    assert not follows(f, exp, [product(X)], product(X))
    assert not follows(f, exp, [product(X, Y)], product((read(6), 1)))
    g = functions(defined("prod", one(2), one(3)), defined("exp", one(6)))
    assert follows(g, exp, [product(X, Y)], product((read(7), 1)))
    assert not follows(g, exp, [product(X)], product((read(7), 1)))


def logarithm(f: Functions, x: Sum, claimed: Sum) -> Sum | None:
    return f._logarithm(x, HERE, claimed)


def test_which_logarithms_are_sums() -> None:
    f = functions(defined("exp", one(2)), defined("log", one(0)), defined("log", ((scalar(0), 3),)))
    e = (Exp(read(2)), 2)
    assert logarithm(f, product(e), []) == product(X, c=2)
    assert logarithm(f, product(e, c=3), product((read(8), 1))) == [
        *product(X, c=2), *product((read(8), 1)),
    ]  # fmt: skip
    for x in (
        product(e, ranges=[(8, 0, 4)]),
        product(e, c=0),
        product(e, c=-1),
        product(e, c=Quotient(N, M)),
        product(e, X),
        product(X),
        product(e, (AtLeast(read(2), 1), 1)),
    ):
        assert logarithm(f, x, []) is None


def test_a_logarithm() -> None:
    log = alg.Pointwise(alg.LOG)
    f = functions(defined("exp", one(2)), defined("log", one(2)), defined("exp", one(3)))
    both = product((read(6), 1), (read(8), -3))
    assert follows(f, log, [both], [*product(X), *product(Y, c=-3)])
    assert not follows(f, log, [both], product(X))
    assert follows(f, log, [product(X)], product((read(7), 1)))
    assert not follows(f, log, [product(Y)], product((read(7), 1)))
    two = [*product((read(6), 1)), *product((read(8), 1))]
    assert not follows(f, log, [two], [*product(X), *product(Y)])
    assert not follows(f, alg.Pointwise("tanh"), [product((read(6), 1))], product(X))


def test_factors_of_a_named_product() -> None:
    f = functions(
        defined("prod", one(2), one(5)), defined("prod", one(6), one(3)), defined("lin", one(2))
    )
    assert sorted(f._factors(product((read(7), 1))[0][0])) == sorted([X, Y, TOTAL])
    assert f._factors(product((read(8), 1))[0][0]) == [(read(8), 1)]
    part = read(6, ((("in", 6, 1, SUM), 0, 2),))
    assert f._factors(product((part, 2))[0][0]) == [(part, 2)]


# ------------------------------------------------------------------ scalar functions


def test_a_function_of_the_operands() -> None:
    f = functions(
        defined("f", one(2), one(3)), defined("f", one(2), one(3), attrs=(1,)),
        defined("g", one(2), one(3)), defined("f", one(2), one(3), one(3)),
    )  # fmt: skip
    rule = alg.Pointwise("f")
    good = product((read(6), 1))
    assert follows(f, rule, [product(X), product(Y)], good)
    assert not follows(f, rule, [product(Y), product(X)], good)
    assert not follows(f, rule, [product(X), product(X)], good)
    for k in (7, 8, 9):
        assert not follows(f, rule, [product(X), product(Y)], product((read(k), 1)))
    assert follows(f, alg.Pointwise("f", commutative=True), [product(Y), product(X)], good)
    three = [product(Y), product(Y), product(X)]
    assert follows(f, rule, [product(X), product(Y), product(Y)], product((read(9), 1)))
    assert not follows(f, alg.Pointwise("f", commutative=True), three, product((read(9), 1)))


def test_a_function_that_is_linear_in_a_place() -> None:
    f = functions(defined("f", one(2), one(2)), defined("f", one(3), one(2)))
    both = [*product(X, c=2), *product(Y)]
    claimed = [*product((read(6), 1), c=2), *product((read(7), 1))]
    assert follows(f, alg.Pointwise("f", linear=(0,)), [both, product(X)], claimed)
    assert f.algebra.linear == {6: {0}, 7: {0}}
    assert not follows(f, alg.Pointwise("f"), [both, product(X)], claimed)
    # One name, linear by one declaration only.
    assert not follows(f, alg.Pointwise("f"), [product(X), product(X)], product((read(6), 1)))


def test_a_function_is_not_one_of_whole_axes() -> None:
    whole = Atom("f", "f", (), (((along(4), 1),),), (0,), (4,), 1, (0,))
    f = functions(whole)
    x: Sum = product((Read(4, (variable(8),)), 1))
    claimed = product((Read(6, (variable(8),)), 1))
    region = Region({8: (0, 4)}, ())

    def run(made: Functions) -> bool:
        source = Source((4,), lambda r, at: list(x))
        return made.pointwise(alg.Pointwise("f"), [source], (4,), region, [variable(8)], claimed)

    with pytest.raises(NotChecked, match="no f of the operands"):
        run(f)
    plain = functions(Atom("f", "f", (), whole.operands, (0,), (4,), 1, ()))
    assert run(plain)
    plain.axes[6] = ((4, True),)
    with pytest.raises(NotChecked, match="no f of the operands"):
        run(plain)


# ------------------------------------------------------------------ functions of whole axes

ALONG = along(4)
SAME = alg.Signature("f", (("k",),), ("k",), ("k",))
LOST = alg.Signature("f", (("k",),), (), ("k",))


def whole(lo: int = 0, hi: Any = 4, free: int = 1, off: Any = 0) -> Atom:
    """``f`` over the whole of a vector; the result has the axis if it is free."""
    t = Term.of(4, ((0, 1),), (off,), ())
    return Atom("f", "f", (), (((t, 1),),), (lo,), (hi,), free, (0,))


def vector(off: int = 0, n: Any = 4) -> Source:
    return Source((n,), lambda r, at: product((Read(4, ((at[0][0] + off, at[0][1]),)), 1)))


def over(rule: Any, s: Any, at: Any, *atoms: Atom, place: Any = None, n: Any = 4) -> bool:
    f = functions(*atoms)
    claimed = product((Read(6, tuple(at) if place is None else place), 1))
    region = Region({8: (0, n)} if at else {}, ())
    try:
        return f.signature(rule, s, region, at, claimed)
    except NotChecked:
        return False


I = [variable(8)]  # noqa: E741


def test_a_function_of_a_whole_axis() -> None:
    assert over(SAME, [vector()], I, whole())
    assert over(LOST, [vector()], [], whole(free=0))
    assert not over(SAME, [vector(1)], I, whole())
    assert not over(LOST, [vector(1)], [], whole(free=0))
    assert not over(SAME, [vector()], I, whole(hi=3))
    assert not over(SAME, [vector()], I, whole(hi=5))
    assert not over(LOST, [vector()], [], whole(hi=5, free=0))
    # Another place of the result.
    assert not over(SAME, [vector()], I, whole(), place=((1, ((8, 1),)),))
    assert not over(SAME, [vector()], I, whole(), place=(const(0),))
    # With the axis in the result, or without.
    assert not over(SAME, [vector()], I, whole(free=0), place=())
    assert not over(LOST, [vector()], [], whole(), place=(const(0),))
    # No whole axis at all.
    loose = Atom("f", "f", (), (((ALONG, 1),),), (0,), (4,), 1, ())
    assert not over(SAME, [vector()], I, loose)


def test_an_axis_that_starts_later() -> None:
    """The definition counts from 3: its variable is 3 more than the index at hand."""
    later = whole(3, 7, off=-3)
    assert over(SAME, [vector()], I, later, place=((3, ((8, 1),)),))
    assert not over(SAME, [vector()], I, later)
    assert not over(SAME, [vector()], I, whole(3, 7), place=((3, ((8, 1),)),))
    assert over(LOST, [vector()], [], whole(3, 7, 0, -3))
    assert not over(LOST, [vector()], [], whole(3, 7, 0))
    assert not over(LOST, [vector()], [], whole(3, 8, 0, -3))


def test_a_whole_axis_of_one() -> None:
    """It may have no variable."""
    alone = Atom("f", "f", (), (((Term.of(4, (), (0,), ()), 1),),), (), (), 0, ())
    first = Source((1,), lambda r, at: product((Read(4, (const(0),)), 1)))
    for rule, at in ((SAME, [const(0)]), (LOST, [])):
        f = functions(alone)
        assert f.signature(rule, [first], HERE, at, product((Read(6, ()), 1)))
        assert f.axes[6] == ((1, bool(at)),)


def test_two_whole_axes() -> None:
    """They run in the same order, and each completely."""
    rule = alg.Signature("f", (("k", "l"),), (), ("k", "l"))

    def matrix(swap: bool) -> Source:
        def at_(r: Region, at: Any) -> Sum:
            i, j = at[::-1] if swap else at
            return product((Read(4, (total(((i, 4), (j, 1))),)), 1))

        return Source((2, 4) if not swap else (4, 2), at_)

    t = Term.of(4, ((0, 4), (0, 1)), (0,), ())
    atom = Atom("f", "f", (), (((t, 1),),), (0, 0), (2, 4), 0, (0, 1))
    assert over(rule, [matrix(False)], [], atom)
    assert not over(rule, [matrix(True)], [], atom)
    # The axis of 8 as two digits is the same as two axes only if it is claimed so.
    flat = Atom("f", "f", (), (((Term.of(4, ((0, 1),), (0,), ()), 1),),), (0,), (8,), 0, (0,))
    assert not over(rule, [matrix(False)], [], flat)
    assert over(LOST, [vector(n=8)], [], atom)  # digits of one axis, in order
    off = Term.of(4, ((0, 4), (0, 1)), (-9,), ())  # its digits start at 1 and 5
    later = Atom("f", "f", (), (((off, 1),),), (1, 5), (3, 9), 0, (0, 1))
    assert over(rule, [matrix(False)], [], later)
    assert over(LOST, [vector(n=8)], [], later)
    assert not over(LOST, [vector(1, n=8)], [], later)
    rows = Atom("f", "f", (), (((Term.of(4, ((0, 1), None), (0,), ()), 1),),),
                (1, 5), (3, 9), 0, (0, 1))  # fmt: skip
    first = Source((8,), lambda r, at: product((Read(4, (const(1),)), 1)))
    assert not over(LOST, [first], [], rows)  # it has as many of the second
    mixed = Atom("f", "f", (), (((t, 1),),), (0, 0), (2, 4), 1, (0, 1))
    assert not over(LOST, [vector(n=8)], [], mixed, place=(const(0),))
    assert not over(SAME, [vector(n=8)], I, mixed, n=8)


def test_operands_and_axes_that_do_not_fit() -> None:
    with pytest.raises(NotChecked, match="an axis that the operator makes"):
        functions().signature(
            alg.Signature("f", (("k",),), ("k", "new"), ("k", "new")), [vector()],
            Region({8: (0, 4)}, ()), [variable(8), const(0)], [],
        )  # fmt: skip
    unused = alg.Signature("f", (("k",), ("k",)), ("k",), ("k",), unused=(0,))
    assert over(unused, [vector(1), vector()], I, whole())
    assert not over(unused, [vector(), vector(1)], I, whole())


def test_a_whole_axis_in_pieces() -> None:
    """One name must hold on each piece."""

    def pieces(*k: int, cut: int = 2) -> Source:
        def at_(r: Region, at: Any) -> Sum:
            mine = Boxes([((0,), (cut,)), ((cut,), (4,))]).find(r, at)
            return product((Read(k[mine], tuple(at)), 1))

        return Source((4,), at_)

    assert over(LOST, [pieces(4, 4)], [], whole(free=0))
    other = Atom("w", "", (), (), (), (), 1, ())
    f = functions(
        whole(free=0), other, Atom("f", "f", (), (((along(7), 1),),), (0,), (4,), 0, (0,))
    )
    both = [*product((Read(6, ()), 1)), *product((Read(8, ()), 1))]
    for claimed in (product((Read(6, ()), 1)), product((Read(8, ()), 1)), both):
        with pytest.raises(NotChecked):
            f.signature(LOST, [pieces(4, 7)], HERE, [], claimed)
    for s in (pieces(7, 4, cut=1), pieces(4, 7, cut=3)):
        with pytest.raises(NotChecked):
            f.signature(LOST, [s], HERE, [], product((Read(6, ()), 1)))


def test_an_axis_of_one_that_is_no_index() -> None:
    """Its only index is 0."""
    rule = alg.Signature("f", ((alg.ONE, "k"),), (alg.ONE, "k"), ("k",))
    s = Source((1, 4), lambda r, at: product((Read(4, (at[1],)), 1)) if at[0] == const(0) else [])
    assert over(rule, [s], [const(0), variable(8)], whole(), place=(variable(8),))


# ------------------------------------------------------------------ powers


def powers(*exponents: Any) -> Any:
    return alg.Monomial(tuple(map(Fraction, exponents)))


def test_products_of_powers() -> None:
    square = defined("prod", ((scalar(2), 2),))
    f = functions(square, defined("prod", ((scalar(2), -1),), one(3)))
    assert follows(f, powers(1), [product(X)], product(X))
    assert follows(f, powers(2), [product(X)], product((read(6), 1)))
    assert not follows(f, powers(2), [product(X)], product(X))
    assert not follows(f, powers(1), [product(X)], product((read(6), 1)))
    assert follows(f, powers(-1, 1), [product(X), product(Y)], product((read(7), 1)))
    assert not follows(f, powers(1, 1), [product(X), product(Y)], product((read(7), 1)))
    assert follows(f, powers(2), [product(X, c=3)], product((read(6), 1), c=9))
    assert not follows(f, powers(2), [product(X, c=3)], product((read(6), 1), c=3))


def test_what_a_program_divides_by() -> None:
    f = functions(defined("prod", ((scalar(2), -1),)), defined("prod", one(2), one(3)))
    follows(f, powers(1, 2, 0), [product(X)] * 3, [])
    assert not f.algebra.divisors
    follows(f, powers(-1, 1), [product((read(7), 1)), product(TOTAL)], [])
    assert f.algebra.divisors == {2, 3}
    inverse = functions(defined("exp", ((scalar(2), -1),)))
    assert follows(inverse, powers(-1), [product((Exp(read(2)), 1))], product((read(6), 1)))
    assert not inverse.algebra.divisors


@pytest.mark.parametrize(
    "x", [product(X, ranges=[(8, 0, N)]), [*product(X), *product(Y)], product((read(2), -1))]
)
def test_what_it_does_not_divide_by(x: Sum) -> None:
    """A factor under a sum, a summand, and what stands under a bar already."""
    f = functions()
    f._divided_by(x, [], rooted=False)
    assert not f.algebra.divisors


def test_a_power_of_a_sum() -> None:
    """It is that of a name for the sum, with its leading coefficient taken out."""
    both = ((scalar(2), 1), (scalar(3), 2))
    f = functions(defined("lin", both), defined("prod", ((scalar(6), 2),)),
                  defined("prod", ((scalar(6), -1),)))  # fmt: skip
    x = [*product(X, c=3), *product(Y, c=6)]
    assert follows(f, powers(2), [x], product((read(7), 1), c=9))
    assert not follows(f, powers(2), [x], product((read(7), 1)))
    assert not follows(f, powers(2), [x], product((read(7), 1), c=3))
    assert not f.algebra.divisors
    assert follows(f, powers(-1), [x], product((read(8), 1), c=Fraction(1, 3)))
    assert f.algebra.divisors == {6}
    assert not follows(f, powers(2), [[*product(X, c=3), *product(Y)]], product((read(7), 1), c=9))
    assert not follows(f, powers(2), [x], [*product((read(2), 2)), *product((read(3), 2))])


def test_a_power_of_a_sum_over_an_index() -> None:
    f = functions()
    x = product((Read(4, (variable(8),)), 1), ranges=[(8, 0, 4)])
    squares = product((Read(4, (variable(8),)), 2), ranges=[(8, 0, 4)])
    assert not follows(f, powers(2), [x], squares)
    assert not follows(f, powers(2), [product(X, ranges=[(8, 0, 4)])], product((read(2), 2)))


def test_roots() -> None:
    root = defined("power", one(2), attrs=(HALF,))
    f = functions(
        root, defined("power", one(2), attrs=(Fraction(1, 3),)),
        defined("power", (), attrs=(-HALF,)), defined("f", one(2), attrs=(HALF,)),
    )  # fmt: skip
    assert follows(f, powers(HALF), [product(X)], product((read(6), 1)))
    assert not follows(f, powers(HALF), [product(X)], product((read(7), 1)))
    assert not follows(f, powers(HALF), [product(X)], product((read(9), 1)))
    assert not follows(f, powers(HALF), [product(Y)], product((read(6), 1)))
    assert follows(f, powers(HALF), [[]], [])
    assert not follows(f, powers(-HALF), [[]], product((read(8), 1)))
    assert not follows(f, powers(-1), [[]], [])


def test_a_division_by_a_coefficient() -> None:
    f = functions(defined("prod", ((scalar(2), -1),)))
    x = product(X, c=quotient(N, 1))
    assert follows(f, powers(-1), [x], product((read(6), 1), c=Quotient(1, N)))
    assert not follows(f, powers(-1), [x], product((read(6), 1), c=quotient(N, 1)))


# ------------------------------------------------------------------ where names are looked for


def test_a_name_inside_a_name() -> None:
    """The claimed value is a product, or a sum, that names the function."""
    f = functions(
        defined("f", one(2)), defined("prod", one(6), one(3)), defined("prod", one(7), one(3)),
        defined("lin", ((scalar(6), 2), (scalar(3), 1))),
    )  # fmt: skip
    inside = [r.atom for r in f._inside(product((read(8), 1)), 3)]
    assert inside[0] == 8
    assert {6, 7} <= set(inside)
    assert [r.atom for r in f._inside(product((read(8), 1)), 0)] == [8]
    assert [r.atom for r in f._inside(product((read(8), 1)), 1)] == [8, 7, 3]
    assert {6, 3} <= {r.atom for r in f._inside(product((read(9), 1)), 3)}
    assert {6, 3} <= {r.atom for r in f._inside(product((read(7), 2)), 3)}
    assert {r.atom for r in f._inside(product((read(9), 2)), 3)} == {9}
    second = [r.atom for r in f._inside(product(Y, (read(9), 1)), 3)]
    assert 6 in second
    assert [r.atom for r in f._inside(product((Exp(read(2)), 1)), 3)] == []
