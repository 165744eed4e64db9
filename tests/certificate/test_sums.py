"""Comparisons of sums of products, apart from any certificate."""

from __future__ import annotations

from math import prod

import pytest

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Atom, Term
from shardproof.certificate.exact import Aff, variable
from shardproof.certificate.products import AtLeast, Exp, Product, Read, Sum
from shardproof.certificate.region import Region, Split, digits
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


def masked(queries: tuple[int, int], keys: tuple[int, int]) -> tuple[Sum, Region]:
    """The sum over the keys of ``[q >= k] a[k]``, for queries of a range."""
    at = AtLeast(Read(1, ((0, ((7, 1), (8, -1))),)), 0)
    a = Read(2, (variable(8),))
    return [(Product(((8, *keys),), ((at, 1), (a, 1))), 1)], Region({7: queries}, ())


def test_keys_after_all_queries_add_nothing() -> None:
    few, region = masked((2, 4), (0, 4))
    assert algebra().equal(few, masked((2, 4), (0, 4000))[0], region)
    for keys, last in ((3, 4), (4, 5)):  # query 3, then 4, sees a key that is left out
        short, region = masked((2, last), (0, keys))
        with pytest.raises(Split):
            algebra().equal(short, masked((2, last), (0, 40))[0], region)
    nothing, region = masked((0, 4), (4, 8))
    assert algebra().equal(nothing, [], region)


def filled(mask: Atom, fill: float = float("-inf"), known: bool = True) -> Algebra:
    """Atom 3 is a mask, atom 4 unknown scores that are filled where it is 1."""
    one = Term.of(2, ((0, 1),), (0,), ())
    scores, hidden = ((one, 1),), ((one._replace(atom=3), 1),)
    atom = Atom("x", "masked_fill", (fill,), (scores, hidden), (0,), (9,), 1, ())
    found = Algebra([unknown("1", 0), unknown("index", 1), unknown("a", 1), mask, atom])
    if known:
        found.linear[4] = frozenset()
    return found


def test_the_exponential_of_filled_scores() -> None:
    at, region = variable(7), Region({7: (0, 9)}, ())
    mine: Sum = [(Product((), ((Exp(Read(4, (at,))), 1),)), 1)]
    e, mask = (Exp(Read(2, (at,))), 1), (Read(3, (at,)), 1)
    seen: Sum = [(Product((), (e,)), 1), (Product((), (e, mask)), -1)]
    assert filled(unknown("m", 1)).equal(mine, seen, region)
    assert not filled(unknown("m", 1)).equal(mine, [(Product((), (e,)), 1)], region)
    assert not filled(unknown("m", 1), -3.0).equal(mine, seen, region)
    # What no node of the program computes may have a mask that is no condition.
    assert not filled(unknown("m", 1), known=False).equal(mine, seen, region)
    inverse: Sum = [(Product((), ((Exp(Read(4, (at,))), -1),)), 1)]
    assert not filled(unknown("m", 1)).equal(inverse, seen, region)
