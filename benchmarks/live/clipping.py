"""Gradient clipping by the global norm, by hand, where parameters are cut over the ranks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn

from shardproof import Mesh, Shard, Spec
from shardproof.testing.cases import Case, twins

LIMIT = 0.01


class Mlp(nn.Module):
    """Two layers; ``width`` is that of one rank."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, width), nn.Linear(width, 8)

    def forward(self, x: Any, y: Any) -> Any:
        return F.mse_loss(self.down(F.gelu(self.up(x))), y)

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters(), LIMIT)
        optimizer.step()
        return loss


class Parallel(Mlp):
    def __init__(self, mesh: Any, width: int, bug: str) -> None:
        super().__init__(width)
        self.tp = mesh.get_group("tp")
        self.dp = mesh.get_group("dp") if "dp" in mesh.mesh_dim_names else None
        self.bug = bug

    def forward(self, x: Any, y: Any) -> Any:
        h = F.gelu(self.up(c.Enter.apply(x, self.tp)))
        h = c.Leave.apply(F.linear(h, self.down.weight), self.tp) + self.down.bias
        return F.mse_loss(h, y)

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        if self.bug == "clipped before the mean":
            self.clip()  # carries: clipped before the mean
        if self.dp is not None:
            for p in self.parameters():
                dist.all_reduce(p.grad, dist.ReduceOp.AVG, self.dp)
        if self.bug != "clipped before the mean":
            self.clip()
        optimizer.step()  # planted: clipped before the mean
        return loss.detach()

    @torch.no_grad()
    def clip(self) -> None:
        """Scale all gradients so that their norm is at most LIMIT."""
        cut = [self.up.weight, self.up.bias, self.down.weight]
        whole = [self.down.bias]
        if self.bug == "whole ones counted on every rank":
            cut, whole = cut + whole, []  # planted: whole ones counted on every rank
        # carries: clipped before the mean, whole ones counted on every rank
        squares = sum(p.grad.pow(2).sum() for p in cut)
        # carries: whole ones counted on every rank, norm of the shard
        extra = sum(p.grad.pow(2).sum() for p in whole)
        if self.bug == "norms summed":
            squares = squares.sqrt()  # planted: norms summed
        if self.bug != "norm of the shard":
            dist.all_reduce(squares, group=self.tp)  # carries: whole ones counted on every rank
        norm = (squares + extra).sqrt()  # planted: norm of the shard
        # carries: norms summed, norm of the shard
        factor = (LIMIT / (norm + 1e-6)).clamp(max=1.0)
        if self.bug == "scaled twice":
            self.up.weight.grad.mul_(factor)  # planted: scaled twice
        for p in self.parameters():
            p.grad.mul_(factor)  # carries: scaled twice


def tp(bug: str = "", sizes: tuple[int, ...] = (4, 4)) -> Spec:
    return Spec(
        sequential=Mlp,
        distributed=lambda mesh, rank: Parallel(mesh, sizes[rank], bug),
        mesh=Mesh(tp=len(sizes)),
        inputs=c.pairs(),
        step=c.own_step,
        optimizer=c.adamw,
    )


def uneven(bug: str = "") -> Spec:
    return tp(bug, (3, 3, 2))


def dp_tp(bug: str = "") -> Spec:
    """Clipped after the mean over the replicas."""
    return Spec(
        sequential=Mlp,
        distributed=lambda mesh, rank: Parallel(mesh, 4, bug),
        mesh=Mesh(dp=2, tp=2),
        inputs=c.pairs({"dp": Shard(0)}),
        parameters={"up.*": {"tp": Shard(0)}, "down.weight": {"tp": Shard(1)}},
        step=c.own_step,
        optimizer=c.sgd,
        outputs={"loss": None},
    )


FAULTS = ("whole ones counted on every rank", "norms summed", "norm of the shard", "scaled twice")

CASES = [
    Case("clipping tp2", tp, twins(tp, *FAULTS)),
    Case("clipping tp3, uneven", uneven, twins(uneven, *FAULTS[:3])),
    Case("clipping dp2 tp2", dp_tp, twins(dp_tp, *FAULTS[:2], "clipped before the mean")),
]
