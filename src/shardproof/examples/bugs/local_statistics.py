"""F06: a statistic over this rank's shard is taken for that over the whole tensor."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

TP2 = Mesh(tp=2)
UNEVEN = {"tp": Shard(0, sizes=[2, 1])}
ROWS, COLUMNS = {"tp": Shard(0)}, {"tp": Shard(1)}


def label_smoothing(bug: str) -> Spec:
    """Smoothed cross entropy over a cut vocabulary."""

    def sequential(z: Any, t: Any) -> Any:
        total = z.exp().sum(1).log()
        target = z.gather(1, t.unsqueeze(1)).squeeze(1) - total
        return -(0.9 * target + 0.1 * (z.mean(1) - total)).sum()

    def distributed(z: Any, t: Any) -> Any:
        start = dist.get_rank() * 4
        inside = (t >= start) & (t < start + 4)
        local = torch.where(inside, t - start, 0)
        total = p.leave(z.exp().sum(1)).log()
        own = torch.where(inside, z.gather(1, local.unsqueeze(1)).squeeze(1), 0.0)
        target = p.leave(own) - total
        if bug == "B070":
            mean = z.mean(1) - total  # planted: B070
        else:
            mean = p.leave(z.sum(1)) / 8 - total
        return -(0.9 * target + 0.1 * mean).sum()  # carries: B070

    inputs = {"z": p.f32(5, 8, at=COLUMNS, grad=True), "t": p.i64(5)}
    return p.spec(sequential, distributed, TP2, inputs)


def uneven_mean(bug: str) -> Spec:
    """The mean over shards of two rows and of one."""

    def sequential(x: Any) -> Any:
        return x.mean()

    def distributed(x: Any) -> Any:
        if bug == "B071":
            return p.summed(x.mean()) / 2  # planted: B071
        return p.summed(x.sum()) / 12

    return p.spec(sequential, distributed, TP2, {"x": p.f32(3, 4, at=UNEVEN)}, step="forward")


def head_norm(bug: str) -> Spec:
    """Queries and keys are normalised over all heads of the projection."""

    def rms(x: Any, total: Any, width: int, w: Any) -> Any:
        return x * torch.rsqrt(total / width + 1e-6) * w  # carries: B073

    def scores(q: Any, k: Any, heads: int) -> Any:
        q, k = (t.view(5, heads, 4) for t in (q, k))
        return torch.softmax(torch.einsum("shd,thd->hst", q, k), -1)

    def sequential(x: Any, wq: Any, wk: Any, nq: Any, nk: Any) -> Any:
        q, k = x @ wq, x @ wk
        q = rms(q, q.square().sum(1, keepdim=True), 16, nq)
        return scores(q, rms(k, k.square().sum(1, keepdim=True), 16, nk), 4)

    def distributed(x: Any, wq: Any, wk: Any, nq: Any, nk: Any) -> Any:
        q, k = x @ wq, x @ wk
        sq, sk = (t.square().sum(1, keepdim=True) for t in (q, k))
        if bug == "B073":
            return scores(rms(q, sq, 8, nq), rms(k, sk, 8, nk), 2)  # planted: B073
        return scores(rms(q, p.summed(sq), 16, nq), rms(k, p.summed(sk), 16, nk), 2)

    inputs = {
        "x": p.f32(5, 6),
        "wq": p.f32(6, 16, at=COLUMNS),
        "wk": p.f32(6, 16, at=COLUMNS),
        "nq": p.f32(16, at=ROWS),
        "nk": p.f32(16, at=ROWS),
    }
    return p.spec(sequential, distributed, TP2, inputs, step="forward", outputs=p.ROWS_OUT)


def decomposed_norm(bug: str) -> Spec:
    """A compiler takes a norm apart: the gathered sums are averaged over devices only."""

    def sequential(x: Any, w: Any) -> Any:
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * w

    def distributed(x: Any, w: Any) -> Any:
        sums = p.gathered(x.square().sum(1, keepdim=True), 1)
        mean = sums.mean(1, keepdim=True)  # carries: B074
        if bug != "B074":
            mean = mean / x.shape[1]  # planted: B074
        return x * torch.rsqrt(mean + 1e-6) * w

    inputs = {"x": p.f32(5, 8, at=COLUMNS), "w": p.f32(8, at=ROWS)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward", outputs=p.COLUMNS_OUT)


BUGS = [
    Bug("B070", "Y", "label smoothing with the local mean", label_smoothing),
    Bug("B071", "Y", "mean of the means of uneven shards", uneven_mean),
    Bug("B073", "Y", "norm over local heads", head_norm),
    Bug("B074", "Y", "sums divided by the number of devices only", decomposed_norm),
]
