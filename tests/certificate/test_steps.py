"""Steps of the comparison of sums, and of reading tensors, that nothing else looks at alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.certificate.test_rules import (
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

from shardproof.certificate.algebra import _is_filled, _written_out
from shardproof.certificate.claims import Atom
from shardproof.certificate.exact import NotChecked, const, quotient, variable
from shardproof.certificate.products import AtLeast, Exp, Product, Read, Sum, sole
from shardproof.certificate.region import Region
from shardproof.certificate.rules import (
    Moved,
    Source,
    added,
    contracted,
    joined,
    label_sizes,
    read_through,
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
        at.operand(read(6, ((("in", 6, 0, SUM), 0, 2),)), 0, ())


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
