"""Lemmas on guards: the 0/1 functions of an integer tensor.

In the exhaustive cases ``t`` takes every value of a range that reaches past all borders, and the
entries of tables are indeterminates.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from shardproof.lemmas import names
from shardproof.lemmas.base import Array, Condition, Lemma, Pair, Rng, declare, entries, values

LOW, HIGH = -1, 5
T = np.arange(LOW, HIGH + 1)


def at_least(t: Array, k: int) -> Array:
    """``[t >= k]`` as integers."""
    return np.asarray((t >= k).astype(object))


def hot(t: Array, u: Any) -> Array:
    """``[t == u]`` as integers."""
    return np.asarray((t == u).astype(object))


def onehot_sum(t: Array, f: Array, a: int, b: int) -> Array:
    """``sum over v in [a, b) of [t == v] f(v)``."""
    total = np.zeros(t.shape, dtype=object)
    for v in range(a, b):
        total = total + hot(t, v) * f[v]
    return total


def integers(rng: Rng, low: int = LOW, high: int = HIGH + 1) -> Array:
    """Random integers, a few of them far out."""
    t = rng.integers(low, high, size=12)
    t[:2] = rng.choice([-(10**12), 10**12, low, high], size=2)
    return np.asarray(t)


def _spans() -> Iterator[tuple[int, int]]:
    return itertools.combinations_with_replacement(range(HIGH + 1), 2)


# ------------------------------------------------------------------ guards meet guards


def _meet(t: Array, u: Array, a: int, b: int) -> Pair:
    return at_least(t, a) * at_least(u, b), at_least(t, max(a, b))


def _draw_meet(rng: Rng) -> Pair:
    t = integers(rng)
    return _meet(t, t, int(rng.integers(LOW, HIGH)), int(rng.integers(LOW, HIGH)))


declare(
    Lemma(
        names.GUARD_MEET,
        "two thresholds of one tensor are the higher one",
        "[t >= a] * [t >= b] = [t >= max(a, b)]",
        "exact",
        "t is at least a and at least b iff it is at least the larger one.",
        "exhaustive",
        "handbook A3",
        "ids[T] against the borders r w and (r+1) w of a vocabulary shard",
        _draw_meet,
        (
            Condition("both guards read the same values of t", "infer/guards.py: _guard_pair"),
            Condition("the order of a and b is decided for all sizes", "ir/sizes.py: smax"),
        ),
        lambda: (_meet(T, T, a, b) for a, b in itertools.product(range(LOW, HIGH + 2), repeat=2)),
        lambda rng: _meet(np.array([3, 0]), np.array([0, 3]), 1, 2),
        "guards of two tensors",
    )
)


GAPS = ((-1, 0), (2, 4))
"""Spans of values with nothing before, between and behind them."""


def _moved(t: Array, k: int) -> Pair:
    """``[t >= k]``, against the threshold that stands for it among values in GAPS."""
    for n, (lo, hi) in enumerate(GAPS):
        if k <= lo:
            return at_least(t, k), np.ones(t.shape, dtype=object) if n == 0 else at_least(t, lo)
        if k < hi:
            return at_least(t, k), at_least(t, k)
    return at_least(t, k), np.zeros(t.shape, dtype=object)


declare(
    Lemma(
        names.THRESHOLD_MOVED,
        "thresholds that no occurring value tells apart are one",
        "[t >= k] = [t >= lo] for hi' <= k <= lo where t is in [.., hi') or [lo, ..); 1 below all "
        "values, 0 above",
        "exact",
        "No value of t lies in [hi', lo), so t >= k and t >= lo are the same condition. With "
        "labels in {-100} and [0, V), [t != -100] is [t >= 0].",
        "exhaustive",
        "handbook A3, C7",
        "labels[T] of which some are ignored, compared with -100",
        lambda rng: _moved(rng.choice([-1, 2, 3], size=9), int(rng.integers(LOW - 1, HIGH + 2))),
        (
            Condition(
                "the values of t are those that a lookup of the sequential program states (an "
                "assumption that is printed), in spans whose order is decided",
                "infer/known.py: least",
            ),
        ),
        lambda: (_moved(np.array([-1, 2, 3]), k) for k in range(LOW - 1, HIGH + 2)),
        lambda rng: _moved(np.array([1, 2]), 1),
        "t = 1 between the spans, k = 1",
    )
)


def _threshold(t: Array, k: int, first: int, last: int) -> Pair:
    """A guard times the one-hot positions of a box, under the rule for the whole box."""
    us = np.arange(first, last + 1)
    left = at_least(t, k)[:, None] * hot(t[:, None], us)
    return left, hot(t[:, None], us) * (1 if first >= k else 0)


def _draw_threshold(rng: Rng) -> Pair:
    k, n = int(rng.integers(0, 5)), int(rng.integers(1, 4))
    first = k + int(rng.integers(0, 3)) if rng.random() < 0.5 else k - n
    return _threshold(integers(rng), k, first, first + n - 1)


def _cases_threshold() -> Iterator[Pair]:
    for k, first, n in itertools.product(range(5), range(-1, 5), range(1, 4)):
        if first >= k or first + n - 1 < k:
            yield _threshold(T, k, first, first + n - 1)
    for first, m in itertools.product(range(4), range(1, 4)):
        a, b = hot(T, first), hot(T, first + m)
        yield a * b, a * 0


declare(
    Lemma(
        names.GUARD_ONEHOT,
        "a threshold keeps or removes a one-hot; two one-hots of different positions exclude "
        "each other",
        "[t >= k] * [t == u] = [t == u] if u >= k, else 0; [t == u] * [t == v] = 0 if u != v",
        "exact",
        "Where [t == u] is 1, t is u, so [t >= k] is [u >= k] and [t == v] is [u == v].",
        "exhaustive",
        "handbook A3, A4",
        "one-hot of ids[T] over positions [r w, (r+1) w)",
        _draw_threshold,
        (
            Condition(
                "all positions of the box lie on one side of k (are apart)",
                "infer/guards.py: _threshold_onehot, _two_onehots",
            ),
        ),
        _cases_threshold,
        lambda rng: _threshold(T, 2, 1, 3)[::-1],
        "a box of positions with k inside",
    )
)


def _guarded(t: Array, u: Array, f: Array, k: int, a: int, b: int) -> Pair:
    return at_least(u, k) * onehot_sum(t, f, a, b), onehot_sum(t, f, max(a, k), b)


def _draw_guarded(rng: Rng) -> Pair:
    t = integers(rng)
    a, b = sorted(int(x) for x in rng.integers(0, HIGH + 1, size=2))
    return _guarded(t, t, values(rng, HIGH + 1), int(rng.integers(LOW, HIGH + 2)), a, b)


declare(
    Lemma(
        names.GUARD_OF_SUM,
        "a threshold restricts the sum over a one-hot of the same tensor",
        "[t >= k] * sum over v in [a,b) of [t == v] f(v) = "
        "sum over v in [max(a,k), b) of [t == v] f(v)",
        "exact",
        "The guard goes into the sum; in each summand it meets the one-hot of v and is 1 iff "
        "v >= k. So a vocabulary mask is an interval of the lookup, that is a partial sum.",
        "exhaustive",
        "handbook A3, A4 (masked lookup)",
        "mask of ids[T] times the lookup of W[V, h], k = r w",
        _draw_guarded,
        (
            Condition(
                "the guard reads the tensor of the one-hot",
                "infer/guards.py: _guard_sum",
            ),
            Condition(
                "the one-hot position is the summed index itself (stride 1)",
                "infer/guards.py: _bound_walk",
            ),
        ),
        lambda: (
            _guarded(T, T, entries("f", HIGH + 1), k, a, b)
            for k in range(LOW, HIGH + 2)
            for a, b in _spans()
        ),
        lambda rng: _guarded(np.array([3]), np.array([0]), np.arange(6.0) + 1, 2, 0, 5),
        "the guard of another tensor",
    )
)


def _selected(t: Array, f: Array, u: int, a: int, b: int) -> Pair:
    return hot(t, u) * onehot_sum(t, f, a, b), hot(t, u) * f[u]


def _draw_selected(rng: Rng) -> Pair:
    a, b = sorted(int(x) for x in rng.choice(HIGH + 2, size=2, replace=False))
    return _selected(integers(rng), values(rng, HIGH + 2), int(rng.integers(a, b)), a, b)


def _cases_selected() -> Iterator[Pair]:
    f = entries("f", HIGH + 1)
    for (a, b), u in itertools.product(_spans(), range(HIGH + 1)):
        left, right = _selected(T, f, u, a, b)
        yield (left, right) if a <= u < b else (left, right * 0)


declare(
    Lemma(
        names.ONEHOT_SELECTS,
        "a one-hot picks its summand out of the sum over the same one-hot",
        "[t == u] * sum over v in [a,b) of [t == v] f(v) = [t == u] f(u) if a <= u < b, else 0",
        "exact",
        "Where [t == u] is 1 only the summand v = u is not zero.",
        "exhaustive",
        "handbook A1, A2",
        "gradient of a picked log-probability: one-hot times the picked value",
        _draw_selected,
        (
            Condition(
                "all positions u of the box lie inside (outside) the interval of the sum",
                "infer/guards.py: _select",
            ),
        ),
        _cases_selected,
        lambda rng: _selected(np.array([4]), np.arange(6.0) + 1, 4, 0, 3),
        "u = 4 and a sum over [0, 3)",
    )
)


def _total(t: Array, a: int, b: int) -> Pair:
    return onehot_sum(t, np.ones(b, dtype=object), a, b), at_least(t, a) - at_least(t, b)


declare(
    Lemma(
        names.ONEHOT_TOTAL,
        "a one-hot over positions sums to one where its tensor is among them",
        "sum over v in [a,b) of [t == v] = [t >= a] - [t >= b]",
        "exact",
        "One v equals t if a <= t < b, else none. Only the complete sum is worked out, as the "
        "guard it is (1 where every t is among them); parts of it stay partial sums.",
        "exhaustive",
        "handbook A1; cross entropy C5",
        "log-softmax picked at ids[T]: lse times the sum of the one-hot",
        lambda rng: _total(integers(rng), 0, 6),
        (
            Condition(
                "the sum is over the position alone, with stride 1, and each v once",
                "infer/totals.py: note_total",
            ),
        ),
        lambda: (_total(T, a, b) for a, b in _spans()),
        lambda rng: (hot(T, 0) + hot(T, 2) + hot(T, 4), _total(T, 0, 6)[1]),
        "positions with stride 2",
    )
)


# ------------------------------------------------------------------ functions of one tensor


def _pieces(t: Array, spans: list[tuple[int, int]], a: int, c: int) -> Pair:
    """``a t + c`` on the union of spans and 0 elsewhere, against the sum of guarded pieces."""
    inside = np.array([any(x <= v < y for x, y in spans) for v in t])
    parts = [(at_least(t, x) - at_least(t, y)) * (a * t.astype(object) + c) for x, y in spans]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return np.where(inside, a * t + c, 0).astype(object), total


def _draw_pieces(rng: Rng) -> Pair:
    lo, mid, hi = sorted(int(x) for x in rng.integers(LOW, HIGH + 2, size=3))
    t = np.clip(integers(rng), -(10**6), 10**6)
    return _pieces(t, [(lo, mid), (mid, hi)], int(rng.integers(-2, 3)), int(rng.integers(-9, 10)))


def _cases_pieces() -> Iterator[Pair]:
    borders = itertools.combinations_with_replacement(range(LOW, HIGH + 1), 3)
    for (lo, mid, hi), a, c in itertools.product(borders, (0, 1), (-2, 0, 1)):
        yield _pieces(T, [(lo, mid), (mid, hi)], a, c)


declare(
    Lemma(
        names.PIECES,
        "a piecewise-affine function of an integer tensor is the sum of its guarded pieces",
        "f(t) = sum over pieces [lo,hi) of ([t >= lo] - [t >= hi]) * (a t + c)",
        "exact",
        "The pieces are disjoint and cover all integers, so exactly one guard is 1, and "
        "[lo <= t < hi] = [t >= lo] - [t >= hi] for lo <= hi. Thresholds of different k are "
        "linearly independent, so equal masks have equal terms however they are spelled.",
        "exhaustive",
        "handbook A3 (Z), A4",
        "masked_fill(ids - r w, ids outside [r w, (r+1) w), 0)",
        _draw_pieces,
        (
            Condition(
                "all operands are functions of one tensor; pieces stay sorted and disjoint",
                "infer/integers.py: combine, select, _tidy",
            ),
        ),
        _cases_pieces,
        lambda rng: _pieces(np.array([2, 4]), [(0, 3), (1, 4)], 0, 1),
        "pieces [0,3) and [1,4) overlap",
    )
)


def _chosen(c: Array, a: Array, b: Array) -> Pair:
    with np.errstate(invalid="ignore"):
        return np.where(c == 1, a, b), c * a + (1 - c) * b


def _cases_chosen() -> Iterator[Pair]:
    for bits in itertools.product((0, 1), repeat=3):
        c = np.array(bits, dtype=object)
        yield _chosen(c, entries("a", 3), entries("b", 3))


declare(
    Lemma(
        names.SELECT,
        "a selection by a 0/1 value is arithmetic",
        "where(c, a, b) = c * a + (1 - c) * b",
        "exact",
        "c is 0 or 1; the unchosen operand is multiplied by zero, which needs it to be finite.",
        "exhaustive",
        "handbook A4, P6, trap T21c",
        "masked_fill(x[T, h], mask[T, 1], 0)",
        lambda rng: _chosen(rng.integers(0, 2, size=8), values(rng, 8), values(rng, 8)),
        (
            Condition(
                "operands are finite: an infinite fill is no selection but an opaque function",
                "infer/discrete.py: select (a.other is a float)",
            ),
        ),
        _cases_chosen,
        lambda rng: _chosen(np.array([0, 1]), np.array([np.inf, 1.0]), np.zeros(2)),
        "an infinite entry that is not chosen",
    )
)


def _idempotent(g: Array, n: int) -> Pair:
    return g**n, g


declare(
    Lemma(
        names.INDICATOR_POWER,
        "a 0/1 value is its own power",
        "g ** n = g for n >= 1 and g in {0, 1}",
        "exact",
        "0 ** n = 0 and 1 ** n = 1.",
        "exhaustive",
        "handbook A3",
        "a mask that is applied twice",
        lambda rng: _idempotent(rng.integers(0, 2, size=9), int(rng.integers(1, 6))),
        (
            Condition(
                "the value is known to be boolean (comparison, one-hot, product of such)",
                "infer/simplify.py: _flatten, _mark",
            ),
        ),
        lambda: (_idempotent(np.array([0, 1], dtype=object), n) for n in range(1, 6)),
        lambda rng: _idempotent(np.array([2.0]), 2),
        "g = 2",
    )
)
