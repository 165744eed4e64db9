"""Exact arithmetic of the checker: coefficients and affine functions of index variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Union

from shardproof.ir.sizes import Size, Symbol, linear_in


class NotChecked(Exception):
    """A step that the checker cannot follow, or that is wrong; the text says which."""


class Quotient:
    """A quotient of two sizes of which the lower one is never zero. Equality multiplies across,
    so no form has to be reduced."""

    __slots__ = ("den", "num")

    def __init__(self, num: Size, den: Size) -> None:
        self.num, self.den = num, den

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quotient | Fraction | int):
            return NotImplemented
        n, d = over(other)
        return bool(self.num * d == n * self.den)

    def __hash__(self) -> int:
        return 0  # equal quotients may be written differently

    def __repr__(self) -> str:
        return f"({self.num})/({self.den})"


Rational = Union[int, Fraction]  # noqa: UP007 - used at run time
Coef = Union[int, Fraction, Quotient]  # noqa: UP007 - used at run time


def over(x: Coef) -> tuple[Size, Size]:
    """Numerator and denominator."""
    return (x.num, x.den) if isinstance(x, Quotient) else (x.numerator, x.denominator)


def quotient(num: Size, den: Size) -> Coef:
    """``num / den``; the caller has shown that ``den`` is not zero."""
    if isinstance(num, int) and isinstance(den, int):
        return num // den if num % den == 0 else Fraction(num, den)
    return 0 if num == 0 else Quotient(num, den)


def whole(x: Rational) -> Rational:
    """Whole numbers as integers, whose arithmetic is fast."""
    return x if type(x) is int or x.denominator != 1 else x.numerator


def coef_times(a: Coef, b: Coef) -> Coef:
    if type(a) is int and type(b) is int:
        return a * b
    if type(a) is int and a == 1:
        return b
    if type(b) is int and b == 1:
        return a
    if not isinstance(a, Quotient) and not isinstance(b, Quotient):
        return whole(a * b)
    (n, d), (m, e) = over(a), over(b)
    return quotient(n * m, d * e)


def coef_plus(a: Coef, b: Coef) -> Coef:
    if type(a) is int and type(b) is int:
        return a + b
    if not isinstance(a, Quotient) and not isinstance(b, Quotient):
        return whole(a + b)
    (n, d), (m, e) = over(a), over(b)
    return quotient(n + m, d) if d == e else quotient(n * e + m * d, d * e)


def negative(a: Coef) -> Coef:
    return Quotient(-a.num, a.den) if isinstance(a, Quotient) else -a


def is_zero(a: Coef) -> bool:
    return (a.num if isinstance(a, Quotient) else a) == 0


def same_attrs(a: object, b: object) -> bool:
    """Equal attributes of equal kinds: 1 is not true, nor is it 1.0."""
    if a != b:
        return False
    if isinstance(a, dict) and isinstance(b, dict):
        return all(same_attrs(x, b[k]) for k, x in a.items())
    if isinstance(a, tuple) and isinstance(b, tuple):
        return all(map(same_attrs, a, b))
    exact = (int, Fraction)
    return type(a) is type(b) or (type(a) in exact and type(b) in exact)


# ------------------------------------------------------------------ affine functions

Aff = tuple[Size, tuple[tuple[int, Size], ...]]
"""``const + sum of slope * variable``; variables are numbers, in rising order."""


def const(c: Size) -> Aff:
    return c, ()


def variable(v: int) -> Aff:
    return 0, ((v, 1),)


def affine(c: Size, slopes: Mapping[int, Size]) -> Aff:
    """In canonical form."""
    if len(slopes) < 2:
        return c, tuple([x for x in slopes.items() if x[1] != 0])
    # The variables differ, so that slopes are never compared.
    return c, tuple(sorted([x for x in slopes.items() if x[1] != 0]))


def shifted(a: Aff, by: Size) -> Aff:
    """``a + by``."""
    return (a[0] + by, a[1]) if by != 0 else a


def total(parts: Iterable[tuple[Aff, Size]], c: Size = 0) -> Aff:
    """``c + sum of factor * part``."""
    slopes: dict[int, Size] = {}
    for (k, terms), by in parts:
        c = c + k * by
        for v, s in terms:
            slopes[v] = slopes[v] + s * by if v in slopes else s * by
    return affine(c, slopes)


def minus(a: Aff, b: Aff) -> Aff:
    return total(((a, 1), (b, -1)))


def replace(a: Aff, values: Mapping[int, Aff]) -> Aff:
    """``a`` with variables replaced."""
    for v, _ in a[1]:
        if v in values:
            return total([(values.get(v, (0, ((v, 1),))), s) for v, s in a[1]], a[0])
    return a


def at_rank(x: Size, sym: Symbol, value: Aff) -> Aff:
    """A size with a rank symbol replaced by an affine function of index variables."""
    a, b = linear_in(x, sym)
    return const(x) if b == 0 else total(((value, b),), a)
