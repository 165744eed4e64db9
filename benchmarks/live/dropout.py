"""Dropout: how the masks lie on the ranks, and a recomputation that must use the same ones."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn
from torch.utils.checkpoint import checkpoint

from shardproof import Input, Mesh, Spec
from shardproof.examples.bugs import parts
from shardproof.testing.cases import Case, twins

HIDDEN, INNER, DROP = 8, 16, 0.25


class Mlp(nn.Module):
    """``inner`` is the width that one rank holds."""

    def __init__(self, inner: int = INNER) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, inner, bias=False)
        self.down = nn.Linear(inner, HIDDEN, bias=False)

    def forward(self, x: Any) -> Any:
        h = F.dropout(F.gelu(self.up(x)), DROP)
        return x + F.dropout(self.down(h), DROP)

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = F.mse_loss(self(x), y)
        loss.backward()
        optimizer.step()
        return loss


class Tensor(Mlp):
    """The mask of the inner width is cut as the width is, that of the sum is the same on all."""

    def __init__(self, group: Any, ranks: int, bug: str) -> None:
        super().__init__(INNER // ranks)
        self.group, self.bug = group, bug

    def forward(self, x: Any) -> Any:
        h = self.up(parts.enter(x, self.group))
        if self.bug == "dropped before the activation":
            h = F.gelu(F.dropout(h, DROP))  # planted: dropped before the activation
        else:
            h = F.dropout(F.gelu(h), DROP)
        y = self.down(h)  # carries: dropped before the activation
        y = F.dropout(parts.leave(y, self.group), DROP)
        if self.bug == "kept ones not scaled":
            y = y * (1 - DROP)  # planted: kept ones not scaled
        if self.bug == "residual on every rank":
            return parts.leave(x + y, self.group)  # planted: residual on every rank
        return x + y  # carries: kept ones not scaled


class Sequence(Mlp):
    """Outside of the layers every rank has its rows, and the mask of them."""

    def __init__(self, group: Any, ranks: int, bug: str) -> None:
        super().__init__(INNER // ranks)
        self.group, self.bug = group, bug

    def forward(self, x: Any) -> Any:
        mine = parts.split(x, 0, self.group)
        h = F.gelu(self.up(parts.gather(mine, 0, self.group)))
        h = F.dropout(h, DROP)
        y = self.down(h)
        if self.bug == "rows without their sum":
            y = parts.mine(y, 0, self.group)  # planted: rows without their sum
        else:
            y = parts.scatter(y, 0, self.group)
        return mine + F.dropout(y, DROP)  # carries: rows without their sum

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        ranks = dist.get_world_size(self.group)
        loss = F.mse_loss(self(x), parts.mine(y, 0, self.group)) / ranks
        if self.bug == "loss scaled for kept ones":
            loss = loss * (1 - DROP)  # planted: loss scaled for kept ones
        loss.backward()  # carries: loss scaled for kept ones
        if self.bug == "gradients summed":
            for p in self.parameters():
                dist.all_reduce(p.grad, group=self.group)  # planted: gradients summed
        optimizer.step()
        return parts.summed(loss.detach(), self.group)


class Recomputed(Tensor):
    """The inner part is run again in the backward pass, with the masks of the forward pass."""

    def inner(self, x: Any, mask: Any) -> Any:
        h = F.gelu(self.up(x))
        if self.bug == "mask on the input of the activation":
            h = F.gelu(self.up(x) * mask)  # planted: mask on the input of the activation
        else:
            h = h * mask  # carries: mask not scaled
        return self.down(h)  # carries: mask on the input of the activation

    def forward(self, x: Any) -> Any:
        x1 = parts.enter(x, self.group)
        mask = F.dropout(torch.ones(x.shape[0], self.up.weight.shape[0]), DROP)
        if self.bug == "mask not scaled":
            mask = mask * (1 - DROP)  # planted: mask not scaled
        y = checkpoint(self.inner, x1, mask, use_reentrant=False)  # carries: mask not scaled
        if self.bug == "no sum":
            return x + F.dropout(y, DROP)  # planted: no sum
        return x + F.dropout(parts.leave(y, self.group), DROP)


def dropout(kind: Any, bug: str) -> Spec:
    return Spec(
        sequential=Mlp,
        distributed=lambda mesh, rank: kind(mesh.get_group("tp"), 2, bug),
        mesh=Mesh(tp=2),
        inputs={k: Input((4, HIDDEN)) for k in ("x", "y")},
        step=c.own_step,
        optimizer=c.sgd,
    )


def tensor(bug: str = "") -> Spec:
    return dropout(Tensor, bug)


def sequence(bug: str = "") -> Spec:
    return dropout(Sequence, bug)


def recomputed(bug: str = "") -> Spec:
    return dropout(Recomputed, bug)


CASES = [
    Case(
        "tp2 dropout",
        tensor,
        twins(
            tensor,
            "dropped before the activation",
            "kept ones not scaled",
            "residual on every rank",
        ),
    ),
    Case(
        "tp2 sp dropout",
        sequence,
        twins(sequence, "rows without their sum", "loss scaled for kept ones", "gradients summed"),
    ),
    Case(
        "tp2 dropout, recomputed",
        recomputed,
        twins(recomputed, "mask on the input of the activation", "mask not scaled", "no sum"),
    ),
]
