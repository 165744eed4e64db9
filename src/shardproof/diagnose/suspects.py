"""What of a wrong output is wrong: the terms that the declared value does not have.

An output may hold many odd terms of which most are as they should be (the first of two partial
sums, a lookup that a later mask completes). Only what is connected with a term at fault is
followed to a cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shardproof.infer.blocks import Term, Val
from shardproof.infer.coef import Coef
from shardproof.infer.naming import UNIT, Table

MAX_OPENED = 64


@dataclass(slots=True)
class Suspects:
    """``foreign``: values without meaning that a wrong output is made of. ``plain``: named
    values that it should not hold, or not so; with a factor, only terms that have it."""

    foreign: set[int] = field(default_factory=set)
    plain: set[int] = field(default_factory=set)
    factors: dict[int, set[Coef]] = field(default_factory=dict)

    def has(self, v: Val) -> bool:
        """Whether a value holds a term at fault."""
        return any(self._is(t, k) for c in v.cells for t, k in c.lin)

    def _is(self, t: Term, k: Coef) -> bool:
        if t.atom in self.foreign or t.atom in self.plain:
            return True
        return t.atom in self.factors and k not in self.factors[t.atom]


def suspects(table: Table, found: Val, expected: Val) -> Suspects:
    """The terms of ``found`` at fault, given what it should be."""
    wanted = _opened(table, [(t.atom, k) for c in expected.cells for t, k in c.lin])
    out = Suspects()
    for c in found.cells:
        for t, k in c.lin:
            if table.is_foreign(t.atom):
                _close(table, t.atom, out.foreign)
            elif t.atom not in wanted:
                out.plain.add(t.atom)
            elif k not in wanted[t.atom]:
                out.factors[t.atom] = wanted[t.atom]
    if not (out.foreign or out.plain or out.factors):
        out.plain = {t.atom for c in found.cells for t, _ in c.lin}
    out.plain.discard(UNIT)
    return out


def _opened(table: Table, terms: list[tuple[int, Coef]]) -> dict[int, set[Coef]]:
    """The named values in a sum with their factors; a named sum counts, and what it is made of."""
    out: dict[int, set[Coef]] = {}
    todo = list(terms)
    while todo and len(out) < MAX_OPENED:
        atom, k = todo.pop()
        if k in out.setdefault(atom, set()):
            continue
        out[atom].add(k)
        d = table.definition(atom)
        if d is not None and d.fn == "lin":
            todo.extend((t.atom, k * c) for t, c in d.operands[0])
    return out


def _close(table: Table, atom: int, seen: set[int]) -> None:
    """Add a foreign value and the foreign values that it is made of."""
    todo = [atom]
    while todo:
        a = todo.pop()
        if a in seen or not table.is_foreign(a):
            continue
        seen.add(a)
        d = table.definition(a)
        if d is not None:
            todo.extend(t.atom for lin in d.operands for t, _ in lin)
