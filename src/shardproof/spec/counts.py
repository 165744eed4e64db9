"""Unequal counts of rows along a mesh axis, and how tensors made of these rows then lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shardproof.ir.graph import Mesh
from shardproof.spec.outputs import Output
from shardproof.spec.placement import Replicate, Shard, by_axis, is_placement


@dataclass(frozen=True, slots=True)
class Counts:
    """The rows of each rank along ``axis``."""

    axis: str
    rows: tuple[int, ...]

    def sizes(self, n: int) -> tuple[int, ...]:
        """How ``n`` elements lie that are so many to a row; empty if they are no whole number."""
        total = sum(self.rows)
        return () if n % total else tuple(r * (n // total) for r in self.rows)


def recut(rule: Any, whole: Sequence[int], counts: Counts, mesh: Mesh) -> Any:
    """A rule for an output with its even shards along the axis cut as the rows are."""
    if isinstance(rule, Output):
        return replace(rule, placement=recut(rule.placement, whole, counts, mesh))
    if isinstance(rule, tuple):
        return tuple(recut(x, whole, counts, mesh) for x in rule)
    if not is_placement(rule):
        return rule
    placements = by_axis(rule, mesh, "outputs")
    p = placements.get(counts.axis)
    if not isinstance(p, Shard) or p.sizes is not None or not -len(whole) <= p.dim < len(whole):
        return rule
    sizes = counts.sizes(whole[p.dim])
    return {**placements, counts.axis: Shard(p.dim, sizes=sizes)} if sizes else rule


def proposed(
    whole: Sequence[int], parts: Sequence[Sequence[int]], counts: Counts, mesh: Mesh
) -> Mapping[str, Any] | None:
    """The placement that the shapes of the parts, one a rank, show to be a cut by rows; None where
    they show no single one."""
    if all(tuple(p) == tuple(whole) for p in parts):
        return {axis: Replicate() for axis, _ in mesh.axes}
    dims = [d for d in range(len(whole)) if any(p[d] != whole[d] for p in parts)]
    if len(dims) != 1 or len(parts) != mesh.size:
        return None
    (d,) = dims
    sizes = counts.sizes(whole[d])
    held = [sizes[mesh.coordinates(k)[counts.axis]] if sizes else -1 for k in range(len(parts))]
    return {counts.axis: Shard(d, sizes=sizes)} if [p[d] for p in parts] == held else None
