"""Lemmas on masks of positions: causal attention in blocks.

``q`` and ``k`` are positions of queries and keys; a query sees the keys up to its own position.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from shardproof.lemmas import names
from shardproof.lemmas.base import Array, Condition, Lemma, Pair, Rng, declare, entries, values

SIZE = 5


def sees(q: Array, k: Array) -> Array:
    """``[q >= k]`` for all pairs, as integers."""
    return np.asarray((q[:, None] >= k[None, :]).astype(object))


def _blocks() -> Iterator[tuple[int, int, int, int]]:
    """Every block of queries ``[a, b)`` and keys ``[c, d)``, neither empty."""
    spans = [(a, b) for a in range(SIZE) for b in range(a + 1, SIZE + 1)]
    for (a, b), (c, d) in itertools.product(spans, spans):
        yield a, b, c, d


def _constant(a: int, b: int, c: int, d: int) -> int | None:
    """What the guard is on the whole block by the rule, or None."""
    return 1 if a >= d - 1 else 0 if c > b - 1 else None


def _decided(a: int, b: int, c: int, d: int, value: int) -> Pair:
    guard = sees(np.arange(a, b), np.arange(c, d))
    return guard, np.full(guard.shape, value, dtype=object)


def _cases_decided() -> Iterator[Pair]:
    for block in _blocks():
        value = _constant(*block)
        if value is not None:
            yield _decided(*block, value)


def _draw_decided(rng: Rng) -> Pair:
    n, far = int(rng.integers(1, 5)), int(rng.integers(0, 10**6))
    if rng.random() < 0.5:
        return _decided(far + n, far + 2 * n, far, far + n, 1)
    return _decided(far, far + n, far + n, far + 2 * n, 0)


declare(
    Lemma(
        names.POSITION_GUARD,
        "a comparison of positions is one value on a block in the past or in the future",
        "[q >= k] = 1 for q in [a,b), k in [c,d) if a >= d - 1, and 0 if c > b - 1",
        "exact",
        "The smallest position of a query is at least the largest one of a key, or the largest one "
        "of a query is before the smallest one of a key.",
        "exhaustive",
        "handbook C12",
        "a block of keys that all queries of a rank see, without a mask",
        _draw_decided,
        (
            Condition(
                "the ranges of both positions on the box are known and their order is decided",
                "infer/positions.py: decided",
            ),
        ),
        _cases_decided,
        lambda rng: _decided(2, 4, 2, 4, 1),
        "the block on the diagonal",
    )
)


def _masked(x: Array, a: int, b: int, low: int, high: int) -> Pair:
    """The sum over keys ``[low, high)`` of what the queries ``[a, b)`` see, against the one over
    all keys."""
    guard = sees(np.arange(a, b), np.arange(x.shape[1]))
    terms = guard * x[a:b]
    return terms[:, low:high].sum(axis=1), terms.sum(axis=1)


def _cases_masked() -> Iterator[Pair]:
    x = entries("x", SIZE, SIZE)
    for a in range(SIZE):
        for b in range(a + 1, SIZE + 1):
            for high in range(b, SIZE + 1):
                yield _masked(x, a, b, 0, high)


def _draw_masked(rng: Rng) -> Pair:
    n = int(rng.integers(2, 8))
    a, b = sorted(int(k) for k in rng.choice(n + 1, size=2, replace=False))
    return _masked(values(rng, n, n), a, b, 0, int(rng.integers(b, n + 1)))


declare(
    Lemma(
        names.MASKED_SUM,
        "hidden keys add nothing to a sum",
        "sum over k in [0,c) of [q >= k] f(q,k) = sum over k in [0,n) of [q >= k] f(q,k) "
        "for q in [a,b), where c >= b",
        "exact",
        "For k >= b every query of [a,b) is before k, so that the guard, and with it the summand, "
        "is 0.",
        "exhaustive",
        "handbook C12",
        "a causal ring that leaves out the blocks of later ranks",
        _draw_masked,
        (
            Condition(
                "a guard in the summand is 0 on all of the box for every index that is added",
                "infer/positions.py: _hides",
            ),
            Condition(
                "the label is that of a sum, whose guard is a factor to the first power",
                "infer/positions.py: _sum, _hides",
            ),
        ),
        _cases_masked,
        lambda rng: _masked(np.ones((4, 4)), 2, 4, 0, 3),
        "query 3 sees key 3, which is left out",
    )
)


def _filled(x: Array, hidden: Array, c: float, fill: float = -np.inf) -> Pair:
    return np.exp(c * np.where(hidden, fill, x)), (1 - hidden) * np.exp(c * x)


def _draw_filled(rng: Rng) -> Pair:
    x = np.asarray(rng.uniform(-50, 50, size=(3, 4)))
    return _filled(x, rng.integers(0, 2, size=(3, 4)), float(rng.choice([0.5, 1.0, 2.0])))


declare(
    Lemma(
        names.MASKED_EXP,
        "the exponential of scores filled with minus infinity is 0 where they are filled",
        "exp(c * (-inf if hidden else x)) = (1 - hidden) * exp(c x) for c > 0",
        "real",
        "exp(c y) tends to 0 as y tends to minus infinity, for c > 0; elsewhere nothing is filled.",
        "algebra",
        "handbook C12, trap T23 (a finite fill)",
        "exp(masked_fill(q k^T, later keys, -inf) - m)",
        _draw_filled,
        (
            Condition(
                "the fill is minus infinity and the factor positive", "infer/positions.py: filled"
            ),
            Condition(
                "the mask is a comparison of positions, 0 or 1", "infer/positions.py: visible"
            ),
        ),
        None,
        lambda rng: _filled(np.array([1.0, 3.0]), np.array([0, 1]), 1.0, -1.0),
        "a finite fill",
    )
)
