"""Guards: the 0/1 functions of an integer tensor ``t``.

The threshold ``H_k(t) = [t >= k]`` and the one-hot ``E(t, u) = [t == u]`` obey

    H_a(t) * H_b(t) = H_max(a,b)(t)
    H_k(t) * E(t, u) = E(t, u) if u >= k else 0
    H_k(t) * sum_v E(t, v) f(v) = sum over v >= k of the same
    E(t, u) * sum_v E(t, v) f(v) = E(t, u) * f(u)

which is all that vocabulary masks, label masks and scatter updates need (lemmas.md A1 to A4, C5,
C6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from shardproof.infer.blocks import Box, Term, Unsupported
from shardproof.infer.coef import ONE
from shardproof.infer.naming import IOTA, Def, Table
from shardproof.infer.terms import compose, exponent, with_interval
from shardproof.ir.sizes import Size, at_least, smax
from shardproof.lemmas import names as lemmas

Factor = tuple[Term, Fraction]
ZERO: tuple[Factor, ...] = ((Term(-1, (), ()), Fraction(0)),)
"""Stands for a product that is zero; compared by identity."""


class GuardRules:
    """Products of a guard and another factor."""

    def __init__(self, table: Table, fire: Callable[[str], None]) -> None:
        self.table, self.fire = table, fire

    def pair(
        self, lo: Box, hi: Box, factors: list[Factor]
    ) -> tuple[int, int, Sequence[Factor]] | None:
        """The first two factors to which a rule applies, with what their product is."""
        for i, (g, eg) in enumerate(factors):
            d = self.table.definition(g.atom)
            if eg != 1 or d is None or d.fn not in ("ge", "eq"):
                continue
            for j, (f, ef) in enumerate(factors):
                if i == j or ef != 1:
                    continue
                new = self._guard_pair(lo, hi, g, d, f)
                if new is not None:
                    return i, j, new
        return None

    def _guard_pair(self, lo: Box, hi: Box, g: Term, dg: Def, f: Term) -> Sequence[Factor] | None:
        """What guard ``g`` times factor ``f`` is: new factors, ZERO, or None (no rule)."""
        df = self.table.definition(f.atom)
        if df is None or df.fn not in ("ge", "eq", "sum"):
            return None
        base = compose(dg.operands[0][0][0], g, dg.n_free)
        if df.fn == "sum":
            return self._guard_sum(lo, hi, g, dg, base, f, df)
        if base != compose(df.operands[0][0][0], f, df.n_free):
            return None
        if dg.fn == "ge" and df.fn == "ge":
            top = smax(dg.attrs[0], df.attrs[0])
            self.fire(lemmas.GUARD_MEET)
            return [(g if top == dg.attrs[0] else f, ONE)]
        if dg.fn == "ge":
            return self._threshold_onehot(lo, hi, dg.attrs[0], f, df)
        if df.fn == "eq":
            return self._two_onehots(lo, hi, g, dg, f, df)
        return None

    def _threshold_onehot(
        self, lo: Box, hi: Box, k: Size, e: Term, de: Def
    ) -> Sequence[Factor] | None:
        first, last = index_range(compose(de.operands[1][0][0], e, de.n_free), lo, hi)
        if at_least(first, k):
            self.fire(lemmas.GUARD_ONEHOT)
            return [(e, ONE)]
        if at_least(k - 1, last):
            self.fire(lemmas.GUARD_ONEHOT)
            return ZERO
        return None

    def _two_onehots(
        self, lo: Box, hi: Box, g: Term, dg: Def, f: Term, df: Def
    ) -> Sequence[Factor] | None:
        a = index_range(compose(dg.operands[1][0][0], g, dg.n_free), lo, hi)
        b = index_range(compose(df.operands[1][0][0], f, df.n_free), lo, hi)
        if at_least(a[0] - 1, b[1]) or at_least(b[0] - 1, a[1]):
            self.fire(lemmas.GUARD_ONEHOT)
            return ZERO
        return None

    def _guard_sum(
        self, lo: Box, hi: Box, g: Term, dg: Def, base: Term, s: Term, ds: Def
    ) -> Sequence[Factor] | None:
        """A guard times a sum over the one-hot of the same tensor."""
        for op in ds.operands:
            e, exponent = op[0]
            de = self.table.definition(e.atom)
            if de is None or de.fn != "eq" or exponent != 1:
                continue
            position = compose(de.operands[1][0][0], e, de.n_free)
            onehot_base = compose(de.operands[0][0][0], e, de.n_free)
            walk = _bound_walk(position, onehot_base, ds.n_free)
            if walk is None:
                continue
            outer = compose(onehot_base, s, ds.n_free, _spare(s, ds))
            if outer._replace(ax=outer.ax[: len(s.ax)]) != base:
                continue
            if dg.fn == "ge":
                return self._restrict(s, ds, walk, dg.attrs[0] - position.off[0])
            return self._select(lo, hi, g, dg, s, ds, e, walk, position.off[0])
        return None

    def _restrict(self, s: Term, ds: Def, p: int, least: Size) -> Sequence[Factor] | None:
        """Keep only indices >= least of bound variable ``p`` of a sum."""
        label = ("sum", s.atom, p)
        at = next((n for n, r in enumerate(s.restr) if r[0] == label), None)
        a, b = (ds.lo[p], ds.hi[p]) if at is None else s.restr[at][1:]
        self.fire(lemmas.GUARD_OF_SUM)
        if at_least(least, b):
            return ZERO
        low = smax(a, least)
        if low == a:
            return [(s, ONE)]
        if not at_least(b, low + 1):
            return None
        if at is None:
            s = s._replace(restr=((label, a, b), *s.restr))
            at = 0
        return [(with_interval(self.table, s, at, label, low, b), ONE)]

    def _select(
        self,
        lo: Box,
        hi: Box,
        g: Term,
        dg: Def,
        s: Term,
        ds: Def,
        onehot: Term,
        p: int,
        shift: Size,
    ) -> Sequence[Factor] | None:
        """``E(t, u) * sum_v E(t, v) f(v) = E(t, u) * f(u)``."""
        if len(ds.lo) != ds.n_free + 1:
            return None
        u = compose(dg.operands[1][0][0], g, dg.n_free)
        first, last = index_range(u, lo, hi)
        a, b = next(
            ((x, y) for lab, x, y in s.restr if lab == ("sum", s.atom, p)), (ds.lo[p], ds.hi[p])
        )
        if any(lab != ("sum", s.atom, p) for lab, _, _ in s.restr):
            return None
        if at_least(a - 1, last - shift) or at_least(first - shift, b):
            self.fire(lemmas.ONEHOT_SELECTS)
            return ZERO
        if not (at_least(first - shift, a) and at_least(b - 1, last - shift)):
            return None
        out: list[Factor] = [(g, ONE)]
        for op in ds.operands:
            t, e = op[0]
            if t is onehot:
                continue
            picked = _substitute(t, s, ds.n_free, p, u, shift)
            if picked is None:
                return None
            out.append((picked, exponent(e)))
        self.fire(lemmas.ONEHOT_SELECTS)
        return out


def index_range(position: Term, lo: Box, hi: Box) -> tuple[Size, Size]:
    """Smallest and largest value of an iota term over a box."""
    if position.atom != IOTA:
        raise Unsupported("an index that is not a position")
    first = last = position.off[0]
    for j, w in enumerate(position.ax):
        if w is not None:
            a, b = w[1] * lo[j], w[1] * (hi[j] - 1)
            if not at_least(w[1], 0):
                a, b = b, a
                if not at_least(0, w[1]):
                    raise Unsupported("a position whose order is not known")
            first, last = first + a, last + b
    return first, last


def _bound_walk(position: Term, base: Term, n_free: int) -> int | None:
    """The bound variable that alone (stride 1) drives the one-hot position, if so."""
    walks = [(v, w) for v, w in enumerate(position.ax) if w is not None]
    if len(walks) != 1 or walks[0][0] < n_free or walks[0][1] != (0, 1):
        return None
    return None if any(w is not None for w in base.ax[n_free:]) else walks[0][0]


def _spare(s: Term, ds: Def) -> list[int]:
    n = len(s.ax)
    return list(range(n, n + len(ds.lo) - ds.n_free))


def _substitute(t: Term, s: Term, n_free: int, p: int, u: Term, shift: Size) -> Term | None:
    """``t`` with bound variable ``p`` replaced by ``u - shift``, read through ``s``."""
    walk = t.ax[p]
    plain = compose(t._replace(ax=t.ax[:n_free]), s, n_free)
    if walk is None:
        return plain
    q, k = walk
    off = (*plain.off[:q], plain.off[q] + k * (u.off[0] - shift), *plain.off[q + 1 :])
    ax = list(plain.ax)
    for x, w in enumerate(u.ax):
        if w is None:
            continue
        if ax[x] is not None:
            return None
        ax[x] = (q, k * w[1])
    return plain._replace(ax=tuple(ax), off=off)
