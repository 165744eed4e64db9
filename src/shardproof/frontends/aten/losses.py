"""Softmax, log-softmax and losses, with their backward operators."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.helpers import dim_of
from shardproof.frontends.aten.reduce import mean
from shardproof.frontends.aten.registry import lowers
from shardproof.frontends.aten.views import to_dtype
from shardproof.ir.graph import Value

NONE, MEAN, SUM = 0, 1, 2


def _axis_function(op: str) -> Any:
    def private(ctx: LowerContext, self: Value, dim: int, half_to_float: bool = False) -> Value:
        x = ctx.cast(self, "f32") if half_to_float else self
        return _along(ctx, op, x, dim)

    def public(ctx: LowerContext, self: Value, dim: int, dtype: str | None = None) -> Value:
        return _along(ctx, op, ctx.floating(to_dtype(ctx, self, dtype)), dim)

    return private, public


def _along(ctx: LowerContext, op: str, x: Value, dim: int, *more: Value) -> Value:
    if not x.shape:
        # A scalar is its own axis of one element.
        parts = [ctx.reshape(v, (1,)) for v in (x, *more)]
        return ctx.reshape(ctx.emit(op, *parts, dim=0), ())
    return ctx.emit(op, x, *more, dim=dim_of(x, dim))


for _op in ("softmax", "log_softmax"):
    _private, _public = _axis_function(_op)
    lowers(f"aten._{_op}.default")(_private)
    lowers(f"aten.{_op}.int")(_public)


@lowers("aten._safe_softmax.default")
def _safe_softmax(ctx: LowerContext, self: Value, dim: int, dtype: str | None = None) -> Value:
    ctx.record.assume("defined", f"{ctx.statement.name}: no row of scores is masked entirely")
    return _along(ctx, "softmax", to_dtype(ctx, self, dtype), dim)


@lowers("aten._softmax_backward_data.default", "aten._log_softmax_backward_data.default")
def _softmax_backward(
    ctx: LowerContext, grad_output: Value, output: Value, dim: int, input_dtype: Any
) -> Value:
    op = "log_softmax_grad" if "log_softmax" in ctx.statement.target else "softmax_grad"
    out = _along(ctx, op, grad_output, dim, output)
    return ctx.cast(out, input_dtype) if isinstance(input_dtype, str) else out


# ------------------------------------------------------------------------------ nll


def _valid_targets(ctx: LowerContext, target: Value, ignore_index: int) -> tuple[Value, Value]:
    """Which targets are ignored, and targets that are all in range."""
    ignored = ctx.compare("eq", target, ignore_index)
    return ignored, ctx.masked_fill(target, ignored, 0)


def _class_last(ctx: LowerContext, x: Value) -> Value:
    """Log-probabilities with the classes as the last dim: [C], [N, C] or [N, C, ...]."""
    return ctx.move(x, 1, len(x.shape) - 1) if len(x.shape) > 2 else x


def _target_weights(
    ctx: LowerContext, weight: Value | None, safe: Value, ignored: Value, dtype: str
) -> Value:
    """The weight of each target: 0 where it is ignored."""
    if weight is None:
        return ctx.cast(ctx.logic("not", ignored), dtype)
    return ctx.masked_fill(ctx.emit("take_rows", weight, safe), ignored, 0)


def _all(x: Value) -> tuple[int, ...]:
    return tuple(range(len(x.shape)))


@lowers("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")
def _nll_loss_forward(
    ctx: LowerContext, self: Value, target: Value, weight: Value | None, reduction: int,
    ignore_index: int,
) -> tuple[Value, Value]:  # fmt: skip
    ignored, safe = _valid_targets(ctx, target, ignore_index)
    picked = ctx.emit("neg", ctx.emit("take_along", _class_last(ctx, self), safe))
    if weight is not None:
        picked = ctx.mul(picked, ctx.emit("take_rows", weight, safe))
    loss = ctx.masked_fill(picked, ignored, 0)
    if reduction == NONE and len(self.shape) > 1:
        return loss, ctx.full(0, (), self.dtype)
    total = ctx.sum(_target_weights(ctx, weight, safe, ignored, self.dtype), _all(safe))
    loss = ctx.sum(loss, _all(loss))
    return (ctx.div(loss, total) if reduction == MEAN else loss), total


@lowers("aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default")
def _nll_loss_backward(
    ctx: LowerContext, grad_output: Value, self: Value, target: Value, weight: Value | None,
    reduction: int, ignore_index: int, total_weight: Value,
) -> Value:  # fmt: skip
    ignored, safe = _valid_targets(ctx, target, ignore_index)
    g = ctx.emit("neg", grad_output)
    if reduction == MEAN:
        g = ctx.div(g, ctx.reshape(total_weight, ()))
    if weight is not None:
        g = ctx.mul(g, ctx.emit("take_rows", weight, safe))
    g = ctx.masked_fill(ctx.expand(g, safe.shape), ignored, 0)
    line = _class_last(ctx, self)
    dx = ctx.emit("put_along", ctx.full(0, line.shape, self.dtype), safe, g)
    return ctx.move(dx, len(dx.shape) - 1, 1) if len(dx.shape) > 2 else dx


# ------------------------------------------------------------------------------ regression


def _reduced(ctx: LowerContext, x: Value, reduction: int) -> Value:
    if reduction == NONE:
        return x
    return mean(ctx, x, _all(x), False) if reduction == MEAN else ctx.sum(x, _all(x))


@lowers("aten.mse_loss.default")
def _mse_loss(ctx: LowerContext, self: Value, target: Value, reduction: int = MEAN) -> Value:
    diff = ctx.sub(self, target)
    return _reduced(ctx, ctx.mul(diff, diff), reduction)


@lowers("aten.mse_loss_backward.default")
def _mse_loss_backward(
    ctx: LowerContext, grad_output: Value, self: Value, target: Value, reduction: int
) -> Value:
    g = ctx.scale(ctx.mul(grad_output, ctx.sub(self, target)), 2)
    return _counted(ctx, g, self, reduction)


@lowers("aten.l1_loss.default")
def _l1_loss(ctx: LowerContext, self: Value, target: Value, reduction: int = MEAN) -> Value:
    return _reduced(ctx, ctx.emit("abs", ctx.sub(self, target)), reduction)


def _counted(ctx: LowerContext, g: Value, x: Value, reduction: int) -> Value:
    """The gradient of the loss of each element: that of a mean is divided by the count."""
    if reduction != MEAN:
        return g
    count = x.type.numel
    if not isinstance(count, int):
        raise Unsupported("the gradient of a mean over a symbolic number of elements")
    return ctx.div(g, ctx.full(count, (), g.dtype))


def _smooth(
    ctx: LowerContext, x: Value, target: Value, bound: Any, square: Any, line: Any, offset: Any
) -> Value:
    """``square * d**2`` where ``|d| < bound``, else ``line * |d| - offset``."""
    diff = ctx.sub(x, target)
    size = ctx.emit("abs", diff)
    near = ctx.scale(ctx.mul(diff, diff), square)
    return ctx.where(
        ctx.compare("lt", size, bound), near, ctx.shift(ctx.scale(size, line), -offset)
    )


@lowers("aten.smooth_l1_loss.default")
def _smooth_l1(
    ctx: LowerContext, self: Value, target: Value, reduction: int = MEAN, beta: Any = 1.0
) -> Value:
    b = Fraction(ctx.number(beta))  # type: ignore[arg-type]
    if b == 0:
        return _l1_loss(ctx, self, target, reduction)
    return _reduced(ctx, _smooth(ctx, self, target, b, 1 / (2 * b), 1, b / 2), reduction)


@lowers("aten.huber_loss.default")
def _huber(
    ctx: LowerContext, self: Value, target: Value, reduction: int = MEAN, delta: Any = 1.0
) -> Value:
    d = Fraction(ctx.number(delta))  # type: ignore[arg-type]
    half = Fraction(1, 2)
    return _reduced(ctx, _smooth(ctx, self, target, d, half, d, d * d / 2), reduction)


def _clipped(
    ctx: LowerContext, g: Value, x: Value, target: Value, reduction: int, bound: Fraction,
    by: Fraction,
) -> Value:  # fmt: skip
    slope = ctx.emit("clamp", ctx.scale(ctx.sub(x, target), by), min=-bound, max=bound)
    return _counted(ctx, ctx.mul(g, slope), x, reduction)


@lowers("aten.smooth_l1_loss_backward.default")
def _smooth_l1_backward(
    ctx: LowerContext, grad_output: Value, self: Value, target: Value, reduction: int, beta: Any
) -> Value:
    b = Fraction(ctx.number(beta))  # type: ignore[arg-type]
    if b == 0:
        raise Unsupported("smooth_l1_loss_backward with beta 0")
    return _clipped(ctx, grad_output, self, target, reduction, Fraction(1), 1 / b)


@lowers("aten.huber_loss_backward.default")
def _huber_backward(
    ctx: LowerContext, grad_output: Value, self: Value, target: Value, reduction: int, delta: Any
) -> Value:
    d = Fraction(ctx.number(delta))  # type: ignore[arg-type]
    return _clipped(ctx, grad_output, self, target, reduction, d, Fraction(1))
