"""Thresholds and one-hots rule by rule, with what each leaves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.certificate.test_rules import N

from shardproof.certificate.claims import Piece
from shardproof.certificate.exact import const, variable
from shardproof.certificate.guards import Guarding, confined, tightened
from shardproof.certificate.products import AtLeast, Equal, Product, Read
from shardproof.certificate.region import Region, Split

T = Read(2, (const(0),))
X = (Read(3, (variable(8),)), 1)


def test_a_guard_confines_one_side_or_two() -> None:
    p = Product(((8, 0, 6),), (X,))
    region = Region({8: (0, 6)}, ())

    def to(lo: int, hi: Any) -> Any:
        return confined(p, variable(8), lo, hi, region)

    assert to(0, 6) == to(0, None) == to(-1, 9) == [(p, 1)]
    assert to(0, 4) == [(p._replace(ranges=((8, 0, 4),)), 1)]
    assert to(2, 6) == to(2, None) == [(p._replace(ranges=((8, 2, 6),)), 1)]
    assert to(6, None) == to(7, 9) == to(-3, 0) == []
    more = Product(((8, 0, 6), (9, 0, 3), (10, 0, 2)), (X,))
    ((q, c),) = confined(more, variable(8), 2, 5, region) or ()
    assert (q.ranges, c) == (((8, 2, 5), (9, 0, 3), (10, 0, 2)), 1)
    shifted = confined(p, (3, ((8, 1),)), 5, 8, region)
    assert shifted == [(p._replace(ranges=((8, 2, 5),)), 1)]
    for a in ((0, ((8, 2),)), (0, ((8, 1), (9, 1)))):
        assert confined(p, a, 2, 5, Region({8: (0, 6), 9: (0, 6)}, ())) is None
    free = p._replace(ranges=())
    for lo, hi, at in ((2, None, 2), (2, 6, 2), (0, 4, 4), (2, 4, 2)):
        with pytest.raises(Split) as cut:
            confined(free, variable(8), lo, hi, region)
        assert (cut.value.var, cut.value.points) == (8, (at,))


def test_a_guard_of_two_indices_shortens_one() -> None:
    other = (9, 0, 3)
    p = Product(((8, 0, 9), other), (X,))
    region = Region({7: (0, 4), 8: (0, 9), 9: (0, 3)}, ())

    def to(lo: int, hi: int) -> Any:
        return [(p._replace(ranges=((8, lo, hi), other)), 1)]

    below, above = ((7, 1), (8, -1)), ((7, -1), (8, 1))
    assert tightened(p, (0, below), 0, region) == to(0, 4)
    assert tightened(p, (0, below), 2, region) == to(0, 2)
    assert tightened(p, (0, below), -2, region) == to(0, 6)
    assert tightened(p, (3, below), 0, region) == to(0, 7)
    assert tightened(p, (4, below), 0, region) == to(0, 8)
    assert tightened(p, (-1, above), 0, region) == to(1, 9)
    assert tightened(p, (-3, above), 0, region) == to(3, 9)
    assert tightened(p, (-3, above), 2, region) == to(5, 9)
    assert tightened(p, (-8, above), 0, region) == to(8, 9)
    for a, least in (
        ((0, above), 0),
        ((0, above), -2),
        ((9, below), 0),
        ((0, ((7, 1), (8, 2))), 3),
        ((-5, below), 0),
        ((-7, below), 0),
    ):
        assert tightened(p, a, least, region) is None


def test_two_one_hots_of_one_tensor() -> None:
    i = variable(7)
    region = Region({7: (0, 4), 8: (0, 4), 9: (0, 3)}, ())
    g, h = Equal(T, variable(8)), Equal(T, i)
    p = Product(((9, 0, 3), (8, 0, 4)), ((g, 1), (h, 1), X))
    left = Product(((9, 0, 3),), ((h, 1), (Read(3, (i,)), 1)))
    assert Guarding._two(p, g, h, region) == [(left, 1)]
    assert Guarding._two(p, h, g, region) == [(left, 1)]
    assert Guarding._two(p, g, g, region) == [(p._replace(factors=((h, 1), X)), 1)]
    twice = Equal(T, (0, ((8, 2),)))
    assert Guarding._two(p._replace(factors=((g, 1), (twice, 1))), g, twice, region) is None
    for at_ in ((4, ((7, 1),)), (-5, ((7, 1),)), (1, ((7, 1),))):
        far = Equal(T, at_)
        both = p._replace(factors=((h, 1), (far, 1)))
        assert Guarding._two(both, h, far, region) == []
        assert Guarding._two(both, far, h, region) == []
    turned = Equal(T, (3, ((8, -1),)))
    assert Guarding._two(p._replace(factors=((g, 1), (turned, 1))), g, turned, region) is None
    later = Equal(T, (2, ((8, 1),)))  # v is i - 2, where that is a v
    with pytest.raises(Split):
        Guarding._two(p._replace(factors=((later, 1), (h, 1), X)), later, h, region)


def test_two_guards_of_one_tensor() -> None:
    at = Guarding(lambda atom: None, {})
    region = Region({8: (0, 4)}, ())
    low, high = AtLeast(T, 2), AtLeast(T, 5)
    both = Product((), ((low, 1), (high, 1), X))
    for g, h in ((low, high), (high, low)):
        assert at._pair(both, g, h, region) == [(Product((), ((high, 1), X)), 1)]
    assert at._pair(both, low, AtLeast(T, N), region) is None
    hot = Equal(T, variable(8))
    p = Product(((8, 0, 4),), ((low, 1), (hot, 1)))
    for g, h in ((low, hot), (hot, low)):
        assert at._pair(p, g, h, region) == [(Product(((8, 2, 4),), ((hot, 1),)), 1)]


def test_a_sum_over_one_hots() -> None:
    g = Equal(T, (3, ((8, 1),)))
    p = Product(((8, 0, 4), (9, 0, 3)), ((g, 1), (Read(3, (variable(9),)), 1)))
    low, high = Guarding._total(p, g) or ((None, 0), (None, 0))
    rest = (Read(3, (variable(9),)), 1)
    assert low == (Product(((9, 0, 3),), (rest, (AtLeast(T, 3), 1))), 1)
    assert high == (Product(((9, 0, 3),), (rest, (AtLeast(T, 7), 1))), -1)
    for other in ((0, ((8, 2),)), (0, ((8, 1), (9, 1)))):
        h = Equal(T, other)
        assert Guarding._total(Product(((8, 0, 4),), ((h, 1),)), h) is None
    assert Guarding._total(Product(((8, 0, 4),), ((g, 1), X)), g) is None


def test_a_threshold_between_spans() -> None:
    at = Guarding(lambda atom: None, {2: [Piece(a, b, 1, 0) for a, b in ((0, 2), (5, 7), (9, 12))]})

    def of(k: int, n: int = 2) -> Any:
        g = AtLeast(T._replace(atom=n), k)
        found = at._among(Product((), ((g, 1),)), g)
        return found if not found else [p.factors for p, _ in found]

    assert of(-1) == of(0) == [()]
    assert of(1) is None
    assert of(2) == of(4) == [((AtLeast(T, 5), 1),)]
    assert of(5) is None
    assert of(6) is None
    assert of(7) == of(8) == [((AtLeast(T, 9), 1),)]
    assert of(12) == of(20) == []
    assert of(3, 1) is None
    at.spans[2] = [Piece(None, 2, 1, 0), Piece(5, None, 1, 0)]
    assert of(1) is None
    assert of(3) == [((AtLeast(T, 5), 1),)]
    assert of(6) is None


@pytest.mark.parametrize(
    ("g", "found"),
    [
        (AtLeast(T, 2), [()]),
        (AtLeast(T, 3), None),
        (AtLeast(T, 9), []),
        (AtLeast(T, 8), None),
        (Equal(T, const(1)), []),
        (Equal(T, const(2)), None),
        (Equal(T, const(9)), []),
        (Equal(T, const(8)), None),
        (Equal(T, (-4, ((8, 1),))), None),
        (Equal(T, (-5, ((8, 1),))), []),
        (AtLeast(Read(1, (const(3),)), 0), [()]),
        (AtLeast(Read(1, (const(-1),)), 0), []),
        (Equal(Read(1, (variable(8),)), variable(8)), [()]),
        (Equal(Read(1, (variable(8),)), (7, ())), []),
        (Equal(Read(1, (variable(8),)), (-1, ())), []),
        (Equal(Read(1, (variable(8),)), (6, ())), None),
        (Equal(Read(1, (variable(8),)), (0, ())), None),
        (Equal(Read(1, (variable(8),)), (N + 6, ())), []),
    ],
)
def test_a_guard_that_is_decided(g: Any, found: Any) -> None:
    """Values of the tensor are in [2, 9), the index is in [0, 7)."""
    at = Guarding(lambda atom: (2, 9), {})
    made = at.step(Product((), ((g, 1),)), Region({8: (0, 7)}, ()))
    assert (made if not made else [p.factors for p, c in made if c == 1]) == found
