"""Values that are right but for a shift or a scale that a later step takes back.

An online softmax shifts its sums by the largest score so far, and a merge of blocks divides each
by its own sum. What holds such a value has no sequential meaning, and is no fault: the shift
cancels whatever it is. It becomes one where values with *different* shifts are added, or where
nothing takes the shift back. Here a value is divided into a known sequential value and what it
was multiplied by, or had added to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from shardproof.diagnose.facts import Facts, is_partial, overlap
from shardproof.infer.blocks import Box, Cell, Lin, Term, Val
from shardproof.infer.coef import ONE, Coef
from shardproof.infer.naming import UNIT, Def, Instance, Table
from shardproof.infer.products import Factor
from shardproof.infer.simplify import open_product
from shardproof.infer.terms import lincomb, unit_term
from shardproof.ops.base import EXP, LOG

EXTREMA = ("max", "min", "maximum", "minimum")
Gauge = frozenset[Factor]


@dataclass(frozen=True, slots=True)
class Split:
    """A term as ``core`` (None: nothing is left that has a meaning) times its ``gauge``."""

    core: Term | None
    gauge: Gauge


class Shifts:
    """Which values of one inference are only shifted. With ``scales``, also those divided by a
    sum over a part, and logarithms of such sums."""

    def __init__(self, facts: Facts, scales: bool = False) -> None:
        self.facts, self.scales = facts, scales
        self.table: Table = facts.table
        self.rows = facts.inf.evaluator.rows
        self._extreme: dict[int, bool] = {}

    def only(self, v: Val) -> bool:
        """Whether a value is a sequential one, or a part of one, up to one shift a cell."""
        cells = []
        for c in v.cells:
            found = self._lin(c)
            if found is None:
                return False
            lin, shifted = found
            if not (shifted and self._disjoint(lin)):
                cells.append(Cell(c.lo, c.hi, lin))
        # Parts of one sum side by side have no order.
        alike = len({t.restr for c in cells for t, _ in c.lin}) < 2
        groups = [tuple(cells)] if alike else [(c,) for c in cells]
        return all(self._plain(Val(v.dims, g)) for g in groups)

    def _plain(self, v: Val) -> bool:
        """Whether a value is a sequential one; filled scores are, though they have no name."""
        filled = [t for c in v.cells for t, _ in c.lin if self._foreign(t)]
        return bool(filled) or self.facts.oddity(v) is None

    def _disjoint(self, lin: Lin) -> bool:
        """Whether a sum is of parts of one sum that have nothing in common: a part as well, which
        has no interval of its own only because a piece between them is missing so far."""
        kinds = {(t.atom, t.ax, t.off, len(t.restr), k) for t, k in lin}
        return len(lin) > 1 and len(kinds) == 1 and is_partial(lin[0][0]) and not overlap(lin)

    def is_extremum(self, v: Val) -> bool:
        """Whether a value is nothing but a maximum or minimum that only this program has."""
        return all(
            len(c.lin) == 1 and self._foreign(c.lin[0][0]) and self.extreme(c.lin[0][0].atom)
            for c in v.cells
        )  # fmt: skip

    def mixed(self, v: Val) -> bool:
        """Whether parts of one sum are added up that are scaled differently."""
        return any(self._mixes(c) for c in v.cells if len(c.lin) > 1)

    def _mixes(self, c: Cell) -> bool:
        return len({s.gauge for s in self.parts(c)}) > 1

    def parts(self, c: Cell) -> list[Split]:
        """The terms of a cell that are parts of one sum, of which there are several; the first
        such sum."""
        found: dict[tuple[object, ...], list[Split]] = {}
        for t, _ in c.lin:
            s = self.split(c.lo, c.hi, t)
            if s is not None and s.core is not None and is_partial(s.core):
                found.setdefault((s.core.atom, s.core.ax, s.core.off), []).append(s)
        return next((p for p in found.values() if len({s.gauge for s in p}) > 1), [])

    def _lin(self, c: Cell) -> tuple[Lin, bool] | None:
        """What a cell holds without its shift, and whether it has one; or None."""
        shown = [(t, k) for t, k in c.lin if not (self._foreign(t) and self._added(t))]
        if not shown and len(c.lin) == 1 and self.extreme(c.lin[0][0].atom):
            return None
        out: list[tuple[Term, Coef]] = []
        gauges = set()
        for t, k in shown:
            s = self.split(c.lo, c.hi, t)
            if s is None:
                return None
            gauges.add(s.gauge)
            out.append((s.core if s.core is not None else unit_term(len(c.lo)), k))
        return (lincomb(self.table, out), any(gauges)) if len(gauges) < 2 else None

    def split(self, lo: Box, hi: Box, t: Term) -> Split | None:
        """A term without its shift; None where there is more to it than that."""
        if not self._foreign(t) or self.rows.rightly_filled(t, lo, hi):
            return Split(t, frozenset())
        d = self.table.definition(t.atom)
        factors = open_product(d, t, ONE) if d is not None and d.fn == "prod" else [(t, ONE)]
        divisors = {u.atom for u, e in factors if self._divides(u, e)}
        gauge = frozenset(f for f in factors if f[0].atom in divisors or self._shift(f[0]))
        rest = [f for f in factors if f not in gauge]
        if not gauge:
            return None
        if any(self._foreign(f) for f, _ in rest):
            return None
        if not rest:
            return Split(None, gauge)
        core = rest[0][0] if len(rest) == 1 and rest[0][1] == 1 else self._named(lo, hi, rest)
        return None if core is None else Split(core, gauge)

    def _named(self, lo: Box, hi: Box, factors: list[Factor]) -> Term | None:
        """The sequential product of factors, if the sequential program has it."""
        if any(t.restr for t, _ in factors):
            return None
        factors = sorted(factors, key=lambda f: (f[0].atom, str(f[1]), str(f[0].off)))
        operands: tuple[Lin, ...] = tuple(((t, e),) for t, e in factors)
        found = self.table.find(Instance("prod", (), lo, hi, operands, commutative=True))
        return None if found is None or self._foreign(found) else found

    def _shift(self, t: Term) -> bool:
        """Whether a factor is the exponential of extrema."""
        d = self.table.definition(t.atom)
        if d is None or d.fn != EXP or not self._foreign(t):
            return False
        return all(self.extreme(u.atom) for u, _ in d.operands[0])

    def _divides(self, t: Term, e: Fraction) -> bool:
        """Whether a factor is, with scales, one over a sum over a part."""
        return self.scales and e < 0 and self._part(t)

    def _part(self, t: Term) -> bool:
        """Whether a term is a part of a named sum of exponentials, or several parts of one. A
        count of a part is none: it does not cancel."""
        if not self._foreign(t):
            return is_partial(t) and self._exponentials(t.atom)
        d = self.table.definition(t.atom)
        return d is not None and d.fn == "lin" and self._all_parts(d)

    def _exponentials(self, atom: int) -> bool:
        d = self.table.definition(atom)
        inner = [self.table.definition(u.atom) for op in d.operands for u, _ in op] if d else []
        return any(x is not None and x.fn == EXP for x in inner)

    def _added(self, t: Term) -> bool:
        """Whether a summand is a shift: an extremum or, with scales, the logarithm of a sum over
        a part."""
        if self.extreme(t.atom):
            return True
        d = self.table.definition(t.atom)
        return self.scales and d is not None and d.fn == LOG and self._all_parts(d)

    def _all_parts(self, d: Def) -> bool:
        return all(self._part(u) for u, _ in d.operands[0])

    def _foreign(self, t: Term) -> bool:
        return t.atom != UNIT and self.table.is_foreign(t.atom)

    def extreme(self, atom: int) -> bool:
        """Whether an atom is a maximum or minimum, of whatever."""
        known = self._extreme.get(atom)
        if known is None:
            a = self.table.atoms[atom]
            fn = a.definition.fn if a.definition is not None else self._made_by(a.site)
            known = self._extreme[atom] = fn in EXTREMA
        return known

    @staticmethod
    def _made_by(site: object) -> str:
        """The reduction or operator that made a value without a definition."""
        node = site[1] if isinstance(site, tuple) else None
        if node is None or isinstance(node, str):
            return ""
        return str(node.attrs.get("op", "")) if "group" in node.attrs else str(node.op)
