"""Optimizers written by hand whose work is divided over the data-parallel ranks (ZeRO-1)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins


class Plain(c.Mlp):
    """The sequential step: descent along the gradient."""

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        with torch.no_grad():
            for p in self.parameters():
                p -= 0.1 * p.grad
        return loss


class Flat(c.Mlp):
    """Each rank updates its part of the flat parameters and gathers the rest."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.bug = bug

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        n, me = dist.get_world_size(), dist.get_rank()
        params = list(self.parameters())
        with torch.no_grad():
            grads = torch.cat([p.grad.flatten() for p in params])
            pad = (0, -grads.numel() % n)
            mine = torch.empty((grads.numel() + pad[1]) // n)
            op = dist.ReduceOp.AVG
            if self.bug == "sum of gradients":
                op = dist.ReduceOp.SUM  # planted: sum of gradients
            dist.reduce_scatter_tensor(mine, F.pad(grads, pad), op=op)  # carries: sum of gradients
            if self.bug == "own gradients":
                mine = F.pad(grads, pad).chunk(n)[me]  # planted: own gradients
            old = F.pad(torch.cat([p.flatten() for p in params]), pad)
            part = old.chunk(n)[me]
            if self.bug == "wrong part":
                part = old.chunk(n)[(me + 1) % n]  # planted: wrong part
            part = part - 0.1 * mine  # carries: wrong part, own gradients
            new = torch.empty_like(old)
            dist.all_gather_into_tensor(new, part)
            at = 0
            for p in params:
                p.copy_(new[at : at + p.numel()].view_as(p))
                at += p.numel()
        return loss


def flat(bug: str = "", ranks: int = 2) -> Spec:
    return Spec(
        sequential=Plain,
        distributed=lambda mesh, rank: Flat(bug),
        mesh=Mesh(dp=ranks),
        inputs=c.pairs(c.BATCH),
        step=c.own_step,
        optimizer=c.sgd,
        outputs={"loss": None, "grad.*": None, "state.*": None},
    )


CASES = [
    Case("sharded sgd", flat, twins(flat, "sum of gradients", "own gradients", "wrong part")),
]
