"""Random expressions that inference takes for equal are equal on numbers."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.lemmas import pairs

from shardproof.infer.coef import ONE
from shardproof.infer.guards import GuardRules
from shardproof.infer.products import Products
from shardproof.lemmas import names


def test_row_algebra() -> None:
    used: Counter[str] = Counter()
    equal = 0
    for seed in range(24):
        found = pairs.judge(seed, pairs.ROWS, pairs.rows, pairs.row_values, 60, deep=True)
        assert not found.wrong, (seed, found.wrong)
        equal += found.equal
        used.update(found.fired)
    assert equal > 300
    assert used[names.EXP_OF_SUM]
    assert used[names.EXP_PRODUCT]
    assert used[names.LOG_OF_PRODUCT]
    assert used[names.CANCELLED]


def test_guards() -> None:
    used: Counter[str] = Counter()
    equal = 0
    for seed in range(16):
        deep = seed % 2 == 1
        found = pairs.judge(seed, pairs.GUARDS, pairs.guards, pairs.guard_values, 40, deep)
        assert not found.wrong, (seed, found.wrong)
        equal += found.equal
        used.update(found.fired)
    assert equal > 300
    assert used[names.GUARD_MEET]
    assert used[names.GUARD_OF_SUM]
    assert used[names.ONEHOT_SELECTS]
    assert used[names.LOOKUP_PIECES]
    assert used[names.WRITE]


def test_a_missing_condition_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every factor for positive, and let every guard keep its sum as it is."""
    monkeypatch.setattr(Products, "positive", lambda self, t: True)
    seeds = range(40)
    assert any(
        pairs.judge(k, pairs.ROWS, pairs.rows, pairs.row_values, 60, deep=True).wrong for k in seeds
    )
    monkeypatch.setattr(GuardRules, "_restrict", lambda self, s, *more: [(s, ONE)])
    assert any(
        pairs.judge(k, pairs.GUARDS, pairs.guards, pairs.guard_values, 40, deep=False).wrong
        for k in seeds
    )
