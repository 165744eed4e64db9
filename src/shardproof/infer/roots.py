"""Powers of roots: ``(x ** (p / q)) ** q = x ** p`` where x is shown to be nowhere negative.

Without that condition the rule is wrong for one side: where x is negative the root has no value,
and x has one. So it is applied only where it is shown, and never assumed.
"""

from __future__ import annotations

from fractions import Fraction

from shardproof.infer.blocks import Term
from shardproof.infer.coef import Coef
from shardproof.infer.guards import Factor
from shardproof.infer.naming import UNIT, Table
from shardproof.infer.terms import compose, exponent
from shardproof.lemmas import names as lemmas
from shardproof.ops.base import EXP


def opened(table: Table, t: Term, e: Fraction) -> tuple[Coef, Term, Fraction, Fraction] | None:
    """``(c, base, n, rest)`` where ``t ** e = c * base ** n * t ** rest`` for a root ``t``."""
    d = table.definition(t.atom)
    if d is None or d.fn != "power" or t.restr or e.denominator != 1 or len(d.operands[0]) != 1:
        return None
    base, coef = d.operands[0][0]
    root: Fraction = d.attrs[0]
    times = int(e / root.denominator)
    if times == 0 or not isinstance(coef, Fraction) or coef <= 0 or not nonnegative(table, base):
        return None
    n = root.numerator * times
    return coef**n, compose(base, t, d.n_free), Fraction(n), e - times * root.denominator


def open_factors(table: Table, factors: list[Factor]) -> tuple[Coef, list[Factor]]:
    """A product with the powers of its roots opened, as a coefficient and factors."""
    powers: dict[Term, Fraction] = {}
    for t, e in factors:
        powers[t] = powers.get(t, Fraction(0)) + e
    scale: Coef = Fraction(1)
    for t, e in powers.items():
        found = opened(table, t, e)
        if found is not None:
            c, base, n, rest = found
            scale = scale * c
            kept = [f for f in factors if f[0] != t]
            factors = [*kept, (base, n), *([(t, rest)] if rest else [])]
            table.fire(lemmas.POWER_OF_ROOT)
    return scale, factors


def nonnegative(table: Table, t: Term, depth: int = 8) -> bool:
    """Whether a term is shown to be nowhere negative: squares, exponentials, roots, indicators,
    and products and sums of such. A part of such a sum is one, so restrictions do not matter."""
    if t.atom == UNIT or table.atoms[t.atom].boolean:
        return True
    d = table.definition(t.atom)
    if d is None or depth == 0:
        return False
    if d.fn in (EXP, "power"):
        return True
    if d.fn in ("prod", "sum"):
        factors = [(op[0][0], exponent(op[0][1])) for op in d.operands]
        return all(_is_even(e) or nonnegative(table, u, depth - 1) for u, e in factors)
    if d.fn == "lin":
        return all(
            isinstance(c, Fraction) and c > 0 and nonnegative(table, u, depth - 1)
            for u, c in d.operands[0]
        )
    return False


def _is_even(e: Fraction) -> bool:
    return e.denominator == 1 and e.numerator % 2 == 0
