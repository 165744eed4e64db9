"""Factor lists in canonical form, and what is known of the values they name.

Products of products are flattened, powers of roots opened, exponentials joined, and guards met
(:mod:`shardproof.infer.guards`). Divisions by what may be zero are noted, to be printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from shardproof.infer.blocks import Box, Lin, Term, Unsupported
from shardproof.infer.coef import ONE, Coef, parts
from shardproof.infer.domains import condition
from shardproof.infer.guards import ZERO, Factor, GuardRules
from shardproof.infer.naming import UNIT, Atom, Def, Instance, Table
from shardproof.infer.positions import Positions
from shardproof.infer.roots import opened
from shardproof.infer.terms import completed, compose, exponent
from shardproof.ir.sizes import at_least, symbols
from shardproof.lemmas import names as lemmas
from shardproof.ops.base import EXP

MAX_FACTORS = 24


class Simplifier:
    """Simplification of products over a naming table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.assumed: list[str] = []
        self._box: tuple[Box, Box] | None = None
        self.guards = GuardRules(table, self.fire)
        self.positions = Positions(table)

    def fire(self, lemma: str) -> None:
        self.table.fire(lemma)

    def name(self, inst: Instance) -> Term:
        """Name an instance and note what its value is known to be."""
        before = len(self.table.atoms)
        t = self.table.name_of(inst)
        if len(self.table.atoms) > before:
            self._mark(t.atom)
            needed = None if self.table.defining else condition(self.table, t.atom, self.positive)
            if needed is not None:
                self.assume(needed)
        return t

    def _mark(self, atom: int) -> None:
        a = self.table.atoms[atom]
        d = a.definition
        if d is None:
            return
        inner = [self.table.atoms[t.atom] for lin in d.operands for t, _ in lin]
        if d.fn in ("ge", "eq"):
            a.boolean = a.guard = True
        elif d.fn == "prod":
            a.guard = any(self._indicator(x) for x in inner)
            a.boolean = all(x.boolean for x in inner)
            if self.table.defining:
                self.positions.note(a)
        elif d.fn == "sum":
            a.guard = any(x.definition is not None and x.definition.fn == "eq" for x in inner)
        elif d.fn == "lin":
            # Only what holds a guard directly: else the whole residual stream would count.
            a.guard = any(x.guard and _fn(x) != "lin" for x in inner)

    @staticmethod
    def _indicator(a: object) -> bool:
        return bool(getattr(a, "guard", False) and getattr(a, "boolean", False))

    # ---- simplification

    def simplify(self, lo: Box, hi: Box, factors: list[Factor]) -> list[Factor] | None:
        """Canonical factor list; None when the product is zero."""
        self._box = (lo, hi)
        flat = self._flatten(factors)
        aligned = self.positions.aligned(flat)
        flat = flat if aligned == flat else self._flatten(aligned)
        if any(self.table.atoms[t.atom].guard for t, _ in flat):
            return self._meet_guards(lo, hi, flat)
        return flat

    def _meet_guards(self, lo: Box, hi: Box, factors: list[Factor]) -> list[Factor] | None:
        """Apply guard rules until none fires; None when the product is zero."""
        while (found := self.guards.pair(lo, hi, factors)) is not None:
            i, j, new = found
            if new is ZERO:
                return None
            rest = [x for k, x in enumerate(factors) if k not in (i, j)]
            factors = self._flatten(rest + list(new))
        return factors

    def _flatten(self, factors: list[Factor]) -> list[Factor]:
        acc: dict[Term, Fraction] = {}
        todo = list(factors)
        while todo:
            self._accumulate(todo, acc)
            todo = self._open_roots(acc)
        for t, e in acc.items():
            if e == 0:
                self._assume_nonzero(t)
        out = self._join_exponentials([(t, e) for t, e in acc.items() if e != 0])
        if len(out) > MAX_FACTORS:
            raise Unsupported("a product with too many factors")
        return out

    def _open_roots(self, acc: dict[Term, Fraction]) -> list[Factor]:
        """Take the powers of roots that are no roots out of ``acc``."""
        out = []
        for t, e in list(acc.items()):
            found = opened(self.table, t, e)
            if found is not None and found[0] == 1:
                _, base, n, rest = found
                out.append((base, n))
                acc[t] = rest
                if rest == 0:
                    del acc[t]
                self.fire(lemmas.POWER_OF_ROOT)
        return out

    def _accumulate(self, todo: list[Factor], acc: dict[Term, Fraction]) -> None:
        """Add up exponents by factor, with named products opened."""
        while todo:
            t, e = todo.pop()
            if t.atom == UNIT:
                continue
            known = completed(self.table, t)
            if known is not None:
                todo.append((known, e))
                continue
            d = self.table.definition(t.atom)
            if d is not None and d.fn == "prod" and e.denominator == 1 and foldable(t, e):
                todo.extend(open_product(d, t, e))
                continue
            acc[t] = acc.get(t, Fraction(0)) + e
            if acc[t] > 1 and self.table.atoms[t.atom].boolean:
                acc[t] = ONE
                self.fire(lemmas.INDICATOR_POWER)

    def positive(self, t: Term) -> bool:
        """Whether a term is shown to be positive: exponentials, products of positives, sums of
        positives over a range that is never empty."""
        if t.atom == UNIT:
            return True
        d = self.table.definition(t.atom)
        if d is None:
            return False
        if d.fn == EXP:
            return True
        if d.fn in ("prod", "sum"):
            return _never_empty(d, t) and all(self.positive(op[0][0]) for op in d.operands)
        return False

    def _join_exponentials(self, factors: list[Factor]) -> list[Factor]:
        """``exp(c a) ** e * exp(d a) = exp((c e + d) a)``."""
        groups: dict[Term, list[tuple[Term, Fraction, Coef]]] = {}
        for t, e in factors:
            d = self.table.definition(t.atom)
            if d is None or d.fn != EXP or len(d.operands[0]) != 1 or t.restr:
                continue
            inner, c = d.operands[0][0]
            groups.setdefault(compose(inner, t, d.n_free), []).append((t, e, c))
        out = list(factors)
        for base, members in groups.items():
            if len(members) == 1 and members[0][1] == 1:
                continue
            total: Coef = Fraction(0)
            for t, e, c in members:
                out.remove((t, e))
                total = total + c * e
            if total != 0:
                n = len(base.ax)
                lo, hi = self._box if self._box else ((0,) * n, (1,) * n)
                out.append((self.name(Instance(EXP, (), lo, hi, (((base, total),),))), ONE))
            self.fire(lemmas.EXP_PRODUCT)
        return out

    def assume_divisor(self, c: Coef) -> None:
        """The program divides by a number that may be zero for some sizes: print that it is not."""
        n = parts(c)[0]
        if isinstance(n, int) or at_least(n, 1) or at_least(-n, 1):
            return
        if any(s.extent is not None for s in symbols(n)):
            # Said of all ranks at once it may be false whatever the sizes.
            raise Unsupported(f"{n}, by which the program divides, may be zero on some rank")
        text = f"{n} is not zero (the program divides by it)"
        if text not in self.assumed:
            self.assumed.append(text)

    def _assume_nonzero(self, t: Term) -> None:
        """``x / x = 1`` holds where ``x`` is not zero, that is where both programs are defined."""
        self.fire(lemmas.CANCELLED)
        if not self.positive(t):
            self.assume(
                f"{self.table.atoms[t.atom].name} is nowhere zero (the program divides by it)"
            )

    def _divides(self, operands: Sequence[tuple[Lin, Fraction]]) -> None:
        """Zero divided by ``x`` is zero where ``x`` is not zero."""
        for lin, e in operands:
            if e < 0 and not self.table.defining and not all(self.positive(t) for t, _ in lin):
                name = " + ".join(self.table.atoms[t.atom].name for t, _ in lin[:3])
                self.assume(f"{name} is nowhere zero (the program divides by it)")

    def assume(self, text: str) -> None:
        if text not in self.assumed:
            self.assumed.append(text)


# ------------------------------------------------------------------ helpers


def _fn(a: Atom) -> str:
    return a.definition.fn if a.definition is not None else ""


def _never_empty(d: Def, t: Term) -> bool:
    """Whether every reduction of a term runs over at least one index, for all sizes."""
    spans = [(a, b) for _, a, b in t.restr]
    spans += zip(d.lo[d.n_free :], d.hi[d.n_free :], strict=True)
    return all(at_least(b, a + 1) for a, b in spans)


def foldable(t: Term, e: Fraction) -> bool:
    return not t.restr or (e == 1 and all(r[0][0] == "in" and r[0][1] == t.atom for r in t.restr))


def open_product(d: Def, t: Term, e: Fraction) -> list[Factor]:
    """Factors of a named product; what it carried goes back to the factor it came from."""
    out = []
    for p, op in enumerate(d.operands):
        u, k = op[0]
        own = tuple((label[3], a, b) for label, a, b in t.restr if label[2] == p)
        inner = compose(u, t, d.n_free)
        out.append((inner._replace(restr=inner.restr + own), exponent(k) * e))
    return out
