"""Lemmas on sums, partial sums and extrema: the algebra of blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from shardproof.lemmas import names
from shardproof.lemmas.base import (
    Array,
    Condition,
    Lemma,
    Pair,
    Rng,
    all_cuts,
    cuts,
    declare,
    entries,
    values,
)


def _sum(x: Array, a: int, b: int) -> Any:
    return x[..., a:b].sum(axis=-1)


def _joined(x: Array, a: int, b: int, c: int, d: int) -> Pair:
    """Partial sums over ``[a, b)`` and ``[c, d)`` against the one over ``[a, d)``."""
    return _sum(x, a, b) + _sum(x, c, d), _sum(x, a, d)


def _draw_partial(rng: Rng) -> Pair:
    a, b, c = sorted(int(k) for k in rng.integers(0, 9, size=3))
    return _joined(values(rng, 3, 8), a, b, b, c)


def _cases_partial() -> Iterator[Pair]:
    for n in range(5):
        for a, b, c in itertools.combinations_with_replacement(range(n + 1), 3):
            yield _joined(entries("x", 2, n), a, b, b, c)


declare(
    Lemma(
        names.PARTIAL_SUMS,
        "partial sums over adjacent intervals join",
        "c * sum over k in [a,b) of f(k) + c * sum over k in [b,d) of f(k) = "
        "c * sum over k in [a,d) of f(k)",
        "real",
        "Addition is associative and commutative, and [a,d) is the disjoint union of [a,b) and "
        "[b,d). An empty interval adds nothing.",
        "exhaustive",
        "handbook B1",
        "x[4, 8] summed over the last axis in shards of 3, 0 and 5 columns",
        _draw_partial,
        (
            Condition(
                "one interval starts where the other ends; the terms and their coefficients agree",
                "infer/terms.py: _join_partials",
            ),
            Condition("the reduction is a sum, no maximum", "infer/terms.py: _join_partials"),
        ),
        _cases_partial,
        lambda rng: _joined(1 + rng.random((3, 8)), 0, 5, 3, 8),
        "[0,5) and [3,8) overlap: three columns count twice",
    )
)


def _contracted(a: Array, b: Array, at_a: list[int], at_b: list[int]) -> Pair:
    parts = [
        a[:, i:j] @ b[k:m, :]
        for (i, j), (k, m) in zip(itertools.pairwise(at_a), itertools.pairwise(at_b), strict=True)
    ]
    return a @ b, sum(parts[1:], parts[0])


def _draw_contraction(rng: Rng) -> Pair:
    at = cuts(rng, 7, int(rng.integers(1, 5)))
    return _contracted(values(rng, 3, 7), values(rng, 7, 2), at, at)


def _cases_contraction() -> Iterator[Pair]:
    for n in range(1, 5):
        for w in range(1, 5):
            for at in all_cuts(n, w):
                yield _contracted(entries("a", 2, n), entries("b", n, 2), at, at)


def _wrong_contraction(rng: Rng) -> Pair:
    a, b = 1 + rng.random((2, 4)), np.arange(8.0).reshape(4, 2)
    return a @ b, a[:, :2] @ b[2:] + a[:, 2:] @ b[:2]


declare(
    Lemma(
        names.SPLIT_CONTRACTION,
        "a contraction of concatenations is the sum of the contractions of the parts",
        "concat(A_0, .., A_w-1; columns) @ concat(B_0, .., B_w-1; rows) = sum over r of A_r @ B_r",
        "real",
        "Entry (i, j) is the sum over k of A[i,k] B[k,j]; the shards cut the range of k into "
        "disjoint intervals that cover it, and the partial sums join.",
        "exhaustive",
        "handbook B1, B9; the block product of matrices",
        "A[S, N*f], B[N*f, D], cut at any w - 1 columns",
        _draw_contraction,
        (
            Condition(
                "both operands are cut at the same places: cells are refined to common borders",
                "infer/labels.py: bring_together",
            ),
        ),
        _cases_contraction,
        _wrong_contraction,
        "the shards of B in another order than those of A",
    )
)


def _pulled(f: Array, g: Array) -> Pair:
    return (f * g).sum(axis=-1), f[..., 0] * g.sum(axis=-1)


def _cases_pulled() -> Iterator[Pair]:
    for m, n in itertools.product(range(1, 4), range(1, 5)):
        yield _pulled(np.repeat(entries("f", m, 1), n, axis=1), entries("g", m, n))


declare(
    Lemma(
        names.FACTOR_OUT,
        "factors that do not depend on the index leave a sum",
        "sum over k of f * g(k) = f * sum over k of g(k)",
        "real",
        "Multiplication distributes over addition.",
        "exhaustive",
        "handbook 2.1",
        "exp(x[b,k] - m[b]) summed over k = exp(-m[b]) * sum of exp(x[b,k])",
        lambda rng: _pulled(np.repeat(values(rng, 3, 1), 5, axis=1), values(rng, 3, 5)),
        (
            Condition(
                "no axis of the factor is a bound axis of the sum", "infer/products.py: _components"
            ),
        ),
        _cases_pulled,
        lambda rng: _pulled(np.arange(1.0, 6).reshape(1, 5), 1 + rng.random((1, 5))),
        "a factor that depends on k",
    )
)


def _single(x: Array) -> Pair:
    parts = [x[..., k : k + 1].sum(axis=-1) for k in range(x.shape[-1])]
    return np.sum(np.array(parts, dtype=object), axis=0), x.sum(axis=-1)


def _cases_single() -> Iterator[Pair]:
    for m, n in itertools.product(range(1, 4), range(1, 5)):
        yield _single(entries("f", m, n))


declare(
    Lemma(
        names.SINGLE_SUMMAND,
        "one element is the part of a reduction over one index",
        "f(c) = sum over k in [c, c+1) of f(k); likewise for the maximum and the minimum",
        "exact",
        "A sum, or an extremum, over one index is its only term. A shard of width 1 has no axis "
        "to sum over, but its ranks' values add up to the sum all the same.",
        "exhaustive",
        "handbook B1",
        "w[@tp] * x[b, @tp] on each of N ranks, summed by an all_reduce over tp",
        lambda rng: _single(values(rng, 3, 4)),
        (
            Condition(
                "the named sum read at that index has exactly the factors at hand",
                "infer/naming.py: _match",
            ),
            Condition("every summed axis has extent 1 at hand", "infer/products.py: contract"),
        ),
        _cases_single,
        lambda rng: (np.array([3.0]), np.array([1.0 + 3.0])),
        "an element taken for the sum of two",
    )
)


def _constant(c: Array, n: int) -> Pair:
    return np.repeat(c[:, None], n, axis=1).sum(axis=1), c * n


declare(
    Lemma(
        names.CONSTANT_SUM,
        "a sum of a constant is the constant times the number of terms",
        "sum over k in [a,b) of c = (b - a) * c",
        "real",
        "Repeated addition; the sum of no terms is zero. A group over the ranks is counted the "
        "same way.",
        "exhaustive",
        "handbook B2",
        "ones[S, D] summed over D, D symbolic",
        lambda rng: _constant(values(rng, 4), int(rng.integers(0, 9))),
        (
            Condition(
                "no factor of the term walks the axis", "infer/products.py: contract (unused)"
            ),
        ),
        lambda: (_constant(entries("c", 2), n) for n in range(6)),
        lambda rng: ((x := np.arange(4.0)).sum(keepdims=True), x[1:2] * 4),
        "entries that differ along the axis",
    )
)


def _mean(x: Array, at: list[int]) -> Pair:
    total: Any = sum(_sum(x, i, j) for i, j in itertools.pairwise(at))
    return x.mean(axis=-1), total / x.shape[-1]


def _wrong_mean(rng: Rng) -> Pair:
    x = np.array([[1.0, 2.0, 6.0]])
    return x.mean(axis=-1), (x[:, :2].mean(axis=-1) + x[:, 2:].mean(axis=-1)) / 2


declare(
    Lemma(
        names.MEAN,
        "a mean is the sum divided by the number of all terms",
        "mean over k in [0,n) of x(k) = 1/n * (sum over shards of the sum over the shard)",
        "real",
        "The definition of the mean, and partial sums join. The count is that of the whole axis.",
        "algebra",
        "handbook B2, trap T01",
        "x[T, N*h], mean over the last axis",
        lambda rng: _mean(values(rng, 3, 7), cuts(rng, 7, int(rng.integers(1, 5)))),
        (
            Condition(
                "the divisor is the product of the extents of the axes that are summed here",
                "infer/evaluate.py: _contract",
            ),
        ),
        None,
        _wrong_mean,
        "the mean of the means of shards of 2 and 1 columns",
    )
)


def _nested(x: Array) -> Pair:
    return x.sum(axis=2).sum(axis=1), x.reshape(x.shape[0], -1).sum(axis=1)


def _wrong_nested(rng: Rng) -> Pair:
    a, b = 1 + rng.random((2, 3)), 1 + rng.random((2, 3))
    return a.sum(axis=1) * b.sum(axis=1), (a * b).sum(axis=1)


declare(
    Lemma(
        names.SUM_OF_SUMS,
        "a sum of sums is one sum over all indices",
        "sum over i of (sum over k of f(i,k)) = sum over (i,k) of f(i,k)",
        "real",
        "Finite sums may be taken in any order. The inner index gets a fresh name, so a product "
        "of two sums is never taken for the sum of a product.",
        "exhaustive",
        "handbook 2.4 (nested), trap T08b",
        "x[B, S, D] summed over D and then over S",
        lambda rng: _nested(values(rng, 2, 3, 4)),
        (
            Condition(
                "the inner sum stands alone, to the first power, with coefficient 1",
                "infer/products.py: _sum_atom, _open_nested",
            ),
        ),
        lambda: (
            _nested(entries("x", 2, m, n))
            for m, n in itertools.product(range(4), range(4))
            if m * n
        ),
        _wrong_nested,
        "sum of a times sum of b under one index",
    )
)


def _bracketed(xs: list[Any]) -> Iterator[Any]:
    """Every way to put brackets around a sum, in the given order."""
    if len(xs) == 1:
        yield xs[0]
    for k in range(1, len(xs)):
        for a, b in itertools.product(_bracketed(xs[:k]), _bracketed(xs[k:])):
            yield a + b


def _cases_respelled() -> Iterator[Pair]:
    xs = [entries(f"x{k}", 1) for k in range(4)]
    want = xs[0] + xs[1] + xs[2] + xs[3]
    for order in itertools.permutations(xs):
        for total in _bracketed(list(order)):
            yield want, total


def _draw_respelled(rng: Rng) -> Pair:
    x = values(rng, 4, 3)
    spellings = list(_bracketed([x[k] for k in rng.permutation(4)]))
    return x.sum(axis=0), spellings[int(rng.integers(len(spellings)))]


declare(
    Lemma(
        names.SUM_RESPELLED,
        "a sum may be bracketed and ordered in any way",
        "(x + a) + b = x + (a + b) = (b + x) + a",
        "real",
        "Addition is associative and commutative. Named sums are opened on both sides and the "
        "flat list of summands is looked up.",
        "exhaustive",
        "design, section 3 (named sums)",
        "the residual stream x + attention + mlp in two spellings",
        _draw_respelled,
        (),
        _cases_respelled,
    )
)


# ------------------------------------------------------------------ extrema


def _extrema(x: Array, a: int, b: int, c: int, d: int) -> Pair:
    return np.maximum(x[..., a:b].max(axis=-1), x[..., c:d].max(axis=-1)), x[
        ..., min(a, c) : max(b, d)
    ].max(axis=-1)


def _draw_extrema(rng: Rng) -> Pair:
    a, b = 0, int(rng.integers(1, 8))
    c = int(rng.integers(0, b + 1))
    return _extrema(values(rng, 3, 9), a, b, c, int(rng.integers(c + 1, 10)))


def _cases_extrema() -> Iterator[Pair]:
    n = 4
    # A maximum depends on the order of the entries only: all weak orders are listed.
    x = np.array(list(itertools.product(range(n), repeat=n)))
    for a, b, c, d in itertools.product(range(n + 1), repeat=4):
        if a < b and c < d and c <= b and a <= d:
            yield _extrema(x, a, b, c, d)


declare(
    Lemma(
        names.EXTREMA,
        "maxima over intervals that cover join",
        "max(max over [a,b) of x, max over [c,d) of x) = max over [a,d) of x, where a <= c <= b; "
        "the same for minima",
        "exact",
        "The larger of two maxima is the maximum of the union, and overlap does no harm. The "
        "parts must not be empty and must leave no gap.",
        "exhaustive",
        "handbook B3",
        "row maxima of vocabulary shards under all_reduce(max)",
        _draw_extrema,
        (
            Condition("the intervals cover one interval", "infer/evaluate.py: cover"),
            Condition(
                "each value is the maximum itself, not a function of it: it carries one "
                "restriction, that of the maximum",
                "infer/evaluate.py: join_extrema",
            ),
        ),
        _cases_extrema,
        lambda rng: _extrema(np.array([[1.0, 0.0, 5.0, 2.0]]), 0, 2, 3, 4),
        "[0,2) and [3,4) leave out the column that has the maximum",
    )
)


declare(
    Lemma(
        names.EXTREMUM_OF_CONSTANT,
        "an extremum over an axis that nothing walks does not depend on its extent",
        "max over k in [0,n) of c = c, n >= 1",
        "exact",
        "All entries are equal.",
        "exhaustive",
        "handbook B3",
        "the maximum of a broadcast bias over the batch",
        lambda rng: ((c := values(rng, 3)), np.repeat(c[:, None], 4, axis=1).max(axis=1)),
        (Condition("no term of the operand walks the axis", "infer/evaluate.py: _extremum"),),
        lambda: (
            (c := np.array(v), np.repeat(c[:, None], n, axis=1).max(axis=1))
            for n in range(1, 5)
            for v in itertools.product(range(2), repeat=2)
        ),
        lambda rng: ((x := np.array([[1.0, 3.0]]))[:, 0], x.max(axis=1)),
        "entries that differ along the axis",
    )
)
