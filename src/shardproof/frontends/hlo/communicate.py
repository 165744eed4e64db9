"""Collectives."""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.frontends.hlo.context import Held, HloContext
from shardproof.frontends.hlo.reduce import reducer, reduction
from shardproof.frontends.hlo.registry import lowers
from shardproof.frontends.hlo.shapes import HloSyntaxError
from shardproof.frontends.hlo.topology import own_group, own_pairs
from shardproof.ir.graph import Value


def _one_or_more(outs: list[Value]) -> Held:
    return outs[0] if len(outs) == 1 else tuple(outs)


@lowers("all-reduce", "all-reduce-start")
def _all_reduce(ctx: HloContext, xs: Sequence[Held]) -> Held:
    group = own_group(ctx.instruction.attrs, ctx.facts)
    values = ctx.listed(xs)
    if len(group) == 1:
        return _one_or_more(values)
    kind = reducer(ctx)
    return _one_or_more([
        ctx.emit("all_reduce", x, op=reduction(ctx, kind, x.dtype), group=group,
                 group_size=len(group))
        for x in values
    ])  # fmt: skip


@lowers("all-gather", "all-gather-start")
def _all_gather(ctx: HloContext, xs: Sequence[Held]) -> Held:
    group = own_group(ctx.instruction.attrs, ctx.facts)
    (dim,) = ctx.instruction.ints("dimensions")
    values = ctx.listed(xs)
    if len(group) == 1:
        return _one_or_more(values)
    return _one_or_more([
        ctx.emit("all_gather", x, dim=dim, group=group, group_size=len(group)) for x in values
    ])  # fmt: skip


@lowers("reduce-scatter")
def _reduce_scatter(ctx: HloContext, xs: Sequence[Held]) -> Held:
    group = own_group(ctx.instruction.attrs, ctx.facts)
    (dim,) = ctx.instruction.ints("dimensions")
    values = ctx.listed(xs)
    if len(group) == 1:
        return _one_or_more(values)
    kind = reducer(ctx)
    return _one_or_more([
        ctx.emit("reduce_scatter", x, op=reduction(ctx, kind, x.dtype), dim=dim, group=group,
                 group_size=len(group))
        for x in values
    ])  # fmt: skip


@lowers("all-to-all")
def _all_to_all(ctx: HloContext, xs: Sequence[Held]) -> Held:
    group = own_group(ctx.instruction.attrs, ctx.facts, permutes=True)
    values, dims = ctx.listed(xs), ctx.instruction.ints("dimensions")
    n = len(group)
    if n == 1:
        return tuple(values) if isinstance(ctx.instruction.shape, tuple) else values[0]
    if not isinstance(ctx.instruction.shape, tuple):
        return ctx.emit("all_to_all", values[0], split_dim=dims[0], concat_dim=dims[0],
                        group=group, group_size=n)  # fmt: skip
    if len(values) != n:
        raise HloSyntaxError(f"{len(values)} parts for a group of {n}")
    rows = ctx.concat([ctx.unsqueeze(v, 0) for v in values], 0)
    moved = ctx.emit("all_to_all", rows, split_dim=0, concat_dim=0, group=group, group_size=n)
    return tuple(ctx.drop(ctx.slice(moved, 0, k, k + 1), 0) for k in range(n))


@lowers("collective-permute", "collective-permute-start")
def _permute(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Messages between ranks; a rank that nobody sends to gets zeros."""
    sources, targets = own_pairs(ctx.instruction.attrs, ctx.facts)
    outs: list[Value] = []
    for x in ctx.listed(xs):
        ctx.channel += 1
        outs.append(_exchange(ctx, x, sources, targets))
    return _one_or_more(outs)


def _exchange(ctx: HloContext, x: Value, sources: list[int], targets: list[int]) -> Value:
    me, tag = ctx.facts.rank, ctx.channel
    for dst in targets:
        if dst != me:
            # Buffered: all members of a permutation send at once.
            group = (me, dst)
            ctx.emit_all("send", x, dst=dst, tag=tag, group=group, group_size=2, **{"async": True})
    if not sources:
        return ctx.full(0, x.shape, x.dtype)
    (src,) = sources
    if src == me:
        return x
    return ctx.emit("recv", src=src, tag=tag, group=(src, me), group_size=2, shape=x.shape,
                    dtype=x.dtype)  # fmt: skip


@lowers("collective-broadcast")
def _broadcast(ctx: HloContext, xs: Sequence[Held]) -> Held:
    group = own_group(ctx.instruction.attrs, ctx.facts, permutes=True)
    (x,) = ctx.listed(xs)
    if len(group) == 1:
        return x
    return ctx.emit("broadcast", x, src=group[0], group=group, group_size=len(group))


@lowers("all-reduce-done", "all-gather-done", "collective-permute-done")
def _done(ctx: HloContext, xs: Sequence[Held]) -> Held:
    return xs[0]
