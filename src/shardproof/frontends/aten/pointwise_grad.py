"""Backward operators of elementwise functions; all linear in the incoming gradient."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.elementwise import SOFTPLUS_THRESHOLD
from shardproof.frontends.aten.registry import lowers
from shardproof.ir.graph import Value


@lowers("aten.gelu_backward.default")
def _gelu(
    ctx: LowerContext, grad_output: Value, self: Value, *, approximate: str = "none"
) -> Value:
    return ctx.emit("gelu_grad", grad_output, self, approximate=approximate)


@lowers("aten.silu_backward.default")
def _silu(ctx: LowerContext, grad_output: Value, self: Value) -> Value:
    return ctx.emit("silu_grad", grad_output, self)


@lowers("aten.threshold_backward.default")
def _threshold(ctx: LowerContext, grad_output: Value, self: Value, threshold: Any) -> Value:
    return ctx.emit("relu_grad", grad_output, self, threshold=ctx.number(threshold))


@lowers("aten.tanh_backward.default")
def _tanh(ctx: LowerContext, grad_output: Value, output: Value) -> Value:
    return ctx.emit("tanh_grad", grad_output, output)


@lowers("aten.sigmoid_backward.default")
def _sigmoid(ctx: LowerContext, grad_output: Value, output: Value) -> Value:
    return ctx.emit("sigmoid_grad", grad_output, output)


@lowers("aten.leaky_relu_backward.default")
def _leaky_relu(
    ctx: LowerContext, grad_output: Value, self: Value, negative_slope: Any, self_is_result: bool
) -> Value:
    # The sign of the result is that of the input, so either may be given.
    if self_is_result and not negative_slope > 0:
        raise Unsupported("leaky_relu_backward from the result with a slope <= 0")
    return ctx.emit("leaky_relu_grad", grad_output, self, slope=ctx.number(negative_slope))


@lowers("aten.hardtanh_backward.default")
def _hardtanh(
    ctx: LowerContext, grad_output: Value, self: Value, min_val: Any, max_val: Any
) -> Value:
    low, high = ctx.number(min_val), ctx.number(max_val)
    return ctx.emit("clamp_grad", grad_output, self, min=low, max=high)


@lowers("aten.elu_backward.default")
def _elu(
    ctx: LowerContext, grad_output: Value, alpha: Any, scale: Any, input_scale: Any,
    is_result: bool, self_or_result: Value,
) -> Value:  # fmt: skip
    if input_scale != 1 or is_result:
        raise Unsupported("elu_backward from the result, or with an input scale")
    g = ctx.emit("elu_grad", grad_output, self_or_result, alpha=ctx.number(alpha))
    return g if scale == 1 else ctx.scale(g, scale)


@lowers("aten.softplus_backward.default")
def _softplus(
    ctx: LowerContext, grad_output: Value, self: Value, beta: Any, threshold: Any
) -> Value:
    x = self if beta == 1 else ctx.scale(self, beta)
    dx = ctx.emit("softplus_grad", grad_output, x)
    if threshold >= SOFTPLUS_THRESHOLD:
        return dx
    return ctx.where(ctx.compare("gt", x, threshold), grad_output, dx)


@lowers("aten.log_sigmoid_backward.default")
def _log_sigmoid(ctx: LowerContext, grad_output: Value, self: Value, buffer: Any) -> Value:
    return ctx.emit("logsigmoid_grad", grad_output, self)


@lowers("aten.hardsigmoid_backward.default")
def _hardsigmoid(ctx: LowerContext, grad_output: Value, self: Value) -> Value:
    return ctx.emit("hardsigmoid_grad", grad_output, self)


@lowers("aten.hardswish_backward.default")
def _hardswish(ctx: LowerContext, grad_output: Value, self: Value) -> Value:
    return ctx.emit("hardswish_grad", grad_output, self)


@lowers("aten.native_dropout_backward.default")
def _native_dropout(ctx: LowerContext, grad_output: Value, mask: Value, scale: Any) -> Value:
    if ctx.facts.dropout == "off":
        return grad_output
    kept = ctx.mul(grad_output, ctx.cast(mask, grad_output.dtype))
    return ctx.scale(kept, _exact_scale(ctx, scale))


def _exact_scale(ctx: LowerContext, scale: Any) -> Any:
    """``1/(1-p)`` for the printed double: that of a forward dropout in the same graph, else the
    simplest fraction that prints so."""
    if not isinstance(scale, float):
        return scale
    exact = ctx.dropout_scales.get(scale)
    if exact is None:
        simple = Fraction(scale).limit_denominator(10_000)
        exact = simple if float(simple) == scale else Fraction(scale)
        ctx.record.assume("arithmetic", f"the dropout scale {scale!r} is read as {exact}")
    return exact
