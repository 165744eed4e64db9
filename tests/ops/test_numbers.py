"""Scalars of programs are read exactly, and assumptions about them are flagged."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from shardproof.ir.sizes import symbol
from shardproof.ops.numbers import as_float, exact, scalar


@pytest.mark.parametrize(
    ("x", "expected", "assumed"),
    [
        (3, Fraction(3), False),
        (True, Fraction(1), False),
        (Fraction(2, 7), Fraction(2, 7), False),
        (0.5, Fraction(1, 2), False),
        (0.1, Fraction(1, 10), True),
        (1e-5, Fraction(1, 10**5), True),
        (1 / 3, Fraction(1, 3), True),
        (0.044715, Fraction(44715, 10**6), True),
        (1e-12, Fraction(1e-12), False),
        (0.7071067811865476, Fraction(0.7071067811865476), False),
        (-1e30, Fraction(-1e30), False),
    ],
)
def test_exact(x: float, expected: Fraction, assumed: bool) -> None:
    assert exact(x) == (expected, assumed)


def test_exact_rounds_back_to_the_same_double() -> None:
    for x in np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100):
        assert float(exact(float(x))[0]) == x


def test_single_precision_constants_are_not_simplified() -> None:
    """0.1 rounded to single precision is another number than 1/10."""
    x = float(np.float32(0.1))
    assert exact(x) == (Fraction(x), False)


@pytest.mark.parametrize("x", [math.inf, -math.inf, math.nan])
def test_exact_refuses_what_is_no_number(x: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        exact(x)


def test_scalars() -> None:
    n = symbol("N")
    assert scalar(math.inf) == math.inf
    assert scalar(n) == n
    assert scalar(0.25) == Fraction(1, 4)
    assert as_float(Fraction(1, 4)) == 0.25
    with pytest.raises(ValueError, match="symbolic"):
        as_float(n)
    with pytest.raises(ValueError, match="not a finite number"):
        scalar(math.nan)
