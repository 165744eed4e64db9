"""Masks of positions: blocks of keys that are hidden, seen, or on the diagonal."""

from __future__ import annotations

import pytest
from tests.support.causal import FAULTS, MASK, NO_MASK, causal_ring

from shardproof.infer.run import infer
from shardproof.lemmas import names
from shardproof.verify import verify

PAST = {"masked": MASK, "not masked": NO_MASK}


@pytest.mark.parametrize("past", PAST)
def test_causal_attention_in_blocks(past: str) -> None:
    spec = causal_ring(PAST[past])
    verdict = verify(spec.resolve())
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert {names.MASKED_EXP, names.MASKED_SUM} <= set(verdict.lemmas)


@pytest.mark.parametrize("past", PAST)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_mask(fault: str, past: str) -> None:
    problem = causal_ring(PAST[past], fault).resolve()
    assert not infer(problem, deep=True).holds
    assert verify(problem, fixes=False).status == "refuted"
