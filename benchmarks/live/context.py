"""Context parallelism by hand: every rank has a part of the sequence. Ulysses (heads change places
with the sequence around attention), with rotary positions and a loss over unequal token counts."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import transformer as t
from torch import nn

from shardproof import Input, Mesh, Shard, Spec
from shardproof.testing.cases import Case, twins

LENGTH, HEADS, HEAD = 8, 4, 2
SEQUENCE = {"cp": Shard(1)}


def rotated(x: Any, positions: Any) -> Any:
    """Rotary positions of halves; x is [batch, length, heads, 2]."""
    angle = (positions * 0.5).view(1, -1, 1, 1)  # carries: positions from zero
    a, b = x.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    # carries: positions from zero
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(t.HIDDEN, HEADS * HEAD) for _ in range(3))
        self.out = nn.Linear(HEADS * HEAD, t.HIDDEN)

    def positions(self, length: int) -> Any:
        return torch.arange(length)

    def forward(self, x: Any) -> Any:
        # carries: bias gradient not summed
        q, k, v = (layer(x).view(*x.shape[:2], HEADS, HEAD) for layer in (self.q, self.k, self.v))
        at = self.positions(x.shape[1])
        y = self.attend(rotated(q, at), rotated(k, at), v)
        return self.out(y.reshape(*x.shape[:2], -1))  # carries: bias gradient not summed

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


class Layer(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(t.HIDDEN), attention
        self.norm2, self.mlp = nn.LayerNorm(t.HIDDEN), t.FeedForward()

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))  # carries: bias gradient not summed
        return x + self.mlp(self.norm2(x))  # carries: bias gradient not summed


class Model(nn.Module):
    """A language model with its step; labels of -100 do not count."""

    def __init__(self, layers: int = 1) -> None:
        super().__init__()
        self.embed = nn.Embedding(t.VOCAB, t.HIDDEN)
        self.layers = nn.ModuleList(Layer(self.attention()) for _ in range(layers))
        self.norm = nn.LayerNorm(t.HIDDEN)
        self.head = nn.Linear(t.HIDDEN, t.VOCAB, bias=False)

    def attention(self) -> nn.Module:
        return Attention()

    def losses(self, tokens: Any, labels: Any) -> Any:
        """One a token, 0 where the label does not count."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        z = self.head(self.norm(x)).flatten(0, 1)  # carries: bias gradient not summed
        return F.cross_entropy(z, labels.flatten(), reduction="none")

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = self.losses(tokens, labels).sum() / (labels != -100).sum()
        loss.backward()
        optimizer.step()
        return loss


# ------------------------------------------------------------------ Ulysses


def swapped(x: Any, cut: int, join: int, group: Any, turn: int = 0) -> Any:
    """Cut along one dim, joined along another."""
    n = dist.get_world_size(group)
    parts = [p.contiguous() for p in x.chunk(n, cut)]
    parts = parts[turn:] + parts[:turn]
    out = [torch.empty_like(p) for p in parts]
    dist.all_to_all(out, parts, group=group)
    return torch.cat(out, join)  # carries: heads of the next rank


class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, cut: int, join: int, group: Any, bug: str) -> Any:
        ctx.cut, ctx.join, ctx.group, ctx.bug = cut, join, group, bug
        if bug == "heads of the next rank" and cut == 2:
            return swapped(x, cut, join, group, 1)  # planted: heads of the next rank
        return swapped(x, cut, join, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.bug == "gradient summed over ranks" and ctx.cut == 1:
            grad = grad.contiguous()
            dist.all_reduce(grad, group=ctx.group)  # planted: gradient summed over ranks
        return swapped(grad, ctx.join, ctx.cut, ctx.group), None, None, None, None


class Ulysses(Attention):
    def __init__(self, group: Any, bug: str) -> None:
        super().__init__()
        self.group, self.bug = group, bug

    def positions(self, length: int) -> Any:
        start = dist.get_rank(self.group) * length
        if self.bug == "positions from zero":
            start = 0  # planted: positions from zero
        return torch.arange(start, start + length)

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        if self.bug == "attention to the own part":
            return super().attend(q, k, v)  # planted: attention to the own part
        q, k, v = (Swap.apply(x, 2, 1, self.group, self.bug) for x in (q, k, v))
        return Swap.apply(super().attend(q, k, v), 1, 2, self.group, self.bug)


class Parallel(Model):
    def __init__(self, group: Any, bug: str, layers: int = 1) -> None:
        self.group, self.bug = group, bug
        super().__init__(layers)

    def attention(self) -> nn.Module:
        return Ulysses(self.group, self.bug)

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        """Every rank's share of the mean over all tokens that count, then sums."""
        losses, count = self.losses(tokens, labels), (labels != -100).sum()
        op = dist.ReduceOp.SUM
        if self.bug == "own count of tokens":
            op = dist.ReduceOp.AVG  # planted: own count of tokens
        else:
            dist.all_reduce(count, group=self.group)
        loss = losses.sum() / count  # carries: own count of tokens
        loss.backward()
        for p in self.parameters():
            how = op
            if self.bug == "gradients averaged":
                how = dist.ReduceOp.AVG  # planted: gradients averaged
            # planted: bias gradient not summed
            if self.bug != "bias gradient not summed" or p.dim() > 1:
                dist.all_reduce(p.grad, how, self.group)  # carries: gradients averaged
        optimizer.step()  # carries: bias gradient not summed
        total = loss.detach()
        dist.all_reduce(total, op, self.group)
        return total


def batch() -> dict[str, Input]:
    return {k: Input((2, LENGTH), "i64", SEQUENCE) for k in ("tokens", "labels")}


def ulysses(bug: str = "", ranks: int = 2, layers: int = 1) -> Spec:
    return Spec(
        sequential=lambda: Model(layers),
        distributed=lambda mesh, rank: Parallel(mesh.get_group("cp"), bug, layers),
        mesh=Mesh(cp=ranks),
        inputs=batch(),
        step=c.own_step,
        optimizer=c.adamw,
        parameters={"*": {}},
    )


def ulysses4(bug: str = "") -> Spec:
    return ulysses(bug, 4)


FAULTS = (
    "positions from zero", "heads of the next rank", "attention to the own part",
    "gradient summed over ranks", "own count of tokens", "gradients averaged",
    "bias gradient not summed",
)  # fmt: skip

CASES = [
    Case("ulysses cp2", ulysses, twins(ulysses, *FAULTS), long=True),
    Case("ulysses cp4", ulysses4, twins(ulysses4, *FAULTS[::3]), long=True),
]
