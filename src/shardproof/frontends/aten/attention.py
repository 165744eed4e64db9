"""Scaled dot-product attention in its many forms."""

from __future__ import annotations

import math
from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.registry import lowers
from shardproof.frontends.aten.shape import repeat_interleave
from shardproof.ir.graph import Value
from shardproof.ir.sizes import div_mod, product


def _scale(q: Value, scale: Any) -> float:
    if scale is not None:
        return float(scale)
    d = q.shape[-1]
    if not isinstance(d, int):
        raise Unsupported("the default attention scale of a symbolic head size")
    return 1 / math.sqrt(d)


def _no_dropout(ctx: LowerContext, p: Any) -> None:
    if p and ctx.facts.dropout != "off":
        raise Unsupported("attention with dropout inside the kernel")


def _four_dims(ctx: LowerContext, x: Value) -> Value:
    """[b, h, t, d]: leading dims merged, missing ones added."""
    lead = x.shape[:-2]
    if len(lead) == 2:
        return x
    b, h = (product(lead[:-1]), lead[-1]) if lead else (1, 1)
    return ctx.reshape(x, (b, h, *x.shape[-2:]))


def _shared_heads(ctx: LowerContext, q: Value, kv: Value) -> Value:
    """Key or value heads repeated to one for each query head."""
    if kv.shape[1] == q.shape[1]:
        return kv
    groups, rest = div_mod(q.shape[1], kv.shape[1])
    if rest != 0:
        raise Unsupported("query heads that are no multiple of the key heads")
    return repeat_interleave(ctx, kv, groups, 1)


def attention(
    ctx: LowerContext, q: Value, k: Value, v: Value, mask: Value | None, causal: bool, scale: Any
) -> tuple[Value, Value]:
    """Output and log-sum-exp of attention over the last two dims."""
    q4 = _four_dims(ctx, q)
    k4, v4 = (_shared_heads(ctx, q4, _four_dims(ctx, x)) for x in (k, v))
    masks = [] if mask is None else [_mask(ctx, q, mask)]
    out, lse = ctx.emit_all(
        "attention", q4, k4, v4, *masks, causal=causal, scale=ctx.number(_scale(q, scale))
    )
    return ctx.reshape(out, (*q.shape[:-1], v.shape[-1])), lse


def _mask(ctx: LowerContext, q: Value, mask: Value) -> Value:
    extra = len(q.shape) - 4
    if extra <= 0 or len(mask.shape) <= 3:
        return ctx.reshape(mask, mask.shape[-extra:]) if extra and len(mask.shape) > 4 else mask
    wide = ctx.expand(mask, (*q.shape[:-3], *mask.shape[-3:]))
    return ctx.reshape(wide, (product(q.shape[:-3]), *mask.shape[-3:]))


def _same_lengths(q: Value, k: Value, causal: bool, axis: int = -2) -> None:
    """Which keys a causal query sees is a matter of the kernel where the lengths differ."""
    if causal and q.shape[axis] != k.shape[axis]:
        raise Unsupported("causal attention of this kernel between different lengths")


@lowers("aten._scaled_dot_product_flash_attention.default")
def _flash(
    ctx: LowerContext, query: Value, key: Value, value: Value, dropout_p: Any = 0.0,
    is_causal: bool = False, return_debug_mask: bool = False, *, scale: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    _same_lengths(query, key, is_causal)
    out, lse = attention(ctx, query, key, value, None, is_causal, scale)
    return (out, lse, None, None, query.shape[-2], key.shape[-2], None, None, None)


@lowers("aten._scaled_dot_product_flash_attention_for_cpu.default")
def _flash_cpu(
    ctx: LowerContext, query: Value, key: Value, value: Value, dropout_p: Any = 0.0,
    is_causal: bool = False, *, attn_mask: Any = None, scale: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    return attention(ctx, query, key, value, attn_mask, is_causal, scale)


@lowers("aten._scaled_dot_product_efficient_attention.default")
def _efficient(
    ctx: LowerContext, query: Value, key: Value, value: Value, attn_bias: Any,
    compute_log_sumexp: bool, dropout_p: Any = 0.0, is_causal: bool = False, *, scale: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    out, lse = attention(ctx, query, key, value, attn_bias, is_causal, scale)
    return (out, lse, None, None)


@lowers("aten._scaled_dot_product_cudnn_attention.default")
def _cudnn(
    ctx: LowerContext, query: Value, key: Value, value: Value, attn_bias: Any,
    compute_log_sumexp: bool, dropout_p: Any = 0.0, is_causal: bool = False,
    return_debug_mask: bool = False, *, scale: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    _same_lengths(query, key, is_causal)
    out, lse = attention(ctx, query, key, value, attn_bias, is_causal, scale)
    return (out, lse, None, None, query.shape[-2], key.shape[-2], None, None, None)


@lowers("aten.scaled_dot_product_attention.default")
def _public(
    ctx: LowerContext, query: Value, key: Value, value: Value, attn_mask: Any = None,
    dropout_p: Any = 0.0, is_causal: bool = False, *, scale: Any = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    return attention(ctx, query, key, value, attn_mask, is_causal, scale)[0]


@lowers("aten._scaled_dot_product_attention_math.default",
        "aten._scaled_dot_product_attention_math_for_mps.default")  # fmt: skip
def _math(
    ctx: LowerContext, query: Value, key: Value, value: Value, attn_mask: Any = None,
    dropout_p: Any = 0.0, is_causal: bool = False, dropout_mask: Any = None, *,
    scale: Any = None, enable_gqa: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    if ctx.wanted(1) or dropout_mask is not None:
        raise Unsupported("the weights of _scaled_dot_product_attention_math")
    return (attention(ctx, query, key, value, attn_mask, is_causal, scale)[0], None)


# ------------------------------------------------------------------------------ backward


def _gradient(
    ctx: LowerContext, grad: Value, q: Value, k: Value, v: Value, out: Value, lse: Value,
    mask: Value | None, causal: bool, scale: Any,
) -> tuple[Value, ...]:  # fmt: skip
    if len(q.shape) != 4:
        raise Unsupported("attention backward of tensors without batch and head dims")
    wide = [_shared_heads(ctx, q, x) for x in (k, v)]
    masks = [] if mask is None else [mask]
    rows = q.shape[:3]
    if lse.shape != rows:  # padded to a multiple of a block size by some kernels
        lse = ctx.slice(lse, 2, 0, rows[2])
    dq, dk, dv = ctx.emit_all(
        "attention_grad", grad, q, *wide, out, lse, *masks,
        causal=causal, scale=ctx.number(_scale(q, scale)),
    )  # fmt: skip
    return dq, _own_heads(ctx, dk, k), _own_heads(ctx, dv, v)


def _own_heads(ctx: LowerContext, g: Value, kv: Value) -> Value:
    """The gradient of repeated heads, summed over the repetitions."""
    b, h, *rest = kv.shape
    if g.shape[1] == h:
        return g
    groups = div_mod(g.shape[1], h)[0]
    return ctx.sum(ctx.reshape(g, (b, h, groups, *rest)), (2,))


@lowers("aten._scaled_dot_product_flash_attention_for_cpu_backward.default")
def _flash_cpu_backward(
    ctx: LowerContext, grad_out: Value, query: Value, key: Value, value: Value, out: Value,
    logsumexp: Value, dropout_p: Any, is_causal: bool, *, attn_mask: Any = None, scale: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    return _gradient(ctx, grad_out, query, key, value, out, logsumexp, attn_mask, is_causal, scale)


@lowers("aten._scaled_dot_product_flash_attention_backward.default")
def _flash_backward(
    ctx: LowerContext, grad_out: Value, query: Value, key: Value, value: Value, out: Value,
    logsumexp: Value, cum_seq_q: Any, cum_seq_k: Any, max_q: Any, max_k: Any, dropout_p: Any,
    is_causal: bool, philox_seed: Any, philox_offset: Any, *, scale: Any = None,
) -> tuple[Value, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    _same_lengths(query, key, is_causal)
    return _gradient(ctx, grad_out, query, key, value, out, logsumexp, None, is_causal, scale)


@lowers("aten._scaled_dot_product_efficient_attention_backward.default")
def _efficient_backward(
    ctx: LowerContext, grad_out_: Value, query: Value, key: Value, value: Value, attn_bias: Any,
    out: Value, logsumexp: Value, philox_seed: Any, philox_offset: Any, dropout_p: Any,
    grad_input_mask: Any, is_causal: bool = False, *, scale: Any = None,
) -> tuple[Value | None, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    if ctx.wanted(3):
        raise Unsupported("the gradient of the attention bias")
    bias = attn_bias if isinstance(attn_bias, Value) else None
    grads = _gradient(ctx, grad_out_, query, key, value, out, logsumexp, bias, is_causal, scale)
    return (*grads, None)


# ------------------------------------------------------------------------------ [b, t, h, d]


def _heads_first(ctx: LowerContext, x: Value) -> Value:
    if len(x.shape) != 4:
        raise Unsupported("attention over packed sequences of varying length")
    return ctx.permute(x, (0, 2, 1, 3))


@lowers("aten._flash_attention_forward.default")
def _flash_forward(
    ctx: LowerContext, query: Value, key: Value, value: Value, cum_seq_q: Any, cum_seq_k: Any,
    max_q: Any, max_k: Any, dropout_p: Any, is_causal: bool, return_debug_mask: bool, *,
    scale: Any = None, **special: Any,
) -> tuple[Any, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    if cum_seq_q is not None or any(v not in (None, -1) for v in special.values()):
        raise Unsupported("flash attention over packed sequences, windows or biases")
    _same_lengths(query, key, is_causal, 1)
    q, k, v = (_heads_first(ctx, x) for x in (query, key, value))
    out, lse = attention(ctx, q, k, v, None, is_causal, scale)
    return (_heads_first(ctx, out), lse, None, None, None)


@lowers("aten._efficient_attention_forward.default")
def _efficient_forward(
    ctx: LowerContext, query: Value, key: Value, value: Value, bias: Any, cu_seqlens_q: Any,
    cu_seqlens_k: Any, max_seqlen_q: Any, max_seqlen_k: Any, dropout_p: Any,
    custom_mask_type: int, compute_log_sumexp: bool = False, *, scale: Any = None,
    seqlen_k: Any = None, window_size: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    _no_dropout(ctx, dropout_p)
    if cu_seqlens_q is not None or seqlen_k is not None or window_size is not None:
        raise Unsupported("efficient attention over packed sequences or windows")
    causal = custom_mask_type != 0
    if custom_mask_type == 2:  # aligned at the last query and key
        _same_lengths(query, key, causal, 1)
    q, k, v = (_heads_first(ctx, x) for x in (query, key, value))
    out, lse = attention(ctx, q, k, v, bias, causal, scale)
    return (_heads_first(ctx, out), lse, None, None, query.shape[1], key.shape[1])
