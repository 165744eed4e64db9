"""Scalars of a program as exact numbers."""

from __future__ import annotations

import math
from fractions import Fraction

from shardproof.ir.sizes import Poly
from shardproof.ops.base import Scalar

MAX_DENOMINATOR = 10**6


def exact(x: int | float | Fraction) -> tuple[Fraction, bool]:
    """The number that a program's scalar stands for, and whether that is an assumption.

    A double is a binary fraction, and that fraction is the answer unless a fraction with a small
    denominator rounds to the same double: ``0.1`` is read as 1/10 and ``1e-05`` as 1/100000. The
    flag is true where the two differ, so that a verdict can list what was read that way.

    Raises:
        ValueError: ``x`` is infinite or not a number.
    """
    if isinstance(x, int | Fraction):
        return Fraction(x), False
    if not math.isfinite(x):
        raise ValueError(f"{x} is not a finite number")
    binary = Fraction(x)
    simple = binary.limit_denominator(MAX_DENOMINATOR)
    if simple != binary and float(simple) == x:
        return simple, True
    return binary, False


def scalar(x: int | float | Fraction | Poly) -> Scalar:
    """Like :func:`exact`, but passes infinities and symbolic sizes through.

    Raises:
        ValueError: ``x`` is not a number.
    """
    if isinstance(x, Poly):
        return x
    if isinstance(x, float) and math.isinf(x):
        return x
    return exact(x)[0]


def as_float(x: Scalar) -> float:
    """The double nearest to a concrete scalar.

    Raises:
        ValueError: ``x`` is symbolic.
    """
    if isinstance(x, Poly):
        raise ValueError(f"the scalar {x} is symbolic; evaluation needs a number")
    return float(x)
