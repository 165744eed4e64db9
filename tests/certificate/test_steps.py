"""Steps of the comparison of sums, and of reading tensors, that nothing else looks at alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.certificate.test_rules import (
    BASE,
    HERE,
    SUM,
    N,
    X,
    Y,
    algebra,
    along,
    defined,
    guard,
    one,
    read,
    scalar,
    term,
)

from shardproof.certificate.algebra import _exponentials, _is_filled, _threshold, _written_out
from shardproof.certificate.claims import (
    Atom,
    Cell,
    Meaning,
    Term,
    innermost,
    well_formed,
    well_formed_atom,
)
from shardproof.certificate.exact import NotChecked, Quotient, const, quotient, variable
from shardproof.certificate.products import AtLeast, Exp, Product, Read, Sum, sole
from shardproof.certificate.region import Boxes, Region
from shardproof.certificate.rules import (
    Moved,
    Source,
    added,
    contracted,
    joined,
    label_sizes,
    meaning_source,
    read_through,
    simple,
    spread,
    under_sum,
)
from shardproof.ops import base as alg

HALF = Fraction(1, 2)

# ------------------------------------------------------------------ definitions


def test_the_range_of_positions() -> None:
    along_two = Atom("a", "argmax", (), (), (2, 0), (5, 4), 0, (0, 1))
    assert algebra(along_two).range(6) == (0, 12)
    assert algebra().range(2) is None


def test_part_of_an_operand_of_several_terms() -> None:
    at = algebra(defined("f", ((scalar(5), 1), (scalar(2), 1))))
    with pytest.raises(NotChecked, match="has one already"):
        at.operand(read(6, ((("in", 6, 0, SUM), 0, 2),)), 0)


def test_part_of_a_sum_beside_a_power() -> None:
    at = algebra(defined("prod", one(5), ((scalar(2), 2),)))
    part = read(6, ((("in", 6, 0, SUM), 1, 3),))
    half = read(5, ((SUM, 1, 3),))
    assert at.equal(term((part, 1)), term((half, 1), (X[0], 2)), HERE)
    assert not at.equal(term((part, 1)), term((read(5), 1), (X[0], 2)), HERE)


def test_an_interval_of_an_operand_is_none_of_the_sum() -> None:
    """Both are of the first of something."""
    at = algebra(defined("sum", one(5), bound=1))
    ranges, _ = at.bound_variables(read(6, ((("in", 6, 0, SUM), 1, 3),)))
    assert [r[1:] for r in ranges] == [(0, 4)]


def test_a_sum_beside_its_square() -> None:
    """Only the one is opened."""
    at = algebra(defined("lin", ((scalar(2), 1), (scalar(3), 1))))
    both = [*term((read(6), 1)), *term((read(6), 2))]
    assert not at.equal(both, [*term(X, c=2), *term(Y, c=2)], HERE)
    assert at.equal(both, [*term(X), *term(Y), *term((read(6), 2))], HERE)


def test_what_is_not_shown_in_time_is_not_shown() -> None:
    chain = [defined("lin", ((scalar(k + 5 if k else 2), 1),)) for k in range(450)]
    assert not algebra(*chain).zero([*term((read(455), 1)), *term(Y)], HERE)
    assert algebra(*chain[:300]).equal(term((read(305), 1)), term(X), HERE)


# ------------------------------------------------------------------ one product


def test_the_exponential_of_the_logarithm_of_nothing() -> None:
    at = algebra(defined("log", ()))
    at.linear[6] = frozenset()
    assert not at.zero(term((Exp(read(6)), 1)), HERE)


FILLED = Atom("m", alg.FILL, (float("-inf"),), (one(2), one(3)), (), (), 0, ())


def masked(*factors: Any) -> Sum:
    """The factors with the exponential of a filled value as it should be rewritten."""
    return [*term((Exp(read(2)), 1), *factors),
            *term((Exp(read(2)), 1), Y, *factors, c=-1)]  # fmt: skip


@pytest.mark.parametrize("swap", [True, False])
def test_the_exponential_of_a_filled_value(swap: bool) -> None:
    at = algebra(FILLED)
    at.linear[6] = frozenset()
    other = (read(5), 1)
    factors = [(Exp(read(6)), 1), other]
    assert at.equal(term(*(factors[::-1] if swap else factors)), masked(other), HERE)
    assert not at.equal(term(*factors), masked(), HERE)


@pytest.mark.parametrize(
    ("inner", "e", "noted"),
    [
        (read(6), -1, True),
        (read(6, ((("in", 6, 0, SUM), 0, 1),)), 1, True),
        (read(6), 1, False),
    ],
)
def test_no_exponential_of_a_filled_value(inner: Read, e: int, noted: bool) -> None:
    at = algebra(FILLED)
    if noted:
        at.linear[6] = frozenset()
    assert at._filled_in_exp(term((Exp(inner), e))[0][0]) is None


def test_which_values_are_filled() -> None:
    assert _is_filled(FILLED)
    for fn, attrs, operands in (
        ("f", (float("-inf"),), (one(2), one(3))),
        (alg.FILL, (float("inf"),), (one(2), one(3))),
        (alg.FILL, (), (one(2), one(3))),
        (alg.FILL, (float("-inf"),), (one(2),)),
    ):
        assert not _is_filled(Atom("m", fn, attrs, operands, (), (), 0, ()))


@pytest.mark.parametrize("swap", [True, False])
def test_the_power_of_a_root_in_a_product(swap: bool) -> None:
    at = algebra(defined("prod", ((scalar(2), 2),)), defined("power", one(6), attrs=(HALF,)))
    factors = [(read(7), 2), Y]
    factors = factors[::-1] if swap else factors
    assert at.equal(term(*factors), term((X[0], 2), Y), HERE)
    assert not at.equal(term(*factors), term((X[0], 2)), HERE)
    assert at.equal(term((read(7), 3)), term((X[0], 2), (read(7), 1)), HERE)


def test_a_power_of_nought() -> None:
    at = algebra()
    assert at.raised(quotient(N - 1, 1), 0) == 1
    assert not at.assumed
    assert at.raised(-3, -1) == Fraction(-1, 3)


def test_a_comparison_of_positions_with_a_number() -> None:
    place = ((along(1), 1),)
    assert isinstance(guard("compare_ge", place, place), AtLeast)
    assert isinstance(guard("compare_ge", place, place, attrs=(2,)), Read)


@pytest.mark.parametrize("swap", [True, False])
def test_a_position_in_a_product(swap: bool) -> None:
    at = algebra()
    region = Region({8: (0, 4), 9: (0, 3)}, ())

    def index(*slopes: tuple[int, int]) -> Any:
        return Read(1, ((0, slopes),)), 1

    both = [index((8, 1), (9, 1)), X]
    apart = [*term(index((8, 1)), X), *term(index((9, 1)), X)]
    assert at.equal(term(*(both[::-1] if swap else both)), apart, region)
    assert not at.equal(term(*both), [*term(index((8, 1))), *term(index((9, 1)))], region)
    assert at.zero(term(index()), region)


def test_a_sum_over_nothing_of_any_size() -> None:
    assert algebra().zero(term((Read(4, (variable(8),)), 1), ranges=[(8, N, N)]), HERE)


def test_what_is_written_out() -> None:
    v = (Read(4, (variable(8),)), 1)
    assert _written_out(term(v, ranges=[(8, 1, 3)])) == [
        *term((Read(4, (const(1),)), 1)), *term((Read(4, (const(2),)), 1)),
    ]  # fmt: skip
    for span in ((N, 4), (0, N), (0, 1000)):
        assert _written_out(term(v, ranges=[(8, *span)])) is None
    assert _written_out(term(X)) is None


def test_the_one_term_of_a_sum() -> None:
    assert sole(term(X)) == read(2)
    for x in (
        term(X, Y),
        term((X[0], 2)),
        term((AtLeast(read(2), 1), 1)),
        term(),
        term(X, c=2),
        term(X, ranges=[(8, 0, 2)]),
        [*term(X), *term(Y)],
    ):
        assert sole(x) is None


# ------------------------------------------------------------------ reading tensors


def tagged(k: int, *shape: Any) -> Source:
    """A tensor whose elements say which it is, and where they are read."""
    return Source(shape, lambda r, at: [(Product((), ((Read(k, tuple(at)), 1),)), 1)])


def found(s: Source, *at: Any, ranges: Any = ()) -> list[Any]:
    index = [const(a) if isinstance(a, int) else a for a in at]
    terms = s.read(Region(dict(ranges), ()), index)
    return [(p.factors[0][0].atom, p.factors[0][0].at, c) for p, c in terms]  # type: ignore[union-attr]


def test_what_a_rearrangement_reads() -> None:
    def seen(*shape: Any) -> int:
        return len(read_through(Moved(alg.Reshape(shape), tagged(4, *shape), ())))

    assert seen(1) == seen(2, 1) == seen(3) == seen() == 1
    assert seen(0) == seen(2, 0) == 0

    def first(r: Region, at: Any) -> Sum:
        k = Boxes([((0,), (1,)), ((1,), (3,)), ((3,), (4,))]).find(r, at)
        return term((read(2 + k), 1))

    every = read_through(Moved(alg.Reshape((4,)), Source((4,), first), ()))
    assert {p.factors[0][0].atom for p, _ in every} == {2, 3, 4}  # type: ignore[union-attr]


def test_parts_are_joined() -> None:
    both = joined([tagged(4, 2, 3), tagged(5, 1, 3)], 0)
    assert both.shape == (3, 3)
    assert found(both, 1, 2) == [(4, (const(1), const(2)), 1)]
    assert found(both, 2, 2) == [(5, (const(0), const(2)), 1)]
    alone = joined([tagged(4, 2, 3)], 0)
    assert alone.shape == (2, 3)
    assert found(alone, 1, 2) == [(4, (const(1), const(2)), 1)]
    assert joined([tagged(4, 0, 3), tagged(5, 2, 3)], 0).shape == (2, 3)
    assert joined([tagged(4, 0, 3), tagged(5, 0, 3)], 0).shape == (0, 3)
    for other in ((2, 4, 5), (3, 5, 6)):
        with pytest.raises(NotChecked, match="other dims differ"):
            joined([tagged(4, 2, 4, 6), tagged(5, *other)], 0)
    with pytest.raises(NotChecked, match="other dims differ"):
        joined([tagged(4, 2, 4), tagged(5, 3, 4)], 1)


def test_tensors_are_added() -> None:
    both = added([tagged(4, 2), tagged(5, 2)], [2, -1], 1)
    (p, c), *rest = both.read(HERE, [const(1)])
    assert (p.factors, c) == ((), 1)
    assert [k for _, k in rest] == [2, -1]
    assert len(added([tagged(4, 2)], [1]).read(HERE, [const(1)])) == 1


def test_a_tensor_is_spread() -> None:
    wide = spread(tagged(4, 1, 3), (2, 5, 3))
    assert found(wide, 1, 2, 2) == [(4, (const(0), const(2)), 1)]
    assert found(spread(tagged(4), (2,)), 1) == [(4, (), 1)]


def test_a_sum_over_new_indices() -> None:
    def build(r: Region, at: Any, mine: Any) -> Sum:
        return [(Product((), ((Read(4, (*at, *mine)), 1),)), 1)]

    assert under_sum(HERE, [3, 0], build, []) == []
    assert under_sum(HERE, [1], build, [const(7)]) == [
        (Product((), ((Read(4, (const(7), const(0))), 1),)), 1)
    ]
    ((p, _),) = under_sum(HERE, [3, 1], build, [])
    assert [r[1:] for r in p.ranges] == [(0, 3)]


def meaned(n: Any, scale: bool) -> list[str]:
    assumed: list[str] = []
    rule = alg.Contract((("i",),), (), scale_by_count=scale)
    contracted(rule, [tagged(4, n)], assumed.append)
    return assumed


def test_a_mean_over_nothing() -> None:
    assert meaned(0, False) == meaned(N - 1, False) == meaned(N, True) == meaned(1, True) == []
    assert meaned(N - 1, True) == [f"{N - 1} is not zero (the program divides by it)"]
    with pytest.raises(NotChecked, match="a mean over nothing"):
        meaned(0, True)


def test_the_sizes_of_labels() -> None:
    sources = [tagged(4, 1, 3), tagged(5, 3)]
    assert label_sizes([(alg.ONE, "i"), ("i",)], sources) == {"i": 3}
    assert label_sizes([(alg.ONE, "i"), (alg.ONE,)], sources) == {"i": 3}


# ------------------------------------------------------------------ exponentials once more


def test_an_exponential_of_a_named_sum_to_a_power() -> None:
    at = algebra(defined("lin", ((scalar(2), 1), (scalar(3), 2))))
    assert at.equal(term((Exp(read(6)), 3)), term((Exp(read(2)), 3), (Exp(read(3)), 6)), HERE)
    assert not at.equal(term((Exp(read(6)), 3)), term((Exp(read(2)), 4), (Exp(read(3)), 5)), HERE)
    mixed = [(read(2), Quotient(N, 2)), (read(3), 1)]
    assert _exponentials(mixed) is None  # type: ignore[arg-type]
    assert _exponentials(mixed[1:]) == [(Exp(read(3)), 1)]  # type: ignore[arg-type]


@pytest.mark.parametrize("swap", [True, False])
def test_the_exponential_of_a_logarithm_in_a_product(swap: bool) -> None:
    at = algebra(defined("log", one(2)))
    at.linear[6] = frozenset()
    factors = [(Exp(read(6)), 1), Y]
    assert at.equal(term(*(factors[::-1] if swap else factors)), term(X, Y), HERE)
    assert not at.equal(term(*factors), term(X), HERE)


def test_a_division_by_an_exponential_of_minus_infinity() -> None:
    at = algebra(FILLED, defined("tanh", one(2)))
    with pytest.raises(NotChecked, match="exponential of minus infinity"):
        at.zero(term((Exp(read(6)), 1), (Exp(read(6)), -1)), HERE)
    assert at.equal(term((Exp(read(7)), 1), (Exp(read(7)), -1)), term(), HERE)


# ------------------------------------------------------------------ terms, positions, numbers


def test_where_a_term_is_read() -> None:
    i, j = variable(8), variable(9)
    at = algebra()

    def place(*ax: Any, off: Any = (0,)) -> Any:
        return at.read(Term.of(4, ax, off, ()), [i, j][: len(ax)]).at

    assert place((0, 1)) == (i,)
    assert place((0, 2)) == ((0, ((8, 2),)),)
    assert place((0, 1), off=(3,)) == ((3, ((8, 1),)),)
    assert place((0, 2), (0, 1), off=(3,)) == ((3, ((8, 2), (9, 1))),)
    assert place(None) == (const(0),)
    two = Term.of(4, ((1, 1), (0, 1)), (0, 0), ())
    assert at.read(two, [i, j]).at == (j, i)


def test_which_terms_read_their_atom_as_it_is() -> None:
    assert Term.of(4, ((0, 1),), (0,), ()).plain
    assert Term.of(4, (), (), ()).plain
    for ax, off in (
        (((0, 1),), (1,)), (((0, 2),), (0,)), (((1, 1), (0, 1)), (0, 0)),
        (((0, 1), None), (0,)), ((None,), (0,)),
    ):  # fmt: skip
        assert not Term.of(4, ax, off, ()).plain  # type: ignore[arg-type]


def test_a_square_of_a_position() -> None:
    at = algebra()
    region = Region({8: (0, 4), 9: (0, 3)}, ())
    both = Read(1, ((0, ((8, 1), (9, 1))),))
    apart = [*term((Read(1, (variable(8),)), 1)), *term((Read(1, (variable(9),)), 1))]
    assert at.equal(term((both, 1)), apart, region)
    assert not at.equal(term((both, 2)), apart, region)
    three = Read(1, ((0, ((8, 3),)),))
    assert at.equal(term((three, 1)), term((Read(1, (variable(8),)), 1), c=3), region)


def test_a_threshold_of_a_position() -> None:
    moved = AtLeast(Read(1, ((-2, ((8, 1),)),)), 0)
    assert _threshold(Read(1, (variable(8),)), 2) == moved
    assert _threshold(read(2), 2) == AtLeast(read(2), 2)
    same = ((along(1), 1),), ((Term.of(1, (None,), (3,), ()), 1),)
    assert guard("compare_ge", *same) == AtLeast(Read(1, ((-3, ((8, 1),)),)), 0)
    for pair in (((along(4), 1),), same[1]), (same[0], ((along(4), 1),)):
        assert isinstance(guard("compare_ge", *pair), Read)


def test_a_divisor_that_may_be_zero() -> None:
    at = algebra()
    at.raised(quotient(1 - N, 1), -1)
    assert list(at.assumed) == [f"{1 - N} is not zero (the program divides by it)"]


def test_sums_beside_terms_are_written_out() -> None:
    v = (Read(4, (variable(8),)), 1)
    assert _written_out([*term(v, ranges=[(8, 1, 3)]), *term(X)]) is not None


# ------------------------------------------------------------------ names of products


def x(*slopes: tuple[int, Any], c: Any = 0, k: int = 4) -> Any:
    return Read(k, ((c, slopes),)), 1


W = Atom("w", "", (), (), (), (), 1, ())
UV = [(20, 0, N), (21, 0, 3)]


@pytest.mark.parametrize(
    ("ranges", "factors", "to"),
    [
        (UV, [x((20, 3), (21, 1))], (0, 3 * N)),
        (UV[::-1], [x((20, 3), (21, 1))], (0, 3 * N)),
        ([(20, 1, N), (21, 0, 3)], [x((20, 3), (21, 1))], (3, 3 * N)),
        (UV, [x((20, 3), (21, 1)), x((20, 3), (21, 1), k=6)], (0, 3 * N)),
    ],
)
def test_two_digits_are_one_index(ranges: Any, factors: Any, to: Any) -> None:
    at = algebra(W)
    flat = [(Read(f.atom, (variable(22),)), 1) for f, _ in factors]
    assert at.equal(term(*factors, ranges=ranges), term(*flat, ranges=[(22, *to)]), HERE)


@pytest.mark.parametrize(
    ("ranges", "factors"),
    [
        (UV, [x((20, 2), (21, 1))]),
        (UV, [x((20, 4), (21, 1))]),
        ([(20, 0, N), (21, 1, 4)], [x((20, 3), (21, 1))]),
        ([(20, 0, N), (21, 1, 3)], [x((20, 3), (21, 1))]),
        (UV, [x((20, 3), (21, 1)), x((20, 1), k=6)]),
        (UV, [x((20, 3), (21, 1)), x((21, 1), k=6)]),
        (UV, [x((20, 1)), x((21, 1), k=6)]),
    ],
)
def test_two_indices_that_are_not_one(ranges: Any, factors: Any) -> None:
    at = algebra(W)
    flat = [(Read(f.atom, (variable(22),)), 1) for f, _ in factors]
    for to in ((0, 3 * N), (3, 3 * N), (0, N)):
        try:
            same = at.equal(term(*factors, ranges=ranges), term(*flat, ranges=[(22, *to)]), HERE)
        except NotChecked:
            continue
        assert not same


def test_an_index_that_is_one_digit_is_not_lost() -> None:
    """Where one factor reads both digits, and another one of them, they are not one index."""
    at = algebra(W)
    for other in ((20, 1), (21, 1)):
        apart = term(x((20, 3), (21, 1)), x(other, k=6), ranges=UV)
        for to in ((const(0),), (variable(22),), ((0, ((22, 3),)),)):
            flat = term((Read(4, (variable(22),)), 1), (Read(6, to), 1), ranges=[(22, 0, 3 * N)])  # type: ignore[arg-type]
            try:
                assert not at.equal(apart, flat, HERE)
            except NotChecked:
                continue


def test_names_of_summed_indices_are_no_free_ones() -> None:
    """They are summed over up to three indices, whatever free variables are called."""
    three = Atom("z", "", (), (), (), (), 3, ())
    at = algebra(three, W)

    def body(*index: int, at_: int) -> list[Any]:
        return [(Read(6, tuple(map(variable, index))), 1), (Read(7, (variable(at_),)), 1)]

    spans = [(k, 0, N) for k in (20, 21, 22)]
    region = Region(dict.fromkeys((1, 2, 3), (0, N)), ())
    for summed in (20, 21, 22):
        for free in (1, 2, 3):
            bound = term(*body(20, 21, 22, at_=summed), ranges=spans)
            loose = term(*body(20, 21, 22, at_=free), ranges=spans)
            assert not at.equal(bound, loose, region)
        renamed = term(*body(31, 32, 33, at_=summed + 11), ranges=[(k + 11, *s) for k, *s in spans])
        assert at.equal(bound, renamed, region)


def test_the_name_of_a_part() -> None:
    at = algebra(defined("max", ((along(4), 1),), bound=1)).canonical
    part, top = read(5, ((SUM, 0, 2),)), read(6, ((("max", 6, 0), 0, 2),))
    for r, e, kept in ((part, 1, ()), (part, 2, part.restr), (top, 1, top.restr)):
        boxes: Any = {}
        assert at._head(r, e, 7, boxes) == ("read", r.atom, kept)
        assert boxes == ({} if kept else {(7, 5, SUM): (0, 2)})


def test_products_that_cancel_up_to_intervals() -> None:
    at = algebra().canonical
    p = term(X)[0][0]
    key = (0, 5, SUM)
    left: Any = [(p, {key: (0, 2)}, 1), (p, {key: (2, 4)}, 1), (p, {}, -1)]
    assert at.cancels(left)
    assert not at.cancels(left[:2])
    assert not at.cancels([left[0], left[0], left[1]])
    assert not at.cancels([left[0], (p, {key: (2, 4)}, -1)])
    assert not at.cancels([left[0], left[0], (p, {key: (2, 4)}, -2)])
    assert at.cancels([left[0], left[0], (p, {key: (0, 2)}, -2)])
    assert not at.cancels([(p, {}, 1), (p, {key: (0, 2)}, -1)])
    assert at.cancels([(p, {key: (0, 2)}, 1), (p, {key: (0, 2)}, -1)])
    with pytest.raises(NotChecked, match="different indices"):
        at.cancels([(p, {-1: (0, 2)}, 1), (p, {}, -1)])


# ------------------------------------------------------------------ the form of claims


def boxes(dims: Any, *cells: Any) -> None:
    ext = [f for d in dims for f in d]
    lin = ((Term.of(0, (None,) * len(ext), (), ()), 1),)
    well_formed(BASE, Meaning(dims, tuple(Cell(lo, hi, lin) for lo, hi in cells)))


SQUARE_OF_4 = ((4,), (4,))
QUARTERS = [((a, b), (a + 2, b + 2)) for a in (0, 2) for b in (0, 2)]


def test_boxes_of_two_axes() -> None:
    boxes(SQUARE_OF_4, *QUARTERS)
    boxes(SQUARE_OF_4, *QUARTERS[::-1])
    boxes(((0,), (4,)), ((0, 0), (0, 3)))
    boxes(SQUARE_OF_4, ((0, 0), (4, 1)), ((0, 1), (1, 4)), ((1, 1), (4, 4)))
    boxes(((0,), (4,)), ((0, 0), (0, 3)), ((0, 1), (0, 4)))
    boxes(((N,), (4,)), ((0, 0), (N, 1)), ((0, 1), (N, 4)))
    assert Meaning(((2, 3), (5,)), ()).shape == (6, 5)
    assert Meaning(((2, 3), (5,)), ()).extents == (2, 3, 5)


@pytest.mark.parametrize(
    ("message", "dims", "cells"),
    [
        ("do not cover", SQUARE_OF_4, QUARTERS[:3]),
        ("overlap", SQUARE_OF_4, [*QUARTERS, QUARTERS[0]]),
        ("overlap", SQUARE_OF_4, [((0, 0), (4, 3)), ((0, 2), (4, 3))]),
        ("overlap", SQUARE_OF_4, [((0, 0), (3, 4)), ((2, 0), (3, 4))]),
        ("leaves", SQUARE_OF_4, [*QUARTERS[:3], ((2, 2), (3, 6))]),
        ("leaves", SQUARE_OF_4, [*QUARTERS[:3], ((2, 2), (4, 5))]),
        ("leaves", SQUARE_OF_4, [((0, 0), (4, 5)), ((4, 4), (4, 3))]),
        ("leaves", ((4,), (1,)), [((0, 0), (3, 1)), ((3, 0), (5, 1))]),
        ("do not cover", ((4,), (1,)), [((0, 0), (3, 1)), ((3, 0), (3, 1))]),
        ("do not cover", ((4,), (1,)), []),
        ("not the whole", ((4,), (1,)), [((0, 0), (3, 1))]),
        ("not the whole", ((4,), (1,)), [((1, 0), (4, 1))]),
        ("do not cover|leaves", ((4,),), [((1,), (3,)), ((3,), (4,))]),
        ("ends before", ((4,),), [((0,), (5,)), ((5,), (4,))]),
        ("ends before", ((4,),), [((0,), (2,)), ((2,), (5,)), ((5,), (4,))]),
    ],
)
def test_boxes_that_are_no_partition(message: str, dims: Any, cells: Any) -> None:
    with pytest.raises(NotChecked, match=message):
        boxes(dims, *cells)


def test_what_a_label_names() -> None:
    atoms = algebra(
        defined("prod", one(2), one(5)),
        defined("f", one(2), one(3), one(6)),
        defined("prod", ((scalar(5), 1), (scalar(5), 1))),
        Atom("g", "g", (), (((along(4), 1),),), (0,), (4,), 0, (0,)),
        defined("f", ((scalar(5), 1), (scalar(5), 1))),
        defined("f", one(5)),
    ).atoms
    inner = ("in", 6, 1, SUM)
    assert innermost(atoms, 5, SUM) == (5, 0)
    assert innermost(atoms, 6, inner) == (5, 0)
    assert innermost(atoms, 7, ("in", 7, 2, inner)) == (5, 0)
    assert innermost(atoms, 11, ("in", 11, 0, SUM)) == (5, 0)
    for k, label in (
        (6, ("in", 6, 0, SUM)), (6, ("in", 6, 2, SUM)), (6, ("in", 6, -1, SUM)),
        (7, ("in", 7, 1, inner)), (10, ("in", 10, 0, SUM)), (9, ("g", 9, 0)),
    ):  # fmt: skip
        with pytest.raises(NotChecked, match="a label of"):
            innermost(atoms, k, label)


@pytest.mark.parametrize(
    "atom",
    [
        Atom("x", "", (1,), (), (), (), 0, ()),
        Atom("x", "", (), (one(2),), (), (), 0, ()),
        Atom("x", "", (), (), (0,), (), 0, ()),
        Atom("x", "", (), (), (), (4,), 0, ()),
        Atom("x", "", (), (), (), (), 0, (0,)),
    ],
)
def test_an_unknown_with_part_of_a_definition(atom: Atom) -> None:
    with pytest.raises(NotChecked, match="unknown with a definition"):
        well_formed_atom([*BASE, atom], 6)


def test_the_form_of_a_product() -> None:
    good, bad = one(2), ((scalar(2), 1), (scalar(2), 1))
    with pytest.raises(NotChecked, match="other than terms"):
        well_formed_atom([*BASE, defined("prod", good, bad)], 6)
    with pytest.raises(NotChecked, match="first two atoms"):
        well_formed_atom([defined("f"), *BASE[1:]], 0)


# ------------------------------------------------------------------ rearrangements


def view(rule: Any, s: Source, *shape: Any) -> Source:
    out = simple(rule, [s], shape, lambda text: None)
    assert out is not None
    assert out.shape == shape
    return out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ((2, 3), (6,)), ((6,), (2, 3)), ((2, 3), (3, 2)), ((2, 1, 3), (2, 3)), ((2, 3), (1, 2, 3)),
        ((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 4)), ((1,), ()), ((), (1, 1)), ((2, 3), (2, 3)),
        ((4, 3, 1), (2, 2, 3)), ((2, 2, 5), (4, 5)),
    ],
)  # fmt: skip
def test_a_reshape(old: Any, new: Any) -> None:
    s = view(alg.Reshape(new), tagged(4, *old), *new)
    for k, at in enumerate(np.ndindex(*new)):
        place = tuple(const(int(i)) for i in np.unravel_index(k, old))
        assert found(s, *at) == [(4, place, 1)]


def test_other_rearrangements() -> None:
    i, j, k = const(1), const(2), const(3)
    at = (1, 2, 3)
    s = tagged(4, 5, 6, 7)
    assert found(view(alg.Permute((2, 0, 1)), s, 7, 5, 6), *at) == [(4, (j, k, i), 1)]
    assert found(view(alg.Slice(1, 3, 6), s, 5, 3, 7), *at) == [(4, (i, const(5), k), 1)]
    assert found(view(alg.Slice(0, 3, 5), s, 2, 6, 7), *at) == [(4, (const(4), j, k), 1)]
    assert found(view(alg.Slice(-1, 3, 7), s, 5, 6, 4), *at) == [(4, (i, j, const(6)), 1)]
    assert found(view(alg.Expand((2, 3)), tagged(4, 3), 2, 3), 1, 2) == [(4, (const(2),), 1)]
    assert found(view(alg.Identity(), s, 5, 6, 7), *at) == [(4, (i, j, k), 1)]
    both = joined([tagged(4, 2, 3, 4), tagged(5, 2, 1, 4)], 1)
    assert both.shape == (2, 4, 4)
    assert found(both, 1, 3, 2) == [(5, (const(1), const(0), const(2)), 1)]
    assert found(both, 1, 1, 2) == [(4, (const(1), const(1), const(2)), 1)]
    last = joined([tagged(4, 2, 3), tagged(5, 2, 1)], 1)
    assert last.shape == (2, 4)


def test_numbers() -> None:
    def of(rule: Any, *sources: Source, at: Any = (), shape: Any = ()) -> Any:
        s = simple(rule, sources, shape, lambda text: None)
        return None if s is None else s.read(HERE, list(at))

    assert of(alg.Constant(Fraction(3))) == term(c=3)
    assert of(alg.Constant(N)) == term(c=quotient(N, 1))
    assert of(alg.Constant(Fraction(0))) == []
    assert of(alg.Iota(5, 2), at=[variable(8)], shape=(4,)) == term((Read(1, ((5, ((8, 2),)),)), 1))
    a, b = tagged(4, 1), tagged(5, 1)
    first = [const(0)]
    product = of(alg.Monomial((Fraction(1), Fraction(1))), a, b, at=first, shape=(1,))
    assert product == term((Read(4, (const(0),)), 1), (Read(5, (const(0),)), 1))
    assert of(alg.Monomial((Fraction(1), Fraction(2))), a, b, at=first, shape=(1,)) is None
    assert of(alg.Linear((Fraction(2), Fraction(-1)), Fraction(7)), a, b, at=first, shape=(1,)) == [
        *term(c=7), *term((Read(4, (const(0),)), 1), c=2), *term((Read(5, (const(0),)), 1), c=-1),
    ]  # fmt: skip


def test_a_mean() -> None:
    rule = alg.Contract(((alg.ONE, "i"),), (), scale_by_count=True)
    s = contracted(rule, [tagged(4, 1, N)], lambda text: None)
    ((p, c),) = s.read(HERE, [])
    assert c == Quotient(1, N)
    assert p.factors[0][0].at[0] == const(0)  # type: ignore[union-attr]
    kept = alg.Contract((("i", "j"),), ("i", alg.ONE))
    assert contracted(kept, [tagged(4, 2, 3)], lambda text: None).shape == (2, 1)


def test_what_a_claim_says() -> None:
    t = Term.of(4, ((0, 3), (0, 1)), (0,), ())
    digits = Meaning(((2, 3),), (Cell((0, 0), (2, 3), ((t, 1),)),))
    other = Term.of(4, ((0, 1),), (5,), ())
    parts = Meaning(((4,),), (Cell((0,), (1,), ((along(4), 1),)), Cell((1,), (4,), ((other, 2),))))
    at = algebra()
    assert found(meaning_source(at, digits), 5) == [(4, (const(5),), 1)]
    assert found(meaning_source(at, parts), 0) == [(4, (const(0),), 1)]
    assert found(meaning_source(at, parts), 3) == [(4, (const(8),), 2)]
    mixed = Meaning(((2, 3), ()), (Cell((0, 0), (2, 3), ((t, 1),)),))
    assert found(meaning_source(at, mixed), 4, 0) == [(4, (const(4),), 1)]
    lead = Meaning(((), (4,)), (Cell((0,), (4,), ((along(4), 1),)),))
    assert found(meaning_source(at, lead), 0, 3) == [(4, (const(3),), 1)]
