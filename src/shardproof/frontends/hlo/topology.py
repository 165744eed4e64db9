"""Which ranks a collective of a module joins: every printed form of ``replica_groups``."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from shardproof.frontends.hlo.context import Facts
from shardproof.frontends.hlo.shapes import HloSyntaxError

Groups = tuple[tuple[int, ...], ...]
_LIST = re.compile(r"\{([\d,\s]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")


def listed_groups(text: str) -> Groups:
    """The groups that are printed: ``{{0,1},{2,3}}``, ``[2,4]<=[8]``, ``[4,2]<=[2,4]T(1,0)``;
    none for ``{}``.

    Raises:
        HloSyntaxError: another form.
    """
    text = text.strip()
    iota = _IOTA.fullmatch(text)
    if iota is not None:
        shape, source, perm = (_ints(part or "") for part in iota.groups())
        if np.prod(shape) != np.prod(source) or np.prod(shape) > 1 << 20 or len(shape) != 2:
            raise HloSyntaxError(f"replica_groups={text[:60]}")
        table = np.arange(int(np.prod(source))).reshape(source)
        if perm:
            if sorted(perm) != list(range(len(source))):
                raise HloSyntaxError(f"replica_groups={text[:60]}")
            table = table.transpose(perm)
        return tuple(tuple(int(r) for r in row) for row in table.reshape(shape))
    if text in ("", "{}"):
        return ()
    if not re.fullmatch(r"\{[{}\d,\s]*\}", text):
        raise HloSyntaxError(f"replica_groups={text[:60]}")
    return tuple(_ints(m[1]) for m in _LIST.finditer(text[1:-1]))


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
    groups = listed_groups(attrs.get("replica_groups", ""))
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
        raise HloSyntaxError(f"no group of {attrs.get('replica_groups', '')[:60]} has rank {mine}")
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
