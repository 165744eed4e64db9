"""Gradient accumulation over uneven micro-batches, of samples and of tokens that count."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn

from shardproof import Mesh, Shard, Spec
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


class Counted(nn.Module):
    """Two layers over tokens; labels of -100 do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.inner, self.head = nn.Linear(8, 8), nn.Linear(8, 12, bias=False)

    def logits(self, tokens: Any) -> Any:
        return self.head(F.gelu(self.inner(self.embed(tokens)))).flatten(0, 1)

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = F.cross_entropy(self.logits(tokens), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss


class Counting(Counted):
    """Micro-batches of the rank's rows; every token counts the same, on whichever rank."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.bug = bug

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        total, count = torch.zeros(()), self.count(labels)
        for a, b in ((0, 1), (1, labels.shape[0])):
            # carries: mean of the micro-batch
            losses = F.cross_entropy(
                self.logits(tokens[a:b]), labels[a:b].flatten(), reduction="sum"
            )
            if self.bug == "mean of the micro-batch":
                count = (labels[a:b] != -100).sum()  # planted: mean of the micro-batch
            # carries: count of the rank, all labels counted, mean of the micro-batch
            loss = losses / count
            loss.backward()
            total = total + loss.detach()  # carries: mean of the micro-batch
        for p in self.parameters():
            op = dist.ReduceOp.SUM
            if self.bug == "mean of the ranks":
                op = dist.ReduceOp.AVG  # planted: mean of the ranks
            dist.all_reduce(p.grad, op)  # carries: mean of the ranks
        optimizer.step()
        dist.all_reduce(total)  # carries: mean of the micro-batch
        return total

    def count(self, labels: Any) -> Any:
        """How many labels count on all ranks."""
        if self.bug == "all labels counted":
            count = torch.tensor(float(labels.numel()))  # planted: all labels counted
        else:
            count = (labels != -100).sum()
        if self.bug != "count of the rank":
            dist.all_reduce(count)  # carries: all labels counted
        return count  # planted: count of the rank


def counting(bug: str = "", rows: tuple[int, ...] = (2, 2)) -> Spec:
    return Spec(
        sequential=Counted,
        distributed=lambda mesh, rank: Counting(bug),
        mesh=Mesh(dp=len(rows)),
        inputs={
            k: c.Input((sum(rows), 4), "i64", {"dp": Shard(0, sizes=list(rows))})
            for k in ("tokens", "labels")
        },
        step=c.own_step,
        optimizer=c.sgd,
    )


def counting_uneven(bug: str = "") -> Spec:
    return counting(bug, (3, 2, 2))


def micro4(bug: str = "") -> Spec:
    return micro(bug, 4)


TOKENS = (
    "mean of the micro-batch",
    "count of the rank",
    "all labels counted",
    "mean of the ranks",
)

CASES = [
    Case(
        "uneven accumulation",
        micro,
        twins(micro, "equal weights", "micro-batches overlap", "earlier gradients dropped"),
    ),
    Case(
        "uneven accumulation tp4",
        micro4,
        twins(micro4, "equal weights", "micro-batches overlap", "earlier gradients dropped"),
    ),
    Case("accumulated tokens dp2", counting, twins(counting, *TOKENS)),
    Case("accumulated tokens dp3, uneven", counting_uneven, twins(counting_uneven, *TOKENS[1:])),
]
