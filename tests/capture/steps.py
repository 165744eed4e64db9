"""Training steps that users write themselves: accumulation, clipping, a sharded optimizer."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as p
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint


def clipped(model: Any, optimizer: Any, **inputs: Any) -> Any:
    """A training step with clipping."""
    loss = model(**inputs)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    return loss


class Accumulating(p.Mlp):
    """A model whose step is made of uneven micro-batches."""

    parts = ((0, 3), (3, 4))


def accumulated(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    total = torch.zeros(())
    for a, b in getattr(model, "parts", ((0, 4),)):
        loss = model(x[a:b], y[a:b]) * (b - a) / 4
        loss.backward()
        total = total + loss.detach()
    optimizer.step()
    return total


def equally_weighted(model: Any, optimizer: Any, x: Any, y: Any) -> Any:
    """The bug: uneven micro-batches count the same."""
    parts = getattr(model, "parts", ((0, 4),))
    total = torch.zeros(())
    for a, b in parts:
        loss = model(x[a:b], y[a:b]) / len(parts)
        loss.backward()
        total = total + loss.detach()
    optimizer.step()
    return total


def wrong_part(model: Any, optimizer: Any, **inputs: Any) -> Any:
    return sharded_optimizer(model, optimizer, shift=1, **inputs)


def not_averaged(model: Any, optimizer: Any, **inputs: Any) -> Any:
    return sharded_optimizer(model, optimizer, reduce=dist.ReduceOp.SUM, **inputs)


def sharded_optimizer(
    model: Any, optimizer: Any, shift: int = 0, reduce: Any = dist.ReduceOp.AVG, **inputs: Any
) -> Any:
    """ZeRO-1 by hand: each rank updates its part of the flat parameters and gathers the rest."""
    loss = model(**inputs)
    loss.backward()
    params = list(model.parameters())
    n, me = dist.get_world_size(), dist.get_rank()
    with torch.no_grad():
        if n == 1:
            for q in params:
                q -= 0.1 * q.grad
            return loss
        grads = torch.cat([q.grad.flatten() for q in params])
        pad = (0, -grads.numel() % n)
        mine = torch.empty((grads.numel() + pad[1]) // n)
        dist.reduce_scatter_tensor(mine, F.pad(grads, pad), op=reduce)
        flat = F.pad(torch.cat([q.flatten() for q in params]), pad)
        new = torch.empty_like(flat)
        dist.all_gather_into_tensor(new, flat.chunk(n)[(me + shift) % n] - 0.1 * mine)
        at = 0
        for q in params:
            q.copy_(new[at : at + q.numel()].view_as(q))
            at += q.numel()
    return loss


class Checkpointed(p.Net):
    """The block's activations are computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = checkpoint(self.block, self.emb(tokens), use_reentrant=self.reentrant)
        z = self.head(self.norm(x))
        return -torch.log_softmax(z, -1).gather(-1, labels.unsqueeze(-1)).mean()


class CrossEntropy(p.Net):
    def forward(self, tokens: Any, labels: Any) -> Any:
        z = self.head(self.norm(self.block(self.emb(tokens))))
        return F.cross_entropy(z.flatten(0, 1), labels.flatten())


def vocabulary_parallel(mesh: Any, rank: int) -> nn.Module:
    """The logits stay cut over the vocabulary."""
    net = CrossEntropy()
    plan: dict[str, Any] = {n: ColwiseParallel() for n in ("q", "k", "v", "up")}
    plan.update({n: RowwiseParallel() for n in ("o", "down")})
    parallelize_module(net.block, mesh["tp"], plan)
    outer = {
        "emb": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    return parallelize_module(net, mesh["tp"], outer)


def with_loss_parallel(model: Any, optimizer: Any, **inputs: Any) -> Any:
    with loss_parallel():
        loss = model(**inputs)
        loss.backward()
    return loss
