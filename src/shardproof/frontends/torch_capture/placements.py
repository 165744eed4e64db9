"""DTensor placements as rules of the Spec."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

from torch.distributed.tensor.placement_types import Partial as TorchPartial
from torch.distributed.tensor.placement_types import Replicate as TorchReplicate
from torch.distributed.tensor.placement_types import Shard as TorchShard
from torch.distributed.tensor.placement_types import _StridedShard

from shardproof.errors import InputError
from shardproof.frontends.torch_capture.capture import Described
from shardproof.ir.graph import Mesh
from shardproof.spec.expression import Expr, seq
from shardproof.spec.placement import Partial, Parts, Placement, Shard

Rule = Any
"""A placement by axis, or a function of the rank that returns an expression."""


def rule_of(name: str, source: str, found: Described, mesh: Mesh) -> Rule:
    """What each rank holds of the sequential tensor ``source``.

    Raises:
        InputError: a placement or its mesh has no counterpart in the Spec.
    """
    assert found.placements is not None
    assert found.whole is not None
    placements = dict(found.placements)
    unknown = [a for a in placements if a not in dict(mesh.axes)]
    if unknown or len(placements) != len(found.placements):
        raise _error(
            name,
            f"a DeviceMesh with the dims {list(placements)}; the Spec has the mesh {mesh}",
            "use the DeviceMesh that the builder receives, or parts of it",
        )
    split = [(axis, p) for axis, p in placements.items() if not isinstance(p, TorchReplicate)]
    cuts = [d for d in (getattr(p, "dim", None) for _, p in split) if d is not None]
    if _even(split, found.whole, mesh):
        return {axis: _placement(name, p, found.whole) for axis, p in split}
    if len(set(cuts)) == len(cuts) and not any(_strided(p) for _, p in split):
        return {axis: _uneven(name, p, found.whole, mesh, axis) for axis, p in split}
    return _by_rank(name, source, split, found.whole, mesh)


def _strided(p: Any) -> bool:
    return isinstance(p, _StridedShard)


def _even(split: list[tuple[str, Any]], whole: tuple[int, ...], mesh: Mesh) -> bool:
    left = list(whole)
    for axis, p in split:
        if isinstance(p, TorchPartial):
            continue
        n = int(mesh.extent(axis))  # type: ignore[arg-type]
        factor = p.split_factor if _strided(p) else 1
        if left[p.dim] % (n * factor):
            return False
        left[p.dim] //= n
    return True


def _placement(name: str, p: Any, whole: tuple[int, ...]) -> Placement:
    if isinstance(p, TorchPartial):
        if p.reduce_op != "sum":
            raise _error(name, f"Partial({p.reduce_op!r})", "reduce it before it is returned")
        return Partial()
    if _strided(p):
        return Parts(p.dim, [whole[p.dim] // p.split_factor] * p.split_factor)
    return Shard(p.dim)


def chunks(n: int, parts: int) -> list[int]:
    """Sizes of ``torch.chunk``, with zeros for the ranks that get nothing."""
    each = -(-n // parts)
    return [max(min(each, n - k * each), 0) for k in range(parts)]


def _uneven(name: str, p: Any, whole: tuple[int, ...], mesh: Mesh, axis: str) -> Placement:
    if not isinstance(p, TorchShard):
        return _placement(name, p, whole)
    n = int(mesh.extent(axis))  # type: ignore[arg-type]
    if whole[p.dim] % n == 0:
        return Shard(p.dim)
    return Shard(p.dim, sizes=chunks(whole[p.dim], n))


def _by_rank(
    name: str, source: str, split: list[tuple[str, Any]], whole: tuple[int, ...], mesh: Mesh
) -> Callable[[int], Expr]:
    """A slice by rank: the axes of later dims cut first where FSDP cut what TP had cut."""
    if any(isinstance(p, TorchPartial) for _, p in split):
        raise _error(name, "uneven shards that are Partial", "redistribute it first")
    ordered = [s for s in split if not _strided(s[1])] + [s for s in split if _strided(s[1])]

    def at(rank: int) -> Expr:
        where = mesh.coordinates(rank)
        bounds: list[tuple[int, int]] = [(0, n) for n in whole]
        for axis, p in ordered:
            a, b = bounds[p.dim]
            sizes = chunks(b - a, int(mesh.extent(axis)))  # type: ignore[arg-type]
            starts = [0, *accumulate(sizes)]
            k = where[axis]
            bounds[p.dim] = (a + starts[k], a + starts[k] + sizes[k])
        return seq(source)[tuple(slice(a, b) for a, b in bounds)]

    return at


def _error(name: str, what: str, next_step: str) -> InputError:
    return InputError(
        f"{name} lies on {what}" if "mesh" in what else f"{name} is {what}",
        where="placements of the distributed program",
        expected="Replicate, Shard or Partial sums on the mesh of the Spec",
        next_step=next_step,
    )
