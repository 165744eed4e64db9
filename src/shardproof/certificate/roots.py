"""Powers of roots in a product: ``(x ** (p / q)) ** q = x ** p`` where x is nowhere negative.

Where x is negative the root has no value and its power has none, but ``x ** p`` has one; so the
rule needs that x is shown to be nowhere negative. Part of a sum of such values is one as well,
hence intervals of reductions do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeGuard

from shardproof.certificate.claims import UNIT, Atom, Lin, Term
from shardproof.certificate.exact import Coef, Quotient, Rational
from shardproof.certificate.products import Base, Read
from shardproof.ops.base import EXP

MAX_DEPTH = 8


def root_of(atoms: Sequence[Atom], b: Base, e: Rational) -> tuple[Term, Coef, int, Rational] | None:
    """``(x, c, n, rest)`` where ``b ** e = (c x) ** n * b ** rest``, for a root ``b``."""
    if not isinstance(b, Read) or b.restr or e.denominator != 1:
        return None
    d = atoms[b.atom]
    root = d.attrs[0] if d.fn == "power" and len(d.attrs) == 1 else None
    if not _is_root(root) or len(d.operands[0]) != 1:
        return None
    times = abs(int(e)) // root.denominator * (1 if e > 0 else -1)
    ((x, c),) = d.operands[0]
    if times == 0 or not positive_number(c) or not nonnegative(atoms, x):
        return None
    return x, c, root.numerator * times, e - times * root.denominator


def nonnegative(atoms: Sequence[Atom], t: Term, depth: int = MAX_DEPTH) -> bool:
    """Whether a term is shown to be nowhere negative, by the form of its definition."""
    d = atoms[t.atom]
    if t.atom == UNIT or d.fn in (EXP, "ge", "eq"):
        return True
    if not depth:
        return False
    if d.fn == "power":
        return len(d.attrs) == 1 and _is_root(d.attrs[0])
    if d.fn in ("prod", "sum"):
        return all(
            len(x) == 1 and (_even(x) or nonnegative(atoms, x[0][0], depth - 1)) for x in d.operands
        )
    if d.fn == "lin":
        return all(
            positive_number(c) and nonnegative(atoms, u, depth - 1) for u, c in d.operands[0]
        )
    return False


def _is_root(power: object) -> TypeGuard[Fraction]:
    """Whether a power is no whole number; its value is then nowhere negative."""
    return isinstance(power, Fraction) and power.denominator != 1


def _even(operand: Lin) -> bool:
    e = operand[0][1]
    return not isinstance(e, Quotient) and e.denominator == 1 and e.numerator % 2 == 0


def positive_number(c: Coef) -> bool:
    return not isinstance(c, Quotient) and c > 0
