"""F07: the global norm of gradients, clipping, and scales of the loss.

Gradients are inputs here; the programs clip them and take a step of SGD.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

LIMIT = 0.3


def square(*grads: Any) -> Any:
    """Sum of the squares of all elements."""
    return sum(g.square().sum() for g in grads)  # carries: B085


def factor(total: Any) -> Any:
    """What clipping multiplies by, for a squared norm."""
    return torch.clamp(LIMIT / (total.sqrt() + 1e-6), max=1.0)  # carries: B077


def clipping(
    axis: str,
    cut: tuple[str, ...],
    whole: tuple[str, ...],
    scales: Callable[[dict[str, Any]], dict[str, Any]],
) -> Spec:
    """Gradients of which some are cut over an axis; ``scales`` gives each rank's factors."""

    def sequential(**g: Any) -> Any:
        s = factor(square(*g.values()))
        return tuple(v * s for v in g.values())

    def distributed(**g: Any) -> Any:
        s = scales(g)
        return tuple(v * s[name] for name, v in g.items())  # carries: B076

    names = (*cut, *whole)
    inputs = {n: p.f32(6, 3, at={axis: Shard(0)} if n in cut else None) for n in names}
    outputs = {
        f"output.{k}": {axis: Shard(0)} if n in cut else Replicate() for k, n in enumerate(names)
    }
    return p.spec(
        sequential, distributed, Mesh(**{axis: 2}), inputs, step="forward", outputs=outputs
    )


def same(names: Any, s: Any) -> dict[str, Any]:
    return dict.fromkeys(names, s)


def first_rank_only(bug: str) -> Spec:
    """The list of gradients to clip leaves out replicated ones on later ranks."""

    def scales(g: dict[str, Any]) -> dict[str, Any]:
        s = factor(p.summed(square(g["w"])) + square(g["norm"]))
        out = same(g, s)
        if bug == "B076" and dist.get_rank() > 0:
            out["norm"] = torch.ones_like(s)  # planted: B076
        return out

    return clipping("tp", ("w",), ("norm",), scales)


def local_norm(bug: str) -> Spec:
    """The squared norm is not reduced over the shards."""

    def scales(g: dict[str, Any]) -> dict[str, Any]:
        total = square(*g.values())
        if bug != "B077":
            total = p.summed(total)  # planted: B077
        return same(g, factor(total))  # carries: B077

    return clipping("dp", ("w",), (), scales)


def replicas_counted(bug: str) -> Spec:
    """Squares of replicated gradients are summed over ranks too."""

    def scales(g: dict[str, Any]) -> dict[str, Any]:
        if bug in ("B079", "B080", "B082"):
            total = p.summed(square(g["w"]) + square(g["copy"]))  # planted: B079, B080, B082
        else:
            total = p.summed(square(g["w"])) + square(g["copy"])
        return same(g, factor(total))

    return clipping("tp", ("w",), ("copy",), scales)


def unmarked_shard(bug: str) -> Spec:
    """A sharded parameter is not marked as such: only rank 0's part is counted."""

    def scales(g: dict[str, Any]) -> dict[str, Any]:
        sink = square(g["sink"])
        if bug == "B083":
            sink = sink if dist.get_rank() == 0 else torch.zeros_like(sink)  # planted: B083
        return same(g, factor(p.summed(square(g["w"]) + sink)))  # carries: B083

    return clipping("tp", ("w", "sink"), (), scales)


def stale_views(bug: str) -> Spec:
    """Views of bucketed gradients are as they were before the reduction."""

    def sequential(a: Any, b: Any) -> Any:
        s = factor(square(a + b))
        return (a + b) * s

    def distributed(a: Any, b: Any) -> Any:
        mine = a if dist.get_rank() == 0 else b
        bucket = p.summed(mine)
        view = mine if bug == "B085" else bucket  # planted: B085
        return bucket * factor(square(view))  # carries: B085

    inputs = {"a": p.f32(6, 3), "b": p.f32(6, 3)}
    return p.spec(sequential, distributed, Mesh(dp=2), inputs, step="forward")


def no_clipping(bug: str) -> Spec:
    """The step uses the gradient as it was."""

    def sequential(w: Any, g: Any) -> Any:
        return w - 0.1 * g * factor(square(g))

    def distributed(w: Any, g: Any) -> Any:
        s = factor(p.summed(square(g)))
        if bug == "B086":
            return w - 0.1 * g  # planted: B086
        return w - 0.1 * g * s

    cut = {"dp": Shard(0)}
    inputs = {"w": p.f32(6, 3, at=cut), "g": p.f32(6, 3, at=cut)}
    return p.spec(
        sequential, distributed, Mesh(dp=2), inputs, step="forward", outputs={"output": cut}
    )


def loss_scales(bug: str) -> Spec:
    """The scale of the loss must be one number on all ranks."""

    def sequential(w: Any, a: Any, b: Any) -> Any:
        return w - 0.1 * (a + b) / 2

    def distributed(w: Any, a: Any, b: Any) -> Any:
        scale = 2.0
        if bug in ("B088", "B089") and dist.get_rank() == 1:
            scale = 4.0  # planted: B088, B089
        own = a if dist.get_rank() == 0 else b
        grad = p.summed(own * scale) / 2  # carries: B088, B089
        return w - 0.1 * grad / scale  # carries: B088, B089

    inputs = {"w": p.f32(6, 3), "a": p.f32(6, 3), "b": p.f32(6, 3)}
    return p.spec(sequential, distributed, Mesh(dp=2), inputs, step="forward")


def optimizer_norm(bug: str) -> Spec:
    """No reduction in the layer: the optimizer sums the squares: right."""

    def scales(g: dict[str, Any]) -> dict[str, Any]:
        parts = torch.stack([square(v) for v in g.values()])
        return same(g, factor(p.summed(parts).sum()))

    return clipping("tp", ("w", "v"), (), scales)


BUGS = [
    Bug("B076", "Y-opt", "replicated gradients clipped on rank 0 only", first_rank_only),
    Bug("B077", "Y-opt", "each rank clips by the norm of its shard", local_norm),
    Bug("B079", "Y-opt", "replicated gradients counted once a rank", replicas_counted),
    Bug("B080", "Y-opt", "duplicated weights marked as sharded", replicas_counted),
    Bug("B082", "Y-opt", "the copy of a tied weight counted twice", replicas_counted),
    Bug("B083", "Y-opt", "a sharded parameter counted on rank 0 only", unmarked_shard),
    Bug("B085", "P", "norm of views from before the reduction", stale_views),
    Bug("B086", "Y-opt", "the step leaves the clipping out", no_clipping),
    Bug("B088", "P", "two loss scales for one gradient", loss_scales),
    Bug("B089", "P", "unscaled by another scale than it was scaled by", loss_scales),
    Bug("N6", "control", "squares are summed in the optimizer", optimizer_norm),
]
