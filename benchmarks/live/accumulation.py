"""Gradient accumulation over uneven micro-batches."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.live import common as c

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins


class Whole(c.Mlp):
    """The whole batch at once."""

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        optimizer.step()
        return loss


class Micro(c.Mlp):
    """Micro-batches of three samples and of one, tensor parallel; ``bug`` names a fault."""

    parts = ((0, 3), (3, 4))

    def __init__(self, group: Any, bug: str) -> None:
        super().__init__(group)
        self.bug = bug

    def forward(self, x: Any, y: Any) -> Any:
        # carries: earlier gradients dropped
        h = self.down(F.gelu(self.up(c.Enter.apply(x, self.group))))
        return F.mse_loss(c.Leave.apply(h, self.group), y)

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        total = torch.zeros(())
        for a, b in self.parts:
            if self.bug == "micro-batches overlap":
                a = max(0, a - 1)  # planted: micro-batches overlap
            # carries: micro-batches overlap, equal weights
            loss = self(x[a:b], y[a:b]) * self.weight(a, b)
            if self.bug == "earlier gradients dropped":
                optimizer.zero_grad()  # planted: earlier gradients dropped
            loss.backward()  # carries: micro-batches overlap
            total = total + loss.detach()
        optimizer.step()
        return total

    def weight(self, a: int, b: int) -> float:
        if self.bug == "equal weights":
            return 1 / len(self.parts)  # planted: equal weights
        return (b - a) / 4


def micro(bug: str = "", ranks: int = 2) -> Spec:
    """Tensor parallel, SGD with momentum."""
    return Spec(
        sequential=Whole,
        distributed=lambda mesh, rank: Micro(mesh.get_group("tp"), bug),
        mesh=Mesh(tp=ranks),
        inputs=c.pairs(),
        step=c.own_step,
        optimizer=c.sgd,
    )


CASES = [
    Case(
        "uneven accumulation",
        micro,
        twins(micro, "equal weights", "micro-batches overlap", "earlier gradients dropped"),
    ),
]
