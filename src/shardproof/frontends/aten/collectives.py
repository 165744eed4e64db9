"""Functional collectives.

A collective over one rank is the identity and leaves no node. A group's name becomes the tuple
of global ranks that the user declared for it, and stays as the name of the communicator.
"""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import Group, LowerContext, NoValue, Unsupported
from shardproof.frontends.aten.registry import lowers
from shardproof.ir.graph import Value, is_bool

_REDUCTIONS = {
    "sum": "sum", "avg": "avg", "mean": "avg", "max": "max", "min": "min", "product": "product",
}  # fmt: skip


def _reduction(ctx: LowerContext, op: Any, x: Value) -> str:
    kind = _REDUCTIONS.get(str(op).lower().removeprefix("reduceop."))
    if kind is None:
        raise Unsupported(f"the reduction {op!r}")
    if is_bool(x.dtype) and kind not in ("max", "min"):
        raise ctx.fail(
            f"the {kind} of booleans over the ranks",
            "numbers: backends count booleans in different ways",
            "cast the tensor first, or take max (any) or min (all)",
        )
    return kind


def start(ctx: LowerContext, collective: str, x: Value, group: Group, /, **attrs: Any) -> Value:
    """Emit a collective whose result must be waited for; the identity in a group of one."""
    if len(group.ranks) == 1:
        return x
    out = ctx.emit(collective, x, **group.attrs(), **attrs)
    ctx.in_flight.add(out)
    return out


def finish(ctx: LowerContext, x: Value) -> Value:
    """Wait for ``x`` if a collective is still writing it."""
    if x not in ctx.in_flight:
        return x
    ctx.in_flight.discard(x)
    return ctx.emit("wait", x)


def all_reduce(ctx: LowerContext, x: Value, op: Any, group: Group) -> Value:
    """Start an all-reduce."""
    return start(ctx, "all_reduce", x, group, op=_reduction(ctx, op, x))


def all_gather(ctx: LowerContext, x: Value, group: Group) -> Value:
    """Start an all-gather; the pieces are joined along dim 0."""
    return start(ctx, "all_gather", x if x.shape else ctx.reshape(x, (1,)), group, dim=0)


def reduce_scatter(ctx: LowerContext, x: Value, op: Any, group: Group) -> Value:
    """Start a reduce-scatter along dim 0."""
    return start(ctx, "reduce_scatter", x, group, op=_reduction(ctx, op, x), dim=0)


def all_to_all(ctx: LowerContext, x: Value, recv: Any, send: Any, group: Group) -> Value:
    """Start an all-to-all along dim 0; ``recv`` and ``send`` are empty or None if even."""
    if not recv and not send:
        return start(ctx, "all_to_all", x, group, split_dim=0, concat_dim=0)
    if len(set(recv)) == 1 and tuple(recv) == tuple(send):
        return start(ctx, "all_to_all", x, group, split_dim=0, concat_dim=0)
    return start(
        ctx, "all_to_all", x, group, split_dim=0, concat_dim=0,
        send_sizes=tuple(send), recv_sizes=tuple(recv),
    )  # fmt: skip


def broadcast(ctx: LowerContext, x: Value, src: int, group: Group) -> Value:
    """Start a broadcast from the member with index ``src`` in the group."""
    if not 0 <= src < len(group.ranks):
        raise ctx.fail(
            f"broadcast from member {src} of a group of {len(group.ranks)}",
            "a source that is an index in the group",
            "check the group declaration: " + str(group.ranks),
        )
    return start(ctx, "broadcast", x, group, src=group.ranks[src])


# ------------------------------------------------------------------------------ _c10d_functional


@lowers("_c10d_functional.all_reduce.default")
def _all_reduce(ctx: LowerContext, input: Value, reduce_op: Any, group_name: Any) -> Value:
    return all_reduce(ctx, input, reduce_op, ctx.group(group_name))


@lowers("vllm.all_reduce.default")
def _vllm_all_reduce(ctx: LowerContext, tensor: Value, group_name: Any) -> Value:
    return finish(ctx, all_reduce(ctx, tensor, "sum", ctx.group(group_name)))


@lowers("_c10d_functional.all_gather_into_tensor.default")
def _all_gather(ctx: LowerContext, input: Value, group_size: int, group_name: Any) -> Value:
    return all_gather(ctx, input, ctx.group(group_name, group_size))


@lowers("_c10d_functional.all_gather_into_tensor_out.default")
def _all_gather_out(
    ctx: LowerContext, input: Value, group_size: int, group_name: Any, *, out: Any = None
) -> Value:
    return all_gather(ctx, input, ctx.group(group_name, group_size))


@lowers("_c10d_functional.reduce_scatter_tensor.default")
def _reduce_scatter(
    ctx: LowerContext, input: Value, reduce_op: Any, group_size: int, group_name: Any
) -> Value:
    return reduce_scatter(ctx, input, reduce_op, ctx.group(group_name, group_size))


@lowers("_c10d_functional.reduce_scatter_tensor_out.default")
def _reduce_scatter_out(
    ctx: LowerContext, input: Value, reduce_op: Any, group_size: int, group_name: Any,
    *, out: Any = None,
) -> Value:  # fmt: skip
    return reduce_scatter(ctx, input, reduce_op, ctx.group(group_name, group_size))


@lowers("_c10d_functional.all_to_all_single.default")
def _all_to_all(
    ctx: LowerContext, input: Value, output_split_sizes: Any, input_split_sizes: Any,
    group_name: Any,
) -> Value:  # fmt: skip
    return all_to_all(ctx, input, output_split_sizes, input_split_sizes, ctx.group(group_name))


@lowers("_c10d_functional.broadcast.default")
def _broadcast(ctx: LowerContext, input: Value, src: int, group_name: Any) -> Value:
    return broadcast(ctx, input, src, ctx.group(group_name))


@lowers("_c10d_functional.wait_tensor.default", "c10d_functional.wait_tensor.default")
def _wait(ctx: LowerContext, tensor: Value) -> Value:
    return finish(ctx, tensor)


@lowers("_c10d_functional.all_reduce_coalesced.default")
def _all_reduce_list(ctx: LowerContext, inputs: Any, reduce_op: Any, group_name: Any) -> Any:
    group = ctx.group(group_name)
    return tuple(all_reduce(ctx, x, reduce_op, group) for x in inputs)


@lowers("_c10d_functional.all_gather_into_tensor_coalesced.default")
def _all_gather_list(ctx: LowerContext, inputs: Any, group_size: int, group_name: Any) -> Any:
    group = ctx.group(group_name, group_size)
    return tuple(all_gather(ctx, x, group) for x in inputs)


@lowers("_c10d_functional.reduce_scatter_tensor_coalesced.default")
def _reduce_scatter_list(
    ctx: LowerContext, inputs: Any, reduce_op: Any, group_size: int, group_name: Any
) -> Any:
    group = ctx.group(group_name, group_size)
    return tuple(reduce_scatter(ctx, x, reduce_op, group) for x in inputs)


# -- point to point; source and destination are global ranks


@lowers("_c10d_functional.isend.default")
def _isend(ctx: LowerContext, tensor: Value, dst: int, tag: int, group_name: Any) -> NoValue:
    ctx.emit_all("send", tensor, dst=dst, tag=tag, **ctx.group(group_name).attrs())
    return NoValue("a send has no result")


@lowers("_c10d_functional.wait_sent.default")
def _wait_sent(ctx: LowerContext, handle: str) -> NoValue:
    """Recorded by the live capture only."""
    ctx.emit_all("wait_sent", handle=handle)
    return NoValue("waiting for a send has no result")


@lowers("_c10d_functional.irecv.default")
def _irecv(ctx: LowerContext, tensor: Value, src: int, tag: int, group_name: Any) -> Value:
    out = ctx.emit(
        "recv", src=src, tag=tag, **ctx.group(group_name).attrs(),
        shape=tensor.shape, dtype=tensor.dtype,
    )  # fmt: skip
    ctx.in_flight.add(out)
    return out


@lowers("_c10d_functional.batch_p2p_ops.default")
def _batch_p2p(
    ctx: LowerContext, op_list: Any, peer_list: Any, tag_list: Any, tensors: Any, group_name: Any
) -> Any:
    return tuple(
        (_irecv if op == "irecv" else _isend)(ctx, x, peer, tag, group_name)
        for op, peer, tag, x in zip(op_list, peer_list, tag_list, tensors, strict=True)
    )


# ------------------------------------------------------------------------------ c10d_functional
# The older form names the ranks instead of a group.


def _ranks(ctx: LowerContext, ranks: Any, size: int, tag: Any) -> Group:
    """This rank's group among the listed ranks, which may be several groups in a row."""
    flat = tuple(ranks)
    for k in range(0, len(flat), size):
        part = flat[k : k + size]
        if ctx.facts.rank in part:
            return Group(part, str(tag))
    raise ctx.fail(
        f"the ranks {flat} of the collective {ctx.statement.name!r} do not contain rank "
        f"{ctx.facts.rank}",
        "a group with the rank that calls the collective",
        "check which rank this file was printed on",
    )


@lowers("c10d_functional.all_reduce.default")
def _old_all_reduce(
    ctx: LowerContext, self: Value, reduceOp: Any, tag: Any, ranks: Any, group_size: int
) -> Value:
    return all_reduce(ctx, self, reduceOp, _ranks(ctx, ranks, group_size, tag))


@lowers("c10d_functional.all_gather_into_tensor.default")
def _old_all_gather(
    ctx: LowerContext, shard: Value, tag: Any, ranks: Any, group_size: int
) -> Value:
    return all_gather(ctx, shard, _ranks(ctx, ranks, group_size, tag))


@lowers("c10d_functional.reduce_scatter_tensor.default")
def _old_reduce_scatter(
    ctx: LowerContext, input: Value, reduceOp: Any, tag: Any, ranks: Any, group_size: int
) -> Value:
    return reduce_scatter(ctx, input, reduceOp, _ranks(ctx, ranks, group_size, tag))


@lowers("c10d_functional.broadcast.default")
def _old_broadcast(
    ctx: LowerContext, self: Value, src: int, tag: Any, ranks: Any, group_size: int
) -> Value:
    return broadcast(ctx, self, src, _ranks(ctx, ranks, group_size, tag))


@lowers("c10d_functional.all_to_all_single.default")
def _old_all_to_all(
    ctx: LowerContext, input: Value, output_split_sizes: Any, input_split_sizes: Any, tag: Any,
    ranks: Any, group_size: int,
) -> Value:  # fmt: skip
    group = _ranks(ctx, ranks, group_size, tag)
    return all_to_all(ctx, input, output_split_sizes, input_split_sizes, group)
