"""Collectives with the rank as an index, step by step: what joins, and near misses that do not."""

from __future__ import annotations

from typing import Any

import pytest

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Atom, Lin, Term
from shardproof.certificate.exact import Aff, NotChecked, const, quotient, variable
from shardproof.certificate.products import Exp, Product, Read, Sum
from shardproof.certificate.ranks import Ranks, _lifted
from shardproof.certificate.region import Boxes, Region, Split
from shardproof.certificate.rules import Source
from shardproof.ir.graph import Mesh
from shardproof.ir.sizes import only_symbol, symbol

N = symbol("N")
MESH = Mesh((("r", N), ("one", 1), ("two", 2)))
HERE = MESH.index("r")
R = only_symbol(HERE)
EMPTY = Region({}, ())


def reduction(fn: str, of: int, hi: Any, lo: Any = 0) -> Atom:
    operand: Lin = ((Term.of(of, ((0, 1),), (0,), ()), 1),)
    return Atom(fn, fn, (), (operand,), (lo,), (hi,), 0, ())


# 2 an unknown of one axis, 3 its sum, 4 its maximum, 5 a sum with ends of every rank's own,
# 6 an unknown that differs
ATOMS = [
    *(Atom("x", "", (), (), (), (), n, ()) for n in (0, 1, 1)),
    reduction("sum", 2, 4 * N), reduction("max", 2, N), reduction("sum", 2, HERE + 1, HERE),
    Atom("w", "", (), (), (), (), 0, ()),
]  # fmt: skip
SUM, MAX = ("sum", 3, 0), ("max", 4, 0)


def ranks() -> Ranks:
    return Ranks(Algebra(ATOMS), MESH, {6})


def read(k: int, *restr: Any, at: Any = ()) -> Read:
    return Read(k, at, restr)


def product(*factors: Any, ranges: Any = ()) -> Product:
    return Product(ranges, tuple((f, 1) for f in factors))


def summed(p: Product, c: Any = 1) -> Any:
    (one,) = ranks()._sum_one(p, c, R, N)
    return one


MINE = (SUM, 4 * HERE, 4 * HERE + 4)
FIRST = read(2, at=(const(0),))


def test_parts_of_a_sum_make_up_the_sum() -> None:
    assert summed(product(read(3, MINE))) == (product(read(3)), 1)
    later = (SUM, 4 * HERE + 8, 4 * HERE + 12)
    assert summed(product(read(3, later))) == (product(read(3, (SUM, 8, 4 * N + 8))), 1)


def test_equal_terms_are_counted() -> None:
    assert summed(product()) == (product(), quotient(N, 1))
    assert summed(product(), 3) == (product(), quotient(3 * N, 1))
    assert summed(product(FIRST), 2) == (product(FIRST), quotient(2 * N, 1))
    half = read(3, (SUM, 0, 2))
    assert summed(product(half)) == (product(half), quotient(N, 1))


@pytest.mark.parametrize(
    ("message", "p"),
    [
        ("over ranks of products", product(FIRST, FIRST)),
        ("over ranks of products", product(FIRST, ranges=((8, 0, 4),))),
        ("make up no interval", product(read(3, (SUM, 4 * HERE, 4 * HERE + 3)))),
        ("make up no interval", product(read(3, (SUM, 4 * HERE, 5 * HERE + 4)))),
        ("make up no interval", product(read(3, (SUM, 0, 4 * HERE + 4)))),
        ("make up no interval", product(read(3, (SUM, 4 * HERE, 4 * N)))),
        ("make up no interval", product(read(3, MINE, MINE))),
        ("make up no interval", Product((), ((read(3, MINE), 2),))),
        ("make up no interval", product(read(4, (MAX, HERE, HERE + 1)))),
        ("parts that depend on the rank", product(read(2, at=(const(HERE),)))),
        ("parts that depend on the rank", product(read(2, at=((0, ((8, HERE),)),)))),
        ("another tensor on every rank", product(read(5))),
        ("another tensor on every rank", product(read(6))),
        ("another tensor on every rank", product(Exp(FIRST))),
    ],
)
def test_no_sum_over_the_ranks(message: str, p: Product) -> None:
    with pytest.raises(NotChecked, match=message):
        summed(p)


def test_a_coefficient_of_a_rank() -> None:
    with pytest.raises(NotChecked, match="coefficient that depends on the rank"):
        summed(product(FIRST), quotient(HERE + 1, 1))


# ------------------------------------------------------------------ maxima


def extreme(*terms: tuple[Product, Any]) -> Sum:
    return ranks()._extreme(list(terms), "max", R, N)


def test_parts_of_a_maximum() -> None:
    part = product(read(4, (MAX, HERE, HERE + 1)))
    assert extreme((part, 1)) == [(product(read(4)), 1)]
    same: tuple[Product, Any] = (product(FIRST), 3)
    assert extreme(same) == [same]
    some: tuple[Product, Any] = (product(read(4, (MAX, 0, 2))), 1)
    assert extreme(some) == [some]


@pytest.mark.parametrize(
    ("message", "terms"),
    [
        ("make up no interval", [(product(read(4, (MAX, HERE, HERE + 2))), 1)]),
        ("make up no interval", [(product(read(4, (MAX, 0, HERE + 1))), 1)]),
        ("extremum of parts of sums", [(product(read(3, MINE)), 2)]),
        ("extremum of parts of sums", [(product(read(3, (SUM, 4 * HERE, 4 * N))), 2)]),
        ("extremum of parts of sums", [(product(read(3, (SUM, 0, 4 * HERE + 4))), 2)]),
        ("make up no interval", [(product(read(4, (MAX, HERE, N))), 1)]),
        ("extremum of parts of sums", [(product(read(3, MINE)), 1), (product(FIRST), 1)]),
        ("extremum of unlike", [(product(read(3, MINE)), 1)]),
        ("extremum of parts that depend", [(product(read(2, at=(const(HERE),))), 1)]),
        ("extremum of parts that depend", [(product(read(2, at=((0, ((8, HERE),)),))), 1)]),
        ("another tensor on every rank", [(product(read(6)), 1)]),
        ("another tensor on every rank", [(product(FIRST, Exp(FIRST)), 1)]),
        ("coefficient that depends", [(product(FIRST), quotient(HERE, 1))]),
    ],
)
def test_no_maximum_over_the_ranks(message: str, terms: Any) -> None:
    with pytest.raises(NotChecked, match=message):
        extreme(*terms)


# ------------------------------------------------------------------ reading another rank


def given(*terms: Any, shape: Any = (4,)) -> Source:
    return Source(shape, lambda r, at: list(terms))


def row(r: Region, at: Any) -> Sum:
    """``x[4 r + i]``."""
    first, slopes = at[0]
    return [(product(read(2, at=((first + 4 * HERE, slopes),))), 1)]


ALONG: Aff = variable(8)
GATHER: dict[str, Any] = {"group": ("r",), "dim": 0}


def gathered(s: Source, at: Aff, hi: Any, **attrs: Any) -> Sum:
    made = ranks().run("all_gather", s, {**GATHER, **attrs}, "f32")
    assert made.shape == (4 * N,)
    return made.read(Region({8: (0, hi)}, ()), [at])


def test_the_parts_of_all_ranks_are_gathered() -> None:
    at: Aff = (0, ((8, 4),))
    assert gathered(Source((4,), row), at, N) == [(product(read(2, at=(at,))), 1)]
    low: Aff = (8, ((8, 1),))
    assert gathered(Source((4,), row), low, 4) == [(product(read(2, at=(low,))), 1)]


def test_the_own_place_is_put_back() -> None:
    at: Aff = (4 * HERE, ((8, 1),))
    assert gathered(Source((4,), row), at, 4) == [(product(read(2, at=(at,))), 1)]


@pytest.mark.parametrize(
    ("message", "term"),
    [
        ("part of a sum that depends on the rank, at an index", (product(read(3, MINE)), 1)),
        ("part of a sum that depends", (product(read(3, (SUM, 4 * HERE, 4 * N))), 1)),
        ("part of a sum that depends", (product(read(3, (SUM, 0, 4 * HERE + 4))), 1)),
        ("another tensor on every rank", (product(read(6)), 1)),
        ("another tensor on every rank", (product(read(5)), 1)),
        ("coefficient that depends", (product(FIRST), quotient(HERE + 1, 1))),
        ("stride that depends on the rank", (product(read(2, at=((0, ((9, HERE),)),))), 1)),
    ],
)
def test_what_is_not_read_of_another_rank(message: str, term: Any) -> None:
    with pytest.raises(NotChecked, match=message):
        gathered(given(term), (0, ((8, 4),)), N)


def test_part_of_a_sum_of_the_first_rank() -> None:
    made = ranks()._from(given((product(read(3, MINE)), 1)), ("r",), 0)
    assert made.read(EMPTY, [const(0)]) == [(product(read(3, (SUM, 0, 4))), 1)]


def test_a_piece_that_depends_on_the_rank() -> None:
    made = ranks().run("all_gather", Source((4,), row), GATHER, "f32")
    for span in ((0, HERE + 1), (HERE, N)):
        with pytest.raises(NotChecked, match="a piece that depends on the rank"):
            made.read(Region({8: span}, ()), [ALONG])


@pytest.mark.parametrize("cut", [1, N - 1])
def test_pieces_are_looked_at_on_all_ranks(cut: Any) -> None:
    """The first, or the last, reads another piece of what is summed."""

    def pieces(r: Region, at: Any) -> Sum:
        k = Boxes([((0,), (cut,)), ((cut,), (N,))]).find(r, at)
        return [(product(read(2, at=(const(k),))), 1)]

    made = ranks().reduced("sum", Source((N,), pieces), ("r",), "f32")
    with pytest.raises((NotChecked, Split)):
        made.read(EMPTY, [const(HERE)])


@pytest.mark.parametrize(
    ("message", "axes", "position"),
    [
        ("from a rank that is no number", ("r",), None),
        ("from a rank other than the first", ("r",), 1),
        ("from a rank other than the first", ("r", "two"), 2),
    ],
)
def test_no_broadcast(message: str, axes: tuple[str, ...], position: Any) -> None:
    with pytest.raises(NotChecked, match=message):
        ranks()._from(given(), axes, position)


def test_broadcasts() -> None:
    two = MESH.index("two")
    term = (product(read(2, at=(const(two),))), 1)
    for axes, position, where in (
        (("two",), 1, 1), (("two",), 0, 0), (("r", "two"), 1, 1), (("two", "r"), 0, 0),
    ):  # fmt: skip
        made = ranks()._from(given(term), axes, position)
        assert made.read(EMPTY, [const(0)]) == [(product(read(2, at=(const(where),))), 1)]


def test_places_along_axes() -> None:
    assert ranks().place(("r",)) == HERE
    assert ranks().place(("one",)) == 0
    assert ranks().place(("r", "two")) == 2 * HERE + MESH.index("two")
    assert ranks().place(("two", "one")) == MESH.index("two")


def test_an_index_is_lifted() -> None:
    assert _lifted((3 + 2 * HERE, ((8, 5),)), R, variable(7)) == (3, ((7, 2), (8, 5)))
    with pytest.raises(NotChecked, match="a stride that depends on the rank"):
        _lifted((0, ((8, HERE),)), R, variable(7))


def test_on_which_ranks_an_atom_depends() -> None:
    mine = ranks()
    assert mine.symbols_of(2, ()) == frozenset()
    assert mine.symbols_of(5, ()) == {R}
    assert mine.symbols_of(5, ((("sum", 5, 0), 0, 1),)) == frozenset()
    assert mine.symbols_of(6, ()) == {R, only_symbol(MESH.index("two"))}
