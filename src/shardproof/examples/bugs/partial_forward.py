"""F03: a partial sum taken for a replica, or a replica for a partial sum, going forward."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

TP2 = Mesh(tp=2)
ROWS, COLUMNS = {"tp": Shard(0)}, {"tp": Shard(1)}


def row_parallel_bias(bug: str) -> Spec:
    """Every rank adds the whole bias before the reduction."""

    def sequential(x: Any, w: Any, b: Any) -> Any:
        return x @ w + b

    def distributed(x: Any, w: Any, b: Any) -> Any:
        if bug in ("B028", "B029"):
            return p.summed(x @ w + b)  # planted: B028, B029
        return p.summed(x @ w) + b

    return p.spec(sequential, distributed, TP2, _row_parallel(), step="forward")


def first_rank_bias(bug: str) -> Spec:
    """The bias is added before the reduction, on rank 0 only: right."""

    def sequential(x: Any, w: Any, b: Any) -> Any:
        return x @ w + b

    def distributed(x: Any, w: Any, b: Any) -> Any:
        y = x @ w
        return p.summed(y + b if dist.get_rank() == 0 else y)

    return p.spec(sequential, distributed, TP2, _row_parallel(), step="forward")


def zeroed_bias(bug: str) -> Spec:
    """The loader gives the bias to rank 0 and zeros to the others: right."""

    def sequential(x: Any, w: Any, b: Any) -> Any:
        return x @ w + b

    def distributed(x: Any, w: Any, b: Any) -> Any:
        own = b if dist.get_rank() == 0 else torch.zeros_like(b)
        return p.summed(x @ w + own)

    return p.spec(sequential, distributed, TP2, _row_parallel(), step="forward")


def _row_parallel() -> dict[str, Any]:
    return {"x": p.f32(5, 8, at=COLUMNS), "w": p.f32(8, 4, at=ROWS), "b": p.f32(4)}


def shared_expert(bug: str) -> Spec:
    """Tokens are split over the ranks of the shared expert's tensor parallelism."""

    def sequential(x: Any, up: Any, down: Any) -> Any:
        return torch.relu(x @ up) @ down

    def distributed(x: Any, up: Any, down: Any) -> Any:
        if bug == "B031":
            return p.summed(torch.relu(x @ up) @ down)  # planted: B031
        return p.scattered(torch.relu(p.gathered(x) @ up) @ down)

    inputs = {
        "x": p.f32(6, 4, at=ROWS),
        "up": p.f32(4, 8, at=COLUMNS),
        "down": p.f32(8, 4, at=ROWS),
    }
    return p.spec(
        sequential, distributed, TP2, inputs, step="forward", outputs={"output": Shard(0)}
    )


def unreduced_share(bug: str) -> Spec:
    """Routed experts are reduced, the shared expert is not."""

    def sequential(x: Any, routed: Any, up: Any, down: Any) -> Any:
        return x @ routed + torch.relu(x @ up) @ down

    def distributed(x: Any, routed: Any, up: Any, down: Any) -> Any:
        shared = torch.relu(x @ up) @ down
        if bug != "B032":
            shared = p.summed(shared)
        return x @ routed + shared  # planted: B032

    inputs = {
        "x": p.f32(5, 4),
        "routed": p.f32(4, 4),
        "up": p.f32(4, 8, at=COLUMNS),
        "down": p.f32(8, 4, at=ROWS),
    }
    return p.spec(sequential, distributed, TP2, inputs, step="forward")


def gathered_logits(bug: str) -> Spec:
    """Logits that were gathered already go to a loss that expects a shard of them."""

    def sequential(h: Any, head: Any, t: Any) -> Any:
        z = h @ head
        return (z.exp().sum(1).log() - z.gather(1, t.unsqueeze(1)).squeeze(1)).mean()

    def loss(z: Any, t: Any) -> Any:
        width = z.shape[1]
        start = dist.get_rank() * width
        inside = (t >= start) & (t < start + width)
        local = torch.where(inside, t - start, 0)
        own = torch.where(inside, z.gather(1, local.unsqueeze(1)).squeeze(1), 0.0)
        return (p.summed(z.exp().sum(1)).log() - p.summed(own)).mean()  # carries: B034

    def distributed(h: Any, head: Any, t: Any) -> Any:
        z = h @ head
        if bug == "B034":
            z = p.gathered(z, 1)  # planted: B034
        return loss(z, t)

    inputs = {"h": p.f32(5, 4), "head": p.f32(4, 8, at=COLUMNS), "t": p.i64(5)}
    return p.spec(sequential, distributed, TP2, inputs, step="forward")


def expert_slices(bug: str) -> Spec:
    """Expert outputs of different tokens are summed by position, or scattered twice."""

    def sequential(x: Any, up: Any) -> Any:
        return torch.einsum("th,ehf->tf", x, up)

    def distributed(x: Any, up: Any) -> Any:
        if bug == "B035 rows":
            return p.summed(torch.einsum("th,ehf->tf", x, up))  # planted: B035 rows
        out = torch.einsum("th,ehf->tf", p.gathered(x), up)
        if bug == "B035 twice":
            out = p.summed(out)  # planted: B035 twice
        return p.scattered(out)  # carries: B035 twice

    inputs = {"x": p.f32(6, 4, at=ROWS), "up": p.f32(4, 4, 3, at=ROWS)}
    return p.spec(
        sequential, distributed, TP2, inputs, step="forward", outputs={"output": Shard(0)}
    )


def adapter(bug: str) -> Spec:
    """An adapter of a duplicated layer is cut along its rank, its features gathered."""

    def sequential(x: Any, a: Any, b: Any) -> Any:
        return (x @ a) @ b

    def distributed(x: Any, a: Any, b: Any) -> Any:
        if bug == "B037":
            return p.gathered(x @ a, 1) @ b  # planted: B037
        return (x @ p.gathered(a, 1)) @ b

    inputs = {"x": p.f32(6, 4, at=ROWS), "a": p.f32(4, 2, at=COLUMNS), "b": p.f32(2, 4)}
    return p.spec(
        sequential, distributed, TP2, inputs, step="forward", outputs={"output": Shard(0)}
    )


def global_norm_statistic(bug: str) -> Spec:
    """The reduction of a norm's statistics over ranks is left out as if it were not needed."""

    def norm(q: Any, total: Any, width: int, w: Any) -> Any:
        return q * torch.rsqrt(total / width + 1e-5) * w  # carries: N9

    def sequential(x: Any, wq: Any, w: Any) -> Any:
        q = x @ wq
        return norm(q, q.square().sum(1, keepdim=True), 8, w)

    def distributed(x: Any, wq: Any, w: Any) -> Any:
        q = x @ wq
        total = q.square().sum(1, keepdim=True)
        if bug == "N9":
            return norm(q, total, 4, w)  # planted: N9
        return norm(q, p.summed(total), 8, w)

    inputs = {"x": p.f32(5, 4), "wq": p.f32(4, 8, at=COLUMNS), "w": p.f32(8, at=ROWS)}
    return p.spec(
        sequential, distributed, TP2, inputs, step="forward", outputs={"output": Shard(1)}
    )


BUGS = [
    Bug("B028", "Y", "whole bias added on every rank before the sum", row_parallel_bias),
    Bug("B029", "Y", "the same in another code base", row_parallel_bias),
    Bug("N1", "control", "bias before the sum, on rank 0 only", first_rank_bias),
    Bug("N2", "control", "the loader gives the bias to rank 0 only", zeroed_bias),
    Bug("N9", "Y", "norm over all heads needs its sum", global_norm_statistic),
    Bug("B031", "Y", "partial sums of different tokens are added", shared_expert),
    Bug("B032", "Y", "shared expert added unreduced", unreduced_share),
    Bug("B034", "Y", "gathered logits given to a loss over shards", gathered_logits),
    Bug(
        "B035",
        "Y",
        "sums over other rows, and sums twice",
        expert_slices,
        ("B035 rows", "B035 twice"),
    ),
    Bug("B037", "Y", "features of different tokens joined", adapter),
]
