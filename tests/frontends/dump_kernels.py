"""Meanings of the custom kernels in the published dumps, as a user would give them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardproof.examples.kernels import MEGATRON
from shardproof.frontends.aten import LowerContext
from shardproof.frontends.aten.shape import repeat_interleave
from shardproof.ir.graph import Value
from shardproof.ir.sizes import div_mod


def rms_norm(
    ctx: LowerContext, result: Value, input: Value, weight: Value, epsilon: float
) -> Value:
    """Writes the normalised input into ``result``."""
    return ctx.emit_all("rms_norm", input, weight, naxes=1, eps=ctx.number(epsilon))[0]


def fused_add_rms_norm(
    ctx: LowerContext, input: Value, residual: Value, weight: Value, epsilon: float
) -> tuple[Value, Value]:
    """New values of both mutated arguments: the normalised sum, and the sum."""
    total = ctx.add(input, residual)
    return rms_norm(ctx, input, total, weight, epsilon), total


def silu_and_mul(ctx: LowerContext, out: Value, input: Value) -> Value:
    """silu(first half) * second half of the last dim."""
    d = len(input.shape) - 1
    half = div_mod(input.shape[d], 2)[0]
    gate, up = ctx.slice(input, d, 0, half), ctx.slice(input, d, half, input.shape[d])
    return ctx.mul(ctx.emit("silu", gate), up)


def rotary_embedding(
    ctx: LowerContext, positions: Value, query: Value, key: Value, head_size: int,
    cos_sin_cache: Value, is_neox: bool,
) -> tuple[Value, Value]:  # fmt: skip
    """Both mutated arguments, rotated head by head."""
    assert is_neox
    half = head_size // 2
    table = ctx.unsqueeze(ctx.emit("take_rows", cos_sin_cache, positions), 1)
    cos, sin = ctx.slice(table, 2, 0, half), ctx.slice(table, 2, half, head_size)

    def rotate(x: Value) -> Value:
        heads = ctx.reshape(x, (x.shape[0], -1, head_size))
        a, b = ctx.slice(heads, 2, 0, half), ctx.slice(heads, 2, half, head_size)
        parts = (
            ctx.sub(ctx.mul(a, cos), ctx.mul(b, sin)),
            ctx.add(ctx.mul(b, cos), ctx.mul(a, sin)),
        )
        return ctx.reshape(ctx.concat(parts, 2), x.shape)

    return rotate(query), rotate(key)


def unified_attention(
    ctx: LowerContext, query: Value, key: Value, value: Value, output: Value, layer_name: str
) -> Value:
    """Causal attention over the tokens; ``[t, heads, d]`` with shared key and value heads."""
    groups = div_mod(query.shape[1], key.shape[1])[0]

    def four(x: Value) -> Value:
        return ctx.unsqueeze(ctx.permute(x, (1, 0, 2)), 0)

    wide = [repeat_interleave(ctx, four(x), groups, 1) for x in (key, value)]
    scale = ctx.number(1 / math.sqrt(int(str(query.shape[2]))))
    out, _ = ctx.emit_all("attention", four(query), *wide, causal=True, scale=scale)
    return ctx.permute(ctx.drop(out, 0), (1, 0, 2))


KERNELS: dict[str, Callable[..., Any]] = {
    **MEGATRON,
    "_C.rms_norm": rms_norm,
    "_C.fused_add_rms_norm": fused_add_rms_norm,
    "_C.silu_and_mul": silu_and_mul,
    "_C.rotary_embedding": rotary_embedding,
    "vllm.unified_attention_with_output": unified_attention,
}
