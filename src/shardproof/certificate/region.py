"""Boxes of index variables, and where a tensor is read inside one.

A claim is checked box by box. Where a tensor is cut inside the box, or a dim is counted in other
digits than the index at hand, the box itself is cut (:class:`Split`) and the check starts again
on each part: so a check always sees one formula for each operand.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TypeVar

from shardproof.certificate.exact import Aff, NotChecked, const, replace, shifted, total, variable
from shardproof.ir.sizes import Size, Undecided, at_least, div_mod, divides

Range = tuple[Size, Size]
T = TypeVar("T")
_numbers = [count(1)]


def fresh() -> int:
    """A new index variable."""
    return next(_numbers[0])


def restart() -> None:
    """Number variables from 1 again, so that a check does not depend on those before it."""
    _numbers[0] = count(1)


class Split(Exception):
    """The variable ``var`` must be cut at points in rising order (``radix`` None), or written in
    two digits: ``var + shift = radix * outer + inner``."""

    def __init__(self, var: int, *points: Size, radix: Size | None = None) -> None:
        super().__init__(var)
        self.var, self.points, self.radix = var, points, radix


@dataclass(slots=True)
class Region:
    """Ranges of variables, and index functions that follow when a variable is cut."""

    ranges: dict[int, Range]
    index: tuple[Aff, ...]

    @staticmethod
    def of(ranges: dict[int, Range], index: Sequence[Aff]) -> Region:
        """The region with variables of a single value replaced by it."""
        single = {v: const(a) for v, (a, b) in ranges.items() if b - a == 1}
        if not single:
            return Region(ranges, tuple(index))
        rest = {v: r for v, r in ranges.items() if v not in single}
        return Region(rest, tuple(replace(a, single) for a in index))

    def bounds(self, a: Aff) -> Range:
        """The least and the greatest value of ``a``, attained or not."""
        lo = hi = a[0]
        for v, s in a[1]:
            first, last = self.ranges[v]
            if s == 1:
                lo, hi = lo + first, hi + (last - 1)
            elif at_least(s, 0):
                lo, hi = lo + s * first, hi + s * (last - 1)
            elif at_least(0, s):
                lo, hi = lo + s * (last - 1), hi + s * first
            else:
                raise NotChecked(f"the sign of the stride {s} is not known")
        return lo, hi

    def inside(self, a: Aff, lo: Size, hi: Size) -> bool:
        """Whether ``lo <= a < hi`` on the whole region."""
        first, last = self.bounds(a)
        return at_least(first, lo) and at_least(hi - 1, last)

    def visit(
        self, look: Callable[[Region], T], limit: int, what: str, outer: Iterable[int] = ()
    ) -> Iterator[tuple[Region, T]]:
        """What ``look`` finds on each part of the region, cut where it asks for that. A cut of
        one of the ``outer`` variables is for who called, and is passed on."""
        todo, cuts = [self], 0
        while todo:
            part = todo.pop()
            try:
                found = look(part)
            except Split as s:
                if s.var in outer:
                    raise
                todo += part.parts(s)
                cuts += len(s.points)
                if cuts > limit:
                    raise NotChecked(f"{what} in too many pieces") from None
                continue
            yield part, found

    def parts(self, s: Split) -> list[Region]:
        """The region cut in parts, which together are the region."""
        if s.var not in self.ranges:
            raise NotChecked("a piece that depends on the rank")
        lo, hi = self.ranges[s.var]
        rest = {v: r for v, r in self.ranges.items() if v != s.var}
        if s.radix is None:
            spans = list(pairwise((lo, *s.points, hi)))
            if not all(at_least(b, a) for a, b in spans):
                raise NotChecked("a cut outside its range")
            return [Region.of({**rest, s.var: r}, self.index) for r in spans]
        out = []
        (shift,) = s.points
        for a, b, p, q in _digit_boxes(lo + shift, hi + shift, s.radix):
            u, v = fresh(), fresh()
            value = {s.var: total(((variable(u), s.radix), (variable(v), 1)), -shift)}
            index = [replace(x, value) for x in self.index]
            out.append(Region.of({**rest, u: (a, b), v: (p, q)}, index))
        return out


def _digit_boxes(lo: Size, hi: Size, n: Size) -> list[tuple[Size, Size, Size, Size]]:
    """``[lo, hi)`` as boxes (outer range, inner range) of digits with radix ``n``."""
    (ql, rl), (qh, rh) = div_mod(lo, n), div_mod(hi, n)
    if ql == qh:
        return [(ql, ql + 1, rl, rh)]
    out: list[tuple[Size, Size, Size, Size]] = []
    if rl != 0:
        out.append((ql, ql + 1, rl, n))
        ql = ql + 1
    if not at_least(qh, ql):
        raise NotChecked("digits whose order is not known")
    if ql != qh:
        out.append((ql, qh, 0, n))
    if rh != 0:
        out.append((qh, qh + 1, 0, rh))
    return out


def digits(region: Region, a: Aff, factors: Sequence[Size]) -> list[Aff]:
    """The mixed-radix digits of an index, outermost first.

    Raises:
        Split: they are affine only on parts of the region.
    """
    if len(factors) == 1:
        return [a]
    out: list[Aff] = []
    for n in reversed(factors[1:]):
        a, low = _divided(region, a, n)
        out.append(low)
    return [a, *reversed(out)] if factors else []


def place(factors: Sequence[Size], axes: Sequence[Aff]) -> Aff:
    """The index that digits make up, outermost first."""
    if not axes:
        return const(0)
    out, *rest = axes
    for n, a in zip(factors[1:], rest, strict=True):
        out = total(((out, n), (a, 1)))
    return out


def _divided(region: Region, a: Aff, n: Size) -> tuple[Aff, Aff]:
    """Quotient and remainder of an index by a radix."""
    q, r = div_mod(a[0], n)
    if not a[1]:
        return const(q), const(r)
    outer: list[tuple[int, Size]] = []
    inner: list[tuple[int, Size]] = []
    for v, s in a[1]:
        if divides(n, s):
            outer.append((v, s // n))
        else:
            inner.append((v, s))
    low: Aff = (r, tuple(inner))
    first, last = region.bounds(low)
    more = div_mod(first, n)[0]
    if more != 0:
        q, low, last = q + more, shifted(low, -more * n), last - more * n
    if at_least(n - 1, last):
        return (q, tuple(outer)), low
    for v, s in sorted(inner, key=lambda x: (-_weight(x[1]), x[0])):
        if divides(s, n) and s != n:
            at = div_mod(low[0], s)[0] if len(inner) == 1 and divides(s, low[0]) else 0
            radix = div_mod(n, s)[0]
            if not _one_block(region.ranges.get(v), at, radix):
                raise Split(v, at, radix=radix)
    cut = _border(region, low, n, n)
    if cut is not None:
        raise Split(*cut)
    raise NotChecked("an index that does not split into digits")


def _one_block(span: Range | None, at: Size, radix: Size) -> bool:
    """Whether the outer digit of a variable is the same on its whole range: to write it in digits
    would cut nothing."""
    try:
        if span is None:
            return False
        return div_mod(span[0] + at, radix)[0] == div_mod(span[1] + at - 1, radix)[0]
    except Undecided:
        return False


def _weight(s: Size) -> int:
    return s if isinstance(s, int) else 1 << 40


class Boxes:
    """The boxes of a partition. ``starts`` are where they start along the ``axis`` on which that
    differs most, and ``rows`` the boxes that reach beyond each start. What they lead to is looked
    at as any other box, so they are but a hint."""

    def __init__(self, cells: Sequence[tuple[Sequence[Size], Sequence[Size]]]) -> None:
        self.cells, self.axis = cells, 0
        self.starts: list[int] = []
        for d in range(len(cells[0][0]) if len(cells) > 1 else 0):
            ends = [x for lo, hi in cells for x in (lo[d], hi[d]) if isinstance(x, int)]
            starts = sorted({*ends[::2]})
            if len(ends) == 2 * len(cells) and len(starts) > len(self.starts):
                self.axis, self.starts = d, starts
        self.rows: list[list[int]] = [[] for _ in self.starts]
        for k, (lo, hi) in enumerate(cells if self.starts else ()):
            reach = [bisect_left(self.starts, x[self.axis]) for x in (lo, hi)]
            for n in range(*reach):
                self.rows[n].append(k)

    def find(self, region: Region, at: Sequence[Aff]) -> int:
        """The box in which ``at`` lies on the whole region.

        Raises:
            Split: it lies in several.
        """
        cuts: list[tuple[int, Size]] = []
        spans = [region.bounds(a) for a in at]
        for k in self._near(*spans[self.axis]) if self.starts else range(len(self.cells)):
            lo, hi = self.cells[k]
            inside = True
            for (first, last), x, y in zip(spans, lo, hi, strict=True):
                if at_least(x - 1, last) or at_least(first, y):
                    break
                inside = inside and at_least(first, x) and at_least(y - 1, last)
            else:
                if inside:
                    return k
                rows = zip(at, lo, hi, strict=True)
                cuts += [cut for row in rows if (cut := _border(region, *row)) is not None]
        if not cuts:
            raise NotChecked("a read that no piece of the operand covers")
        var, point = cuts[0]
        points = {x for v, x in cuts if v == var and isinstance(x, int)}
        raise Split(var, *(sorted(points) if isinstance(point, int) else (point,)))

    def _near(self, first: Size, last: Size) -> Sequence[int]:
        """The boxes that may hold an index between the two."""
        if not isinstance(first, int) or not isinstance(last, int):
            return range(len(self.cells))
        begin = max(bisect_right(self.starts, first) - 1, 0)
        rows = self.rows[begin : bisect_right(self.starts, last)]
        return rows[0] if len(rows) == 1 else sorted({k for row in rows for k in row})


def _border(region: Region, a: Aff, lo: Size, hi: Size) -> tuple[int, Size] | None:
    """A cut of the variable of ``a`` with the largest stride at a border of ``[lo, hi)``, or one
    that leaves a single value of it there."""
    if not a[1]:
        return None
    v, s = max(a[1], key=lambda x: (_weight(x[1]), x[0]))
    first, last = region.ranges[v]
    least = region.bounds((a[0], tuple([x for x in a[1] if x[0] != v])))[0]
    if not at_least(s, 1):
        return None
    for border in (lo, hi):
        try:
            at, rest = div_mod(border - least, s)
        except Undecided:
            continue
        for point in (at, at + 1) if rest != 0 or len(a[1]) > 1 else (at,):
            if at_least(point, first + 1) and at_least(last - 1, point):
                return v, point
    return None
