"""Collectives, and the borders of a region that runs once a device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
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


# ---------------------------------------------------------------- regions that run on each device

_VALUE = re.compile(r"<@\w+, \[(.*?)\](?:, replicated=\{[^}]*\})?(?:, unreduced=\{[^}]*\})?>")
_DIM = re.compile(r"\{([^{}]*)\}")


def _shardings(ctx: HloContext, key: str) -> list[list[list[str]]]:
    """For each value and each dim the mesh axes that cut it, the outermost first."""
    text = ctx.instruction.attrs.get("frontend_attributes", "").replace("\\", "")
    m = re.search(key + r'="(.*?)>"', text)
    if m is None or ":(" in m[1]:
        raise Unsupported("a region on each device with a sharding of another form")
    return [
        [re.findall(r'"([^"]+)"', dim) for dim in _DIM.findall(value)]
        for value in _VALUE.findall(m[1])
    ]


def _place(ctx: HloContext, axes: Sequence[str]) -> tuple[int, list[int]]:
    """This rank's position along ``axes``, and the ranks along them in order."""
    mesh = ctx.module.global_mesh
    if any(a not in mesh for a in axes):
        raise Unsupported("a mesh axis that the module does not name")
    strides, step = {}, 1
    for a in reversed(list(mesh)):
        strides[a] = step
        step *= mesh[a]
    rank = ctx.facts.rank
    mine = [rank // strides[a] % mesh[a] for a in axes]
    position = 0
    for a, c in zip(axes, mine, strict=True):
        position = position * mesh[a] + c
    base = rank - sum(c * strides[a] for a, c in zip(axes, mine, strict=True))
    members = []
    for k in range(prod(mesh[a] for a in axes)):
        r, rest = base, k
        for a in reversed(axes):
            r += rest % mesh[a] * strides[a]
            rest //= mesh[a]
        members.append(r)
    return position, members


def global_to_local(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Each device's part of whole tensors."""
    outs: list[Held] = []
    for x, dims in zip(ctx.listed(xs), _shardings(ctx, "in_shardings"), strict=True):
        for d, axes in enumerate(dims):
            if axes:
                k, members = _place(ctx, axes)
                n = x.shape[d]
                assert isinstance(n, int)
                part = n // len(members)
                x = ctx.slice(x, d, k * part, k * part + part)
        outs.append(x)
    return tuple(outs) if isinstance(ctx.instruction.shape, tuple) else outs[0]


def local_to_global(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Whole tensors from the parts of all devices."""
    outs: list[Held] = []
    for x, dims in zip(ctx.listed(xs), _shardings(ctx, "out_shardings"), strict=True):
        for d, axes in enumerate(dims):
            if axes:
                _, members = _place(ctx, axes)
                if len(members) > 1:
                    x = ctx.emit("all_gather", x, dim=d, group=tuple(members),
                                 group_size=len(members))  # fmt: skip
        outs.append(x)
    return tuple(outs) if isinstance(ctx.instruction.shape, tuple) else outs[0]
