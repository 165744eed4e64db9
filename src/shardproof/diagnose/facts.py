"""What is odd about the meaning of a value.

A value is *odd* when it is not simply a piece of one sequential value: it has no sequential
meaning, or another factor than the sequential program gives that value, or it is a sum that the
sequential program never forms, or its pieces are out of order. Odd values are normal inside a
correct program (a lookup before its mask); they matter on the way to an output that is wrong.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

from shardproof.infer.blocks import Cell, Label, Lin, Term, Val
from shardproof.infer.coef import Coef
from shardproof.infer.naming import IOTA, UNIT
from shardproof.infer.run import Inference
from shardproof.infer.terms import EXTREMA, innermost
from shardproof.ir.sizes import Size, at_least

NO_MEANING = "no meaning"
FACTOR = "factor"
SUM = "sum"
ORDER = "order"
INPUT = "input"


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
        self._oddities: dict[int, tuple[Val, Oddity | None]] = {}
        self._sums: set[frozenset[int]] = set()
        self._repeats: set[int] = set()
        self._extent: dict[int, list[Size]] = {}
        self._in_phase: dict[tuple[int, str], set[Coef]] = {}
        made = inf.problem.sequential.producers()
        for value, v in inf.sequential.items():
            phase = made[value].origin.phase if value in made else INPUT
            for c in v.cells:
                for t, k in c.lin:
                    self.factors.setdefault(t.atom, set()).add(k)
                    self._in_phase.setdefault((t.atom, phase), set()).add(k)
                    self._widen(c, t)
                if len(c.lin) > 1:
                    self._sums.add(frozenset(t.atom for t, _ in c.lin))
            self._repeats.update(repeated(v))
        self._strides = {s for v in inputs_of(inf) for c in v.cells for t, _ in c.lin
                         for s in leaps(c, t)}  # fmt: skip
        self.summands: dict[int, set[Coef]] = {}
        self.named_sums: set[frozenset[int]] = set()
        for a in self.table.atoms:
            if not a.foreign and a.definition is not None and a.definition.fn == "lin":
                self._add_sum(a.definition.operands[0])

    def _add_sum(self, lin: Lin) -> None:
        self.named_sums.add(frozenset(t.atom for t, _ in lin))
        for t, k in lin:
            self.summands.setdefault(t.atom, set()).add(k)

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
        known = self._oddities.get(id(v))
        if known is None:
            # With the value itself, so that its identity is not used again.
            known = self._oddities[id(v)] = (v, self._oddity(v))
        return known[1]

    def _oddity(self, v: Val) -> Oddity | None:
        foreign = tuple(x for x in _terms(v) if self.table.is_foreign(x[0].atom))
        if foreign:
            return Oddity(NO_MEANING, foreign)
        scaled = tuple(x for c in v.cells for x in self._scaled(c.lin))
        if scaled:
            return Oddity(FACTOR, scaled)
        for c in v.cells:
            known = frozenset(t.atom for t, _ in c.lin) in self._sums
            if len(c.lin) > 1 and not known and not self._pending(c.lin):
                return Oddity(SUM, c.lin)
        return Oddity(ORDER, tuple(_terms(v))) if self.misordered(v) else None

    def misordered(self, v: Val) -> bool:
        """Whether pieces stand in another order, or one stands where another belongs."""
        return out_of_order(v.cells) or bool(repeated(v, self._strides) - self._repeats)

    def ratios(self, v: Val, means: bool = False) -> dict[int, set[Coef]]:
        """For each named value in ``v``: its factors relative to those of the sequential program;
        with ``means``, of a part of a sum also relative to a mean over that part."""
        out: dict[int, set[Coef]] = {}
        for t, k in _terms(v):
            if t.atom not in (UNIT, IOTA):
                share = self._share(t) if means else None
                scales = (k,) if share is None else (k, k * share)
                ratios = {x / f for x in scales for f in self.factors.get(t.atom, set())}
                out.setdefault(t.atom, set()).update(ratios)
        return out

    def right_factor(self, atom: int, found: Coef, phase: str) -> Coef:
        """The factor of a named value that ``found`` is meant to be: the nearest of those that the
        sequential program gives it in that phase (an optimizer makes others of a gradient)."""
        given = self._in_phase.get((atom, INPUT), set())
        right = given | self._in_phase.get((atom, phase), set()) or self.factors[atom]
        return min(right, key=lambda f: _distance(found, f))

    def _share(self, t: Term) -> Fraction | None:
        """How much of a sum a term with one part of it holds."""
        if len(t.restr) != 1:
            return None
        label, lo, hi = t.restr[0]
        ends = (lo, hi, *(self.table.full(label) or (None,)))
        if not all(isinstance(n, int) for n in ends):
            return None
        return Fraction(int(hi - lo), int(ends[3] - ends[2]))  # type: ignore[arg-type]

    def _scaled(self, lin: Lin) -> Iterable[tuple[Term, Coef]]:
        """Terms with a factor that the sequential program does not give them; in a sum only the
        ratio of the factors counts."""
        for t, k in lin:
            known = self.factors.get(t.atom)
            if t.atom in (UNIT, IOTA) or known is None or k in known or self._own_mean(t, k):
                continue
            if self._share_beside(t, k, lin):
                continue
            summand = self.summands.get(t.atom, set()) if len(lin) > 1 else set()
            if not any(k / other in summand for _, other in lin):
                yield t, k

    def _share_beside(self, t: Term, k: Coef, lin: Lin) -> bool:
        """Whether a term beside a part of a sum has as large a share of its factor (a bias divided
        by the ranks): a reduction of the sum makes it right."""
        for u, c in lin:
            share = self._share(u) if u is not t and is_partial(u) and self._known(u) else None
            if share is not None:
                whole = k / share
                if whole in self.factors.get(t.atom, ()) or whole / c in self.summands.get(
                    t.atom, ()
                ):
                    return True
        return False

    def _own_mean(self, t: Term, k: Coef) -> bool:
        """Whether a partial sum has the factor of a mean over its own part. That is what a rank
        with its own samples computes; only a reduction can make it right or wrong."""
        if len(t.restr) != 1:
            return False
        intervals = self._intervals.get(t.restr[0][0], {})
        if any(len(ends) > 1 for ends in intervals.values()):
            return False  # several parts on one rank are added there, with weights
        share = self._share(t)
        return share is not None and any(k * share == right for right in self.factors[t.atom])

    @cached_property
    def _intervals(self) -> dict[Label, dict[int, set[tuple[Size, Size]]]]:
        """For every reduction of which there are parts: the parts by rank."""
        out: dict[Label, dict[int, set[tuple[Size, Size]]]] = {}
        for rank, env in enumerate(self.inf.env):
            for v in env.values():
                for t, _ in _terms(v) if v is not None else ():
                    for label, lo, hi in t.restr:
                        out.setdefault(label, {}).setdefault(rank, set()).add((lo, hi))
        return out

    def _pending(self, lin: Lin) -> bool:
        """Whether a sum is one of parts of different sums, and of as large shares of whole values:
        it is then a part of their sum, of which a later reduction makes what it will be."""
        different = len({t.atom for t, _ in lin}) == len(lin)
        return different and all(
            (is_partial(t) and self._known(t)) or self._share_beside(t, k, lin) for t, k in lin
        )

    def partials(self, v: Val) -> tuple[tuple[Term, Coef], ...]:
        """Terms that are sums over a part of a reduction."""
        return tuple((t, k) for t, k in _terms(v) if is_partial(t) and self._known(t))

    def range_of(self, t: Term) -> str:
        """``elements 0 to 3 of 8`` for a sum over a part; empty where its ends are not numbers."""
        label, lo, hi = next((r for r in t.restr if innermost(r[0])[0] not in EXTREMA),
                             (None, None, None))  # fmt: skip
        full = self.table.full(label) if label is not None else None
        if full is None or not all(isinstance(n, int) for n in (lo, hi, *full)):
            return ""
        first, last = int(lo) - int(full[0]), int(hi) - int(full[0]) - 1  # type: ignore[arg-type]
        which = f"element {first}" if first == last else f"elements {first} to {last}"
        return f"{which} of {int(full[1]) - int(full[0])}"  # type: ignore[arg-type]

    def unreduced(self, found: Val, expected: Val) -> bool:
        """Whether ``found`` is the expected value, but only a part of its sum. A summand that is
        whole would be counted once a rank by a reduction of the sum."""
        if len(self.partials(found)) < len(list(_terms(found))):
            return False
        if any(overlap(c.lin) for c in found.cells):
            return False
        plain = [{t.atom for t, _ in _terms(v)} for v in (found, expected)]
        return plain[0] == plain[1] or self._summands(found) == self._summands(expected)

    def _summands(self, v: Val) -> set[tuple[int, Coef]]:
        """The values that a value is a sum of, with named sums opened."""
        flatten = self.inf.evaluator.folder.flatten
        return {(t.atom, k) for c in v.cells for t, k in flatten(c.lin) or c.lin}

    def _known(self, t: Term) -> bool:
        """Whether a restricted reduction is one of the sequential program."""
        return any(self.known_sum(label) for label, _, _ in t.restr)

    def known_sum(self, label: Label) -> bool:
        """Whether a label is of a reduction of the sequential program."""
        return self.table.full(label) is not None

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


def _distance(found: Coef, right: Coef) -> float:
    """How far a factor is from what it may be meant to be: from 1 (equal) up."""
    ratio = found / right
    if not isinstance(ratio, Fraction) or not ratio:
        return math.inf
    return float(max(abs(ratio), 1 / abs(ratio)))


def _terms(v: Val) -> Iterable[tuple[Term, Coef]]:
    for c in v.cells:
        yield from c.lin


def is_partial(t: Term) -> bool:
    """Whether a term is a sum over a part of a reduction."""
    return any(innermost(label)[0] not in EXTREMA for label, _, _ in t.restr)


def overlap(lin: Lin) -> bool:
    """Whether a sum holds two partial sums of one value that have terms in common."""
    parts: dict[object, list[tuple[Size, Size]]] = {}
    for t, _ in lin:
        for n, (label, lo, hi) in enumerate(t.restr):
            key = (t.atom, t.ax, t.off, t.restr[:n], label, t.restr[n + 1 :])
            parts.setdefault(key, []).append((lo, hi))
    return any(
        not at_least(c, b) and not at_least(a, d)
        for ends in parts.values()
        for (a, b), (c, d) in itertools.combinations(ends, 2)
    )


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


def inputs_of(inf: Inference) -> list[Val]:
    """The inputs of all ranks; how they lie on the ranks is declared, so it is never odd."""
    found = [env.get(v) for g, env in zip(inf.problem.distributed.graphs, inf.env, strict=False)
             for v in g.inputs]  # fmt: skip
    return [v for v in found if v is not None]


def repeated(v: Val, declared: Container[Size] = ()) -> set[int]:
    """Named values of which a value holds one piece several times along a dim, or pieces in
    turns (the first row of each, then the second row of each), or only every second row; leaps
    of a ``declared`` width are none."""
    out = {t.atom for c in v.cells for t, _ in c.lin if any(s not in declared for s in leaps(c, t))}
    axis = 0
    for factors in v.dims:
        mine = range(axis, axis + len(factors))
        axis += len(factors)
        if len(factors) > 1:
            for c in v.cells:
                out.update(t.atom for t, _ in c.lin if _twice(t, mine) or _shuffled(c, t, mine))
            out |= _in_turns(v.cells, mine)
    return out


def leaps(c: Cell, t: Term) -> list[Size]:
    """The widths in which axes walk a named value in leaps that no other axis fills."""
    walks = [(j, w) for j, w in enumerate(t.ax) if w is not None]
    return [
        w[1]
        for j, w in walks
        if w[1] != 1 and at_least(c.hi[j] - c.lo[j], 2)
        and not any(u[0] == w[0] and i != j for i, u in walks)
    ]  # fmt: skip


def _twice(t: Term, axes: range) -> bool:
    walks = [t.ax[j] is not None for j in axes]
    return any(walks) and not all(walks)


def _shuffled(c: Cell, t: Term, axes: range) -> bool:
    """Whether an outer axis walks less far than an inner one that walks the same axis."""
    for i in axes:
        for j in range(i + 1, axes.stop):
            outer, inner = t.ax[i], t.ax[j]
            if outer is not None and inner is not None and outer[0] == inner[0]:
                wide = at_least(c.hi[i] - c.lo[i], 2) and at_least(c.hi[j] - c.lo[j], 2)
                if wide and at_least(inner[1] * (c.hi[j] - c.lo[j] - 1), outer[1]):
                    return True
    return False


def _in_turns(cells: tuple[Cell, ...], axes: range) -> set[int]:
    """Named values whose pieces lie side by side along an inner axis although an outer axis
    walks within each piece."""
    out: set[int] = set()
    for a, b in pairwise(cells):
        split = [j for j in axes if a.lo[j] != b.lo[j]]
        if len(split) != 1 or len(a.lin) != 1 or len(b.lin) != 1:
            continue
        t, u = a.lin[0][0], b.lin[0][0]
        if t.atom != u.atom or t.ax != u.ax:
            continue
        first, second = _start(a), _start(b)
        for i in range(axes.start, split[0]):
            walk = t.ax[i]
            if walk is None or not at_least(a.hi[i] - a.lo[i], 2):
                continue
            if at_least(second[walk[0]] - first[walk[0]], walk[1]):
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
