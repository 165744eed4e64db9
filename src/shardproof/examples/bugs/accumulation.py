"""F12 and F13: tied weights across stages; accumulation buffers, overlap, order.

Buffers are named values here: what a program does to one over several micro-batches is a line of
its own. Gradients of micro-batches are inputs.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

DP2 = Mesh(dp=2)
RATE = 0.1


def micro(bug: str, distributed: Any, mesh: Mesh = DP2, count: int = 2) -> Spec:
    """A step of SGD on the mean of the gradients of ``count`` micro-batches. Every rank has two
    rows of each of ``g0``, ``g1``, ..., one row a sample."""

    def sequential(w: Any, **g: Any) -> Any:
        return w - RATE * sum(t.mean(0) for t in g.values())

    inputs = {"w": p.f32(6)}
    at = {a: Shard(0) for a, _ in mesh.axes}
    rows = 2 * prod(n for _, n in mesh.axes if isinstance(n, int))
    inputs.update({f"g{k}": p.f32(rows, 6, at=at) for k in range(count)})
    return p.spec(sequential, distributed, mesh, inputs, step="forward")


def average(t: Any) -> Any:
    t = t.clone()
    dist.all_reduce(t, dist.ReduceOp.AVG)
    return t


def first_only(bug: str) -> Spec:
    """Only the gradient of micro-step 0 reaches the buffer."""

    def distributed(w: Any, g0: Any, g1: Any, g2: Any) -> Any:
        buffer = torch.zeros_like(w)
        for k, g in enumerate((g0, g1, g2)):
            if bug == "B128" and k > 0:
                continue  # planted: B128
            buffer = buffer + g.mean(0)
        return w - RATE * average(buffer)  # carries: B128

    return micro(bug, distributed, count=3)


def doubled_buffer(bug: str) -> Spec:
    """In a group of one rank the buffer is added to itself."""

    def distributed(w: Any, g0: Any, g1: Any) -> Any:
        buffer = g0.mean(0)
        if bug == "B130":
            buffer = buffer + buffer  # planted: B130
        buffer = buffer + g1.mean(0)  # carries: B130
        return w - RATE * buffer  # carries: B130

    return micro(bug, distributed, Mesh(dp=1))


def reused_buffer(bug: str) -> Spec:
    """The gathered parameters stay in the buffer on which gradients are added."""

    def distributed(w: Any, g0: Any, g1: Any) -> Any:
        buffer = p.gathered(p.mine(w))
        if bug != "B131":
            buffer = torch.zeros_like(buffer)  # planted: B131
        buffer = buffer + g0.mean(0) + g1.mean(0)  # carries: B131
        return w - RATE * average(buffer)  # carries: B131

    return micro(bug, distributed)


def cleared_between(bug: str) -> Spec:
    """Gradients are cleared between two micro-batches."""

    def distributed(w: Any, g0: Any, g1: Any) -> Any:
        buffer = torch.zeros_like(w) + g0.mean(0)
        if bug == "B133":
            buffer = torch.zeros_like(buffer)  # planted: B133
        buffer = buffer + g1.mean(0)
        return w - RATE * average(buffer)  # carries: B133

    return micro(bug, distributed)


def never_averaged(bug: str) -> Spec:
    """Hooks or flags that start the reduction are not there any more."""

    def distributed(w: Any, g0: Any, g1: Any) -> Any:
        buffer = g0.mean(0) + g1.mean(0)  # carries: B134, B139
        if bug not in ("B134", "B139"):
            buffer = average(buffer)  # planted: B134, B139
        return w - RATE * buffer  # carries: B134, B139

    return micro(bug, distributed)


def lost_part(bug: str) -> Spec:
    """A partition of the accumulated gradient is missing."""

    def distributed(w: Any, g0: Any, g1: Any) -> Any:
        mine = p.mine(average(g0.mean(0)) + average(g1.mean(0)))
        if bug == "B136":
            mine = p.mine(average(g1.mean(0)))  # planted: B136
        return p.gathered(p.mine(w) - RATE * mine)  # carries: B136

    return micro(bug, distributed)


def reduced_too_early(bug: str) -> Spec:
    """The reduction is launched before the last, deferred term of the gradient."""

    def distributed(w: Any, g0: Any, g1: Any) -> Any:
        if bug == "B127":
            buffer = average(g0.mean(0)) + g1.mean(0)  # planted: B127
        else:
            buffer = average(g0.mean(0) + g1.mean(0))
        return w - RATE * buffer  # carries: B127

    return micro(bug, distributed)


def tied(bug: str) -> Spec:
    """The embedding on the first stage and the head on the last one are one weight."""

    def sequential(w: Any, first: Any, last: Any) -> Any:
        return w - RATE * (first + last)

    def distributed(w: Any, first: Any, last: Any) -> Any:
        grad = first if dist.get_rank() == 0 else last
        if bug != "B125":
            grad = p.summed(grad)  # planted: B125
        return w - RATE * grad  # carries: B125

    inputs = {n: p.f32(6, 3) for n in ("w", "first", "last")}
    return p.spec(sequential, distributed, Mesh(pp=2), inputs, step="forward")


def tied_and_scattered(bug: str) -> Spec:
    """The copies lie at different offsets of buffers that are reduce-scattered over dp first."""
    groups: dict[str, Any] = {}

    def built(mesh: Any, rank: int) -> None:
        groups.update(pp=mesh.get_group("pp"), dp=mesh.get_group("dp"))

    def sequential(w: Any, first: Any, last: Any) -> Any:
        return w - RATE * (first.mean(0) + last.mean(0))

    def distributed(w: Any, first: Any, last: Any) -> Any:
        stage = dist.get_rank() // 2
        grad = first.mean(0) if stage == 0 else last.mean(0)
        if bug == "B124":
            # Only the half that this rank owns is reduced when the stages meet.
            half = p.scattered(grad, 0, groups["dp"]) / 2  # planted: B124
            own = dist.get_rank() % 2 if stage == 0 else 0
            parts = list(grad.chunk(2))
            parts[own] = half  # planted: B124
            grad = p.summed(torch.cat(parts), groups["pp"])  # planted: B124
        else:
            grad = p.summed(p.summed(grad, groups["pp"]), groups["dp"]) / 2
        return w - RATE * grad  # carries: B124

    rows = {"dp": Shard(0)}
    inputs = {"w": p.f32(6), "first": p.f32(4, 6, at=rows), "last": p.f32(4, 6, at=rows)}
    return p.spec(sequential, distributed, Mesh(pp=2, dp=2), inputs, built=built, step="forward")


BUGS = [
    Bug("B124", "Y-bwd", "tied gradients met when only half was reduced", tied_and_scattered),
    Bug("B125", "Y-opt", "tied weight's gradients not summed over stages", tied),
    Bug("B127", "P", "reduction launched before a deferred term", reduced_too_early),
    Bug("B128", "P", "gradients after the first micro-step dropped", first_only),
    Bug("B130", "P", "buffer added to itself in a group of one", doubled_buffer),
    Bug("B131", "P", "gradients added to stale parameters", reused_buffer),
    Bug("B133", "P", "gradients cleared between micro-batches", cleared_between),
    Bug("B134", "P", "synchronisation flag read too early", never_averaged),
    Bug("B136", "P", "part of the accumulated gradient missing", lost_part),
    Bug("B139", "P", "hooks that reduce gradients are gone", never_averaged),
]
