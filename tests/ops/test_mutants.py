"""The generic checks reject declarations that are wrong in one point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.ops.algebra import Rejected, check_output
from tests.ops.samples import Call, calls

import shardproof.ops  # noqa: F401 - registers the operators
from shardproof.ops import base
from shardproof.ops.base import Algebra


@dataclass(frozen=True)
class Mutant:
    """``change`` spoils the declared algebra of output ``k`` of one call."""

    title: str
    call: Call
    change: Callable[[Any], Algebra]
    k: int = 0


def sample(op: str, *dims: int, operands: int | None = None, **fixed: object) -> Call:
    """A random call with extents above 1, the given ranks and the given attributes."""
    for call in calls(op, 400):
        ranks = tuple(a.ndim for a in call.arrays)
        if (dims and ranks != dims) or operands not in (None, len(call.arrays)):
            continue
        wanted = all(call.attrs.get(k) == v for k, v in fixed.items())
        if wanted and all(min(a.shape, default=2) > 1 and a.size > 2 for a in call.arrays):
            return call
    raise LookupError(op)


def to(algebra: Algebra) -> Callable[[Any], Algebra]:
    """Another algebra altogether."""
    return lambda declared: algebra


def but(**fields: object) -> Callable[[Any], Algebra]:
    """The declared algebra with some fields changed."""
    return lambda declared: replace(declared, **fields)


SQUARE = np.arange(4.0).reshape(2, 2)
ONE = Fraction(1)
DQ = sample("attention_grad", causal=False, operands=6)
NORM = sample("layer_norm_affine", operands=3)
CAUSAL = sample("attention", causal=True, operands=3)
MUTANTS = (
    Mutant("wrong sign", sample("add", 2, 2), but(coefs=(ONE, -ONE))),
    Mutant("wrong constant", sample("add", 2, 2), but(constant=ONE)),
    Mutant("missing coefficient", sample("add", 2, 2), but(coefs=(ONE,))),
    Mutant("product for quotient", sample("div", 2, 2), but(exponents=(ONE, ONE))),
    Mutant("root for its inverse", sample("rsqrt", 2), but(exponents=(Fraction(1, 2),))),
    Mutant("identity", sample("exp", 2), to(base.Identity())),
    Mutant("gradient linear in x", sample("silu_grad", 2, 2), but(linear=(0, 1))),
    Mutant("atan2 commutative", sample("atan2", 2, 2), but(commutative=True)),
    Mutant("scan pointwise", sample("cumsum", 2), to(base.Pointwise("cumsum"))),
    Mutant("scan cut", sample("cumsum", 2), but(whole=())),
    Mutant("scan along another axis", sample("cumsum", 2, dim=0), but(whole=("i1",))),
    Mutant("sum divided", sample("matmul", 2, 2), but(scale_by_count=True)),
    Mutant("factor transposed", Call("matmul", (SQUARE, SQUARE + 1), {}),
           but(operands=(("k", "m"), ("k", "n")))),
    Mutant("labels of other dims", sample("matmul", 3, 3), but(operands=(("m", "k"), ("k", "n")))),
    Mutant("mean undivided", sample("mean", 2), but(scale_by_count=False)),
    Mutant("minimum", sample("max", 2), but(kind="min")),
    Mutant("softmax cut", sample("softmax", 2), but(whole=())),
    Mutant("softmax along another axis", sample("softmax", 2, dim=0), but(whole=("i1",))),
    Mutant("softmax linear", sample("softmax", 2), but(linear=(0,))),
    Mutant("dropped axis not whole", sample("argmax", 2), but(whole=())),
    Mutant("norm linear in weight", NORM, but(linear=(1,))),
    Mutant("norm ignores bias", NORM, but(unused=(2,))),
    Mutant("mean ignores x", NORM, but(unused=(0,)), k=1),
    Mutant("norm gradient linear in x", sample("rms_norm_grad", operands=3), but(linear=(1,))),
    Mutant("attention cut in keys", CAUSAL, but(whole=("t", "d"))),
    Mutant("causal attention cut in queries", CAUSAL, but(whole=("s", "d"))),
    Mutant("attention linear in keys", CAUSAL, but(linear=(1,))),
    Mutant("dq cut in keys", DQ, but(whole=("d", "e"))),
    Mutant("dk cut in queries", DQ, but(whole=("d", "e")), k=1),
    Mutant("new axis not whole", sample("topk", 2), but(whole=())),
    Mutant("comparison reversed", sample("compare", 2, 2, kind="lt"), but(kind="ge")),
    Mutant("other bound", Call("compare", (np.arange(4),), {"kind": "lt", "value": 2}),
           but(value=Fraction(3))),
    Mutant("other filling", sample("masked_fill", 2, 2), but(other=Fraction(77))),
    Mutant("branches swapped", sample("where", 2, 2, 2), but(other=ONE)),
    Mutant("and for xor", Call("logic", (SQUARE > 0, SQUARE > 1), {"kind": "xor"}),
           but(kind="and")),
    Mutant("wrong dim", Call("concat", (SQUARE, SQUARE + 1), {"dim": 0}), but(dim=1)),
    Mutant("not permuted", Call("permute", (SQUARE,), {"perm": (1, 0)}), but(perm=(0, 1))),
    Mutant("shifted slice", Call("slice", (np.arange(4.0),), {"dim": 0, "start": 1, "stop": 3}),
           but(start=0, stop=2)),
    Mutant("shifted iota", Call("iota", (), {"size": 3, "start": 0, "step": 1, "dtype": "i64"}),
           but(start=1)),
    Mutant("other constant", Call("full", (), {"value": 2, "shape": (2,), "dtype": "i64"}),
           but(value=ONE)),
)  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.title)
def test_wrong_declarations_are_rejected(mutant: Mutant) -> None:
    call = mutant.call
    declared = call.definition.algebra(call.types, call.attrs)[mutant.k]
    check_often(call, mutant.k, declared)
    with pytest.raises(Rejected):
        check_often(call, mutant.k, mutant.change(declared))


def check_often(call: Call, k: int, algebra: Algebra) -> None:
    """Several draws, since a slice may pick what a wrong declaration happens to allow."""
    rng = np.random.default_rng(2)
    for _ in range(5):
        check_output(call, k, algebra, rng)
