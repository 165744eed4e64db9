"""Which ranks a collective of a module joins: every printed form of ``replica_groups``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardproof.frontends.hlo.context import Facts
from shardproof.frontends.hlo.shapes import HloSyntaxError

Groups = tuple[tuple[int, ...], ...]
Ids = np.ndarray[Any, np.dtype[Any]]
_LIST = re.compile(r"\{([\d,\s]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"mesh\[(.*?)\](?:,\s*device_ids=\((.*?)\))?\s*\{(.*)\}")
_DEVICES = re.compile(r"\[([\d,]+)\](?:T\(([\d,]+)\))?")
_AXIS = re.compile(r"'([^']+)'(?:=(\d+)|:\((\d+)\)(\d+))?")
MAX_RANKS = 1 << 20


def groups_text(attrs: dict[str, str]) -> str:
    """The text of the groups; the form with mesh axes goes on after a comma."""
    text = attrs.get("replica_groups", "").strip()
    if text.startswith("mesh[") and "device_ids" in attrs:
        text += f", device_ids={attrs['device_ids']}"
    return text


def listed_groups(text: str) -> Groups:
    """The groups that are printed: ``{{0,1},{2,3}}``, ``[2,4]<=[8]``, ``[4,2]<=[2,4]T(1,0)``,
    ``mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)) {'a'}``; none for ``{}``.

    Raises:
        HloSyntaxError: another form.
    """
    iota, mesh = _IOTA.fullmatch(text), _MESH.fullmatch(text)
    try:
        if iota is not None:
            shape, source, perm = (_ints(part or "") for part in iota.groups())
            rows = _arranged(source, perm).reshape(shape)
        elif mesh is not None:
            rows = _along_axes(*mesh.groups())
        elif text in ("", "{}"):
            return ()
        elif re.fullmatch(r"\{(\s*\{[\d,\s]*\}\s*,?)*\}", text):
            return tuple(_ints(m[1]) for m in _LIST.finditer(text[1:-1]))
        else:
            raise ValueError("another form")
        if rows.ndim != 2:
            raise ValueError("no list of groups")
    except (ValueError, KeyError) as e:
        raise HloSyntaxError(f"replica_groups={text[:80]}") from e
    return tuple(tuple(int(r) for r in row) for row in rows)


def _arranged(source: tuple[int, ...], perm: tuple[int, ...]) -> Ids:
    """0, 1, 2, ... in the shape ``source``, transposed."""
    size = int(np.prod(source))
    if not 0 < size <= MAX_RANKS:
        raise ValueError("too many ranks")
    ids = np.arange(size).reshape(source)
    return ids.transpose(perm) if perm else ids


def _along_axes(axes: str, devices: str | None, chosen: str) -> Ids:
    """Groups along some axes of a mesh; an axis may be cut, ``'a':(2)4`` is the part of size 4
    after one of size 2."""
    sizes = {name: int(n) for name, n, _, _ in _AXIS.findall(axes)}
    if devices is None:
        ids = _arranged(tuple(sizes.values()), ())
    elif devices.startswith("["):
        m = _DEVICES.fullmatch(devices)
        if m is None:
            raise ValueError("device ids of another form")
        ids = _arranged(_ints(m[1]), _ints(m[2] or ""))
    else:
        ids = np.array(_ints(devices))
    shape: list[int] = []
    grouped: list[int] = []
    picked = {name: (int(pre or 1), int(n) if n else sizes[name])
              for name, _, pre, n in _AXIS.findall(chosen)}  # fmt: skip
    places: dict[str, int] = {}
    for name, n in sizes.items():
        if name in picked:
            pre, part = picked[name]
            shape += [pre, part, n // (pre * part)]
            places[name] = len(shape) - 2
        else:
            shape.append(n)
    grouped = [places[name] for name in picked]
    rest = [k for k in range(len(shape)) if k not in grouped]
    width = int(np.prod([shape[k] for k in grouped]))
    return ids.reshape(shape).transpose(*rest, *grouped).reshape(-1, width)


def tiles(text: str, rank: int, devices: int) -> Ids:
    """The devices that hold each tile of a tensor with ``rank`` dims, from the text of a
    sharding: ``{devices=[2,1,4]<=[8] last_tile_dim_replicate}``, ``{replicated}``. One more axis
    counts the devices that hold the same tile.

    Raises:
        ValueError: another form.
    """
    if "replicated" in text:
        return np.arange(devices).reshape([1] * rank + [devices])
    m = re.search(r"devices=(\[[\d,]+\])(<=\[[\d,]+\](?:T\([\d,]+\))?|[\d,]+)", text)
    if m is None or "last_tile_dims" in text:
        raise ValueError("another form")
    shape = _ints(m[1][1:-1])
    if m[2].startswith("<="):
        source, _, perm = m[2][2:].partition("T")
        ids = _arranged(_ints(source.strip("[]")), _ints(perm.strip("()")))
    else:
        ids = np.array(_ints(m[2]))
    same = () if "last_tile_dim_replicate" in text else (1,)
    ids = ids.reshape((*shape, *same))
    if ids.ndim != rank + 1:
        raise ValueError("another number of dims")
    return ids


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(x) for x in text.split(",") if x.strip())


def own_group(attrs: dict[str, str], facts: Facts, permutes: bool = False) -> tuple[int, ...]:
    """The global ranks, in group order, that ``facts.rank`` joins.

    Global rank ``r`` is replica ``r // partitions``, partition ``r % partitions``. Without a
    channel the printed numbers are replicas; with one they are partitions (where the operator
    has no other form), or global ranks if ``use_global_device_ids`` says so.

    Raises:
        HloSyntaxError: this rank is in no group.
    """
    groups = listed_groups(groups_text(attrs))
    channel = "channel_id" in attrs
    count = facts.partitions
    if attrs.get("use_global_device_ids") == "true":
        mine, size, step, parts = facts.rank, facts.replicas * count, 1, [0]
    elif channel and permutes:
        mine, size, step, parts = facts.partition, count, 1, [facts.replica * count]
    else:
        mine, size, step = facts.replica, facts.replicas, count
        parts = list(range(count)) if channel else [facts.partition]
    groups = groups or (tuple(range(size)),)
    found = next((g for g in groups if mine in g), None)
    if found is None:
        raise HloSyntaxError(f"no group of {groups_text(attrs)[:80]} has rank {mine}")
    return _inside([x * step + p for x in found for p in parts], facts)


def _inside(ranks: Sequence[int], facts: Facts) -> tuple[int, ...]:
    size = facts.replicas * facts.partitions
    if any(not 0 <= r < size for r in ranks) or len(set(ranks)) != len(ranks):
        raise HloSyntaxError(f"the group {tuple(ranks)} does not fit {size} ranks")
    return tuple(ranks)


def own_pairs(attrs: dict[str, str], facts: Facts) -> tuple[list[int], list[int]]:
    """``(ranks that send to this rank, ranks that it sends to)`` of a collective-permute.

    Raises:
        HloSyntaxError: the pairs do not fit.
    """
    pairs = [_ints(m[1]) for m in _LIST.finditer(attrs.get("source_target_pairs", "")[1:])]
    if any(len(p) != 2 for p in pairs):
        raise HloSyntaxError(f"source_target_pairs={attrs.get('source_target_pairs', '')[:60]}")
    if "channel_id" in attrs:
        mine, first, step = facts.partition, facts.replica * facts.partitions, 1
    else:
        mine, first, step = facts.replica, facts.partition, facts.partitions
    sources = [first + a * step for a, b in pairs if b == mine]
    targets = [first + b * step for a, b in pairs if a == mine]
    if len(sources) > 1:
        raise HloSyntaxError(f"rank {mine} receives from several ranks")
    _inside([*sources], facts)
    _inside([*targets], facts)
    return sources, targets
