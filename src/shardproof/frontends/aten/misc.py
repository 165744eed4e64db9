"""Sizes, numbers read from tensors, checks and markers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shardproof.frontends.aten.context import LowerContext, NoValue
from shardproof.frontends.aten.helpers import dim_of
from shardproof.frontends.aten.registry import lowers
from shardproof.ir.graph import Value
from shardproof.ir.sizes import Size


@lowers("aten.sym_size.int")
def _size(ctx: LowerContext, self: Value, dim: int) -> Size:
    return self.shape[dim_of(self, dim)]


@lowers("aten.sym_numel.default")
def _numel(ctx: LowerContext, self: Value) -> Size:
    return self.type.numel


@lowers("aten._local_scalar_dense.default", "aten.item.default")
def _item(ctx: LowerContext, self: Value) -> Any:
    """A number that depends on the data: the symbol of the annotation stands for it."""
    known = ctx.constant_of(self)
    if ctx.type is None or ctx.type.is_tensor:
        return NoValue("a number that is read from a tensor")
    ctx.record.assume(
        "condition", f"{ctx.statement.name}: the number read from a tensor is {ctx.type.scalar}"
    )
    if isinstance(known, Fraction) and known.denominator == 1:
        return int(known)
    return ctx.type.scalar


@lowers("aten._assert_scalar.default", "aten._assert_async.default", "aten._assert_async.msg",
        "aten._assert_tensor_metadata.default", "aten.sym_constrain_range.default",
        "aten.sym_constrain_range_for_size.default", "aten.record_stream.default")  # fmt: skip
def _nothing(ctx: LowerContext, *_: Any, **__: Any) -> NoValue:
    return NoValue("a check without a result")
