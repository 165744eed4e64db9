"""Summands at single indices that are joined to sums over runs."""

from __future__ import annotations

from itertools import product as choices

import numpy as np
import pytest

from shardproof.certificate.exact import Aff, variable
from shardproof.certificate.products import AtLeast, Product, Read, Sum
from shardproof.certificate.runs import runs

VALUES = np.random.default_rng(0).normal(size=(2, 64, 64))
FREE = {1: 3}  # a variable of the region, and its value
NEW = 99


def value(terms: Sum) -> float:
    """What a sum is for the tensors ``VALUES`` as atoms 2 and 3."""
    total = 0.0
    for p, c in terms:
        spans = [range(int(lo), int(hi)) for _, lo, hi in p.ranges]  # type: ignore[arg-type]
        for at in choices(*spans):
            here = FREE | {v: x for (v, _, _), x in zip(p.ranges, at, strict=True)}
            total += float(c) * np.prod([_read(b, here) ** int(e) for b, e in p.factors])  # type: ignore[arg-type]
    return total


def _read(b: object, here: dict[int, int]) -> float:
    assert isinstance(b, Read)
    index = [int(c) + sum(int(s) * here[v] for v, s in slopes) for c, slopes in b.at]  # type: ignore[arg-type]
    return float(VALUES[b.atom - 2][tuple(index)])


def summand(k: int, stride: int = 1) -> Product:
    """``sum over r of a[i, 16 r + k] b[16 r + k, i]``."""
    at: Aff = (k * stride, ((7, 16),))
    return Product(((7, 0, 2),), ((Read(2, (variable(1), at)), 1), (Read(3, (at, variable(1))), 1)))


@pytest.mark.parametrize("stride", [1, 2])
def test_a_run_is_one_sum(stride: int) -> None:
    terms: Sum = [(summand(k, stride), 2) for k in (5, 3, 4, 2)]
    found = runs(terms, NEW)
    assert [p.ranges for p, _ in found] == [((7, 0, 2), (NEW, 0, 4))]
    assert value(found) == pytest.approx(value(terms), rel=1e-12)


@pytest.mark.parametrize("places", [(0, 1, 3), (0, 0), (4,), (0, 2, 3, 4)])
def test_what_is_no_run_stays_as_it_is(places: tuple[int, ...]) -> None:
    terms: Sum = [(summand(k), 1) for k in places]
    found = runs(terms, NEW)
    assert sorted(map(repr, found)) == sorted(map(repr, terms))


def test_other_coefficients_are_no_run() -> None:
    terms: Sum = [(summand(0), 1), (summand(1), 2)]
    assert sorted(map(repr, runs(terms, NEW))) == sorted(map(repr, terms))


def test_indices_that_move_in_different_ways() -> None:
    """Only one of two factors moves, or one of them the other way."""
    still = (Read(3, ((1, ()), variable(1))), 1)
    one: Sum = [(Product((), ((Read(2, (variable(1), (k, ()))), 1), still)), 1) for k in range(3)]
    back: Sum = [
        (Product((), ((Read(2, ((k, ()), (0, ()))), 1), (Read(3, ((9 - k, ()), (0, ()))), 1))), 1)
        for k in range(4)
    ]
    for terms in (one, back):
        found = runs(terms, NEW)
        assert len(found) == 1
        assert value(found) == pytest.approx(value(terms), rel=1e-12)


def test_other_factors_are_left_alone() -> None:
    guard = AtLeast(Read(2, ((0, ()), (0, ()))), 1)
    terms: Sum = [(Product((), ((guard, 1),)), 1), (summand(0), 1)]
    assert sorted(map(repr, runs(terms, NEW))) == sorted(map(repr, terms))
