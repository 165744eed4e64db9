"""A Qwen2 layer from vLLM, two ranks: tensor and vocabulary parallelism, custom kernels.

vLLM's kernels are declared below in a few lines each. Where a kernel has a simple meaning it is
spelled out; rotary embedding and attention are only said to act on each head, or on each group of
heads that shares keys and values, separately: no more is needed. Run

    shardproof check examples/qwen2.py
"""

from __future__ import annotations

from shardproof import Mesh, Parts, Replicate, Shard, Spec
from shardproof.data import graph_files
from shardproof.frontends.aten import LowerContext
from shardproof.ir.graph import Value

HEADS, KV_HEADS, SIZE = 12, 2, 128


def rms_norm(
    ctx: LowerContext, result: Value, input: Value, weight: Value, epsilon: float
) -> Value:
    """RMSNorm of `input` over its last dim, written to `result`."""
    y, _ = ctx.emit_all("rms_norm", input, weight, naxes=1, eps=ctx.number(epsilon))
    return y


def fused_add_rms_norm(
    ctx: LowerContext, input: Value, residual: Value, weight: Value, epsilon: float
) -> tuple[Value, Value]:
    """RMSNorm of `input + residual`, written to `input`; the sum is written to `residual`."""
    total = ctx.add(input, residual)
    return rms_norm(ctx, input, total, weight, epsilon), total


def silu_and_mul(ctx: LowerContext, out: Value, input: Value) -> Value:
    """silu of the first half of the last dim times the second half."""
    gate, up = (ctx.slice(input, 1, k * out.shape[1], (k + 1) * out.shape[1]) for k in (0, 1))
    return ctx.mul(ctx.emit("silu", gate), up)


def rotary_embedding(
    ctx: LowerContext, positions: Value, query: Value, key: Value, head_size: int,
    cos_sin_cache: Value, is_neox: bool,
) -> tuple[Value, Value]:  # fmt: skip
    """Rotates each head of `query` and `key` by its token's position: some function of the
    position, the head and the whole table, the same one for every token and head."""

    def rotated(x: Value) -> Value:
        heads = ctx.reshape(x, (x.shape[0], -1, head_size))
        y = ctx.emit(
            "signature_call", heads, positions, cos_sin_cache, target="rotary",
            signature="t h d!, t, p! c! -> t h d", parameters=(is_neox,),
        )  # fmt: skip
        return ctx.reshape(y, x.shape)

    return rotated(query), rotated(key)


def attention(
    ctx: LowerContext, query: Value, key: Value, value: Value, output: Value, layer_name: str
) -> Value:
    """Attention of the query heads on the keys and values of their group, each group alike."""
    tokens, _, size = query.shape
    groups = key.shape[1]
    grouped = ctx.reshape(query, (tokens, groups, -1, size))
    y = ctx.emit(
        "signature_call", grouped, key, value, target="attention",
        signature="t! g m d!, s! g e!, s! g e! -> t g m d", parameters=(layer_name,),
    )  # fmt: skip
    return ctx.reshape(y, query.shape)


KERNELS = {
    "_C.rms_norm": rms_norm,
    "_C.fused_add_rms_norm": fused_add_rms_norm,
    "_C.silu_and_mul": silu_and_mul,
    "_C.rotary_embedding": rotary_embedding,
    "vllm.unified_attention_with_output": attention,
}
QKV = Parts(0, (HEADS * SIZE, KV_HEADS * SIZE, KV_HEADS * SIZE))


def tp2() -> Spec:
    """Two ranks, one of two key and value heads each."""
    return Spec.from_graphs(
        name="vLLM Qwen2 layer, tp=2",
        sequential=graph_files("qwen2/tp1")[0],
        distributed=graph_files("qwen2/tp2"),
        mesh=Mesh(tp=2),
        inputs={
            "arg1_1": Shard(0),  # embedding: each rank has half of the vocabulary
            "arg3_1": QKV,  # bias of query, key and value
            "arg4_1": QKV,  # and their weight
            "arg7_1": Shard(1),  # attention output weight
            "arg9_1": Parts(0, (8960, 8960)),  # gate and up weight
            "arg10_1": Shard(1),  # down weight
            "*": Replicate(),  # token ids, positions, norms, the table of rotations
        },
        outputs={"getitem_34": Replicate()},
        groups={"tp:0": "tp"},
        kernels=KERNELS,
    )
