"""Dropout and random numbers: what is drawn becomes an input of the graph.

Nothing is known of such an input, so a proof holds whatever was drawn. Whether the masks of two
programs are slices of each other is a fact that the user states.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shardproof.frontends.aten.context import LowerContext
from shardproof.frontends.aten.registry import lowers
from shardproof.frontends.aten.views import sizes_arg
from shardproof.ir.graph import Value


@lowers("aten.native_dropout.default")
def _native_dropout(
    ctx: LowerContext, input: Value, p: Any, train: bool | None = True
) -> tuple[Value | None, ...]:
    if not (ctx.wanted(0) or ctx.wanted(1)):
        return None, None  # kept by the printer for its effect on the generator alone
    return dropout(ctx, input, p, train is not False)


def dropout(ctx: LowerContext, x: Value, p: Any, train: bool) -> tuple[Value, Value | None]:
    """``x * mask / (1 - p)`` and the mask, a new boolean input."""
    keep = 1 - Fraction(repr(p))  # the decimal text, so that 1 / (1 - 0.1) is 10/9
    if not train or keep == 1 or ctx.facts.dropout == "off":
        return x, ctx.full(1, x.shape, "b8") if ctx.wanted(1) else None
    if keep == 0:
        return ctx.full(0, x.shape, x.dtype), ctx.full(0, x.shape, "b8")
    ctx.dropout_scales[1 / (1 - float(p))] = 1 / keep
    mask = ctx.random_input("dropout_mask", "b8", x.shape)
    return ctx.scale(ctx.mul(x, ctx.cast(mask, x.dtype)), 1 / keep), mask


@lowers("aten.dropout.default")
def _dropout(ctx: LowerContext, input: Value, p: Any, train: bool) -> Value:
    return dropout(ctx, input, p, train)[0]


@lowers("aten.bernoulli.p", "aten.bernoulli.default", "aten.bernoulli.Tensor")
def _bernoulli(ctx: LowerContext, self: Value, p: Any = None) -> Value:
    if ctx.facts.dropout == "off" and isinstance(p, float | int):
        # Dropout spelled out divides this by p; then it is the identity.
        return ctx.full(Fraction(repr(p)), self.shape, self.dtype)
    return ctx.cast(ctx.random_input("dropout_mask", "b8", self.shape), self.dtype)


@lowers("aten.rand.default", "aten.randn.default")
def _rand(ctx: LowerContext, size: Any, *, dtype: str | None = None) -> Value:
    return ctx.random_input("random", dtype or "f32", sizes_arg(size))


@lowers("aten.normal_functional.default")
def _normal(ctx: LowerContext, self: Value, mean: Any = 0.0, std: Any = 1.0, **_: Any) -> Value:
    """Numbers drawn with other arguments are other numbers."""
    return _moved(ctx, ctx.random_input("random", self.dtype, self.shape), mean, std)


@lowers("aten.uniform.default")
def _uniform(ctx: LowerContext, self: Value, low: Any = 0.0, high: Any = 1.0, **_: Any) -> Value:
    drawn = ctx.random_input("random", self.dtype, self.shape)
    return _moved(ctx, drawn, low, high - low)


def _moved(ctx: LowerContext, x: Value, offset: Any, factor: Any) -> Value:
    x = x if factor == 1 else ctx.scale(x, factor)
    return x if offset == 0 else ctx.shift(x, offset)


@lowers("aten.rand_like.default", "aten.randn_like.default", "aten.exponential.default")
def _rand_like(ctx: LowerContext, self: Value, *_: Any, dtype: str | None = None) -> Value:
    return ctx.random_input("random", dtype or self.dtype, self.shape)


@lowers("aten.randint.default", "aten.randint.low")
def _randint(ctx: LowerContext, *args: Any, dtype: str | None = None) -> Value:
    return ctx.random_input("random", dtype or "i64", args[-1])


@lowers("aten.randint_like.default", "aten.randint_like.low_dtype")
def _randint_like(ctx: LowerContext, self: Value, *_: Any, dtype: str | None = None) -> Value:
    return ctx.random_input("random", dtype or self.dtype, self.shape)


@lowers("aten.randperm.default")
def _randperm(ctx: LowerContext, n: Any, *, dtype: str | None = None) -> Value:
    return ctx.random_input("random", dtype or "i64", (n,))


@lowers("aten.multinomial.default")
def _multinomial(
    ctx: LowerContext, self: Value, num_samples: Any, replacement: bool = False
) -> Value:
    return ctx.random_input("random", "i64", (*self.shape[:-1], num_samples))
