"""Boxes, digits and functions of integers against counting: whatever is cut, every point is in one
part, and what is said of a part holds at each of its points."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from itertools import product as choices
from typing import Any

import pytest
from tests.certificate.test_rules import N

from shardproof.certificate import pieces as pw
from shardproof.certificate.claims import Piece
from shardproof.certificate.exact import Aff, NotChecked, const, variable
from shardproof.certificate.region import (
    Boxes,
    Region,
    Split,
    _digit_boxes,
    _one_block,
    digits,
    place,
)

# ------------------------------------------------------------------ boxes


def value(a: Aff, at: dict[int, int]) -> int:
    c: Any = a[0]
    return int(c + sum(at[v] * s for v, s in a[1]))  # type: ignore[misc]


def points(ranges: Any) -> Iterator[dict[int, int]]:
    for at in choices(*(range(a, b) for a, b in ranges.values())):
        yield dict(zip(ranges, at, strict=True))


def parts(ranges: dict[int, Any], a: Aff, look: Callable[[Region, Aff], Any]) -> list[Any]:
    """What holds on each part, after every point was found in one of them."""
    whole = Region(ranges, (a, *map(variable, ranges)))
    found = list(whole.visit(lambda r: look(r, r.index[0]), 200, "it"))
    seen = Counter(
        tuple(value(x, at) for x in r.index[1:]) for r, _ in found for at in points(r.ranges)
    )
    assert seen == Counter(tuple(at.values()) for at in points(ranges))
    return found


def radix(n: int, factors: list[int]) -> list[int]:
    out = []
    for f in reversed(factors[1:]):
        n, low = divmod(n, f)
        out.append(low)
    return [n, *reversed(out)]


CUTS: list[tuple[dict[int, Any], Aff, list[int]]] = [
    ({8: (0, 12)}, variable(8), [3, 4]),
    ({8: (0, 12)}, variable(8), [2, 2, 3]),
    ({8: (2, 9)}, variable(8), [3, 4]),
    ({8: (5, 7)}, variable(8), [3, 4]),
    ({8: (0, 7)}, (5, ((8, 1),)), [3, 4]),
    ({8: (0, 4)}, (0, ((8, 3),)), [3, 4]),
    ({8: (0, 6)}, (0, ((8, 2),)), [3, 4]),
    ({8: (0, 5)}, (2, ((8, 2),)), [3, 4]),
    ({8: (0, 5)}, (3, ((8, 2),)), [4, 4]),
    ({8: (0, 3), 9: (0, 4)}, (0, ((8, 4), (9, 1))), [3, 4]),
    ({8: (0, 3), 9: (0, 4)}, (0, ((8, 4), (9, 1))), [2, 6]),
    ({8: (0, 3), 9: (0, 4)}, (0, ((8, 4), (9, 1))), [4, 3]),
    ({8: (0, 2), 9: (0, 4)}, (4, ((8, 4), (9, 1))), [3, 4]),
    ({8: (0, 2), 9: (0, 6)}, (0, ((8, 6), (9, 1))), [3, 4]),
    ({8: (1, 3), 9: (2, 5)}, (0, ((8, 6), (9, 1))), [3, 3, 2]),
    ({8: (0, 2), 9: (0, 3), 10: (0, 2)}, (0, ((8, 6), (9, 2), (10, 1))), [4, 3]),
    ({8: (0, 2), 9: (0, 3), 10: (0, 2)}, (0, ((8, 6), (9, 2), (10, 1))), [2, 2, 3]),
]


@pytest.mark.parametrize(("ranges", "a", "factors"), CUTS)
def test_digits(ranges: Any, a: Aff, factors: list[int]) -> None:
    try:
        found = parts(ranges, a, lambda r, x: (x, digits(r, x, factors)))
    except NotChecked:
        pytest.skip("it is not split")
    for r, (x, made) in found:
        for at in points(r.ranges):
            assert [value(d, at) for d in made] == radix(value(x, at), factors)
            assert value(place(factors, made), at) == value(x, at)


def test_most_digits_are_split() -> None:
    left = []
    for ranges, a, factors in CUTS:
        try:
            parts(ranges, a, lambda r, x, f=factors: digits(r, x, f))  # type: ignore[misc]
        except NotChecked:
            left.append(factors)
    assert len(left) <= 2


def test_digits_of_random_indices() -> None:
    rng = random.Random(3)
    split = 0
    for _ in range(300):
        sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
        ranges, slopes, s = {}, [], rng.choice((1, 1, 2))
        for v, n in enumerate(sizes, 8):
            lo = rng.choice((0, 0, 1))
            ranges[v] = (lo, lo + n)
            slopes.append((v, s))
            s *= n + lo
        a: Aff = (rng.choice((0, 0, 1, 3)), tuple(slopes))
        factors = [99, *(rng.randint(2, 4) for _ in range(rng.randint(1, 2)))]
        try:
            found = parts(ranges, a, lambda r, x, f=factors: (x, digits(r, x, f)))  # type: ignore[misc]
        except NotChecked:
            continue
        split += 1
        for r, (x, made) in found:
            for at in points(r.ranges):
                assert [value(d, at) for d in made] == radix(value(x, at), factors)
    assert split > 200


@pytest.mark.parametrize(
    ("lo", "hi", "n"), [(lo, hi, n) for n in (2, 3) for lo in range(7) for hi in range(lo, 8)]
)
def test_boxes_of_two_digits(lo: int, hi: int, n: int) -> None:
    found = Counter(
        q * n + r
        for a, b, c, d in _digit_boxes(lo, hi, n)
        for q in range(a, b)
        for r in range(c, d)
    )
    assert found == Counter(range(lo, hi))


def test_boxes_of_digits_of_any_size() -> None:
    assert _digit_boxes(0, 3 * N, 3) == [(0, N, 0, 3)]
    assert _digit_boxes(1, 3 * N, 3) == [(0, 1, 1, 3), (1, N, 0, 3)]
    assert _digit_boxes(0, 3 * N + 1, 3) == [(0, N, 0, 3), (N, N + 1, 0, 1)]
    with pytest.raises(NotChecked, match="order is not known"):
        _digit_boxes(7, 3 * N, 3)


def test_one_block() -> None:
    for lo, hi, at in choices(range(5), range(1, 9), range(3)):
        if lo < hi:
            same = len({(x + at) // 3 for x in range(lo, hi)}) == 1
            assert _one_block((lo, hi), at, 3) == same
    assert not _one_block(None, 0, 3)
    assert not _one_block((0, N), 0, 3)


BORDERS = [[0, 3, 7, 12], [0, 0, 5, 12], [0, 12], [0, 1, 2, 12], [0, 4, 4, 12]]


@pytest.mark.parametrize("borders", BORDERS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("ranges", "a"),
    [
        ({8: (0, 12)}, variable(8)),
        ({8: (3, 7)}, variable(8)),
        ({8: (2, 8)}, variable(8)),
        ({8: (0, 4)}, (0, ((8, 3),))),
        ({8: (0, 3), 9: (0, 4)}, (0, ((8, 4), (9, 1)))),
        ({8: (0, 2), 9: (0, 3)}, (5, ((8, 3), (9, 1)))),
        ({8: (0, 4), 9: (0, 3)}, (0, ((8, 3), (9, 1)))),
        ({}, const(7)),
        ({8: (0, 6)}, (11, ((8, -1),))),
    ],
)
def test_the_interval_of_an_index(borders: list[int], turned: bool, ranges: Any, a: Aff) -> None:
    cells = [((x,), (y,)) for x, y in pairwise(borders)]
    cells = cells[::-1] if turned else cells
    try:
        found = parts(ranges, a, lambda r, x: (x, Boxes(cells).find(r, [x])))
    except NotChecked:
        assert a[1]
        assert a[1][0][1] < 0
        return
    for r, (x, k) in found:
        assert all(cells[k][0][0] <= value(x, at) < cells[k][1][0] for at in points(r.ranges))


def test_boxes_of_two_axes() -> None:
    cells = [((0, 0), (2, 4)), ((2, 0), (4, 1)), ((2, 1), (4, 4))]
    whole = Region({8: (0, 4), 9: (0, 4)}, (variable(8), variable(9)))
    found = list(whole.visit(lambda r: Boxes(cells).find(r, r.index), 50, "it"))
    seen = Counter()
    for r, k in found:
        for at in points(r.ranges):
            i, j = (value(x, at) for x in r.index)
            (a, b), (c, d) = cells[k]
            assert a <= i < c
            assert b <= j < d
            seen[i, j] += 1
    assert seen == Counter(choices(range(4), repeat=2))


def test_where_boxes_start() -> None:
    assert Boxes([((0,), (2,)), ((2,), (4,))]).starts == [0, 2]
    assert Boxes([((2,), (4,)), ((0,), (2,))]).starts == [0, 2]
    assert Boxes([((0,), (N,)), ((N,), (2 * N,))]).starts == []
    at = [((0,), (2,)), ((2,), (N + 2,))]
    far = Region({8: (0, N)}, ())
    assert Boxes(at).find(far, [(2, ((8, 1),))]) == 1


def test_the_values_of_an_index() -> None:
    r = Region({8: (1, 4), 9: (0, 5)}, ())
    for s, t in choices((-2, -1, 0, 1, 3), repeat=2):
        a: Aff = (7, ((8, s), (9, t)))
        every = [value(a, at) for at in points(r.ranges)]
        assert r.bounds(a) == (min(every), max(every))
        for lo, hi in choices(range(-5, 25, 3), repeat=2):
            assert r.inside(a, lo, hi) == all(lo <= x < hi for x in every)


def test_strides_of_any_size() -> None:
    r = Region({8: (0, 4)}, ())
    assert r.bounds((0, ((8, N),))) == (0, 3 * N)
    assert r.bounds((0, ((8, 1 - N),))) == (3 - 3 * N, 0)
    for s in (2 - N, N - 2):
        with pytest.raises(NotChecked, match="sign of the stride"):
            r.bounds((0, ((8, s),)))


def test_a_region_is_cut() -> None:
    r = Region({8: (0, 6)}, (variable(8),))
    for at in range(7):
        lo, hi = r.parts(Split(8, at))
        seen = [value(p.index[0], x) for p in (lo, hi) for x in points(p.ranges)]
        assert seen == list(range(6))
    for at in (-1, 7):
        with pytest.raises(NotChecked, match="outside its range"):
            r.parts(Split(8, at))

    def cut(part: Region) -> None:
        lo, hi = next(iter(part.ranges.values()), (0, 1))
        if hi - lo > 1:  # type: ignore[operator]
            raise Split(next(iter(part.ranges)), lo + 1)

    assert len(list(r.visit(cut, 5, "it"))) == 6
    with pytest.raises(NotChecked, match="too many pieces"):
        list(r.visit(cut, 4, "it"))
    with pytest.raises(Split):
        list(r.visit(cut, 5, "it", {8: 0}))


# ------------------------------------------------------------------ functions of an integer

SPAN = range(-8, 12)
FUNCTIONS: list[tuple[Piece, ...]] = [
    pw.WHOLE,
    (Piece(None, None, 1, -3),),
    (Piece(None, None, 0, 2),),
    (Piece(None, 2, 0, 1), Piece(2, None, 0, 0)),
    (Piece(None, 0, 0, 0), Piece(0, 4, 1, 2), Piece(4, None, 0, 9)),
    (Piece(None, -1, 1, 1), Piece(-1, 3, 0, 3), Piece(3, None, 1, -1)),
    (Piece(None, 3, 0, 0), Piece(3, None, 0, 1)),
]
CONDITIONS = [FUNCTIONS[3], FUNCTIONS[6], (Piece(None, None, 0, 1),), (Piece(None, None, 0, 0),)]


def at(p: Any, t: int) -> int:
    (x,) = [x for x in p if (x.lo is None or x.lo <= t) and (x.hi is None or t < x.hi)]
    return int(x.a * t + x.c)


COMPARED: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda x, k: x < k, "le": lambda x, k: x <= k, "gt": lambda x, k: x > k,
    "ge": lambda x, k: x >= k, "eq": lambda x, k: x == k, "ne": lambda x, k: x != k,
}  # fmt: skip


@pytest.mark.parametrize("kind", COMPARED)
def test_comparisons(kind: str) -> None:
    for p, k in choices(FUNCTIONS, range(-4, 6)):
        found = pw.compared(p, kind, k)
        assert [at(found, t) for t in SPAN] == [COMPARED[kind](at(p, t), k) for t in SPAN]


def test_the_order_of_symbols() -> None:
    assert pw.compared([Piece(None, None, 0, N)], "lt", N + 1) == [Piece(None, None, 0, 1)]
    assert pw.compared([Piece(None, None, 0, N)], "ge", N) == [Piece(None, None, 0, 1)]
    assert pw.compared([Piece(None, None, 0, N)], "lt", 1) == [Piece(None, None, 0, 0)]
    for c in (2, N - 1):
        with pytest.raises(NotChecked, match="order of"):
            pw.compared([Piece(None, None, 0, N)], "lt", 2 * c)


def test_logic_and_products() -> None:
    for p, q in choices(CONDITIONS, repeat=2):
        for kind, f in (("and", min), ("or", max), ("xor", lambda a, b: a ^ b)):
            found = pw.combine((p, q), lambda x, k=kind: pw.logic(k, x))  # type: ignore[misc]
            assert [at(found, t) for t in SPAN] == [f(at(p, t), at(q, t)) for t in SPAN]
    for p in CONDITIONS:
        found = pw.combine((p,), lambda x: pw.logic("not", x))
        assert [at(found, t) for t in SPAN] == [1 - at(p, t) for t in SPAN]
    for p, q in choices(FUNCTIONS, CONDITIONS):
        for pair in ((p, q), (q, p)):
            found = pw.combine(pair, pw.times)
            assert [at(found, t) for t in SPAN] == [at(p, t) * at(q, t) for t in SPAN]
    assert pw.times([(0, 3), (0, 5)]) == (0, 15)
    assert pw.times([(0, N), (0, 5)]) == (0, 5 * N)
    assert pw.times([(2, 1), (0, 0)]) == (0, 0)
    for x in ((0, 2), (0, N), (1, 0), (1, 1)):
        with pytest.raises(NotChecked, match="no constant on a piece"):
            pw.truth(x)


def test_the_same_function() -> None:
    for p, q in choices(FUNCTIONS, repeat=2):
        assert pw.same(p, q) == all(at(p, t) == at(q, t) for t in SPAN)
    split = (Piece(None, 2, 1, 0), Piece(2, None, 1, 0))
    assert pw.same(split, pw.WHOLE)
    assert pw.same(pw.WHOLE, split)


def test_parts_of_a_function() -> None:
    for p, lo, n in choices(FUNCTIONS, range(-4, 6), range(5)):
        found = pw.clip(p, (lo, lo + n))
        assert [at(found, t) for t in range(lo, lo + n)] == [at(p, t) for t in range(lo, lo + n)]
        assert all(lo <= x.lo and x.hi <= lo + n for x in found)  # type: ignore[operator]
    assert pw.clip(pw.WHOLE, None) == list(pw.WHOLE)


ENDS = [None, *range(-4, 8)]


def test_pieces_inside_a_table() -> None:
    for lo, hi, a, c in choices(ENDS, ENDS, (0, 1), range(-3, 7)):
        if lo is not None and hi is not None and hi < lo:
            continue
        p = Piece(lo, hi, a, c)
        span = [t for t in range(-30, 30) if (lo is None or lo <= t) and (hi is None or t < hi)]
        every = all(0 <= a * t + c < 4 for t in span)
        if span and (a == 0 or (lo is not None and hi is not None)):
            assert pw.inside(p, 4) == every
        elif span:
            assert not pw.inside(p, 4)
        cut = pw.trimmed(p, 4)
        left = [t for t in span if a == 0 or 0 <= t + c < 4]
        mine = [] if cut is None else [
            t for t in span
            if (cut.lo is None or cut.lo <= t) and (cut.hi is None or t < cut.hi)
        ]  # fmt: skip
        assert mine == left
    assert not pw.inside(Piece(0, 2, 2, 0), 4)
    assert pw.trimmed(Piece(0, 9, 2, 0), 4) == Piece(0, 9, 2, 0)


def test_pieces_in_order() -> None:
    for p in FUNCTIONS:
        pw.well_formed(p)
    for ends in (
        [None, 3, 2, None],
        [None, None, None],
        [None, 2, None, None],
        [0, 3, None],
        [None, 3],
    ):
        p = [Piece(a, b, 0, 0) for a, b in pairwise(ends)]
        with pytest.raises(NotChecked, match="cover the integers"):
            pw.well_formed(p)
    with pytest.raises(NotChecked, match="in order"):
        pw.well_formed([Piece(None, 3, 0, 0), Piece(4, None, 0, 0)])
    pw.well_formed([Piece(None, 3, 0, 0), Piece(3, 3, 0, 0), Piece(3, None, 0, 0)])
