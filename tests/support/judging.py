"""What a test asserts of a problem: proved and equal on numbers, or refused and different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from tests.support.claims import check_claims, inferences

from shardproof.infer.judge import Judged
from shardproof.infer.run import Inference
from shardproof.spec.problem import Problem

Sizes = Mapping[str, int]
Ranges = Mapping[str, tuple[int, int]]
SEEDS = 3


def proved(
    problem: Problem,
    *,
    deep: bool = False,
    sizes: Sizes | None = None,
    ranges: Ranges | None = None,
) -> Counter[str]:
    """Assert that a problem holds by every way to infer, and that every claim made on the way is
    true on numbers; the lemmas that were used."""
    used: Counter[str] = Counter()
    for inference in inferences(problem, deep):
        assert inference.holds, [(j.graph, j.obligation.seq_output) for j in failed(inference)]
        values, report = check_claims(problem, inference, np.random.default_rng(0), sizes, ranges)
        assert values.equal, (values.wrong, values.fault)
        assert report.checked > 0
        assert not report.wrong, report.wrong
        used.update(inference.evaluator.fired)
    return used


def refused(
    problem: Problem,
    *,
    deep: bool = False,
    sizes: Sizes | None = None,
    ranges: Ranges | None = None,
) -> None:
    """Assert that a problem does not hold by any way to infer, that no claim is false, and that
    the two sides differ on numbers."""
    differs = False
    for inference in inferences(problem, deep):
        assert not inference.holds
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            values, report = check_claims(problem, inference, rng, sizes, ranges)
            assert not report.wrong, report.wrong
            differs = differs or not values.equal
            if differs:
                break
    assert differs, "the fault makes no difference on numbers"


def failed(inference: Inference) -> list[Judged]:
    return [j for j in inference.judged if not j.holds]
