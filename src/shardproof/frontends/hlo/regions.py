"""Borders of a region that each device runs, in modules that are not partitioned yet: outside of
it every rank holds whole tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np

from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
from shardproof.frontends.hlo.topology import Ids, tiles

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


# ---------------------------------------------------------------- the older form


def full_to_shard(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Each device's part of a whole tensor; the operand says how it is cut."""
    x = ctx.value(xs[0])
    ids = _tiles(ctx, ctx.sources[0].attrs.get("sharding", ""), len(x.shape))
    place = _position(ctx, ids)
    for d, count in enumerate(ids.shape[:-1]):
        n = x.shape[d]
        if not isinstance(n, int) or n % count:
            raise Unsupported("a tensor that is cut into uneven parts")
        if count > 1:
            part = n // count
            x = ctx.slice(x, d, place[d] * part, (place[d] + 1) * part)
    return x


def shard_to_full(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """A whole tensor from the parts of all devices."""
    x = ctx.value(xs[0])
    ids = _tiles(ctx, ctx.instruction.attrs.get("sharding", ""), len(x.shape))
    place = _position(ctx, ids)
    for d, count in enumerate(ids.shape[:-1]):
        if count > 1:
            line = ids[tuple(slice(None) if k == d else p for k, p in enumerate(place))]
            group = tuple(int(r) for r in line)
            x = ctx.emit("all_gather", x, dim=d, group=group, group_size=count)
    return x


def _tiles(ctx: HloContext, text: str, rank: int) -> Ids:
    """The devices of each tile; the last axis counts those that hold the same one."""
    try:
        ids = tiles(text, rank, ctx.facts.replicas * ctx.facts.partitions)
    except ValueError as e:
        raise Unsupported(f"a region on each device with the sharding {text[:60]}") from e
    return ids


def _position(ctx: HloContext, ids: Ids) -> tuple[int, ...]:
    found = np.argwhere(ids == ctx.facts.rank)
    if len(found) != 1:
        raise Unsupported("a sharding that does not name every device once")
    return tuple(int(k) for k in found[0])
