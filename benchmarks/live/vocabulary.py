"""A vocabulary cut over the ranks, by hand: embedding, logits and cross entropy."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import transformer as t
from torch import nn

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins

VOCAB, HIDDEN = 12, 8


class Model(nn.Module):
    """Embedding, two layers, and logits. ``rows`` of the vocabulary are here."""

    def __init__(self, rows: int = VOCAB) -> None:
        super().__init__()
        self.embed = nn.Embedding(rows, HIDDEN)
        self.first, self.second = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, rows, bias=False)

    def inner(self, x: Any) -> Any:
        return self.second(F.gelu(self.first(x)))

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = self(tokens, labels)
        loss.backward()
        optimizer.step()
        return loss


class Whole(Model):
    """Every label counts."""

    def forward(self, tokens: Any, labels: Any) -> Any:
        z = self.head(self.inner(self.embed(tokens)))
        return -torch.log_softmax(z, -1).gather(-1, labels.unsqueeze(-1)).mean()


class Ignoring(Model):
    """Labels of -100 do not count."""

    def forward(self, tokens: Any, labels: Any) -> Any:
        z = self.head(self.inner(self.embed(tokens)))
        return F.cross_entropy(z.flatten(0, 1), labels.flatten())


class Copy(torch.autograd.Function):
    """The same value for every part; the gradients of the parts are summed."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, bug: str) -> Any:
        ctx.group, ctx.bug = group, bug
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.bug == "no backward sum":
            return grad, None, None  # planted: no backward sum
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None, None


class CrossEntropy(torch.autograd.Function):
    """One loss a token, of the logits of ``first`` to ``first + rows`` of the vocabulary."""

    @staticmethod
    def forward(ctx: Any, z: Any, labels: Any, first: int, group: Any, bug: str) -> Any:
        top = z.max(-1).values
        if bug != "own maximum":
            dist.all_reduce(top, dist.ReduceOp.MAX, group)
        z = z - top.unsqueeze(-1)
        local = labels - first
        absent = (local < 0) | (local >= z.shape[-1])
        local = local.masked_fill(absent, 0)
        # carries: target not masked
        target = z.gather(-1, local.unsqueeze(-1)).squeeze(-1)
        if bug != "target not masked":
            target = target.masked_fill(absent, 0.0)
        dist.all_reduce(target, group=group)  # planted: target not masked
        e = z.exp()  # planted: own maximum
        total = e.sum(-1)
        if bug != "sum not reduced":
            dist.all_reduce(total, group=group)  # carries: own maximum
        ctx.bug = bug
        ctx.save_for_backward(e / total.unsqueeze(-1), local, absent)  # planted: sum not reduced
        return total.log() - target  # carries: sum not reduced, target not masked

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        p, local, absent = ctx.saved_tensors
        hit = torch.ones_like(grad)
        if ctx.bug != "gradient of absent targets":
            hit = hit.masked_fill(absent, 0.0)
        # planted: gradient of absent targets
        p = p.scatter_add(-1, local.unsqueeze(-1), -hit.unsqueeze(-1))
        return p * grad.unsqueeze(-1), None, None, None, None


class Parallel(Model):
    def __init__(self, group: Any, sizes: list[int], ignore: bool, bug: str) -> None:
        me = dist.get_rank(group)
        super().__init__(sizes[me])
        self.group, self.ignore, self.bug = group, ignore, bug
        self.first_row, self.rows = sum(sizes[:me]), sizes[me]

    def forward(self, tokens: Any, labels: Any) -> Any:
        first = self.first_row
        if self.bug == "wrong offset":
            first = first + 1  # planted: wrong offset
        local = tokens - first
        absent = (local < 0) | (local >= self.rows)
        # carries: wrong offset, rows not masked, no backward sum
        rows = F.embedding(local.masked_fill(absent, 0), self.embed.weight)
        if self.bug != "rows not masked":
            rows = rows.masked_fill(absent.unsqueeze(-1), 0.0)
        x = self.inner(c.Leave.apply(rows, self.group))  # planted: rows not masked
        z = self.head(Copy.apply(x, self.group, self.bug))  # carries: no backward sum
        losses = CrossEntropy.apply(z, labels, self.first_row, self.group, self.bug)
        if not self.ignore:
            return losses.mean()
        ignored = labels == -100
        if self.bug == "ignored labels counted":
            return losses.masked_fill(ignored, 0.0).mean()  # planted: ignored labels counted
        return losses.masked_fill(ignored, 0.0).sum() / (~ignored).sum()

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = self(tokens, labels)
        loss.backward()
        if self.bug == "shards averaged":
            dist.all_reduce(self.head.weight.grad, dist.ReduceOp.AVG)  # planted: shards averaged
        optimizer.step()
        return loss


def vocabulary(bug: str = "", sizes: tuple[int, ...] = (6, 6), ignore: bool = False) -> Spec:
    return Spec(
        sequential=Ignoring if ignore else Whole,
        distributed=lambda mesh, rank: Parallel(mesh.get_group("tp"), list(sizes), ignore, bug),
        mesh=Mesh(tp=len(sizes)),
        inputs=t.batch(),
        step=c.own_step,
        optimizer=c.adamw,
    )


def four(bug: str = "") -> Spec:
    return vocabulary(bug, (3, 3, 3, 3))


def uneven(bug: str = "") -> Spec:
    return vocabulary(bug, (5, 4, 3))


def ignoring(bug: str = "") -> Spec:
    return vocabulary(bug, ignore=True)


FAULTS = (
    "own maximum", "target not masked", "sum not reduced", "gradient of absent targets",
    "wrong offset", "rows not masked", "no backward sum", "shards averaged",
)  # fmt: skip

CASES = [
    Case("vocabulary tp2", vocabulary, twins(vocabulary, *FAULTS)),
    Case("vocabulary tp4", four, twins(four, *FAULTS[::3])),
    Case(
        "vocabulary tp2, ignored labels",
        ignoring,
        twins(ignoring, "ignored labels counted", "sum not reduced", "no backward sum"),
    ),
    Case("vocabulary tp3, uneven", uneven, twins(uneven, *FAULTS[1:7:2])),
]
