"""What a certificate says, apart from how it says it.

Two certificates with equal facts make equal claims: names of atoms, the order of summands and of
boxes, ranges of free variables (a definition holds for every index), and what no value refers to
are no part of them.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

from shardproof.certificate.claims import INTERNAL, Atom, Claims, Inner, Lin, Meaning, Term
from shardproof.certificate.document import claims, decode, problems


def facts(certificate: bytes) -> Any:
    """The facts of a certificate that can be read."""
    doc = decode(certificate)
    _, evaluated = problems(doc)
    return _Facts(claims(doc.proof, evaluated)).all()


class _Facts:
    def __init__(self, c: Claims) -> None:
        self.claims = c
        self.known: dict[int, str] = {}

    def all(self) -> Any:
        tables = [self.claims.sequential, *self.claims.distributed]
        values = [{v.name: self.meaning(m) for v, m in t.items()} for t in tables]
        return values, [self.inner(x) for x in self.claims.opened.values()]

    def inner(self, rows: list[Inner] | None) -> Any:
        if rows is None:
            return None
        return [([m and self.meaning(m) for m in r.results], self.inner(r.inner)) for r in rows]

    @staticmethod
    def number(x: Any) -> str:
        return hashlib.sha256(repr(x).encode()).hexdigest()

    def atom(self, k: int) -> str:
        if k not in self.known:
            a: Atom = self.claims.atoms[k]
            if not a.fn:
                self.known[k] = self.number(("unknown", k, a.n_free))
            else:
                fixed = range(len(a.lo)) if a.whole else a.bound
                spans = [(q, a.lo[q], a.hi[q]) for q in fixed if q in a.bound or q in a.whole]
                whole = a.whole if a.fn not in INTERNAL else ()
                ops = [self.operand(a, q) for q in range(len(a.operands))]
                if a.fn in ("prod", "sum"):
                    guards = [self.lin(self.powers(a, x)) for x in a.operands if self.is_guard(x)]
                    twice = [x for k, x in enumerate(guards) if x in guards[:k]]
                    for x in twice:
                        ops.remove(x)
                    ops.sort(key=repr)
                self.known[k] = self.number((a.fn, a.attrs, ops, spans, a.n_free, whole))
        return self.known[k]

    def operand(self, a: Atom, place: int) -> Any:
        return self.lin(self.powers(a, a.operands[place]))

    def is_guard(self, lin: Lin) -> bool:
        return len(lin) == 1 and self.claims.atoms[lin[0][0].atom].fn in ("ge", "eq")

    def powers(self, a: Atom, lin: Lin) -> Lin:
        """A condition to any positive power is that condition."""
        if a.fn not in ("prod", "sum"):
            return lin
        guards = ("ge", "eq")
        return tuple(
            (t, Fraction(1) if self.claims.atoms[t.atom].fn in guards and c > 0 else c)  # type: ignore[operator]
            for t, c in lin
        )

    def lin(self, lin: Lin) -> Any:
        return sorted(repr((self.term(t), c)) for t, c in lin)

    def term(self, t: Term) -> Any:
        restr = sorted(repr((self.label(n), a, b)) for n, a, b in t.restr)
        return self.atom(t.atom), t.ax, t.off, restr

    def label(self, n: Any) -> Any:
        if n[0] == "in":
            place = self.operand(self.claims.atoms[n[1]], n[2])
            return n[0], self.atom(n[1]), place, self.label(n[3])
        return n[0], self.atom(n[1]), n[2]

    def meaning(self, m: Meaning) -> str:
        cells = sorted(repr((c.lo, c.hi, self.lin(c.lin))) for c in m.cells)
        base = None if m.base is None else self.meaning(m.base)
        return self.number((m.dims, cells, base, m.pieces))
