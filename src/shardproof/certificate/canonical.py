"""One name for all sums of products that differ in the intervals of their sums only.

Names of summed indices, their order and their starts are settled by how the factors read them.
Equal names mean equal bodies whatever the choice; another choice can only miss an equality.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Any

from shardproof.certificate.claims import Atom, Label, innermost
from shardproof.certificate.exact import (
    Aff,
    Coef,
    NotChecked,
    Rational,
    coef_plus,
    is_zero,
    replace,
)
from shardproof.certificate.products import AtLeast, Base, Equal, Exp, Product, affs
from shardproof.certificate.region import Range
from shardproof.ir.sizes import Size, Undecided, at_least, div_mod

MAX_GRID = 20000


Row = tuple[tuple[Aff, ...], Base, Rational]
"""The index functions of a factor, the factor, and its power."""


class Canonical:
    """Names of products over the atoms of one certificate; ``linear`` as in an algebra."""

    def __init__(self, atoms: list[Atom], linear: Mapping[int, frozenset[int]]) -> None:
        self.atoms, self.linear = atoms, linear

    def splits(self, atom: int, label: Label) -> bool:
        """Whether an atom is additive in the interval that a label names."""
        d = self.atoms[atom]
        if label[0] != "in":
            return d.fn == "sum"
        op = d.operands[label[2]]
        named = d.fn in ("prod", "sum")
        linear = op[0][1] == 1 if named else label[2] in self.linear.get(atom, ())
        return linear and not op[0][0].restr and self.splits(op[0][0].atom, label[3])

    def key(self, p: Product) -> tuple[Any, dict[Any, Range]]:
        """A key that is equal for equal products up to intervals, and the intervals."""
        ranges = {v: (a, b) for v, a, b in p.ranges}
        rows = [(affs(b), b, e) for b, e in p.factors]
        if len(ranges) > 1:
            rows = _merge(ranges, rows)
        if len(rows) > 1:
            rows = _ordered_rows(rows, ranges)
        names: dict[int, Aff] = {}
        boxes: dict[Any, Range] = {}
        if ranges:
            every = [a for at, _, _ in rows for a in at]
            for a in every:
                if sum([v in ranges for v, _ in a[1]]) == 1:
                    _number(a, ranges, names, boxes)
            if len(names) != len(ranges):
                for a in every:
                    _number(a, ranges, names, boxes)
        key = []
        for place, (at, b, e) in enumerate(rows):
            if names:
                at = tuple([replace(a, names) for a in at])
            key.append((self._head(b, e, place, boxes), e, at))
        return tuple(key), boxes

    def _head(self, b: Base, e: Rational, place: int, boxes: dict[Any, Range]) -> Any:
        if isinstance(b, Exp):
            return ("exp", b.inner.atom, b.inner.restr)
        if isinstance(b, AtLeast):
            return ("ge", b.base.atom, b.base.restr, b.least)
        if isinstance(b, Equal):
            return ("eq", b.base.atom, b.base.restr)
        kept = []
        for label, lo, hi in b.restr:
            if e == 1 and self.splits(b.atom, label):
                boxes[place, b.atom, label] = (lo, hi)
            else:
                kept.append((label, lo, hi))
        return ("read", b.atom, tuple(kept))

    def cancels(self, group: list[tuple[Product, dict[Any, Range], Coef]]) -> bool:
        """Whether a step function of the intervals is zero everywhere."""
        first = group[0][1]
        if all(boxes == first for _, boxes, _ in group[1:]):
            left: Coef = 0
            for _, _, c in group:
                left = coef_plus(left, c)
            return is_zero(left)
        dims = list(dict.fromkeys(d for _, boxes, _ in group for d in boxes))
        spans = [[boxes.get(d) or self._whole(d) for d in dims] for _, boxes, _ in group]
        return _steps_vanish(spans, [c for _, _, c in group])

    def _whole(self, dim: Any) -> Range:
        if isinstance(dim, int):
            raise NotChecked("sums over different indices")
        atom, q = innermost(self.atoms, dim[1], dim[2])
        return self.atoms[atom].lo[q], self.atoms[atom].hi[q]


# ------------------------------------------------------------------ helpers


def _ordered_rows(rows: list[Row], ranges: Mapping[int, Range]) -> list[Row]:
    """Factors by kind, atom and power; alike ones by what they read."""
    ranks: list[tuple[Any, ...]] = [(type(b).__name__, b.atom, e) for _, b, e in rows]
    if len(set(ranks)) < len(ranks):
        ranks = [(*rank, _free(r, ranges)) for rank, r in zip(ranks, rows, strict=True)]
    return [rows[k] for k in sorted(range(len(rows)), key=ranks.__getitem__)]


def _free(row: Row, ranges: Mapping[int, Range]) -> str:
    """The order of like factors; the names of summed indices play no part."""
    free = [
        (str(a[0]) if not any(v in ranges for v, _ in a[1]) else "",
         [(v if v not in ranges else 0, str(s)) for v, s in a[1]])
        for a in row[0]
    ]  # fmt: skip
    return str(free)


def _merge(ranges: dict[int, Range], rows: list[Row]) -> list[Row]:
    """Two indices that are everywhere read as the digits of one become that one."""
    for u, v in permutations(list(ranges), 2):
        if _digits_of_one(u, v, ranges, rows):
            n = ranges[v][1]
            (a, b) = ranges.pop(u)
            ranges[v] = (a * n, b * n)
            return _merge(ranges, [(tuple([_drop(x, u) for x in at]), b, e) for at, b, e in rows])
    return rows


def _digits_of_one(u: int, v: int, ranges: Mapping[int, Range], rows: list[Row]) -> bool:
    lo, n = ranges[v]
    if lo != 0:
        return False
    for at, _, _ in rows:
        for _, slopes in at:
            s = dict(slopes)
            if (u in s or v in s) and (u not in s or v not in s or s[u] != s[v] * n):
                return False
    return True


def _drop(a: Aff, u: int) -> Aff:
    return a[0], tuple(x for x in a[1] if x[0] != u)


def _number(
    a: Aff, ranges: Mapping[int, Range], names: dict[int, Aff], boxes: dict[Any, Range]
) -> None:
    """Name the summed indices of an index function; each is moved so that the function has no
    offset left that its stride divides."""
    c = a[0]
    new = [(v, s) for v, s in a[1] if v in ranges and v not in names]
    if len(new) > 1:
        new.sort(key=lambda x: (-len(str(x[1])), str(x[1])))
    for v, s in new:
        try:
            shift, c = div_mod(c, s)
        except Undecided:
            shift = 0
        name = -1 - len(names)
        names[v] = (-shift, ((name, 1),))
        lo, hi = ranges[v]
        boxes[name] = (lo + shift, hi + shift)


def _steps_vanish(spans: list[list[Range]], coefs: Iterable[Coef]) -> bool:
    cells: dict[tuple[int, ...], Coef] = {}
    borders = [ordered([x for row in spans for x in row[d]]) for d in range(len(spans[0]))]
    for row, c in zip(spans, coefs, strict=True):
        grid: list[tuple[int, ...]] = [()]
        for (a, b), points in zip(row, borders, strict=True):
            steps = range(points.index(a), points.index(b))
            grid = [(*g, k) for g in grid for k in steps]
            if len(grid) > MAX_GRID:
                raise NotChecked("too many intervals")
        for g in grid:
            cells[g] = coef_plus(cells[g], c) if g in cells else c
    return all(is_zero(c) for c in cells.values())


def ordered(points: list[Size]) -> list[Size]:
    """Sizes in rising order, each once."""
    out: list[Size] = []
    for x in points:
        k = 0
        while k < len(out) and out[k] != x and at_least(x, out[k]):
            k += 1
        if k < len(out) and out[k] == x:
            continue
        if k < len(out) and not at_least(out[k], x):
            raise NotChecked("intervals whose order is not known")
        out.insert(k, x)
    return out
