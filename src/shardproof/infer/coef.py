"""Exact coefficients: rational numbers, or rational functions of size symbols.

Floats never enter: a coefficient that differs from 1 by rounding would be a wrong verdict.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import Union

from shardproof.ir.sizes import Monomial, Poly, Size, Undecided, div_mod, format_size


class Ratio:
    """``num / den`` with at least one symbol; ``den`` is positive for all symbol values."""

    __slots__ = ("den", "num")

    def __init__(self, num: Size, den: Size) -> None:
        self.num, self.den = num, den

    def __mul__(self, other: Coef) -> Coef:
        n, d = parts(other)
        return ratio(self.num * n, self.den * d)

    __rmul__ = __mul__

    def __add__(self, other: Coef) -> Coef:
        n, d = parts(other)
        return ratio(self.num * d + n * self.den, self.den * d)

    __radd__ = __add__

    def __neg__(self) -> Coef:
        return ratio(-self.num, self.den)

    def __sub__(self, other: Coef) -> Coef:
        return self + (-other)

    def __rsub__(self, other: Coef) -> Coef:
        return (-self) + other

    def __truediv__(self, other: Coef) -> Coef:
        n, d = parts(other)
        return ratio(self.num * d, self.den * n)

    def __rtruediv__(self, other: Coef) -> Coef:
        n, d = parts(other)
        return ratio(n * self.den, d * self.num)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ratio | Fraction | int):
            return NotImplemented
        n, d = parts(other)
        return bool(self.num * d == n * self.den)

    def __hash__(self) -> int:
        return hash((self.num, self.den))

    def __repr__(self) -> str:
        num, den = format_size(self.num), format_size(self.den)
        return f"({num})" if self.den == 1 else f"({num})/({den})"


Coef = Union[Fraction, Ratio]  # noqa: UP007 - used at run time

ONE = Fraction(1)


def parts(x: Coef | int) -> tuple[Size, Size]:
    """Numerator and denominator."""
    if isinstance(x, Ratio):
        return x.num, x.den
    return x.numerator, x.denominator


def from_size(n: Size) -> Coef:
    """A size as a coefficient."""
    return Fraction(n) if isinstance(n, int) else Ratio(n, 1)


def ratio(num: Size, den: Size) -> Coef:
    """``num / den`` in reduced form (common integers, monomials and exact quotients cancelled).

    Raises:
        ZeroDivisionError: ``den`` is zero.
    """
    if den == 0:
        raise ZeroDivisionError("coefficient with zero denominator")
    if num == 0:
        return Fraction(0)
    if isinstance(num, int) and isinstance(den, int):
        return Fraction(num, den)
    num, den = _strip_common(num, den)
    try:
        q, r = div_mod(num, den)
        if r == 0:
            num, den = q, 1
    except (Undecided, ZeroDivisionError):
        pass
    if isinstance(num, int) and isinstance(den, int):
        return Fraction(num, den)
    return Ratio(num, den)


def _strip_common(num: Size, den: Size) -> tuple[Size, Size]:
    tn, td = _terms(num), _terms(den)
    g = 0
    for c in (*tn.values(), *td.values()):
        g = gcd(g, c)
    if td[max(td)] < 0:
        g = -g
    common = list(next(iter(tn)))
    for mono in (*tn, *td):
        left, keep = list(mono), []
        for s in common:
            if s in left:
                left.remove(s)
                keep.append(s)
        common = keep

    def cut(terms: dict[Monomial, int]) -> Size:
        out: Size = 0
        for mono, c in terms.items():
            left = list(mono)
            for s in common:
                left.remove(s)
            out = out + (Poly({tuple(left): c // g}) if left else c // g)
        return out

    return cut(tn), cut(td)


def _terms(x: Size) -> dict[Monomial, int]:
    return x.terms if isinstance(x, Poly) else {(): x}


def format_coef(c: Coef) -> str:
    """Decimal where that is exact and short, else a fraction."""
    if isinstance(c, Ratio):
        return repr(c)
    if c.denominator == 1:
        return str(c.numerator)
    if c.denominator > 10**6:
        return f"{float(c):.6g}"
    return f"{c.numerator}/{c.denominator}"
