"""Coefficients against fractions at many values of the symbols, sizes against brute force."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from shardproof.infer.coef import Coef, from_size, parts, ratio
from shardproof.ir.sizes import (
    Size,
    Symbol,
    Undecided,
    at_least,
    div_mod,
    divides,
    le,
    lt,
    only_symbol,
    rank_symbol,
    smax,
    smin,
    substitute,
    symbol,
)

Rng = np.random.Generator
N, K = symbol("N"), symbol("K")
R = rank_symbol("@r", N)
SYMBOLS = [only_symbol(x) for x in (N, K, R)]
VALUES = [
    dict(zip(SYMBOLS, (n, k, r), strict=True))
    for n, k in itertools.product((1, 2, 3, 5), repeat=2)
    for r in range(n)
]


def at(x: Size, values: dict[Symbol, int]) -> int:
    out = substitute(x, dict(values))
    assert isinstance(out, int)
    return out


def random_size(rng: Rng, ranks: bool = True) -> Size:
    out: Size = int(rng.integers(-3, 4))
    for m in (N, K, N * K, K * K, R, R * K) if ranks else (N, K, N * K):
        if rng.random() < 0.4:
            out = out + m * int(rng.integers(-3, 4))
    return out


def random_coef(rng: Rng) -> Coef:
    den = N * int(rng.integers(1, 4)) + int(rng.integers(0, 3))
    return ratio(random_size(rng, False), den if rng.random() < 0.7 else int(rng.integers(1, 6)))


def value(c: Coef | int, values: dict[Symbol, int]) -> Fraction:
    num, den = parts(c)
    return Fraction(at(num, values), at(den, values))


OPERATIONS: dict[str, Callable[[Coef, Coef], Coef]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic(name: str) -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        a, b = random_coef(rng), random_coef(rng)
        out = OPERATIONS[name](a, b)
        for values in VALUES:
            one, two = value(a, values), value(b, values)
            want = {"add": one + two, "sub": one - two, "mul": one * two}[name]
            assert value(out, values) == want


def test_division_and_equality() -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        a, b = random_coef(rng), random_coef(rng)
        equal = a == b
        assert equal == all(value(a, v) == value(b, v) for v in VALUES)
        if any(value(b, v) == 0 for v in VALUES):
            continue
        out = a / b
        assert all(value(out, v) == value(a, v) / value(b, v) for v in VALUES)
        assert out * b == a


def test_a_coefficient_that_cancels_is_a_number() -> None:
    assert from_size(N) / from_size(N) == 1
    assert isinstance(from_size(N * 6) / from_size(N * 4), Fraction)
    assert ratio(0, N) == 0
    with pytest.raises(ZeroDivisionError):
        ratio(N, 0)


# ------------------------------------------------------------------ sizes


def test_order_is_claimed_for_all_values_or_not_at_all() -> None:
    decided = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        a, b = random_size(rng), random_size(rng)
        pairs = [(at(a, v), at(b, v)) for v in VALUES]
        if at_least(a, b):
            decided += 1
            assert all(x >= y for x, y in pairs)
        for claim, holds in ((le, [x <= y for x, y in pairs]), (lt, [x < y for x, y in pairs])):
            try:
                said = claim(a, b)
            except Undecided:
                continue
            assert all(h == said for h in holds)
        for pick, best in ((smax, max), (smin, min)):
            try:
                out = pick(a, b)
            except Undecided:
                continue
            assert all(at(out, v) == best(x, y) for v, (x, y) in zip(VALUES, pairs, strict=True))
    assert decided > 40


def test_order_of_what_programs_ask() -> None:
    assert at_least(N * K, K)
    assert at_least(N * K, R * K + K)
    assert not at_least(R * K, K)
    assert not at_least(N, K)
    assert at_least(K * N - K * R, K)


def test_division_holds_for_all_values() -> None:
    divided = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        choices: tuple[Size, ...] = (2, 3, K, N * K, K * 2, N)
        b = choices[int(rng.integers(6))]
        a = b * random_size(rng) if rng.random() < 0.5 else random_size(rng)
        if rng.random() < 0.3:
            a = a + int(rng.integers(0, 2))
        try:
            q, rem = div_mod(a, b)
        except Undecided:
            assert not divides(b, a)
            continue
        divided += 1
        for v in VALUES:
            x, y = at(a, v), at(b, v)
            assert x == at(q, v) * y + at(rem, v)
            assert 0 <= at(rem, v) < y
    assert divided > 100
