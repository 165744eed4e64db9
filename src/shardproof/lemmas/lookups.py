"""Lemmas on lookups and scatters by integer index."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from shardproof.lemmas import names
from shardproof.lemmas.base import Array, Condition, Lemma, Pair, Rng, declare, entries, values
from shardproof.lemmas.guards import hot, onehot_sum


def _looked_up(table: Array, t: Array, rows: int) -> Pair:
    return table[t], onehot_sum(t, table, 0, rows)


declare(
    Lemma(
        names.LOOKUP,
        "a lookup is a contraction with a one-hot",
        "T[t] = sum over v in [0,V) of [t == v] T[v], 0 <= t < V",
        "exact",
        "One summand is not zero, that of v = t. A vocabulary shard is then an interval of v, "
        "an ordinary partial sum.",
        "exhaustive",
        "handbook A1",
        "embedding W[V, h] at ids[T]",
        lambda rng: _looked_up(values(rng, 7), rng.integers(0, 7, size=9), 7),
        (
            Condition(
                "the index stays inside the table: proved from its pieces, or an assumption on "
                "the inputs of the sequential program that is printed",
                "infer/lookups.py: _checked; infer/integers.py: in_table",
            ),
        ),
        lambda: (_looked_up(entries("f", n), np.arange(n), n) for n in range(1, 7)),
        lambda rng: _looked_up(np.arange(4.0) + 1, np.array([-1]), 4),
        "index -1, which some libraries read from the end",
    )
)


def _masked(table: Array, t: Array, lo: int, hi: int, *, mask: bool = True) -> Pair:
    """Lookup in the shard [lo, hi) by clamped local ids, masked afterwards."""
    outside = (t < lo) | (t >= hi)
    local = np.where(outside, 0, t - lo)
    raw = table[lo:hi][local]
    left = np.where(outside, 0, raw) if mask else raw
    return left, onehot_sum(t, table, lo, hi)


def _draw_masked(rng: Rng) -> Pair:
    lo, hi = sorted(int(k) for k in rng.choice(9, size=2, replace=False))
    return _masked(values(rng, 9), rng.integers(-3, 12, size=9), lo, hi)


def _cases_masked() -> Iterator[Pair]:
    for lo, hi in itertools.combinations(range(6), 2):
        yield _masked(entries("f", 6), np.arange(-2, 8), lo, hi)


declare(
    Lemma(
        names.LOOKUP_PIECES,
        "a lookup by a piecewise index is the sum of the guarded lookups of its pieces",
        "T[g(t)] = sum over pieces [lo,hi) of t of [lo <= t < hi] * T[a t + c]; so a masked "
        "lookup in the shard [lo,hi) is the partial sum over v in [lo,hi) of [t == v] T[v]",
        "exact",
        "Exactly one piece holds t. A piece t + c is a one-hot contraction over v = t + c, and "
        "[lo <= t < hi] makes v run over [lo + c, hi + c). A constant piece reads one row. The "
        "mask removes the constant piece of the ids outside.",
        "exhaustive",
        "handbook A4 (masked lookup)",
        "W[r w : (r+1) w] at masked_fill(ids - r w, outside, 0)",
        _draw_masked,
        (
            Condition(
                "the value of every piece stays inside the table",
                "infer/integers.py: in_table",
            ),
        ),
        _cases_masked,
        lambda rng: _masked(np.arange(8.0) + 1, np.array([7]), 0, 4, mask=False),
        "the row that ids outside read is not masked",
    )
)


def _positions(x: Array, a: int, n: int, step: int = 1) -> Pair:
    return x[a + step * np.arange(n)], x[a : a + n]


declare(
    Lemma(
        names.POSITIONS,
        "a lookup at consecutive positions is a slice",
        "x[a + iota(n)] = x[a : a + n]",
        "exact",
        "Entry i of both is x[a + i].",
        "exhaustive",
        "handbook A5",
        "position embedding at arange(s) + r s",
        lambda rng: _positions(values(rng, 9), int(rng.integers(0, 4)), int(rng.integers(0, 6))),
        (
            Condition(
                "the index is an iota of step 1, alone, in one piece",
                "infer/lookups.py: _positions",
            ),
        ),
        lambda: (
            _positions(entries("x", 6), a, n)
            for a, n in itertools.product(range(4), range(4))
            if a + n <= 6
        ),
        lambda rng: _positions(np.arange(8.0), 0, 3, step=2),
        "step 2",
    )
)


def _scattered(g: Array, t: Array, rows: int, *, add: bool = True) -> Pair:
    out = np.zeros(rows, dtype=object)
    for p, v in enumerate(t):
        out[v] = out[v] + g[p] if add else g[p]
    want = [sum(hot(np.array([t[p]]), v)[0] * g[p] for p in range(len(t))) for v in range(rows)]
    return out, np.array(want, dtype=object)


def _cases_scattered() -> Iterator[Pair]:
    for rows in range(1, 4):
        for t in itertools.product(range(rows), repeat=3):
            yield _scattered(entries("g", 3), np.array(t), rows)


declare(
    Lemma(
        names.SCATTER,
        "adding rows by index is the transposed contraction",
        "out[v] = sum over p of [t[p] == v] g[p]",
        "real",
        "Row v collects the g[p] whose index is v; rows that nothing names stay zero.",
        "exhaustive",
        "handbook A2",
        "gradient of an embedding: g[T, h] into W[V, h]",
        lambda rng: _scattered(values(rng, 9), rng.integers(0, 4, size=9), 4),
        (
            Condition("the index stays inside the rows", "infer/lookups.py: _checked"),
            Condition(
                "rows that are named twice add up (the operator accumulates)",
                "ops: add_rows",
            ),
        ),
        _cases_scattered,
        lambda rng: _scattered(np.array([1.0, 2.0]), np.array([0, 0]), 2, add=False),
        "the last write wins",
    )
)


def _written(x: Array, t: Array, v: Array) -> Pair:
    """``x[i, t[i, j]] = v[i, j]`` for each j in turn; the formula adds what each would do."""
    out = x.copy()
    for i, j in np.ndindex(*t.shape):
        out[i, t[i, j]] = v[i, j]
    want = x
    for j in range(t.shape[1]):
        hit = hot(t[:, j : j + 1], np.arange(x.shape[1]))
        want = want - hit * x + hit * v[:, j : j + 1]
    return out, want


def _cases_written() -> Iterator[Pair]:
    for n in range(1, 4):
        for t in itertools.product(range(n), repeat=2):
            yield _written(entries("x", 2, n), np.array(t).reshape(2, 1), entries("v", 2, 1))


declare(
    Lemma(
        names.WRITE,
        "writing one entry a row is arithmetic with a one-hot",
        "x with x[i, t[i]] = v[i] equals x - [t == .] * x + [t == .] * v",
        "exact",
        "Each row writes once, so nothing is written twice: at v = t[i] the old value goes and "
        "the new one comes, elsewhere the one-hot is zero.",
        "exhaustive",
        "handbook A2, A6, C6",
        "grad[arange, ids] -= 1 in a cross entropy backward",
        lambda rng: _written(
            np.round(rng.normal(size=(3, 4)) * 64), rng.integers(0, 4, size=(3, 1)), np.ones((3, 1))
        ),
        (
            Condition("one index a row (the index has no axis of its own)", "ops: put_along"),
            Condition("the index stays inside the row", "infer/lookups.py: _checked"),
        ),
        _cases_written,
        lambda rng: _written(np.zeros((1, 3)), np.array([[1, 1]]), np.array([[2.0, 5.0]])),
        "two writes to one entry of a row",
    )
)
