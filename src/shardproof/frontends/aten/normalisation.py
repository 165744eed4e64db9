"""Layer norm, root-mean-square norm, group norm, and their backward operators."""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.registry import lowers
from shardproof.ir.graph import Value, is_float
from shardproof.ir.sizes import Size, product

# What PyTorch uses where rms_norm is given no eps.
_MACHINE_EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


def _axes(x: Value, normalized_shape: Any) -> int:
    n = len(normalized_shape)
    if not n or x.shape[-n:] != tuple(normalized_shape):
        raise Unsupported("a normalised shape that is not that of the trailing dims")
    return n


def _weights(ctx: LowerContext, x: Value, n: int, weight: Any, bias: Any) -> list[Value]:
    """Weight and bias as operands; a missing weight before a bias is one."""
    if bias is None:
        return [] if weight is None else [weight]
    w = ctx.full(1, x.shape[-n:], bias.dtype) if weight is None else weight
    return [w, bias]


def layer_norm(
    ctx: LowerContext, x: Value, n: int, weight: Any, bias: Any, eps: Any
) -> tuple[Value, Value, Value]:
    """Output, mean and reciprocal deviation; the statistics keep the normalised dims as 1."""
    ws = _weights(ctx, x, n, weight, bias)
    y, mean, rstd = ctx.emit_all("layer_norm_affine", x, *ws, naxes=n, eps=ctx.number(eps))
    kept = _kept(x, n)
    return (
        y,
        ctx.reshape(mean, kept) if ctx.wanted(1) else mean,
        ctx.reshape(rstd, kept) if ctx.wanted(2) else rstd,
    )


def _kept(x: Value, n: int) -> tuple[Size, ...]:
    return (*x.shape[:-n], *(1,) * n)


@lowers("aten.native_layer_norm.default")
def _native_layer_norm(
    ctx: LowerContext, input: Value, normalized_shape: Any, weight: Any, bias: Any, eps: Any
) -> tuple[Value, ...]:
    return layer_norm(ctx, input, _axes(input, normalized_shape), weight, bias, eps)


@lowers("aten.layer_norm.default")
def _layer_norm(
    ctx: LowerContext, input: Value, normalized_shape: Any, weight: Any = None, bias: Any = None,
    eps: Any = 1e-05, cudnn_enable: bool = True,
) -> Value:  # fmt: skip
    return layer_norm(ctx, input, _axes(input, normalized_shape), weight, bias, eps)[0]


def outer_sum(ctx: LowerContext, x: Value, n: int) -> Value:
    """Sum over all dims but the last ``n``."""
    return ctx.sum(x, tuple(range(len(x.shape) - n)))


@lowers("aten.native_layer_norm_backward.default")
def _native_layer_norm_backward(
    ctx: LowerContext, grad_out: Value, input: Value, normalized_shape: Any, mean: Value,
    rstd: Value, weight: Any, bias: Any, output_mask: Any,
) -> tuple[Value | None, ...]:  # fmt: skip
    return layer_norm_grads(
        ctx, grad_out, input, _axes(input, normalized_shape), mean, rstd, weight, output_mask
    )


def layer_norm_grads(
    ctx: LowerContext, dy: Value, x: Value, n: int, mean: Value, rstd: Value, weight: Any,
    output_mask: Any = (True, True, True),
) -> tuple[Value | None, ...]:  # fmt: skip
    """Gradients of x, weight and bias; None for those that are masked out or not read."""
    wanted = [m and ctx.wanted(k) for k, m in enumerate(output_mask)]
    outer = x.shape[:-n]
    dx = dw = db = None
    if wanted[0]:
        stats = [ctx.reshape(s, outer) for s in (mean, rstd)]
        ws = [] if weight is None else [weight]
        dx = ctx.emit("layer_norm_grad", dy, x, *stats, *ws, naxes=n)
    if wanted[1]:
        m, r = (ctx.reshape(s, _kept(x, n)) for s in (mean, rstd))
        normal = ctx.mul(ctx.sub(x, m), r)
        dw = outer_sum(ctx, ctx.mul(dy, normal), n)
    if wanted[2]:
        db = outer_sum(ctx, dy, n)
    return dx, dw, db


# ------------------------------------------------------------------------------ rms norm


def rms_norm(ctx: LowerContext, x: Value, n: int, weight: Any, eps: Any) -> tuple[Value, Value]:
    """Output and reciprocal root mean square, which keeps the normalised dims as 1."""
    if eps is None:
        eps = _MACHINE_EPSILON.get(x.dtype)
        if eps is None or not is_float(x.dtype):
            raise Unsupported("rms_norm without eps")
    ws = [] if weight is None else [weight]
    y, rstd = ctx.emit_all("rms_norm", x, *ws, naxes=n, eps=ctx.number(eps))
    return y, ctx.reshape(rstd, _kept(x, n)) if ctx.wanted(1) else rstd


@lowers("aten._fused_rms_norm.default")
def _fused_rms_norm(
    ctx: LowerContext, input: Value, normalized_shape: Any, weight: Any, eps: Any
) -> tuple[Value, ...]:
    return rms_norm(ctx, input, _axes(input, normalized_shape), weight, eps)


@lowers("aten.rms_norm.default")
def _rms_norm(
    ctx: LowerContext, input: Value, normalized_shape: Any, weight: Any = None, eps: Any = None
) -> Value:
    return rms_norm(ctx, input, _axes(input, normalized_shape), weight, eps)[0]


@lowers("aten._fused_rms_norm_backward.default")
def _fused_rms_norm_backward(
    ctx: LowerContext, grad_out: Value, input: Value, normalized_shape: Any, rstd: Value,
    weight: Any, output_mask: Any,
) -> tuple[Value | None, ...]:  # fmt: skip
    x, n = input, _axes(input, normalized_shape)
    dx = dw = None
    if output_mask[0] and ctx.wanted(0):
        ws = [] if weight is None else [weight]
        flat = ctx.reshape(rstd, x.shape[:-n])
        dx = ctx.emit("rms_norm_grad", grad_out, x, flat, *ws, naxes=n)
    if output_mask[1] and ctx.wanted(1):
        normal = ctx.mul(x, ctx.reshape(rstd, _kept(x, n)))
        dw = outer_sum(ctx, ctx.mul(grad_out, normal), n)
    return dx, dw


# ------------------------------------------------------------------------------ group norm


@lowers("aten.native_group_norm.default")
def _native_group_norm(
    ctx: LowerContext, input: Value, weight: Any, bias: Any, N: Any, C: Any, HxW: Any,
    group: int, eps: Any,
) -> tuple[Value, ...]:  # fmt: skip
    x = input
    rows = ctx.reshape(x, (N, group, product(x.shape[1:]) // group))
    y, mean, rstd = ctx.emit_all("layer_norm_affine", rows, naxes=1, eps=ctx.number(eps))
    y = ctx.reshape(y, x.shape)
    channel = (C, *(1,) * (len(x.shape) - 2))
    if weight is not None:
        y = ctx.mul(y, ctx.reshape(weight, channel))
    if bias is not None:
        y = ctx.add(y, ctx.reshape(bias, channel))
    return y, mean, rstd


@lowers("aten.native_group_norm_backward.default")
def _native_group_norm_backward(
    ctx: LowerContext, grad_out: Value, input: Value, mean: Value, rstd: Value, weight: Any,
    N: Any, C: Any, HxW: Any, group: int, output_mask: Any,
) -> tuple[Value | None, ...]:  # fmt: skip
    x, dy = input, grad_out
    wanted = [m and ctx.wanted(k) for k, m in enumerate(output_mask)]
    rows = (N, group, product(x.shape[1:]) // group)
    others = tuple(k for k in range(len(x.shape)) if k != 1)
    dx = dw = db = None
    if wanted[0]:
        channel = (C, *(1,) * (len(x.shape) - 2))
        h = dy if weight is None else ctx.mul(dy, ctx.reshape(weight, channel))
        h, wide = ctx.reshape(h, rows), ctx.reshape(x, rows)
        dx = ctx.reshape(ctx.emit("layer_norm_grad", h, wide, mean, rstd, naxes=1), x.shape)
    if wanted[1]:
        m, r = (ctx.reshape(s, (N, group, 1)) for s in (mean, rstd))
        normal = ctx.mul(ctx.sub(ctx.reshape(x, rows), m), r)
        dw = ctx.sum(ctx.mul(dy, ctx.reshape(normal, x.shape)), others)
    if wanted[2]:
        db = ctx.sum(dy, others)
    return dx, dw, db
