"""Arguments for which a function has no value: what only the distributed program applies must have
a value there, even if the result cancels later, or the certificate must list it.

What the sequential program applies has a value where that program has one.
"""

from __future__ import annotations

from collections.abc import Iterable

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Term
from shardproof.certificate.exact import Coef, NotChecked, Quotient, Rational
from shardproof.certificate.products import Read
from shardproof.certificate.roots import nonnegative, positive_number
from shardproof.ops.base import PARTIAL


class Domains:
    """``stated`` are the functions, and ``divisors`` the divisors, of the sequential program;
    ``stating`` is set while that is checked."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.stating = True
        self.stated: set[int] = set()
        self.divisors: set[int] = set()

    def applied(self, r: Read) -> None:
        """A node applies the function that ``r`` is."""
        d = self.algebra.atoms[r.atom]
        need = PARTIAL.get(d.fn)
        if need is None or self._stated(r):
            return
        lin = self.algebra.operand(r, 0)
        if need != "positive" or not (lin and all(map(self._positive, lin))):
            self._assume(r, f"the argument of {d.name} is {need}")

    def root(self, r: Read, e: Rational) -> None:
        """A node takes a power that is no whole number."""
        if self._stated(r):
            return
        name, lin = self.algebra.atoms[r.atom].name, self.algebra.operand(r, 0)
        if not all(positive_number(c) and nonnegative(self.algebra.atoms, t) for t, c in lin):
            need = "nowhere negative" if e > 0 else "positive"
            self._assume(r, f"what {name} takes a root of is {need}")
        elif e < 0 and not any(map(self._positive, lin)):
            self._assume(r, f"{name} divides by what is nowhere zero")

    def divided(self, b: Read, names: Iterable[Read], rooted: bool = False) -> None:
        """A node divides by ``b``, or by a root of it, which is looked at as such; ``names`` are
        what its result is called."""
        a = self.algebra
        if self.stating and b.restr:
            return
        a.divides(b.atom)
        if self.stating:
            self.divisors.add(b.atom)
        elif not rooted and not a.positive(b) and (b.restr or b.atom not in self.divisors):
            by = next((a.atoms[r.atom].name for r in names if self._divides(r, b)), None)
            if by is not None:
                a.assume_of_atom(f"{by} divides by what is nowhere zero")
            else:
                text = f"{a.atoms[b.atom].name} is nowhere zero (the program divides by it)"
                self._assume(b, text)

    def _stated(self, r: Read) -> bool:
        """Whether the sequential program applies a function, or is just found to."""
        if self.stating and not r.restr:
            self.stated.add(r.atom)
        return self.stating or (r.atom in self.stated and not r.restr)

    def _positive(self, term: tuple[Term, Coef]) -> bool:
        return positive_number(term[1]) and self.algebra.positive(term[0])

    def _divides(self, r: Read, b: Read) -> bool:
        """Whether a name is that of a product, or a sum of such, with ``b`` under a bar."""
        if self.algebra.atoms[r.atom].fn not in ("prod", "sum"):
            return False
        places = range(len(self.algebra.atoms[r.atom].operands))
        factors = [self.algebra.operand(r, k)[0] for k in places]
        return any(
            (t.atom, t.restr) == (b.atom, b.restr) and not isinstance(e, Quotient) and e < 0
            for t, e in factors
        )

    def _assume(self, r: Read, text: str) -> None:
        if r.restr:
            raise NotChecked("a function of part of a sum, which may have no value there")
        self.algebra.assume_of_atom(text)
