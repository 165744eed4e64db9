"""Activation checkpointing of tensor-parallel layers: the recomputation communicates as well."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn
from torch.utils.checkpoint import checkpoint

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins


class Layer(nn.Module):
    """Two products with a residual each; ``width`` is that of one rank."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up1, self.down1 = nn.Linear(8, width), nn.Linear(width, 8, bias=False)
        self.up2, self.down2 = nn.Linear(8, width), nn.Linear(width, 8, bias=False)

    def forward(self, x: Any) -> Any:
        x = x + self.down1(F.gelu(self.up1(self.norm(x))))
        return x + self.down2(F.gelu(self.up2(x)))


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.ModuleList(self.layer(width) for _ in range(2))

    def layer(self, width: int) -> nn.Module:
        return Layer(width)

    def forward(self, x: Any, y: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return F.mse_loss(x, y)


class Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, again: bool, bug: str) -> Any:
        if again and bug == "no sum in the recomputation":
            return x.clone()  # planted: no sum in the recomputation
        x = x.clone()
        op = dist.ReduceOp.SUM
        if again and bug == "mean in the recomputation":
            op = dist.ReduceOp.AVG  # planted: mean in the recomputation
        dist.all_reduce(x, op, group)  # carries: mean in the recomputation
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None, None, None


class ParallelLayer(Layer):
    def __init__(self, width: int, group: Any, bug: str) -> None:
        super().__init__(width)
        self.group, self.bug, self.runs = group, bug, 0

    def forward(self, x: Any) -> Any:
        self.runs += 1
        again = self.runs > 1
        y = self.norm(x)
        if again and self.bug == "not normalised in the recomputation":
            y = x + 0 * y  # planted: not normalised in the recomputation
        # carries: not normalised in the recomputation
        y = self.down1(F.gelu(self.up1(c.Enter.apply(y, self.group))))
        # carries: no sum in the recomputation
        x = x + Leave.apply(y, self.group, again, self.bug)
        # carries: no sum in the recomputation
        y = F.gelu(self.up2(c.Enter.apply(x, self.group)))
        return x + Leave.apply(self.down2(y), self.group, again, self.bug)


class Parallel(Net):
    def __init__(self, width: int, group: Any, reentrant: bool, bug: str) -> None:
        self.group, self.bug = group, bug
        super().__init__(width)
        self.reentrant = reentrant

    def layer(self, width: int) -> nn.Module:
        return ParallelLayer(width, self.group, self.bug)

    def forward(self, x: Any, y: Any) -> Any:
        x = x.clone().requires_grad_()
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        if self.bug == "loss divided by the ranks":
            return F.mse_loss(x, y) / 2  # planted: loss divided by the ranks
        return F.mse_loss(x, y)


def kept(bug: str = "", ranks: int = 2, reentrant: bool = False) -> Spec:
    return Spec(
        sequential=Net,
        distributed=lambda mesh, rank: Parallel(8 // ranks, mesh.get_group("tp"), reentrant, bug),
        mesh=Mesh(tp=ranks),
        inputs=c.pairs(),
        step="train",
        optimizer=c.sgd,
    )


def reentrant(bug: str = "") -> Spec:
    return kept(bug, 2, reentrant=True)


def four(bug: str = "") -> Spec:
    return kept(bug, 4)


FAULTS = (
    "no sum in the recomputation",
    "mean in the recomputation",
    "not normalised in the recomputation",
    "loss divided by the ranks",
)

CASES = [
    Case("checkpointed tp2", kept, twins(kept, *FAULTS)),
    Case("checkpointed tp2, reentrant", reentrant, twins(reentrant, *FAULTS[:3])),
    Case("checkpointed tp4", four, twins(four, *FAULTS[:3])),
]
