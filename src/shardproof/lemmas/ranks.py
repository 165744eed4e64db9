"""Lemmas on ranks, slices and names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
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


def _tiled(x: Array, a: int, b: int, n: int, width: int | None = None) -> Pair:
    """Sums over ``[a + b r, a + b r + width)`` of all ranks against one sum."""
    w = b if width is None else width
    parts: Any = sum(x[:, a + b * r : a + b * r + w].sum(axis=1) for r in range(n))
    return parts, x[:, a : a + b * n].sum(axis=1)


def _draw_tiled(rng: Rng) -> Pair:
    a, b, n = (int(rng.integers(0, 4)), int(rng.integers(0, 4)), int(rng.integers(1, 5)))
    return _tiled(values(rng, 2, a + b * n + 1), a, b, n)


def _cases_tiled() -> Iterator[Pair]:
    for a, b, n in itertools.product(range(3), range(4), range(1, 5)):
        yield _tiled(entries("x", 2, a + b * n), a, b, n)


declare(
    Lemma(
        names.RANK_TILES,
        "the intervals of all ranks tile one interval",
        "sum over r in [0,N) of (sum over k in [a + b r, a + b (r+1)) of f(k)) = "
        "sum over k in [a, a + b N) of f(k), for all N; the same for maxima",
        "real",
        "By induction on N: the interval of rank N - 1 starts where the union of those before it "
        "ends, and partial sums over adjacent intervals join.",
        "exhaustive",
        "handbook B1; design, section 3 (rank as an index)",
        "the partial product of rank r over [r f, (r+1) f), summed over N ranks",
        _draw_tiled,
        (
            Condition(
                "lower and upper border have one slope in the rank, and it is the length",
                "infer/collect.py: _tile",
            ),
            Condition(
                "one interval of the term alone depends on the rank, and neither offset nor "
                "coefficient does",
                "infer/collect.py: _tile, _sum_term, _no_rank_coef",
            ),
        ),
        _cases_tiled,
        lambda rng: _tiled(1 + rng.random((2, 9)), 0, 2, 3, width=3),
        "intervals one longer than their distance overlap",
    )
)


declare(
    Lemma(
        names.REPLICAS,
        "a sum over ranks of one value is the value times the number of ranks",
        "sum over r in [0,N) of x = N * x",
        "real",
        "Repeated addition. This is how a missing 1/N and a second all_reduce are seen.",
        "exhaustive",
        "handbook B2, E2",
        "all_reduce(sum) of a replicated tensor over N ranks",
        lambda rng: (
            (n := int(rng.integers(1, 5))) * (x := values(rng, 3)),
            np.repeat(x[None], n, axis=0).sum(axis=0),
        ),
        (
            Condition(
                "offsets, intervals and coefficient do not mention the rank, and no value without "
                "sequential meaning takes part that does",
                "infer/collect.py: _sum_term, _guard",
            ),
        ),
        lambda: (
            ((x := entries("x", 2)) * n, np.repeat(x[None], n, axis=0).sum(axis=0))
            for n in range(1, 6)
        ),
        lambda rng: (2 * np.arange(3.0), np.arange(3.0) + 7),
        "two ranks with different values",
    )
)


def _gathered(x: Array, at: list[int], order: list[int] | None = None) -> Pair:
    parts = [x[:, i:j] for i, j in itertools.pairwise(at)]
    return np.concatenate([parts[k] for k in order or range(len(parts))], axis=1), x


def _cases_gathered() -> Iterator[Pair]:
    for n in range(1, 5):
        for w in range(1, 5):
            for at in all_cuts(n, w):
                yield _gathered(entries("x", 2, n), at)


declare(
    Lemma(
        names.GATHERED,
        "adjacent slices in order are the slice over their union",
        "concat(x[a0:a1], x[a1:a2], .., x[aw-1:aw]) = x[a0:aw]; with the rank as an index: the "
        "slices x[r h : (r+1) h] are x with the axis read as (N, h)",
        "exact",
        "Entry k of the result is x[a0 + k] on both sides, because indices are absolute and each "
        "slice starts where the one before ends.",
        "exhaustive",
        "handbook B8; engine notes, section 2",
        "all_gather of x[r h : (r+1) h] over N ranks",
        lambda rng: _gathered(values(rng, 3, 7), cuts(rng, 7, int(rng.integers(1, 5)))),
        (
            Condition(
                "cells merge only where their terms are one affine function of the index",
                "infer/blocks.py: merge_cells, _walks_as_one",
            ),
            Condition(
                "no partial sum depends on the rank that becomes an axis",
                "infer/collect.py: _walk_rank",
            ),
        ),
        _cases_gathered,
        lambda rng: _gathered(np.arange(6.0).reshape(1, 6), [0, 2, 4, 6], [0, 2, 1]),
        "slices in another order",
    )
)


# ------------------------------------------------------------------ names


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


WHOLE: tuple[Callable[[Array], Array], ...] = (
    _softmax,
    np.tanh,
    lambda x: np.cumsum(x, axis=-1),
    lambda x: np.sort(x, axis=-1),
    lambda x: np.asarray((x**2).mean(axis=-1)),
)


def _sliced(f: Callable[[Array], Array], x: Array, a: int, b: int) -> Pair:
    return f(x)[a:b], f(x[a:b])


def _draw_sliced(rng: Rng) -> Pair:
    f = WHOLE[int(rng.integers(len(WHOLE)))]
    a, b = sorted(int(k) for k in rng.integers(0, 6, size=2))
    return _sliced(f, np.asarray(rng.normal(size=(5, 4))), a, b)


def _cases_sliced() -> Iterator[Pair]:
    for n in range(1, 5):
        for a, b in itertools.combinations_with_replacement(range(n + 1), 2):
            yield _sliced(lambda x: np.asarray(np.cumsum(x, axis=-1)), entries("x", n, 3), a, b)


declare(
    Lemma(
        names.CONGRUENCE,
        "an operator instance that is a named one up to an affine change of indices is a slice "
        "of it",
        "f applied to x[a:b] along other axes than those it takes whole = f(x)[a:b]",
        "exact",
        "An instance is a function of its operands at each index. If an affine substitution of "
        "the indices of the named instance makes every operand read equal, the values are equal "
        "there. The substitution is guessed; only its check has to be right.",
        "normal form",
        "handbook B8; engine notes, section 3",
        "gelu(h[:, r f : (r+1) f]) = gelu(h)[:, r f : (r+1) f]",
        _draw_sliced,
        (
            Condition(
                "operator, attributes and operand names agree; every read agrees after "
                "substitution",
                "infer/solve.py: verify",
            ),
            Condition(
                "axes that the operator takes whole are complete and in order",
                "infer/naming.py: _whole_in_order",
            ),
            Condition(
                "each reduction index drives one of the named instance",
                "infer/naming.py: _intervals",
            ),
        ),
        _cases_sliced,
        lambda rng: (_softmax(x := np.array([0.0, 1.0, 5.0]))[:2], _softmax(x[:2])),
        "softmax of a shard of its own axis",
    )
)


def _layers(h: Array, weights: Array, eps: list[float]) -> Pair:
    """A stack evaluated layer by layer, against the first layer's text with names replaced."""
    table: dict[str, Any] = {"h": h, **{f"w{k}": w for k, w in enumerate(weights)}}
    text = [("matmul", "h", "w0", "a"), ("norm", "a", "a", "b"), ("add", "h", "b", "h")]

    def run(rename: dict[str, str], small: float) -> None:
        for op, x, y, out in text:
            u, v = table[rename.get(x, x)], table[rename.get(y, y)]
            done = {
                "matmul": lambda u, v: u @ v,
                "norm": lambda u, v: u / np.sqrt((v * v).mean(axis=-1, keepdims=True) + small),
                "add": lambda u, v: u + v,
            }[op](u, v)
            table[rename.get(out, out)] = done

    out = h
    for w, small in zip(weights, eps, strict=True):
        a = out @ w
        out = out + a / np.sqrt((a * a).mean(axis=-1, keepdims=True) + small)
    for k in range(len(weights)):
        run({"w0": f"w{k}"}, eps[0])
    return out, table["h"]


declare(
    Lemma(
        names.REPEATED_LAYER,
        "a layer that is an evaluated one up to names has its meanings up to names",
        "if two runs of nodes are equal but for the values they read, and those values are equal "
        "up to a one-to-one renaming s, then their results are equal up to s",
        "exact",
        "Evaluation asks of a name only whether it equals another name, and what its definition "
        "is where it looks at it. Both are preserved: s is one to one, and definitions that were "
        "looked at, and look-ups that succeeded, are compared under s.",
        "normal form",
        "design, section 3 (repeated layers)",
        "eight transformer layers with their own weights",
        lambda rng: _layers(rng.normal(size=(2, 3)), rng.normal(size=(4, 3, 3)), [1e-5] * 4),
        (
            Condition(
                "operators, attributes, types and wiring of the two runs agree",
                "infer/repeat.py: same_shape",
            ),
            Condition(
                "the renaming is one to one and follows the sequential side's",
                "infer/repeat.py: _match_outside, _follow",
            ),
            Condition(
                "names whose definition was looked at look the same; every look-up that "
                "succeeded is there under the new names",
                "infer/repeat.py: _alike, _found_again",
            ),
        ),
        None,
        lambda rng: _layers(
            rng.normal(size=(2, 3)), rng.normal(size=(4, 3, 3)), [1e-5, 1e-5, 0.5, 1e-5]
        ),
        "one layer has another eps",
    )
)
