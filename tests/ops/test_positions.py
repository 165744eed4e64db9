"""Functions that are declared to give positions along their whole axes do."""

from __future__ import annotations

import pytest
from tests.ops.samples import calls

from shardproof.ops import base as alg

OPERATORS = ("sort", "argmax", "argmin")


def declared(rule: alg.Algebra) -> bool:
    return isinstance(rule, alg.Signature) and rule.fn in alg.POSITIONS


@pytest.mark.parametrize("op", OPERATORS)
def test_positions_are_inside_the_axis(op: str) -> None:
    seen = 0
    for call in calls(op, 60):
        rules = call.definition.algebra(call.types, call.attrs)
        for rule, values in zip(rules, call.run(), strict=True):
            if not declared(rule) or not values.size:
                continue
            assert isinstance(rule, alg.Signature)
            (whole,) = rule.whole
            extent = call.arrays[0].shape[rule.operands[0].index(whole)]
            assert values.min() >= 0
            assert values.max() < extent
            seen += 1
    assert seen > 20


def test_every_such_function_is_one_of_these() -> None:
    found = set()
    for op in OPERATORS:
        call = calls(op, 1)[0]
        for rule in call.definition.algebra(call.types, call.attrs):
            assert isinstance(rule, alg.Signature)
            found.add(rule.fn)
    assert found >= alg.POSITIONS


def test_a_new_axis_is_seen() -> None:
    call = calls("topk", 1)[0]
    assert all(map(alg.makes_axis, call.definition.algebra(call.types, call.attrs)))
    assert call.definition.define is not None
    call = calls("sort", 1)[0]
    assert not any(map(alg.makes_axis, call.definition.algebra(call.types, call.attrs)))
