"""Names for sums.

The sequential program gives every sum a name, and the distributed one looks its sums up, also in
the flattened spelling (``(x + a) + b`` against ``x + (a + b)``). This keeps the residual stream
of a deep network one term wide.
"""

from __future__ import annotations

from shardproof.infer.blocks import Box, Cell, Lin, Term, Val, normalise
from shardproof.infer.coef import Coef
from shardproof.infer.naming import IOTA, UNIT, Instance, Table
from shardproof.infer.products import Products, compose
from shardproof.infer.terms import lincomb
from shardproof.lemmas import names as lemmas

MAX_FLAT = 10
# Summands without sequential meaning in one sum, at least.
MAX_FOREIGN = 16
# Outputs are compared once, so that their sums may be opened much further.
MAX_FLAT_OUTPUT = 1000


class Folder:
    """Folds linear combinations into one named term."""

    def __init__(self, table: Table, products: Products) -> None:
        self.table, self.products = table, products
        self.longest = MAX_FOREIGN

    def spread(self, ranks: int) -> None:
        """Let sums be long enough for a few values from each of so many ranks."""
        self.longest = max(MAX_FOREIGN, 4 * ranks)

    def value(self, v: Val) -> Val:
        """Fold every cell. Cells must have been merged: a name covers all that has one form."""
        v = self.products.positions.settled(v)
        if all(len(c.lin) < 2 for c in v.cells):
            return v
        cells = [Cell(c.lo, c.hi, self.fold(c.lo, c.hi, c.lin)) for c in v.cells]
        return normalise(v.dims, cells)

    def fold(self, lo: Box, hi: Box, lin: Lin) -> Lin:
        """``lead * name`` if the sum has a name (the sequential side gives it one)."""
        if len(lin) < 2 or all(self._plain(t) for t, _ in lin):
            return lin
        lead = lin[0][1]
        inst = _unit(lo, hi, lin, lead)
        if self.table.defining:
            found = self.table.find(inst)
            if found is not None:
                return ((found, lead),)
            t = self.products.name(inst)
            self._flat_alias(lo, hi, lin, t, lead)
            return ((t, lead),)
        return self._look_up(lo, hi, lin, inst, lead)

    def _look_up(self, lo: Box, hi: Box, lin: Lin, inst: Instance, lead: Coef) -> Lin:
        found = self.table.find(inst)
        if found is not None:
            return ((found, lead),)
        flat = self.flatten(lin)
        if flat is None or flat == lin:
            return self._short(lin, inst, lead)
        if len(flat) < 2:
            return flat
        found = self.table.find(_unit(lo, hi, flat, flat[0][1]))
        if found is None:
            return self._short(lin, inst, lead)
        self.table.fire(lemmas.SUM_RESPELLED)
        return ((found, flat[0][1]),)

    def _short(self, lin: Lin, inst: Instance, lead: Coef) -> Lin:
        """The sum of a distributed program that has no sequential name; a long one of values that
        have no sequential meaning either gets a name of its own. Each linear operator after it
        would be applied to every summand, and a wrong program has as many as there are paths
        through it."""
        if len(lin) <= self.longest:
            return lin
        if sum(self.table.is_foreign(t.atom) for t, _ in lin) <= self.longest:
            return lin
        return ((self.table.define(inst), lead),)

    def _plain(self, t: Term) -> bool:
        """Indicators and positions stay visible: guards must meet each other."""
        a = self.table.atoms[t.atom]
        return t.atom in (UNIT, IOTA) or (a.guard and a.boolean)

    def _flat_alias(self, lo: Box, hi: Box, lin: Lin, t: Term, lead: Coef) -> None:
        flat = self.flatten(lin)
        if flat is None or flat == lin or len(flat) < 2 or flat[0][1] != lead:
            return
        self.table.alias(_unit(lo, hi, flat, lead), t, len(lo))

    def respell(self) -> None:
        """Further spellings of the sums of the sequential program, once all of it is named. In a
        repeated layer what comes from outside stays closed, so that a chain of sums that runs
        through the layers (experts that add to one result) is spelled within each only."""
        for atom in range(len(self.table.atoms)):
            d = self.table.definition(atom)
            if d is None or d.fn != "lin":
                continue
            flat, n = self.flatten(d.operands[0]), len(d.lo)
            if flat is None or flat == d.operands[0] or len(flat) < 2 or flat[0][1] != 1:
                continue
            inst = _unit(d.lo, d.hi, flat, flat[0][1])
            if self.table.find(inst) is None:
                walks = tuple((j, 1) for j in range(n))
                self.table.alias(inst, Term(atom, walks, (0,) * n, ()), n)

    def flatten(self, lin: Lin, limit: int = MAX_FLAT) -> Lin | None:
        """The sum with named sums opened, or None when it gets long.

        The newest name is opened first: definitions use older names only, so that each name is
        opened once however many sums it occurs in.
        """
        todo = dict(lincomb(self.table, lin))
        out: list[tuple[Term, Coef]] = []
        opened = 0
        while todo:
            t = max(todo, key=lambda u: u.atom)
            c = todo.pop(t)
            d = None if t.atom in self.table.closed else self.table.definition(t.atom)
            if d is None or d.fn != "lin" or t.restr:
                out.append((t, c))
                continue
            opened += 1
            if opened > limit or len(out) > limit:
                return None
            opened_terms = [(compose(u, t, d.n_free), k * c) for u, k in d.operands[0]]
            todo = dict(lincomb(self.table, [*todo.items(), *opened_terms]))
        return lincomb(self.table, out)


def _unit(lo: Box, hi: Box, lin: Lin, lead: Coef) -> Instance:
    return Instance("lin", (), lo, hi, (tuple((t, c / lead) for t, c in lin),))
