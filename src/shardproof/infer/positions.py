"""Comparisons of positions: causal masks.

``g[q, s] = [q >= s]`` is 0 or 1. Where it is the same on a whole box it is decided by the ranges of
the two positions. A masked score is ``exp(s) * g`` (the exponential of minus infinity is 0), so a
program that leaves out a block in the future of its queries, or does not mask one in their past,
has the same sums as one that masks all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from shardproof.infer import views
from shardproof.infer.blocks import Box, Cell, Lin, Term, Val, Walk
from shardproof.infer.coef import ONE
from shardproof.infer.guards import index_range
from shardproof.infer.naming import IOTA, UNIT, Atom, Def, Table
from shardproof.infer.terms import compose, lincomb, with_interval
from shardproof.ir.sizes import Size, at_least
from shardproof.lemmas import names as lemmas
from shardproof.ops.base import EXP, FILL

COMPARE = "compare_ge"
Spanned = tuple[Term, Box, Box]  # a term with the ranges of its axes


class Positions:
    """Masks of positions over a naming table. ``masked``: the exponentials that the sequential
    program multiplies by such a mask, with the mask over their axes."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.masked: dict[int, Term] = {}

    # ---- guards

    def is_guard(self, atom: int) -> bool:
        """Whether an atom is a comparison of two positions."""
        d = self.table.atoms[atom].definition
        if d is None or d.fn != COMPARE or d.attrs:
            return False
        return all(len(op) == 1 and op[0][0].atom == IOTA and op[0][1] == 1 for op in d.operands)

    def decided(self, g: Term, lo: Box, hi: Box) -> bool | None:
        """What a guard is on a whole box, if it is one value there."""
        d = self.table.definition(g.atom)
        assert d is not None
        (x, y) = (index_range(compose(op[0][0], g, d.n_free), lo, hi) for op in d.operands)
        if at_least(x[0], y[1]):
            return True
        return False if at_least(y[0] - 1, x[1]) else None

    def opened(self, mask: Lin) -> Lin:
        """A mask with the name of ``1 - g`` replaced by what it is."""
        if len(mask) != 1 or mask[0][1] != 1 or mask[0][0].restr:
            return mask
        t = mask[0][0]
        d = self.table.definition(t.atom)
        if d is None or d.fn != "lin" or not any(self.is_guard(u.atom) for u, _ in d.operands[0]):
            return mask
        return tuple((compose(u, t, d.n_free), k) for u, k in d.operands[0])

    def visible(self, mask: Lin) -> Term | None:
        """The guard ``g`` of a mask ``1 - g``."""
        mask = self.opened(mask)
        guards = [t for t, c in mask if c == -1 and not t.restr and self.is_guard(t.atom)]
        units = [t for t, c in mask if t.atom == UNIT and c == 1]
        return guards[0] if len(mask) == 2 and len(guards) == len(units) == 1 else None

    def filled(self, t: Term, c: object) -> tuple[Term, Lin] | None:
        """Scores filled with minus infinity outside of a guard: the guard and the scores."""
        d = self.table.definition(t.atom)
        if d is None or d.fn != FILL or d.attrs != (float("-inf"),) or t.restr:
            return None
        g = self.visible(d.operands[1])
        if g is None or not isinstance(c, Fraction) or c <= 0:
            return None
        scores = tuple((compose(u, t, d.n_free), k * c) for u, k in d.operands[0])
        return compose(g, t, d.n_free), scores

    def masks(self, e: Term, g: Term) -> bool:
        """Whether a guard is the mask that the sequential program has on an exponential."""
        mask = self.masked.get(e.atom)
        return mask is not None and self._gap(compose(mask, e, len(e.off))) == self._gap(g)

    # ---- exponentials

    def note(self, a: Atom) -> None:
        """Remember that the sequential program masks exponentials."""
        d = a.definition
        if d is None or d.fn != "prod" or any(op[0][1] != 1 for op in d.operands):
            return
        terms = [op[0][0] for op in d.operands]
        guards = [t for t in terms if self.is_guard(t.atom)]
        others = [t for t in terms if t not in guards]
        if len(guards) == 1 and all(self._is_exponential(t) for t in others):
            for e in others:
                self._note(guards[0], e)

    def _is_exponential(self, t: Term) -> bool:
        d = self.table.atoms[t.atom].definition
        return d is not None and d.fn == EXP and not t.restr

    def _note(self, g: Term, e: Term) -> None:
        axis = {w[0]: j for j, w in enumerate(e.ax) if w is not None and w[1] == 1}
        walked = {j for j, w in enumerate(g.ax) if w is not None}
        if any(k != 0 for k in e.off) or not walked <= set(axis.values()):
            return
        ax = tuple(g.ax[axis[p]] if p in axis else None for p in range(len(e.off)))
        self.masked.setdefault(e.atom, g._replace(ax=ax))

    def unmasked(self, e: Term, lo: Box, hi: Box) -> Term | None:
        """The mask that the sequential program has on an exponential, where it hides nothing."""
        g = self.masked.get(e.atom)
        if g is None or self.table.defining or e.restr:
            return None
        here = compose(g, e, len(e.off))
        if self.decided(here, lo, hi) is not True:
            return None
        self.table.fire(lemmas.POSITION_GUARD)
        return here

    def aligned(self, factors: list[tuple[Term, Fraction]]) -> list[tuple[Term, Fraction]]:
        """A product in which a mask that compares other positions, as far apart as those of the
        sequential mask, is that one: ``[q >= k] = [q + c >= k + c]``."""
        if not self.masked or self.table.defining:
            return factors
        wanted = [compose(self.masked[e.atom], e, len(e.off))
                  for e, k in factors if e.atom in self.masked and k == ONE]  # fmt: skip
        out = []
        for g, k in factors:
            here = self._gap(g) if wanted and self.is_guard(g.atom) else None
            same = next((h for h in wanted if here is not None and self._gap(h) == here), g)
            if same != g:
                self.table.fire(lemmas.POSITION_GUARD)
            out.append((same, k))
        return out

    def _gap(self, g: Term) -> tuple[object, ...]:
        """How far apart the positions are that a guard compares, as a function of its axes."""
        d = self.table.definition(g.atom)
        assert d is not None
        x, y = (compose(op[0][0], g, d.n_free) for op in d.operands)
        steps = [(step(a), step(b)) for a, b in zip(x.ax, y.ax, strict=True)]
        return (x.off[0] - y.off[0], *(a - b for a, b in steps))

    # ---- sums

    def settled(self, v: Val) -> Val:
        """A value whose terms without anything visible are gone, and whose parts of masked sums
        reach as far as what is hidden reaches."""
        if not self.masked or self.table.defining:
            return v
        cells = [Cell(c.lo, c.hi, self._settled(c)) for c in v.cells]
        changed = any(a is not b.lin for a, b in zip([c.lin for c in cells], v.cells, strict=True))
        return Val(v.dims, tuple(cells), v.index) if changed else v

    def _settled(self, c: Cell) -> Lin:
        new = [(u, k) for t, k in c.lin if (u := self._term(t, c.lo, c.hi)) is not None]
        if len(new) == len(c.lin) and all(a[0] is b[0] for a, b in zip(new, c.lin, strict=True)):
            return c.lin
        self.table.fire(lemmas.MASKED_SUM)
        return lincomb(self.table, new)

    def _term(self, t: Term, lo: Box, hi: Box) -> Term | None:
        """A term with its parts of sums widened; None where it is zero."""
        if self._hidden((t, lo, hi)):
            return None
        for n in range(len(t.restr) - 1, -1, -1):
            label, a, b = t.restr[n]
            wide = self._widened((t, lo, hi), label, a, b)
            if wide is None:
                return None
            if wide != (a, b):
                t = with_interval(self.table, t, n, label, *wide)
        return t

    def _hidden(self, at: Spanned) -> bool:
        """Whether a product has a guard that is 0 on the whole box."""
        t, lo, hi = at
        if self.is_guard(t.atom):
            return self.decided(t, lo, hi) is False
        d = self.table.definition(t.atom)
        if d is None or d.fn != "prod":
            return False
        return any(self._hidden((compose(op[0][0], t, d.n_free), lo, hi))
                   for op in d.operands if op[0][1] == 1)  # fmt: skip

    def _widened(self, at: Spanned, label: tuple[object, ...], a: Size, b: Size
                 ) -> tuple[Size, Size] | None:  # fmt: skip
        """How far the part ``[a, b)`` of a sum reaches if what is hidden from all of the box
        counts as well; None where all of it is hidden."""
        found = self._sum(at, label)
        if found is None:
            return a, b
        inside, d, p = found
        if self._hides(inside, d, p, a, b):
            return None
        first, last = d.lo[p], d.hi[p]
        if at_least(last, b + 1) and self._hides(inside, d, p, b, last):
            b = last
        if at_least(a, first + 1) and self._hides(inside, d, p, first, a):
            a = first
        return a, b

    def _sum(self, at: Spanned, label: tuple[object, ...]) -> tuple[Spanned, Def, int] | None:
        """The sum of the sequential program of which a label names a part, as it is read."""
        t, lo, hi = at
        while True:
            d = self.table.definition(t.atom)
            if d is None or label[1] != t.atom:
                return None
            if label[0] != "in":
                p = label[2]
                named = label[0] == "sum" and isinstance(p, int) and not self._foreign(t)
                return ((t, lo, hi), d, p) if named and isinstance(p, int) else None
            place, inner = label[2], label[3]
            assert isinstance(place, int)
            assert isinstance(inner, tuple)
            bound = list(range(len(lo), len(lo) + len(d.lo) - d.n_free))
            t = compose(d.operands[place][0][0], t, d.n_free, bound)
            lo, hi, label = lo + d.lo[d.n_free :], hi + d.hi[d.n_free :], inner

    def _foreign(self, t: Term) -> bool:
        return self.table.is_foreign(t.atom)

    def _hides(self, at: Spanned, d: Def, p: int, a: Size, b: Size) -> bool:
        """Whether a guard in the summand is 0 wherever bound variable ``p`` is in ``[a, b)``."""
        t, lo, hi = at
        bound = list(range(len(lo), len(lo) + len(d.lo) - d.n_free))
        low = lo + tuple(a if q == p else d.lo[q] for q in range(d.n_free, len(d.lo)))
        high = hi + tuple(b if q == p else d.hi[q] for q in range(d.n_free, len(d.hi)))
        guards = (op[0][0] for op in d.operands if op[0][1] == ONE and self.is_guard(op[0][0].atom))
        return any(self.decided(compose(g, t, d.n_free, bound), low, high) is False for g in guards)


def step(w: Walk) -> Size:
    """How far a term reads on when the axis goes on by one."""
    return 0 if w is None else w[1]


def position(v: Val, shape: Sequence[Size]) -> Term | None:
    """The position along some axes that an integer tensor holds, as it is broadcast."""
    wide = views.expand(v, shape)
    if len(wide.cells) != 1 or len(wide.cells[0].lin) != 1:
        return None
    t, c = wide.cells[0].lin[0]
    return t if t.atom == IOTA and c == 1 and not t.restr else None
