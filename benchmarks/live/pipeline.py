"""A pipeline of two stages that send to each other, with micro-batches of unequal size."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins

PARTS = ((0, 3), (3, 4))


class Whole(nn.Module):
    """Two layers and the squared error."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = F.mse_loss(self.second(F.gelu(self.first(x))), y)
        loss.backward()
        optimizer.step()
        return loss


class First(nn.Module):
    """Sends activations on and gets their gradients back."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.bug = bug
        self.first = nn.Linear(8, 8)

    def step(self, optimizer: Any, x: Any, y: Any) -> None:
        sent = []
        for a, b in PARTS:
            if self.bug == "rows of the micro-batch before" and a:
                a, b = 0, b - a  # planted: rows of the micro-batch before
            # carries: rows of the micro-batch before
            h = F.gelu(self.first(x[a:b]))
            dist.send(h.detach(), dst=1)
            sent.append(h)
        for h in sent:
            grad = torch.empty(h.shape)
            dist.recv(grad, src=1)
            if self.bug == "scaled on both stages":
                grad = grad * (h.shape[0] / 4)  # planted: scaled on both stages
            h.backward(grad)
        optimizer.step()


class Second(nn.Module):
    def __init__(self, bug: str) -> None:
        super().__init__()
        self.bug = bug
        self.second = nn.Linear(8, 8)

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        total = torch.zeros(())
        received = []
        for a, b in PARTS:
            h = torch.empty(b - a, 8)
            dist.recv(h, src=0)
            received.append(h.requires_grad_())
        for (a, b), h in zip(PARTS, received, strict=True):
            if self.bug == "labels of the next rows":
                a, b = 4 - b, 4 - a  # planted: labels of the next rows
            # carries: labels of the next rows, scaled alike, not scaled
            # carries: rows of the micro-batch before
            loss = F.mse_loss(self.second(h), y[a:b])
            loss = self.scaled(loss, b - a)  # carries: scaled alike
            loss.backward()
            total = total + loss.detach()  # carries: not scaled
        for h in received:
            dist.send(h.grad, dst=0)
        optimizer.step()
        return total

    def scaled(self, loss: Any, rows: int) -> Any:
        if self.bug == "not scaled":
            return loss  # planted: not scaled
        if self.bug == "scaled alike":
            return loss / 2  # planted: scaled alike
        return loss * (rows / 4)


def stages(bug: str = "") -> Spec:
    """SGD with momentum on both stages; the last one returns the loss."""
    return Spec(
        sequential=Whole,
        distributed=lambda mesh, rank: First(bug) if rank == 0 else Second(bug),
        mesh=Mesh(pp=2),
        inputs=c.pairs(),
        step=c.own_step,
        optimizer=c.sgd,
    )


CASES = [
    Case(
        "pipeline of two stages",
        stages,
        twins(
            stages,
            "not scaled",
            "scaled alike",
            "scaled on both stages",
            "rows of the micro-batch before",
            "labels of the next rows",
        ),
    ),
]
