"""Tensor parallelism written by hand, in the style of Megatron: one training step."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import transformer as t
from torch import nn

from shardproof import Mesh, Shard, Spec
from shardproof.testing.cases import Case, twins


class Enter(torch.autograd.Function):
    """Into a column-parallel layer; ``bug`` names a fault."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, bug: str) -> Any:
        ctx.group, ctx.bug = group, bug
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.bug == "no backward sum":
            return grad, None, None  # planted: no backward sum
        grad = grad.contiguous()
        op = dist.ReduceOp.SUM
        if ctx.bug == "mean in backward":
            op = dist.ReduceOp.AVG  # planted: mean in backward
        dist.all_reduce(grad, op, ctx.group)  # carries: mean in backward
        if ctx.bug == "backward sum twice":
            dist.all_reduce(grad, group=ctx.group)  # planted: backward sum twice
        return grad, None, None


class Leave(torch.autograd.Function):
    """Out of a row-parallel layer."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, bug: str) -> Any:
        ctx.group, ctx.bug = group, bug
        x = x.clone()
        dist.all_reduce(x, group=group)
        if bug == "sum twice":
            dist.all_reduce(x, group=group)  # planted: sum twice
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.bug == "conjugate sums":
            grad = grad.contiguous()
            dist.all_reduce(grad, group=ctx.group)  # planted: conjugate sums
        return grad, None, None


class Layer(t.Layer):
    """One rank's heads and its part of the width."""

    def __init__(self, heads: int, width: int, group: Any, bug: str) -> None:
        super().__init__(heads, width)
        self.group, self.bug = group, bug

    def leave(self, x: Any, out: nn.Linear) -> Any:
        if self.bug == "bias on every rank":
            x = F.linear(x, out.weight, out.bias)  # planted: bias on every rank
            return Leave.apply(x, self.group, self.bug)  # carries: bias on every rank
        x = F.linear(x, out.weight)  # carries: no sum
        if self.bug == "no sum":
            return x + out.bias  # planted: no sum
        return Leave.apply(x, self.group, self.bug) + out.bias

    def forward(self, x: Any) -> Any:
        y = Enter.apply(self.norm1(x), self.group, self.bug)  # carries: no backward sum
        x = x + self.leave(self.attention.context(y), self.attention.out)
        y = Enter.apply(self.norm2(x), self.group, self.bug)  # carries: no backward sum
        return x + self.leave(F.gelu(self.mlp.up(y)), self.mlp.down)


class Transformer(t.Transformer):
    def __init__(self, heads: int, width: int, group: Any, bug: str) -> None:
        self.group, self.bug = group, bug
        super().__init__(heads, width)

    def layer(self, heads: int, width: int) -> nn.Module:
        return Layer(heads, width, self.group, self.bug)

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = self(tokens, labels)
        if self.bug == "loss divided by the ranks":
            (loss / 2).backward()  # planted: loss divided by the ranks
        else:
            loss.backward()
        if self.bug == "gradients summed again":
            for p in self.layers[0].mlp.up.parameters():
                dist.all_reduce(p.grad, group=self.group)  # planted: gradients summed again
        if self.bug == "replicated gradients summed":
            dist.all_reduce(self.norm.weight.grad)  # planted: replicated gradients summed
        optimizer.step()
        if self.bug == "step taken twice":
            optimizer.step()  # planted: step taken twice
        return loss


def whole(heads: int = 4, width: int = 16) -> Any:
    return lambda: t.Transformer(heads, width)


def tp(bug: str = "", ranks: int = 2, heads: int = 4, width: int = 16) -> Spec:
    """All ranks see the whole batch."""

    def part(mesh: Any, rank: int) -> nn.Module:
        mine = t.share(heads, rank, ranks), t.share(width, rank, ranks)
        return Transformer(*mine, mesh.get_group("tp"), bug)

    return Spec(
        sequential=whole(heads, width),
        distributed=part,
        mesh=Mesh(tp=ranks),
        inputs=t.batch(),
        step=c.own_step,
        optimizer=c.adamw,
    )


def tp4(bug: str = "") -> Spec:
    return tp(bug, ranks=4)


def uneven(bug: str = "") -> Spec:
    """Three heads and a width of seven over two ranks."""
    return tp(bug, heads=3, width=7)


class DataAndTensor(Transformer):
    """Also over two replicas, each with its part of the batch."""

    loss = staticmethod(t.every)

    def __init__(self, mesh: Any, bug: str) -> None:
        self.dp = mesh.get_group("dp")
        group = mesh.get_group("tp")
        if bug == "sum over the wrong axis":
            group = self.dp  # planted: sum over the wrong axis
        super().__init__(2, 8, group, bug)

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = self(tokens, labels)
        loss.backward()
        for name, p in self.named_parameters():
            if self.bug == "one gradient not synchronised" and name == "head.weight":
                continue  # planted: one gradient not synchronised
            group = self.dp
            if self.bug == "synchronised over the wrong axis":
                group = self.group  # planted: synchronised over the wrong axis
            op = dist.ReduceOp.AVG
            if self.bug == "sum of gradients":
                op = dist.ReduceOp.SUM  # planted: sum of gradients
            # carries: sum of gradients, synchronised over the wrong axis
            dist.all_reduce(p.grad, op, group)
        optimizer.step()  # carries: one gradient not synchronised
        loss = loss.detach().clone()
        dist.all_reduce(loss, dist.ReduceOp.AVG, self.dp)
        return loss


def dp_tp(bug: str = "") -> Spec:
    return Spec(
        sequential=t.EveryLabel,
        distributed=lambda mesh, rank: DataAndTensor(mesh, bug),
        mesh=Mesh(dp=2, tp=2),
        inputs=t.batch({"dp": Shard(0)}),
        parameters=t.PARTS,
        step=c.own_step,
        optimizer=c.sgd,
    )


FAULTS = (
    "no sum", "sum twice", "bias on every rank", "no backward sum", "mean in backward",
    "backward sum twice", "conjugate sums", "loss divided by the ranks", "gradients summed again",
    "replicated gradients summed", "step taken twice",
)  # fmt: skip

CASES = [
    Case("tp2 transformer", tp, twins(tp, *FAULTS)),
    Case("tp4 transformer", tp4, twins(tp4, *FAULTS[::3])),
    Case("tp2 transformer, uneven", uneven, twins(uneven, *FAULTS[1::3])),
    Case(
        "dp2 tp2 transformer",
        dp_tp,
        twins(
            dp_tp,
            "sum over the wrong axis",
            "one gradient not synchronised",
            "synchronised over the wrong axis",
            "sum of gradients",
        ),
    ),
]
