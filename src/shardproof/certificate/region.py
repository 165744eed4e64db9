"""Boxes of index variables, and where a tensor is read inside one.

A claim is checked box by box. Where a tensor is cut inside the box, or a dim is counted in other
digits than the index at hand, the box itself is cut (:class:`Split`) and the check starts again
on each part: so a check always sees one formula for each operand.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from shardproof.certificate.exact import Aff, NotChecked, affine, const, replace, total, variable
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
    """The variable ``var`` must be cut at a point (``radix`` None), or written in two digits:
    ``var + shift = radix * outer + inner``."""

    def __init__(self, var: int, at: Size, radix: Size | None = None) -> None:
        super().__init__(var)
        self.var, self.at, self.radix = var, at, radix


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
            if at_least(s, 0):
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
                cuts += 1
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
            if not (at_least(s.at, lo) and at_least(hi, s.at)):
                raise NotChecked("a cut outside its range")
            return [Region.of({**rest, s.var: r}, self.index) for r in ((lo, s.at), (s.at, hi))]
        out = []
        for a, b, p, q in _digit_boxes(lo + s.at, hi + s.at, s.radix):
            u, v = fresh(), fresh()
            value = {s.var: total(((variable(u), s.radix), (variable(v), 1)), -s.at)}
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
    if len(axes) == 1:
        return axes[0]
    out = const(0)
    for n, a in zip(factors, axes, strict=True):
        out = total(((out, n), (a, 1)))
    return out


def _divided(region: Region, a: Aff, n: Size) -> tuple[Aff, Aff]:
    """Quotient and remainder of an index by a radix."""
    outer: dict[int, Size] = {}
    inner: dict[int, Size] = {}
    for v, s in a[1]:
        if divides(n, s):
            outer[v] = s // n
        else:
            inner[v] = s
    q, r = div_mod(a[0], n)
    first, last = region.bounds(affine(r, inner))
    low = div_mod(first, n)[0]
    q, r, last = q + low, r - low * n, last - low * n
    if at_least(n - 1, last):
        return affine(q, outer), affine(r, inner)
    for v in sorted(inner, key=lambda v: (-_weight(inner[v]), v)):
        s = inner[v]
        if divides(s, n) and s != n:
            at = div_mod(r, s)[0] if len(inner) == 1 and divides(s, r) else 0
            radix = div_mod(n, s)[0]
            if not _one_block(region.ranges.get(v), at, radix):
                raise Split(v, at, radix)
    cut = _border(region, affine(r, inner), n, n)
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


def rising(cells: Sequence[tuple[Sequence[Size], Sequence[Size]]]) -> list[int]:
    """Where the intervals of a partition start, if they are in order; else nothing."""
    starts = [lo[0] for lo, _ in cells if len(lo) == 1 and isinstance(lo[0], int)]
    return starts if len(starts) == len(cells) and starts == sorted(starts) else []


def find_cell(
    region: Region,
    at: Sequence[Aff],
    cells: Sequence[tuple[Sequence[Size], Sequence[Size]]],
    starts: Sequence[int] = (),
) -> int:
    """The box of a partition in which ``at`` lies on the whole region. Where ``starts`` are given
    (:func:`rising`), only the intervals near it are looked at.

    Raises:
        Split: it lies in several.
    """
    cut: tuple[int, Size] | None = None
    spans = [region.bounds(a) for a in at]
    near = range(len(cells))
    if starts and isinstance(spans[0][0], int) and isinstance(spans[0][1], int):
        near = range(bisect_right(starts, spans[0][0]) - 1, bisect_right(starts, spans[0][1]))
    for k in near:
        lo, hi = cells[k]
        inside = True
        for (first, last), x, y in zip(spans, lo, hi, strict=True):
            if at_least(x - 1, last) or at_least(first, y):
                break
            inside = inside and at_least(first, x) and at_least(y - 1, last)
        else:
            if inside:
                return k
            rows = zip(at, lo, hi, strict=True)
            cut = cut or next((s for row in rows if (s := _border(region, *row)) is not None), None)
    if cut is None:
        raise NotChecked("a read that no piece of the operand covers")
    raise Split(*cut)


def _border(region: Region, a: Aff, lo: Size, hi: Size) -> tuple[int, Size] | None:
    """A cut of the variable of ``a`` with the largest stride at a border of ``[lo, hi)``, or one
    that leaves a single value of it there."""
    if not a[1]:
        return None
    v, s = max(a[1], key=lambda x: (_weight(x[1]), x[0]))
    first, last = region.ranges[v]
    least = region.bounds(affine(a[0], {w: k for w, k in a[1] if w != v}))[0]
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
