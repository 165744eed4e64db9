"""Meanings of the custom operators that the captured graphs use.

A kernel is a function that builds, with core operators, what the custom operator computes. It is
a fact of the check, and the verdict lists it.
"""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import LowerContext
from shardproof.frontends.aten.normalisation import layer_norm_grads
from shardproof.ir.graph import Value


def apex_layer_norm(
    ctx: LowerContext, x: Value, weight: Value, bias: Value, shape: tuple[int, ...], eps: float
) -> tuple[Value, ...]:
    """LayerNorm over the trailing `shape`, with mean and inverse deviation, one a row."""
    y, mean, rstd = ctx.emit_all(
        "layer_norm_affine", x, weight, bias, naxes=len(shape), eps=ctx.number(eps)
    )
    rows = (mean.type.numel,)
    return y, ctx.reshape(mean, rows), ctx.reshape(rstd, rows)


def apex_layer_norm_backward(
    ctx: LowerContext, dy: Value, mean: Value, rstd: Value, x: Value, shape: tuple[int, ...],
    weight: Value, *_: Any,
) -> tuple[Value | None, ...]:  # fmt: skip
    """Gradients of input, weight and bias of that LayerNorm."""
    return layer_norm_grads(ctx, dy, x, len(shape), mean, rstd, weight)


def label(ctx: LowerContext, x: Value, name: str) -> Value:
    """Its argument: it only labels a tensor."""
    return x


def label_in_place(ctx: LowerContext, s: str, t: Value) -> Value:
    """The new value of its argument, which it leaves unchanged: it only labels a tensor."""
    return t


MEGATRON = {
    "apex.fused_layer_norm_affine_fwd": apex_layer_norm,
    "apex.fused_layer_norm_affine_bwd": apex_layer_norm_backward,
    "tg.log_tensor": label,
    "tg.inplace_log_tensor": label_in_place,
}
