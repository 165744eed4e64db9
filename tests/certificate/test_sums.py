"""Comparisons of sums of products, apart from any certificate."""

from __future__ import annotations

from math import prod

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Atom
from shardproof.certificate.exact import Aff, variable
from shardproof.certificate.products import Product, Read, Sum
from shardproof.certificate.region import Region, digits
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


def test_digits_that_cross_a_border() -> None:
    """An index into rows of 8 is cut where it leaves a block of 91."""
    whole: dict[int, tuple[Size, Size]] = {8: (0, 16), 9: (0, 8)}
    at: Aff = (0, ((8, 8), (9, 1)))
    region = Region(whole, (at,))
    parts = list(region.visit(lambda r: digits(r, r.index[0], [3, 91]), 9, "it"))
    sizes = [prod(b - a for a, b in part.ranges.values()) for part, _ in parts]
    assert sorted((d[0][0], n) for (_, d), n in zip(parts, sizes, strict=True)) == [
        (0, 3), (0, 88), (1, 5), (1, 32),
    ]  # fmt: skip


def test_long_sums_are_not_written_out() -> None:
    whole: Sum = [(product(variable(8), (8, 0, 4000)), 1)]
    assert not algebra().equal(strided(range(4), 4, 1000), whole, HERE)


def test_intervals_join() -> None:
    n, v = symbol("N"), variable(8)
    parts: Sum = [(product(v, (8, 0, n)), 1), (product(v, (8, n, 2 * n)), 1)]
    assert algebra().equal(parts, [(product(v, (8, 0, 2 * n)), 1)], HERE)
    assert not algebra().equal(parts, [(product(v, (8, 0, 3 * n)), 1)], HERE)
    assert not algebra().equal(parts, [(product(v, (8, 0, 2 * n)), 2)], HERE)
