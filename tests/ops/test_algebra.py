"""Every declared algebra holds, tested generically from the declaration."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from tests.ops.algebra import check, same
from tests.ops.samples import SAMPLERS, calls

import shardproof.ops  # noqa: F401 - registers the operators
from shardproof.ops import base
from shardproof.ops.base import ShapeError, known

RUNNABLE = sorted(name for name, op in known().items() if op.evaluate is not None)


def test_every_operator_that_runs_has_samples() -> None:
    assert sorted(SAMPLERS) == RUNNABLE


@pytest.mark.parametrize("op", RUNNABLE)
def test_algebra_holds(op: str) -> None:
    for call in calls(op, 25):
        declared = call.definition.algebra(call.types, call.attrs)
        assert len(declared) == len(call.run())
        check(call, declared, np.random.default_rng(1))


@pytest.mark.parametrize("op", RUNNABLE)
def test_algebra_determines_the_function(op: str) -> None:
    """Attributes that change the result must show in the algebra, or inference would take two
    different functions for one."""
    samples = calls(op, 12, seed=3)
    for call in samples:
        for other in samples:
            swapped = replace(call, attrs=other.attrs)
            try:
                types = call.definition.types(call.types, other.attrs)
            except ShapeError:
                continue
            if types != call.definition.types(call.types, call.attrs):
                continue
            mine = call.definition.algebra(call.types, call.attrs)
            theirs = call.definition.algebra(call.types, other.attrs)
            if mine == theirs and not isinstance(mine[0], base.Undefined):
                for a, b in zip(call.run(), swapped.run(), strict=True):
                    same(a, b, f"{op} with {call.attrs} and {other.attrs}")


@pytest.mark.parametrize("op", RUNNABLE)
def test_the_function_does_not_depend_on_element_types(op: str) -> None:
    """Booleans are 0 and 1 and integers are reals, so a cast to float is the identity: the same
    algebra must then give the same result."""
    for call in calls(op, 40, seed=4):
        for k, array in enumerate(call.arrays):
            arrays = (*call.arrays[:k], array.astype(np.float64), *call.arrays[k + 1 :])
            other = replace(call, arrays=arrays)
            try:
                call.definition.types(other.types, call.attrs)
            except ShapeError:
                continue
            mine = call.definition.algebra(call.types, call.attrs)
            if mine == call.definition.algebra(other.types, call.attrs):
                for a, b in zip(call.run(), other.run(), strict=True):
                    same(a, b, f"{op} of floats")


def test_function_names_are_not_shared() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for op in RUNNABLE:
        for call in calls(op, 25):
            for algebra in call.definition.algebra(call.types, call.attrs):
                if isinstance(algebra, base.Pointwise | base.Signature):
                    owners[algebra.fn].add(op)
    shared = {fn: ops for fn, ops in owners.items() if len(ops) > 1}
    assert shared == {"trunc": {"trunc", "cast"}, "layer_norm": {"layer_norm", "layer_norm_affine"}}
