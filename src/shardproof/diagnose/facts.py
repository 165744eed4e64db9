"""What is odd about the meaning of a value.

A value is *odd* when it is not simply a piece of one sequential value: it has no sequential
meaning, or another factor than the sequential program gives that value, or it is a sum that the
sequential program never forms, or its pieces are out of order. Odd values are normal inside a
correct program (a lookup before its mask); they matter on the way to an output that is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from shardproof.infer.blocks import Cell, Term, Val
from shardproof.infer.coef import Coef
from shardproof.infer.naming import IOTA, UNIT
from shardproof.infer.run import Inference
from shardproof.infer.terms import EXTREMA, innermost
from shardproof.ir.sizes import Size, at_least

NO_MEANING = "no meaning"
FACTOR = "factor"
SUM = "sum"
ORDER = "order"


@dataclass(frozen=True, slots=True)
class Oddity:
    """One thing odd about a value: its kind, and the terms it shows in."""

    kind: str
    terms: tuple[tuple[Term, Coef], ...] = ()


class Facts:
    """Oddities of the values of one inference."""

    def __init__(self, inf: Inference) -> None:
        self.inf = inf
        self.table = inf.evaluator.table
        self.factors: dict[int, set[Coef]] = {}
        self._sums: set[frozenset[int]] = set()
        self._repeats: set[int] = set()
        self._extent: dict[int, list[Size]] = {}
        for v in inf.sequential.values():
            for c in v.cells:
                for t, k in c.lin:
                    self.factors.setdefault(t.atom, set()).add(k)
                    self._widen(c, t)
                if len(c.lin) > 1:
                    self._sums.add(frozenset(t.atom for t, _ in c.lin))
            self._repeats.update(repeated(v))

    def _widen(self, c: Cell, t: Term) -> None:
        """Remember how far a named value reaches along each of its axes."""
        ends = [high for _, high in spans(c, t)]
        known = self._extent.setdefault(t.atom, ends)
        for q, end in enumerate(ends):
            if at_least(end, known[q]):
                known[q] = end

    def is_part(self, v: Val) -> bool:
        """Whether a value holds only a part of some named value, along some axis."""
        reach: dict[int, list[set[tuple[str, Size]]]] = {}
        for c in v.cells:
            for t, _ in c.lin:
                if t.atom in self._extent:
                    seen = reach.setdefault(t.atom, [set() for _ in t.off])
                    for q, (low, high) in enumerate(spans(c, t)):
                        seen[q] |= {("low", low), ("high", high)}
        return any(
            ("low", 0) not in seen or ("high", self._extent[atom][q]) not in seen
            for atom, axes in reach.items()
            for q, seen in enumerate(axes)
        )

    def oddity(self, v: Val) -> Oddity | None:
        """The most telling oddity of a value, or None."""
        foreign = tuple(x for x in _terms(v) if self.table.is_foreign(x[0].atom))
        if foreign:
            return Oddity(NO_MEANING, foreign)
        scaled = tuple((t, k) for t, k in _terms(v) if self._other_factor(t, k))
        if scaled:
            return Oddity(FACTOR, scaled)
        for c in v.cells:
            if len(c.lin) > 1 and frozenset(t.atom for t, _ in c.lin) not in self._sums:
                return Oddity(SUM, c.lin)
        return Oddity(ORDER, tuple(_terms(v))) if self.misordered(v) else None

    def misordered(self, v: Val) -> bool:
        """Whether pieces stand in another order, or one stands where another belongs."""
        return out_of_order(v.cells) or bool(repeated(v) - self._repeats)

    def ratios(self, v: Val) -> dict[int, Coef]:
        """For each named value in ``v``: its factor relative to the sequential one's."""
        out = {}
        for t, k in _terms(v):
            known = self.factors.get(t.atom)
            if known and t.atom not in (UNIT, IOTA):
                out[t.atom] = k / next(iter(known))
        return out

    def _other_factor(self, t: Term, k: Coef) -> bool:
        known = self.factors.get(t.atom)
        return t.atom not in (UNIT, IOTA) and known is not None and k not in known

    def partials(self, v: Val) -> tuple[tuple[Term, Coef], ...]:
        """Terms that are sums over a part of a reduction."""
        return tuple((t, k) for t, k in _terms(v) if is_partial(t) and self._known(t))

    def _known(self, t: Term) -> bool:
        """Whether a restricted reduction is one of the sequential program."""
        return any(self.table.full(label) is not None for label, _, _ in t.restr)

    def roots(self, atoms: Iterable[int]) -> list[int]:
        """Values without sequential meaning that are made of values that have one, and on which
        ``atoms`` depend."""
        out: list[int] = []
        seen: set[int] = set()
        todo = list(atoms)
        while todo:
            a = todo.pop()
            if a in seen or not self.table.is_foreign(a):
                continue
            seen.add(a)
            d = self.table.definition(a)
            inner = [] if d is None else [t.atom for lin in d.operands for t, _ in lin]
            below = [x for x in inner if self.table.is_foreign(x)]
            if below:
                todo.extend(below)
            else:
                out.append(a)
        return sorted(out)


def _terms(v: Val) -> Iterable[tuple[Term, Coef]]:
    for c in v.cells:
        yield from c.lin


def is_partial(t: Term) -> bool:
    """Whether a term is a sum over a part of a reduction."""
    return any(innermost(label)[0] not in EXTREMA for label, _, _ in t.restr)


def is_local_extremum(t: Term) -> bool:
    """Whether a term is a maximum or minimum over a part of an axis."""
    return any(innermost(label)[0] in EXTREMA for label, _, _ in t.restr)


def spans(c: Cell, t: Term) -> list[tuple[Size, Size]]:
    """The index range that a term reads along each axis of its value."""
    out = []
    for q, first in enumerate(t.off):
        low, high = first, first
        for j, w in enumerate(t.ax):
            if w is not None and w[0] == q:
                low, high = low + w[1] * c.lo[j], high + w[1] * (c.hi[j] - 1)
        out.append((low, high + 1))
    return out


def repeated(v: Val) -> set[int]:
    """Named values of which a value holds one piece several times along a dim."""
    out: set[int] = set()
    axis = 0
    for factors in v.dims:
        mine = range(axis, axis + len(factors))
        axis += len(factors)
        if len(factors) < 2:
            continue
        for c in v.cells:
            for t, _ in c.lin:
                walks = [t.ax[j] is not None for j in mine]
                if any(walks) and not all(walks):
                    out.add(t.atom)
    return out


def out_of_order(cells: tuple[Cell, ...]) -> bool:
    """Whether pieces of one sequential value stand in another order, or twice."""
    if len(cells) < 2 or any(len(c.lin) != 1 for c in cells):
        return False
    atoms = {c.lin[0][0].atom for c in cells}
    if len(atoms) != 1:
        return False
    starts = [tuple(_start(c)) for c in cells]
    return any(_not_after(a, b) for a, b in itertools.pairwise(starts))


def _start(c: Cell) -> list[Size]:
    t = c.lin[0][0]
    first = list(t.off)
    for j, w in enumerate(t.ax):
        if w is not None:
            first[w[0]] = first[w[0]] + w[1] * c.lo[j]
    return first


def _not_after(a: tuple[Size, ...], b: tuple[Size, ...]) -> bool:
    """Whether ``b`` does not start behind ``a`` in any axis (repeated, or going back)."""
    return all(at_least(x, y) for x, y in zip(a, b, strict=True))
