"""Maxima and minima, over dims and of the members of a collective: what fits, and near misses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.certificate.test_rules import HERE, N, algebra, along, read, term
from tests.certificate.test_steps import tagged

from shardproof.certificate.claims import Atom, Term
from shardproof.certificate.exact import NotChecked, const, total, variable
from shardproof.certificate.extrema import _union, direct, of_members, over_dims
from shardproof.certificate.products import Product, Read, Sum
from shardproof.certificate.region import Boxes, Region
from shardproof.certificate.rules import Source
from shardproof.ops import base as alg


def extremum(
    fn: str, *operands: Any, hi: Any = (4,), lo: Any = None, free: int = 0, **how: Any
) -> Atom:
    start = (0,) * len(hi) if lo is None else lo
    return Atom(fn, fn, how.get("attrs", ()), operands, start, hi, free, how.get("whole", ()))


FLAT = ((along(4), 1),)
DIGITS = ((Term.of(4, ((0, 3), (0, 1)), (0,), ()), 1),)
OUTER = ((Term.of(4, ((0, 4), (0, 1)), (0,), ()), 1),)
# 6 the maximum of v[0 .. 4), 7 of 2 by 3 elements, 8 for every i of v[4 i + 0 .. 4), 9 the minimum
MORE = [
    extremum("max", FLAT), extremum("max", DIGITS, hi=(2, 3)),
    extremum("max", OUTER, hi=(9, 4), free=1), extremum("min", FLAT),
]  # fmt: skip
TOP, LOW = ("max", 6, 0), ("min", 9, 0)


def over(s: Source, claimed: Sum, *dims: int, keep: bool = False, kind: str = "max", at: Any = (),
         more: Any = MORE, region: Any = HERE) -> bool:  # fmt: skip
    rule = alg.Extremum(kind, dims, keep)
    return over_dims(algebra(*more), rule, s, region, at, claimed)


def vector(n: int = 4, first: int = 0) -> Source:
    return Source((n,), lambda r, at: term((Read(4, (total(((at[0], 1),), first),)), 1)))


def matrix(*shape: int) -> Source:
    """Elements in order."""

    def at_(r: Region, at: Any) -> Sum:
        flat = const(0)
        for a, n in zip(at, shape, strict=True):
            flat = total(((flat, n), (a, 1)))
        return term((Read(4, (flat,)), 1))

    return Source(shape, at_)


def named(k: int, *restr: Any, at: Any = ()) -> Sum:
    return term((Read(k, at, restr), 1))


def test_a_maximum_over_dims() -> None:
    assert over(vector(), named(6), 0)
    assert over(vector(), named(6), -1)
    assert over(matrix(2, 3), named(7), 0, 1)
    assert over(matrix(2, 3), named(7), 1, 0)
    assert over(matrix(2, 2), named(6), 0, 1)  # four elements in the same order
    assert over(vector(6), named(7), 0)
    assert over(vector(2, 1), named(6, (TOP, 1, 3)), 0)
    assert over(vector(), named(9), 0, kind="min")
    assert over(matrix(1, 4), named(6), 0, 1)


def test_a_maximum_of_something_else() -> None:
    assert not over(vector(4, 1), named(6), 0)
    assert not over(vector(2, 1), named(6, (TOP, 0, 2)), 0)
    swapped = Source((2, 3), lambda r, at: term((Read(4, (total(((at[0], 1), (at[1], 2))),)), 1)))
    assert not over(swapped, named(7), 0, 1)


@pytest.mark.parametrize(
    ("message", "run"),
    [
        ("another number of elements", lambda: over(vector(3), named(6), 0)),
        ("another number of elements", lambda: over(vector(5), named(6), 0)),
        ("another number of elements", lambda: over(vector(2, 1), named(6, (TOP, 1, 4)), 0)),
        ("is no max", lambda: over(vector(), named(9), 0)),
        ("is no min", lambda: over(vector(), named(6), 0, kind="min")),
        ("is no max", lambda: over(vector(), [*named(6), *named(6)], 0)),
        ("is no max", lambda: over(vector(), term((read(6), 1), c=2), 0)),
        ("is no max", lambda: over(vector(), named(4, at=(const(0),)), 0)),
        ("extremum of nothing", lambda: over(vector(0), named(6), 0)),
        ("extremum of nothing", lambda: over(matrix(4, 0), named(6), 0, 1)),
        (
            "is no max",
            lambda: over(vector(), named(6), 0, more=[extremum("max", FLAT, attrs=(1,))]),
        ),
        ("of another form", lambda: over(vector(), named(6, (("min", 6, 0), 0, 4)), 0)),
        ("of another form", lambda: over(vector(), named(6, (("in", 6, 0, TOP), 0, 4)), 0)),
    ],
)
def test_no_maximum(message: str, run: Any) -> None:
    with pytest.raises(NotChecked, match=message):
        run()


@pytest.mark.parametrize("keep", [True, False])
def test_beside_other_dims(keep: bool) -> None:
    region = Region({8: (0, 9)}, ())
    i = variable(8)

    def run(shape: tuple[int, ...], dim: int, at: Any, *, claim: Any = i) -> bool:
        index = [*at[:dim], *([const(0)] if keep else []), *at[dim:]]
        return over(matrix(*shape), named(8, at=(claim,)), dim, keep=keep, at=index, region=region)

    assert run((9, 4), 1, [i])
    assert not run((9, 4), 1, [i], claim=const(0))
    assert not run((9, 4), 1, [i], claim=(1, ((8, 1),)))
    assert run((1, 9, 4), 2, [const(0), i])
    assert run((9, 4, 1), 1, [i, const(0)])
    columns = ((Term.of(4, ((0, 1), (0, 9)), (0,), ()), 1),)
    more = [extremum("max", columns, hi=(9, 4), free=1)]
    index = [const(0), i] if keep else [i]
    for claim, right in ((i, True), (const(0), False)):
        claimed = named(6, at=(claim,))
        assert right == over(
            matrix(4, 9), claimed, 0, keep=keep, at=index, region=region, more=more
        )


@pytest.mark.parametrize("keep", [True, False])
def test_over_dims_of_one(keep: bool) -> None:
    """It is the element itself."""
    i, at = variable(8), [variable(8)]
    region = Region({8: (0, 4)}, ())
    s = matrix(4, 1)
    index = [i, const(0)] if keep else at
    assert over(s, term((Read(4, (i,)), 1)), 1, keep=keep, at=index, region=region)
    assert not over(s, term((Read(4, (const(0),)), 1)), 1, keep=keep, at=index, region=region)
    first = matrix(1, 4)
    index = [const(0), i] if keep else at
    assert over(first, term((Read(4, (i,)), 1)), 0, keep=keep, at=index, region=region)
    both = [*term((read(2), 1)), *term((read(3), 1))]
    assert over(Source((1,), lambda r, at: both), both, 0, keep=keep, at=[const(0)] if keep else [])
    # A name of a maximum of one element is compared as such.
    part = named(6, (TOP, 2, 3))
    assert over(vector(1, 2), part, 0, keep=keep, at=[const(0)] if keep else [])
    assert not over(vector(1, 1), part, 0, keep=keep, at=[const(0)] if keep else [])
    with pytest.raises(NotChecked, match="is no max"):
        over(matrix(1, 4), both, 0, 1)


def test_every_piece_is_compared() -> None:
    for cut in (1, 3):
        for wrong in ([0], [1]):

            def at_(r: Region, at: Any, cut: int = cut, wrong: Any = wrong) -> Sum:
                k = Boxes([((0,), (cut,)), ((cut,), (4,))]).find(r, at)
                return term((Read(4, (total(((at[0], 1),), int(k in wrong)),)), 1))

            assert not over(Source((4,), at_), named(6), 0)


# ------------------------------------------------------------------ of members


def of(*parts: Any, op: str = "max", more: Any = MORE) -> Any:
    sources = [Source((), lambda r, at, x=x: x) for x in parts]  # type: ignore[misc]
    terms = of_members(algebra(*more), op, sources).read(HERE, [])
    return terms


def whole(k: int, *restr: Any) -> Any:
    return [(Product((), ((Read(k, (), restr), 1),)), 1)]


def element(at: int) -> Sum:
    return term((Read(4, (const(at),)), 1))


def test_the_maximum_of_members() -> None:
    low, high = named(6, (TOP, 0, 2)), named(6, (TOP, 2, 4))
    assert of(low, high) == whole(6)
    assert of(high, low) == whole(6)
    assert of(named(6, (TOP, 0, 3)), named(6, (TOP, 1, 4))) == whole(6)
    assert of(named(6, (TOP, 0, 1)), named(6, (TOP, 2, 3)), named(6, (TOP, 1, 2))) == whole(
        6, (TOP, 0, 3)
    )
    assert of(named(6), named(6, (TOP, 1, 2))) == whole(6)
    assert of(low, element(2)) == whole(6, (TOP, 0, 3))
    assert of(element(2), low) == whole(6, (TOP, 0, 3))
    assert of(named(6, (TOP, 1, 4)), element(0)) == whole(6)
    assert of(low, low) == low
    both = [*term((read(2), 1)), *term((read(3), 1))]
    assert of(both, both) == both
    assert of(named(9, (LOW, 0, 2)), named(9, (LOW, 2, 4)), op="min") == whole(9)


STRIDED = extremum("max", ((Term.of(4, ((0, 2),), (1,), ()), 1),), hi=(9,))
TWO = extremum("max", ((along(4), 1), (Term.of(0, (None,), (), ()), 1)))
DOUBLED = extremum("max", ((along(4), 2),))
CONSTANT = extremum("max", ((Term.of(2, (None,), (), ()), 1),))


def test_an_element_between_others() -> None:
    part = named(6, (TOP, 0, 2))
    assert of(part, element(5), more=[STRIDED]) == whole(6, (TOP, 0, 3))
    for at in (4, 6, 7):
        with pytest.raises(NotChecked, match=r"unlike tensors|with a gap"):
            of(part, element(at), more=[STRIDED])


@pytest.mark.parametrize(
    ("message", "run"),
    [
        ("with a gap", lambda: of(named(6, (TOP, 0, 1)), named(6, (TOP, 2, 4)))),
        ("with a gap", lambda: of(named(6, (TOP, 2, 4)), named(6, (TOP, 0, 1)))),
        ("with a gap", lambda: of(named(6, (TOP, 0, 2)), element(3))),
        ("unlike", lambda: of(named(6), named(9))),
        ("unlike", lambda: of(named(6), element(2), op="min")),
        ("unlike", lambda: of(element(1), element(2))),
        ("unlike", lambda: of(named(6), term((read(2), 1)))),
        ("unlike", lambda: of(named(6), term((Read(4, (const(4),)), 1), c=2))),
        ("unlike", lambda: of(named(6), [*element(1), *element(2)])),
        ("unlike", lambda: of([*element(1), *element(2)], named(6))),
        ("unlike", lambda: of(named(8, at=(const(0),)), named(8, at=(const(1),)))),
        ("unlike", lambda: of(named(7, (("max", 7, 0), 0, 1)), named(7, (("max", 7, 0), 1, 2)))),
        ("unlike", lambda: of(named(6, (TOP, 0, 2)), element(2), more=[TWO])),
        ("unlike", lambda: of(named(6, (TOP, 0, 2)), element(2), more=[DOUBLED])),
        ("unlike", lambda: of(named(6, (TOP, 0, 2)), term((read(2), 1)), more=[CONSTANT])),
        ("inside another", lambda: of(named(6, (("in", 6, 0, TOP), 0, 2)), named(6, (TOP, 2, 4)))),
        ("inside another", lambda: of(named(6, (("in", 6, 0, TOP), 0, 2)), element(2))),
    ],
)
def test_members_that_have_no_maximum(message: str, run: Any) -> None:
    with pytest.raises(NotChecked, match=message):
        run()


def test_an_element_of_two_axes() -> None:
    """All of its index is compared."""
    two = Atom("z", "", (), (), (), (), 2, ())
    for walked in (0, 1):
        t = Term.of(6, ((walked, 1),), (3, 3), ())
        more = [two, extremum("max", ((t, 1),))]

        def at_(here: int, there: int, w: int = walked) -> Sum:
            place = [const(there), const(there)]
            place[w] = const(here)
            return term((Read(6, tuple(place)), 1))

        part = named(7, (("max", 7, 0), 0, 2))
        assert of(part, at_(5, 3), more=more) == whole(7, (("max", 7, 0), 0, 3))
        for wrong in (at_(5, 4), at_(5, 5), at_(6, 3)):
            with pytest.raises(NotChecked):
                of(part, wrong, more=more)


def test_maxima_of_other_tensors() -> None:
    other = [*MORE, Atom("w", "", (), (), (), (), 1, ()), extremum("max", ((along(10), 1),))]
    with pytest.raises(NotChecked, match="unlike"):
        of(named(6, (TOP, 0, 2)), named(11, (("max", 11, 0), 2, 4)), more=other)


def test_members_of_different_shapes() -> None:
    at = algebra(*MORE)
    with pytest.raises(NotChecked, match="different shapes"):
        of_members(at, "max", [tagged(4, 2), tagged(4, 3)])
    assert of_members(at, "max", [tagged(4, 2), tagged(4, 2)]).shape == (2,)
    alone = of_members(at, "max", [tagged(4, 2)])
    assert alone.shape == (2,)
    assert alone.read(HERE, [const(1)]) == element(1)


def test_the_interval_of_an_extremum() -> None:
    at = algebra(*MORE)
    assert direct(at, "max", 6, ()) == (TOP, 0, 4)
    assert direct(at, "max", 6, ((TOP, 1, 2),)) == (TOP, 1, 2)
    for op, k, restr in (("min", 6, ()), ("max", 7, ()), ("max", 6, ((TOP, 0, 1), (TOP, 1, 2)))):
        with pytest.raises(NotChecked, match="unlike"):
            direct(at, op, k, restr)  # type: ignore[arg-type]


def test_the_union_of_intervals() -> None:
    assert _union([(0, 2), (2, 4)]) == (0, 4)
    assert _union([(2, 4), (0, 2)]) == (0, 4)
    assert _union([(0, N), (N, 2 * N)]) == (0, 2 * N)
    assert _union([(0, 9), (2, 4)]) == (0, 9)
    assert _union([(0, 1), (4, 5), (1, 4)]) == (0, 5)
    for spans in ([(0, 1), (2, 3)], [(2, 3), (0, 1)], [(0, 1), (N + 1, 2 * N + 1)]):
        with pytest.raises(NotChecked, match="with a gap"):
            _union(list(spans))
