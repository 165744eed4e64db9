"""Infinities that a program writes: they do not vanish from sums and products.

An infinite constant is an unknown, and so is a tensor filled with one where it is masked. Where
arithmetic on such unknowns is checked, what is claimed of the result must still read them, and a
sum must not add two of opposite signs: ``0 * inf`` and ``inf - inf`` are no numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isfinite

from shardproof.certificate.claims import Atom, Meaning
from shardproof.certificate.exact import NotChecked
from shardproof.certificate.rules import Moved, Tensor, read_through
from shardproof.ops import base as alg

ARITHMETIC = alg.Linear | alg.Monomial | alg.Contract
OPEN = ("lin", "prod", "sum", "power")


class Infinite:
    """The infinities among the atoms of one certificate. ``boolean``: atoms that are 0 or 1."""

    def __init__(self, atoms: Sequence[Atom], boolean: set[int]) -> None:
        self.atoms, self.boolean = atoms, boolean
        self.constants: dict[int, float] = {}
        self.filled = any(a.fn == alg.FILL for a in atoms)  # images of others are filled too
        self._read: list[dict[int, set[int]]] = []

    def constant(self, m: Meaning, value: float) -> None:
        """``m`` is a constant that is not finite."""
        new = {t.atom: value for c in m.cells for t, _ in c.lin}
        if not new.keys() <= self.constants.keys():
            self.constants.update(new)
            self._read.clear()

    def reads(self, atom: int) -> bool:
        """Whether an atom reads an infinity that the program writes."""
        return self.some() and bool(self._atom(atom))

    def some(self) -> bool:
        """Whether the program writes any infinity; an infinite constant is checked before what
        reads it."""
        return self.filled or bool(self.constants)

    def check(self, rule: alg.Algebra, operands: Sequence[Tensor], *claims: Tensor) -> None:
        """Refuse arithmetic after which an infinity is gone, or may have met its opposite.
        ``claims`` are the result, or the parts of it."""
        if not self.some() or not isinstance(rule, ARITHMETIC):
            return
        read = [self._of(x) for x in operands]
        if not any(read):
            return
        kept = _joined(map(self._of, claims))
        if any(a not in kept for r in read for a in r):
            raise NotChecked("an infinity that vanishes")
        if isinstance(rule, alg.Linear):
            signs: list[set[int]] = []
            for r, k in zip(read, rule.coefs, strict=True):
                if r:
                    signs.append({s * _sign(k) for x in r.values() for s in x})
            if len(signs) > 1 and set().union(*signs) not in ({1}, {-1}):
                raise NotChecked("infinities that may be of opposite signs")

    def _of(self, m: Tensor) -> dict[int, set[int]]:
        """The infinities that a tensor reads, with their signs."""
        if isinstance(m, Moved):
            if not any(map(self._of, m.operands)):
                return {}
            return _joined(
                _times(self._atom(b.atom), _sign(c) if len(p.factors) == 1 else 0)
                for p, c in read_through(m)
                for b, _ in p.factors
            )
        return _joined(
            _times(self._atom(t.atom), _sign(c)) for cell in m.cells for t, c in cell.lin
        )

    def _atom(self, atom: int) -> dict[int, set[int]]:
        """The infinities in the sums and products that an atom is. A definition uses older atoms
        only, so the oldest is looked at first."""
        while len(self._read) <= atom:
            self._read.append(self._look(len(self._read)))
        return self._read[atom]

    def _look(self, atom: int) -> dict[int, set[int]]:
        d = self.atoms[atom]
        value = self.constants.get(atom)
        if d.fn == alg.FILL and d.attrs and isinstance(d.attrs[0], float):
            value = d.attrs[0]
        if value is not None and not isfinite(value):
            return {atom: {_sign(value)}}
        if d.fn not in OPEN:
            return {}
        parts = []
        for p, op in enumerate(d.operands):
            others = [x[0][0].atom for q, x in enumerate(d.operands) if q != p]
            for t, c in op:
                plain = d.fn != "power" and c == 1 and all(map(self._condition, others))
                by = _sign(c) if d.fn == "lin" else 1 if plain else 0
                parts.append(_times(self._atom(t.atom), by))
        return _joined(parts)

    def _condition(self, atom: int) -> bool:
        """Whether an atom is 0 or 1."""
        fn = self.atoms[atom].fn
        return atom in self.boolean or fn in ("ge", "eq") or fn.startswith("compare_")


def _sign(x: object) -> int:
    """The sign of a number; 0 where it is none."""
    return (x > 0) - (x < 0) if isinstance(x, int | float | Fraction) else 0


def _times(found: dict[int, set[int]], by: int) -> dict[int, set[int]]:
    return {a: {s * by for s in signs} for a, signs in found.items()}


def _joined(found: Iterable[dict[int, set[int]]]) -> dict[int, set[int]]:
    out: dict[int, set[int]] = {}
    for one in found:
        for a, signs in one.items():
            out.setdefault(a, set()).update(signs)
    return out
