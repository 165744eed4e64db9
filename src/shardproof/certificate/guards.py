"""Thresholds ``H_k(t) = [t >= k]`` and one-hots ``E(t, u) = [t == u]`` of an integer tensor.

    H_a(t) H_b(t) = H_max(a,b)(t)
    H_k(t) E(t, u) = E(t, u) where u >= k, else 0
    E(t, u) E(t, v) = E(t, u) [u == v]; under a sum over v, v is u where u is in its range
    sum over v in [a, b) of E(t, v) = H_a(t) - H_b(t)

Under a sum over ``u`` the second rule shortens its range. With the known range of ``t`` the
outermost thresholds are 1 and 0; with several known spans, thresholds between two of them are one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

from shardproof.certificate.claims import IOTA, Piece
from shardproof.certificate.exact import Aff, const, minus, replace, total
from shardproof.certificate.products import AtLeast, Equal, Product, Sum, affs, moved
from shardproof.certificate.region import Range, Region, Split
from shardproof.ir.sizes import Size, at_least, smax, smin


class Guarding:
    """One round of the rules for one product."""

    def __init__(self, known: Callable[[int], Range | None], spans: dict[int, list[Piece]]) -> None:
        self.known, self.spans = known, spans

    def step(self, p: Product, region: Region) -> Sum | None:
        """What the product is by one rule; None where no rule applies."""
        guards = [f for f, _ in p.factors if isinstance(f, AtLeast | Equal)]
        if not guards:
            return None
        if p.ranges:
            region = Region({**region.ranges, **{v: (a, b) for v, a, b in p.ranges}}, ())
        for g in guards:
            new = self._alone(p, g, region)
            if new is not None:
                return new
        for g, h in combinations(guards, 2):
            if g.base == h.base:
                new = self._pair(p, g, h, region)
                if new is not None:
                    return new
        return None

    def _alone(self, p: Product, g: AtLeast | Equal, region: Region) -> Sum | None:
        if g.base.atom == IOTA:
            return self._of_position(p, g, region)
        known = self.known(g.base.atom)
        if isinstance(g, AtLeast):
            if known is not None and at_least(known[0], g.least):
                return [(without(p, g), 1)]
            if known is not None and at_least(g.least, known[1]):
                return []
            return self._among(p, g)
        first, last = region.bounds(g.position)
        if known is not None and (at_least(known[0] - 1, last) or at_least(first, known[1])):
            return []
        return self._total(p, g)

    def _among(self, p: Product, g: AtLeast) -> Sum | None:
        """A threshold between two spans of the values that occur is that of the next one."""
        least: Size | None = None
        for n, s in enumerate(self.spans.get(g.base.atom, [])):
            if s.lo is not None and at_least(s.lo, g.least):
                least = s.lo
                if n == 0:
                    return [(without(p, g), 1)]
                break
            if s.hi is None or not at_least(g.least, s.hi):
                return None
        else:
            return [] if g.base.atom in self.spans else None
        if least == g.least:
            return None
        moved_up = (AtLeast(g.base, least), 1)
        return [(p._replace(factors=(*without(p, g).factors, moved_up)), 1)]

    @staticmethod
    def _of_position(p: Product, g: AtLeast | Equal, region: Region) -> Sum | None:
        """A guard of an index is decided, or confines the index."""
        at = g.base.at[0]
        if isinstance(g, AtLeast):
            new = confined(without(p, g), at, g.least, None, region)
            new = tightened(p, at, g.least, region) if new is None else new
            return turned(p, g) if new is None else new
        gap = minus(at, g.position)
        first, last = region.bounds(gap)
        if at_least(first, 1) or at_least(-1, last):
            return []
        return [(without(p, g), 1)] if gap == const(0) else None

    @staticmethod
    def _total(p: Product, g: Equal) -> Sum | None:
        """A sum over one-hots that nothing else depends on."""
        for v, lo, hi in p.ranges:
            uses = [a for f, _ in p.factors for a in affs(f) if any(v == w for w, _ in a[1])]
            if uses != [g.position] or dict(g.position[1])[v] != 1:
                continue
            rest = total(((g.position, 1), ((0, ((v, 1),)), -1)))
            if rest[1]:
                continue
            q = without(p, g)
            q = q._replace(ranges=tuple(r for r in q.ranges if r[0] != v))
            low, high = (
                q._replace(factors=(*q.factors, (AtLeast(g.base, x + rest[0]), 1)))
                for x in (lo, hi)
            )
            return [(low, 1), (high, -1)]
        return None

    def _pair(
        self, p: Product, g: AtLeast | Equal, h: AtLeast | Equal, region: Region
    ) -> Sum | None:
        if isinstance(g, AtLeast) and isinstance(h, AtLeast):
            if at_least(g.least, h.least):
                return [(without(p, h), 1)]
            return [(without(p, g), 1)] if at_least(h.least, g.least) else None
        if isinstance(g, Equal) and isinstance(h, Equal):
            return self._two(p, g, h, region)
        low, hot = (g, h) if isinstance(g, AtLeast) else (h, g)
        if not isinstance(low, AtLeast) or not isinstance(hot, Equal):
            return None
        return confined(without(p, low), hot.position, low.least, None, region)

    @staticmethod
    def _two(p: Product, g: Equal, h: Equal, region: Region) -> Sum | None:
        if g.position == h.position:
            return [(without(p, g), 1)]
        gap = region.bounds(minus(g.position, h.position))
        if at_least(gap[0], 1) or at_least(-1, gap[1]):
            return []
        for v, lo, hi in p.ranges:
            for a, b in ((g, h), (h, g)):
                if dict(a.position[1]).get(v) != 1 or any(v == w for w, _ in b.position[1]):
                    continue
                value = minus(b.position, replace(a.position, {v: const(0)}))
                q = without(p, a)
                q = Product(
                    tuple(r for r in q.ranges if r[0] != v),
                    tuple((moved(f, {v: value}), e) for f, e in q.factors),
                )
                return confined(q, value, lo, hi, region)
        return None


def without(p: Product, g: AtLeast | Equal) -> Product:
    """The product without a guard."""
    return p._replace(factors=tuple(f for f in p.factors if f[0] != g))


def turned(p: Product, g: AtLeast) -> Sum | None:
    """``[a >= k] = 1 - [-a >= 1 - k]`` of a position, so that of the two there is one spelling: the
    first index counts up."""
    c, slopes = g.base.at[0]
    if not slopes or not isinstance(slopes[0][1], int) or slopes[0][1] > 0:
        return None
    down = total((((c, slopes), -1),), g.least - 1)
    other = AtLeast(g.base._replace(at=(down,)), 0)
    rest = without(p, g)
    return [(rest, 1), (rest._replace(factors=(*rest.factors, (other, 1))), -1)]


def tightened(p: Product, a: Aff, least: Size, region: Region) -> Sum | None:
    """A product with a guard ``[a >= least]`` of several indices: where a summed one is so small or
    large that the guard is 0 whatever the others are, it is left out."""
    for k, (v, lo, hi) in enumerate(p.ranges):
        s = dict(a[1]).get(v)
        if s not in (1, -1):
            continue
        last = region.bounds(replace(a, {v: const(0)}))[1]
        low, high = (least - last, hi) if s == 1 else (lo, last - least + 1)
        if not (at_least(low, lo + 1) or at_least(hi, high + 1)) or not at_least(hi, low):
            continue
        low, high = smax(low, lo), smin(high, hi)
        if at_least(high, low + 1):
            return [(p._replace(ranges=(*p.ranges[:k], (v, low, high), *p.ranges[k + 1 :])), 1)]
    return None


def confined(p: Product, a: Aff, lo: Size, hi: Size | None, region: Region) -> Sum | None:
    """The product where ``lo <= a < hi`` and zero elsewhere: a summed variable is confined, a
    free one is cut.

    Raises:
        Split: on one part of the region it is zero.
    """
    first, last = region.bounds(a)
    low, high = at_least(first, lo), hi is None or at_least(hi - 1, last)
    if low and high:
        return [(p, 1)]
    if at_least(lo - 1, last) or (hi is not None and at_least(first, hi)):
        return []
    if len(a[1]) != 1 or a[1][0][1] != 1:
        return None
    v, c = a[1][0][0], a[0]
    for k, (w, x, y) in enumerate(p.ranges):
        if w == v:
            x, y = smax(x, lo - c), y if hi is None else smin(y, hi - c)
            if not at_least(y, x):
                return None
            return [(p._replace(ranges=(*p.ranges[:k], (v, x, y), *p.ranges[k + 1 :])), 1)]
    raise Split(v, lo - c if not low or hi is None else hi - c)
