"""Comparisons of sums of products, apart from any certificate."""

from __future__ import annotations

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Atom
from shardproof.certificate.exact import Aff, variable
from shardproof.certificate.products import Product, Read, Sum
from shardproof.certificate.region import Region
from shardproof.ir.sizes import Size, symbol

HERE = Region({}, ())


def unknown(name: str, axes: int) -> Atom:
    return Atom(name, "", (), (), (), (), axes, ())


def algebra() -> Algebra:
    """Atoms 2 and 3 are unknown functions of one index."""
    return Algebra([unknown("1", 0), unknown("index", 1), unknown("a", 1), unknown("b", 1)])


def product(at: Aff, *ranges: tuple[int, Size, Size]) -> Product:
    """The sum over ``ranges`` of ``a[at] b[at]``."""
    return Product(ranges, ((Read(2, (at,)), 1), (Read(3, (at,)), 1)))


def strided(starts: range, stride: int, count: int) -> Sum:
    return [(product((k, ((9, stride),)), (9, 0, count)), 1) for k in starts]


def test_sums_over_every_fourth_index_make_up_a_sum() -> None:
    whole: Sum = [(product(variable(8), (8, 0, 8)), 1)]
    assert algebra().equal(strided(range(4), 4, 2), whole, HERE)
    assert not algebra().equal(strided(range(3), 4, 2), whole, HERE)
    assert not algebra().equal(strided(range(1, 5), 4, 2), whole, HERE)
    assert not algebra().equal(strided(range(4), 4, 1), whole, HERE)


def test_long_sums_are_not_written_out() -> None:
    whole: Sum = [(product(variable(8), (8, 0, 4000)), 1)]
    assert not algebra().equal(strided(range(4), 4, 1000), whole, HERE)


def test_intervals_join() -> None:
    n, v = symbol("N"), variable(8)
    parts: Sum = [(product(v, (8, 0, n)), 1), (product(v, (8, n, 2 * n)), 1)]
    assert algebra().equal(parts, [(product(v, (8, 0, 2 * n)), 1)], HERE)
    assert not algebra().equal(parts, [(product(v, (8, 0, 3 * n)), 1)], HERE)
    assert not algebra().equal(parts, [(product(v, (8, 0, 2 * n)), 2)], HERE)
