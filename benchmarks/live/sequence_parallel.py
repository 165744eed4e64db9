"""Tensor and sequence parallelism written by hand: between the layers each rank holds its part of
the sequence, which is the first dim here."""

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


def gather(x: Any, group: Any) -> Any:
    n = dist.get_world_size(group)
    out = x.new_empty((n * x.shape[0], *x.shape[1:]))
    dist.all_gather_into_tensor(out, x.contiguous(), group=group)
    return out


def scatter(x: Any, group: Any, op: Any = dist.ReduceOp.SUM) -> Any:
    n = dist.get_world_size(group)
    out = x.new_empty((x.shape[0] // n, *x.shape[1:]))
    dist.reduce_scatter_tensor(out, x.contiguous(), op=op, group=group)
    return out


def own(x: Any, group: Any, shift: int = 0) -> Any:
    n = dist.get_world_size(group)
    return x.chunk(n)[(dist.get_rank(group) + shift) % n]


class Gather(torch.autograd.Function):
    """The whole sequence for a column-parallel layer."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, bug: str) -> Any:
        ctx.group, ctx.bug = group, bug
        return gather(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.bug == "own part of the gradient":
            return own(grad, ctx.group), None, None  # planted: own part of the gradient
        return scatter(grad, ctx.group), None, None


class Scatter(torch.autograd.Function):
    """The sum of a row-parallel layer, cut along the sequence."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, bug: str) -> Any:
        ctx.group = group
        if bug == "mean of the parts":
            return scatter(x, group, dist.ReduceOp.AVG)  # planted: mean of the parts
        return scatter(x, group)  # carries: bias before the sum

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return gather(grad, ctx.group), None, None


class Split(torch.autograd.Function):
    """This rank's part of a sequence that all ranks hold."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, bug: str) -> Any:
        ctx.group = group
        if bug == "part of the next rank":
            return own(x, group, 1).clone()  # planted: part of the next rank
        return own(x, group).clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return gather(grad, ctx.group), None, None


class Join(torch.autograd.Function):
    """The whole sequence for layers that every rank computes alike."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any, bug: str) -> Any:
        ctx.group, ctx.bug = group, bug
        return gather(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.bug == "equal gradients summed":
            return scatter(grad, ctx.group), None, None  # planted: equal gradients summed
        return own(grad, ctx.group).clone(), None, None


class Layer(t.Layer):
    def __init__(self, heads: int, width: int, group: Any, bug: str) -> None:
        super().__init__(heads, width)
        self.group, self.bug = group, bug

    def leave(self, x: Any, out: nn.Linear) -> Any:
        if self.bug == "bias before the sum":
            x = F.linear(x, out.weight, out.bias)  # planted: bias before the sum
            return Scatter.apply(x, self.group, self.bug)
        x = F.linear(x, out.weight)
        # carries: bias gradients not summed
        return Scatter.apply(x, self.group, self.bug) + out.bias

    def forward(self, x: Any) -> Any:
        # carries: own part of the gradient, norm gradients not summed
        y = Gather.apply(self.norm1(x), self.group, self.bug)
        y = self.attention.context(y.transpose(0, 1)).transpose(0, 1)
        x = x + self.leave(y, self.attention.out)
        # carries: own part of the gradient, norm gradients not summed
        y = Gather.apply(self.norm2(x), self.group, self.bug)
        return x + self.leave(F.gelu(self.mlp.up(y)), self.mlp.down)


class Transformer(t.Transformer):
    def __init__(self, ranks: int, group: Any, bug: str) -> None:
        self.group, self.bug = group, bug
        super().__init__(4 // ranks, 16 // ranks)

    def layer(self, heads: int, width: int) -> nn.Module:
        return Layer(heads, width, self.group, self.bug)

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = Split.apply(self.embed(tokens).transpose(0, 1), self.group, self.bug)
        for layer in self.layers:
            x = layer(x)  # carries: part of the next rank
        # carries: norm gradients not summed
        x = Join.apply(self.norm(x), self.group, self.bug).transpose(0, 1)
        return self.loss(self.head(x), labels)

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = self(tokens, labels)
        loss.backward()
        for name, p in self.named_parameters():
            if not self.of_a_part(name):
                continue
            op = dist.ReduceOp.SUM
            if self.bug == "norm gradients averaged":
                op = dist.ReduceOp.AVG  # planted: norm gradients averaged
            dist.all_reduce(p.grad, op, self.group)  # carries: norm gradients averaged
        if self.bug == "decayed twice":
            with torch.no_grad():
                self.norm.weight.mul_(0.99)  # planted: decayed twice
        optimizer.step()  # carries: norm gradients not summed, bias gradients not summed
        return loss

    def of_a_part(self, name: str) -> bool:
        """Whether every rank computes a parameter's gradient from its part of the sequence."""
        norms = "norm" in name
        biases = name.endswith(("out.bias", "down.bias"))
        if self.bug == "norm gradients not summed":
            return biases  # planted: norm gradients not summed
        if self.bug == "bias gradients not summed":
            return norms  # planted: bias gradients not summed
        return norms or biases


def sp(bug: str = "", ranks: int = 2) -> Spec:
    return Spec(
        sequential=t.Transformer,
        distributed=lambda mesh, rank: Transformer(ranks, mesh.get_group("tp"), bug),
        mesh=Mesh(tp=ranks),
        inputs=t.batch(),
        step=c.own_step,
        optimizer=c.adamw if ranks == 2 else c.sgd,
    )


def sp4(bug: str = "") -> Spec:
    return sp(bug, 4)


FAULTS = (
    "own part of the gradient", "mean of the parts", "part of the next rank",
    "equal gradients summed", "bias before the sum", "norm gradients averaged",
    "norm gradients not summed", "bias gradients not summed", "decayed twice",
)  # fmt: skip

CASES = [
    Case("tp2 sp transformer", sp, twins(sp, *FAULTS)),
    Case("tp4 sp transformer", sp4, twins(sp4, *FAULTS[::3])),
]
