"""FSDP2 (`fully_shard`): AdamW and SGD, uneven shards, clipping, with tensor parallelism, and with
unequal numbers of tokens that count.

FSDP2 takes the mean of the gradients over its ranks. A loss that each rank divides by the number of
its own tokens is another one where these numbers differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import transformer as t
from benchmarks.live.dtensor import sequence_plan
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import parallelize_module

from shardproof import Input, Mesh, Spec
from shardproof.testing.cases import Case, twins

LIMIT = 0.01
LEFT_OUT = {"loss": None}  # each rank's is the mean over its own samples


def wrapped(net: Any, mesh: Any) -> Any:
    """Every layer and the rest as one unit each."""
    for layer in getattr(net, "layers", ()):
        fully_shard(layer, mesh=mesh["dp"])
    return fully_shard(net, mesh=mesh["dp"])


# ------------------------------------------------------------------ AdamW


def step_of(bug: str) -> Callable[..., Any]:
    def step(net: Any, optimizer: Any, **inputs: Any) -> Any:
        ranks = dist.get_world_size()
        loss = net(**inputs)  # carries: mean taken twice
        if bug == "mean taken twice":
            loss = loss / ranks  # planted: mean taken twice
        if ranks > 1 and bug == "sum for the mean":
            for unit in (m for m in net.modules() if isinstance(m, FSDPModule)):
                unit.set_gradient_divide_factor(1.0)  # planted: sum for the mean
        if ranks > 1 and bug == "no gradient sync":
            net.set_requires_gradient_sync(False)  # planted: no gradient sync
        loss.backward()  # carries: mean taken twice, sum for the mean, no gradient sync
        optimizer.step()
        return loss

    return step


def adamw(bug: str = "", ranks: int = 2, optimizer: Any = c.adamw) -> Spec:
    return Spec(
        sequential=t.EveryLabel,
        distributed=lambda mesh, rank: wrapped(t.EveryLabel(), mesh),
        mesh=Mesh(dp=ranks),
        inputs=t.batch(c.BATCH, 4),
        step=step_of(bug),
        optimizer=optimizer,
        outputs=LEFT_OUT,
    )


def adamw_on_four(bug: str = "") -> Spec:
    return adamw(bug, 4, c.adamw_foreach)


# ------------------------------------------------------------------ uneven shards, clipping


def clipping(bug: str) -> Callable[..., Any]:
    def step(net: Any, optimizer: Any, **inputs: Any) -> Any:
        loss = net(**inputs)
        loss.backward()
        if bug == "norm of one rank":
            clip(net)
        elif bug == "clipped by a sum":
            limit = LIMIT / dist.get_world_size()
            nn.utils.clip_grad_norm_(net.parameters(), limit)  # planted: clipped by a sum
        else:
            nn.utils.clip_grad_norm_(net.parameters(), LIMIT)
        if bug == "scaled by the rank":
            for p in net.parameters():
                local(p.grad).mul_(dist.get_rank() + 1)  # planted: scaled by the rank
        optimizer.step()
        return loss

    return step


def local(t: Any) -> Any:
    return t.to_local() if isinstance(t, DTensor) else t


def clip(net: Any) -> None:
    grads = [local(p.grad) for p in net.parameters()]
    squares = [(g * g).sum() for g in grads]  # carries: norm of one rank
    norm = torch.stack(squares).sum().sqrt()  # planted: norm of one rank
    for g in grads:
        g.mul_(torch.clamp(LIMIT / (norm + 1e-6), max=1.0))


def uneven(bug: str = "", ranks: int = 3) -> Spec:
    return Spec(
        sequential=c.Mlp,
        distributed=lambda mesh, rank: wrapped(c.Mlp(), mesh),
        mesh=Mesh(dp=ranks),
        inputs={k: Input((6, 8), "f32", c.BATCH) for k in ("x", "y")},
        step=clipping(bug),
        optimizer=c.sgd,
        outputs=LEFT_OUT,
    )


def even(bug: str = "") -> Spec:
    return uneven(bug, 2)


# ------------------------------------------------------------------ with tensor parallelism


def two_axes(bug: str = "") -> Spec:
    def build(mesh: Any, rank: int) -> Any:
        net = t.EveryLabel()
        parallelize_module(net, mesh["tp"], sequence_plan())
        return wrapped(net, mesh)

    def step(net: Any, optimizer: Any, **inputs: Any) -> Any:
        loss = net(**inputs)  # carries: mean over all ranks
        if bug == "mean over all ranks" and dist.get_world_size() > 1:
            loss = loss / 2  # planted: mean over all ranks
        loss.backward()  # carries: mean over all ranks
        if bug == "summed over the wrong axis":
            for name, p in net.named_parameters():
                if "norm" not in name and isinstance(p.grad, DTensor):
                    group = p.grad.device_mesh.get_group("tp")
                    dist.all_reduce(
                        p.grad.to_local(), group=group
                    )  # planted: summed over the wrong axis
        if bug == "norms forgotten":
            for name, p in net.named_parameters():
                if "norm" in name and isinstance(p, DTensor):
                    p.grad = torch.zeros_like(p)  # planted: norms forgotten
        optimizer.step()
        return loss

    return Spec(
        sequential=t.EveryLabel,
        distributed=build,
        mesh=Mesh(dp=2, tp=2),
        inputs=t.batch(c.BATCH),
        step=step,
        optimizer=c.sgd,
        outputs=LEFT_OUT,
    )


# ------------------------------------------------------------------ tokens that count


class Tagger(nn.Module):
    """A label for every token, by two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.up = nn.Embedding(t.VOCAB, 8), nn.Linear(8, 16)
        self.head = nn.Linear(16, t.VOCAB, bias=False)

    def forward(self, tokens: Any, labels: Any) -> Any:
        """The sum over the labels that count, and how many do."""
        z = self.head(F.gelu(self.up(self.embed(tokens))))
        total = F.cross_entropy(z.flatten(0, 1), labels.flatten(), reduction="sum")
        return total, (labels != -100).sum()


def counting(bug: str) -> Callable[..., Any]:
    """The loss is divided by the tokens of all ranks."""

    def step(net: Any, optimizer: Any, **inputs: Any) -> Any:
        ranks = dist.get_world_size()
        total, count = net(**inputs)
        count = count.float()
        if bug == "each count doubled" and ranks > 1:
            count = count * 2  # planted: each count doubled
        if bug != "count of one rank":
            dist.all_reduce(count)
        if bug == "mean of all ranks":
            total = total / ranks  # planted: mean of all ranks
        # FSDP2 divides the sum of the gradients by the ranks.
        (total * ranks / count).backward()  # planted: count of one rank
        optimizer.step()
        if bug == "count of one rank":
            dist.all_reduce(count)
        loss = total.detach() / count
        dist.all_reduce(loss)
        return loss

    return step


def tokens_that_count(bug: str = "", ranks: int = 2) -> Spec:
    return Spec(
        sequential=Tagger,
        distributed=lambda mesh, rank: wrapped(Tagger(), mesh),
        mesh=Mesh(dp=ranks),
        inputs=t.batch(c.BATCH, 4),
        step=counting(bug),
        optimizer=c.sgd,
    )


def tokens_on_four(bug: str = "") -> Spec:
    return tokens_that_count(bug, 4)


class Widths(nn.Module):
    """Layers of which no width divides another, and a squared error."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList((nn.Linear(12, 16), nn.Linear(16, 10)))

    def forward(self, x: Any, y: Any) -> Any:
        up, down = self.layers
        return F.mse_loss(down(F.gelu(up(x))), y)


def widths(bug: str = "") -> Spec:
    return Spec(
        sequential=Widths,
        distributed=lambda mesh, rank: wrapped(Widths(), mesh),
        mesh=Mesh(dp=2),
        inputs={"x": Input((4, 12), "f32", c.BATCH), "y": Input((4, 10), "f32", c.BATCH)},
        step=step_of(bug),
        optimizer=c.adamw,
        outputs=LEFT_OUT,
    )


ADAMW = ("mean taken twice", "sum for the mean", "no gradient sync")
CLIP = ("norm of one rank", "clipped by a sum", "scaled by the rank")
AXES = ("mean over all ranks", "summed over the wrong axis", "norms forgotten")
COUNT = ("each count doubled", "count of one rank", "mean of all ranks")

CASES = [
    Case("fsdp2, adamw", adamw, twins(adamw, *ADAMW), long=True),
    Case("fsdp2, adamw over four", adamw_on_four, twins(adamw_on_four, *ADAMW), long=True),
    Case("fsdp2, layers of other widths", widths, twins(widths, *ADAMW)),
    Case("fsdp2, clipped", even, twins(even, *CLIP)),
    Case("fsdp2, uneven and clipped", uneven, twins(uneven, *CLIP)),
    Case("fsdp2, tp and sp", two_axes, twins(two_axes, *AXES), long=True),
    Case("fsdp2, tokens that count", tokens_that_count, twins(tokens_that_count, *COUNT)),
    Case("fsdp2, tokens over four", tokens_on_four, twins(tokens_on_four, *COUNT), long=True),
]
