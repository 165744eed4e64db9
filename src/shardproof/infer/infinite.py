"""Infinities that a program writes itself.

``0 * inf`` and ``inf - inf`` are no numbers, so an infinity must not vanish from sums and products
as a number does. What arithmetic makes of one keeps it, or has no value; other functions (the
exponential of minus infinity, a maximum, a comparison, a selection) give numbers again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isfinite

from shardproof.infer.blocks import Val
from shardproof.infer.coef import Coef, parts
from shardproof.infer.naming import Def, Table
from shardproof.ir.sizes import at_least
from shardproof.ops import base as alg

ARITHMETIC = alg.Linear | alg.Monomial | alg.Contract
OPEN = ("lin", "prod", "sum", "power")
Signed = tuple[int, int]  # an atom that is an infinity, and the sign with which it is read (or 0)


class Infinities:
    """Which values read an infinity, over one naming table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.literals: dict[int, float] = {}
        self.filled = False
        self._found: list[frozenset[Signed]] = []

    def literal(self, v: Val, value: float) -> None:
        """Note that a value is the constant ``value``, which is not finite."""
        self.literals.update((t.atom, value) for c in v.cells for t, _ in c.lin)

    def read(self, atom: int) -> frozenset[Signed]:
        """The infinities in the sums and products that an atom is. A definition uses older atoms
        only, so the oldest is looked at first."""
        while len(self._found) <= atom:
            self._found.append(frozenset(self._of(len(self._found))))
        return self._found[atom]

    def _of(self, atom: int) -> Iterable[Signed]:
        d = self.table.atoms[atom].definition
        if atom in self.literals:
            yield atom, _sign(self.literals[atom])
        elif d is not None and d.fn == alg.FILL and not isfinite(d.attrs[0]):
            yield atom, _sign(d.attrs[0])
        elif d is not None and d.fn in OPEN:
            for p, op in enumerate(d.operands):
                for t, c in op:
                    for a, s in self.read(t.atom):
                        yield a, s * _sign_of(c) if d.fn == "lin" else s * self._others(d, p)

    def _others(self, d: Def, place: int) -> int:
        """The sign of the other factors of a product, or 0."""
        others = [op[0][0].atom for p, op in enumerate(d.operands) if p != place]
        if d.fn == "power" or d.operands[place][0][1] != 1:
            return 0
        return 1 if all(self.table.atoms[a].boolean for a in others) else 0

    def reads(self, v: Val) -> set[int]:
        """The infinities that a value reads."""
        return {a for c in v.cells for t, _ in c.lin for a, _ in self.read(t.atom)}

    def lost(self, rule: object, operands: Sequence[Val], result: Val) -> bool:
        """Whether arithmetic on infinities may have no value: one of them vanishes, or two of
        them have opposite signs."""
        if not isinstance(rule, ARITHMETIC) or not (self.literals or self.filled):
            return False
        reads = [self.reads(v) for v in operands]
        if not any(reads):
            return False
        if not set().union(*reads) <= self.reads(result):
            return True
        return isinstance(rule, alg.Linear) and self._opposed(rule, operands)

    def _opposed(self, rule: alg.Linear, operands: Sequence[Val]) -> bool:
        signs: set[int] = set()
        for v, k in zip(operands, rule.coefs, strict=True):
            mine = {
                s * _sign_of(c) * (_sign(k) if isinstance(k, Fraction) else 1)
                for cell in v.cells
                for t, c in cell.lin
                for _, s in self.read(t.atom)
            }
            if mine and signs and (mine | signs) not in ({1}, {-1}):
                return True
            signs |= mine
        return False


def _sign(x: float | Fraction) -> int:
    return (x > 0) - (x < 0)


def _sign_of(c: Coef) -> int:
    """The sign of a coefficient; 0 where it is not known."""
    if isinstance(c, Fraction):
        return _sign(c)
    n, d = parts(c)
    if at_least(n, 1) and at_least(d, 1):
        return 1
    return -1 if at_least(-n, 1) and at_least(d, 1) else 0
