"""Llama at its real sizes: one training step, tensor and sequence parallel, written by hand.

Between the parallel blocks every rank holds a part of the sequence ([s, b, h], dim 0); a block
gathers it on the way in and sums and scatters it on the way out. Heads, key heads, the inner
width of the MLP and the vocabulary are divided over the ranks. A norm works on a part of the
sequence, so its weight's gradient is a part of the sum: the step adds the parts up.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from shardproof import Input, Mesh, Spec
from shardproof.testing.cases import Case

BUG = "norm gradient not summed"


@dataclass(frozen=True, slots=True)
class Config:
    """Sizes; the defaults are those of Llama 3 with 8 billion weights."""

    layers: int = 32
    hidden: int = 4096
    inner: int = 14336
    heads: int = 32
    key_heads: int = 8
    vocab: int = 128256
    theta: float = 500000.0
    eps: float = 1e-5
    batch: int = 2
    length: int = 4096

    @property
    def width(self) -> int:
        """Of one head."""
        return self.hidden // self.heads


SMALL = Config(2, 32, 48, 8, 4, 64, batch=2, length=16)


# ---------------------------------------------------------------- on one device


class Norm(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.eps, self.weight = c.eps, nn.Parameter(torch.ones(c.hidden))

    def forward(self, x: Any) -> Any:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * self.weight  # carries: norm gradient not summed


class Rotary(nn.Module):
    """Cosines and sines of positions and frequencies, [length, width]."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        rates = 1.0 / c.theta ** (torch.arange(0, c.width, 2).float() / c.width)
        angles = torch.outer(torch.arange(c.length).float(), rates)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Any) -> Any:
        """Turn x, [batch, heads, length, width]."""
        first, second = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-second, first), dim=-1) * self.sin


class Attention(nn.Module):
    def __init__(self, c: Config, ranks: int = 1) -> None:
        super().__init__()
        self.width = c.width
        queries, keys = c.hidden // ranks, c.key_heads * c.width // ranks
        self.query = nn.Linear(c.hidden, queries, bias=False)
        self.key = nn.Linear(c.hidden, keys, bias=False)
        self.value = nn.Linear(c.hidden, keys, bias=False)
        self.out = nn.Linear(queries, c.hidden, bias=False)

    def forward(self, x: Any, turn: Rotary) -> Any:
        """Of x, [batch, length, hidden]."""
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, -1, self.width).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True, enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self, c: Config, ranks: int = 1) -> None:
        super().__init__()
        self.gate = nn.Linear(c.hidden, c.inner // ranks, bias=False)
        self.up = nn.Linear(c.hidden, c.inner // ranks, bias=False)
        self.down = nn.Linear(c.inner // ranks, c.hidden, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, c: Config, ranks: int = 1) -> None:
        super().__init__()
        self.norm1, self.attention = Norm(c), Attention(c, ranks)
        self.norm2, self.mlp = Norm(c), Mlp(c, ranks)

    def forward(self, x: Any, turn: Rotary) -> Any:
        x = x + self.attention(self.norm1(x), turn)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, c: Config) -> None:
        super().__init__()
        self.embed = nn.Embedding(c.vocab, c.hidden)
        self.turn = Rotary(c)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.norm, self.head = Norm(c), nn.Linear(c.hidden, c.vocab, bias=False)

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.turn)
        logs = torch.log_softmax(self.head(self.norm(x)), dim=-1)
        return -logs.gather(-1, labels.unsqueeze(-1)).mean()


# ---------------------------------------------------------------- on the ranks of a group


def gathered(x: Any, group: Any) -> Any:
    """All parts of the sequence."""
    out = x.new_empty(x.shape[0] * dist.get_world_size(group), *x.shape[1:])
    dist.all_gather_single(out, x.contiguous(), group=group)
    return out


def scattered(x: Any, group: Any) -> Any:
    """This rank's part of the sum over the ranks."""
    out = x.new_empty(x.shape[0] // dist.get_world_size(group), *x.shape[1:])
    dist.reduce_scatter_single(out, x.contiguous(), group=group)
    return out


class Gather(torch.autograd.Function):
    """Into a block: parts of the sequence to the whole; each rank's gradient is one addend."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any) -> Any:
        ctx.group = group
        return gathered(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return scattered(grad, ctx.group), None


class OwnRows(Gather):
    """With a backward that does not sum."""

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        ranks, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        return grad.chunk(ranks)[rank], None  # planted: own rows of the gradient


class Scatter(torch.autograd.Function):
    """Out of a block: each rank's output is one addend of the sum."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any) -> Any:
        ctx.group = group
        return scattered(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return gathered(grad, ctx.group), None


class CrossEntropy(torch.autograd.Function):
    """Of logits whose vocabulary is divided, one number a token."""

    @staticmethod
    def forward(ctx: Any, logits: Any, labels: Any, first: int, group: Any) -> Any:
        rows = logits.shape[-1]
        top = logits.max(dim=-1)[0]
        dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
        logits = logits - top.unsqueeze(-1)
        local = labels - first
        absent = (local < 0) | (local >= rows)
        local = local.masked_fill(absent, 0)
        picked = logits.gather(-1, local.unsqueeze(-1)).squeeze(
            -1
        )  # carries: rows of the next rank
        picked = picked.masked_fill(absent, 0.0)
        dist.all_reduce(picked, group=group)
        powers = logits.exp()
        total = powers.sum(dim=-1)
        dist.all_reduce(total, group=group)
        ctx.save_for_backward(powers / total.unsqueeze(-1), absent, local)
        return total.log() - picked

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        shares, absent, local = ctx.saved_tensors
        flat = shares.clone().view(-1, shares.shape[-1])
        every = torch.arange(flat.shape[0])
        flat[every, local.flatten()] -= 1.0 - absent.flatten().float()
        return flat.view_as(shares) * grad.unsqueeze(-1), None, None, None


class ParallelEmbedding(nn.Module):
    """Some rows of the table; gives a part of the sequence, [s, b, h]."""

    def __init__(self, c: Config, group: Any) -> None:
        super().__init__()
        self.group, self.rows = group, c.vocab // dist.get_world_size(group)
        self.first = dist.get_rank(group) * self.rows
        self.weight = nn.Parameter(torch.empty(self.rows, c.hidden))

    def forward(self, tokens: Any) -> Any:
        local = tokens - self.first
        absent = (local < 0) | (local >= self.rows)
        found = F.embedding(local.masked_fill(absent, 0), self.weight)
        found = found.masked_fill(absent.unsqueeze(-1), 0.0)
        return Scatter.apply(found.transpose(0, 1), self.group)


class ParallelLayer(Layer):
    def __init__(self, c: Config, group: Any) -> None:
        super().__init__(c, dist.get_world_size(group))
        self.group = group

    def forward(self, x: Any, turn: Rotary) -> Any:
        """Of a part of the sequence, [s, b, h]."""
        y = Gather.apply(self.norm1(x), self.group).transpose(0, 1)
        x = x + Scatter.apply(self.attention(y, turn).transpose(0, 1), self.group)
        y = Gather.apply(self.norm2(x), self.group)
        return x + Scatter.apply(self.mlp(y), self.group)


class ParallelLlama(nn.Module):
    def __init__(self, c: Config, group: Any, bug: str = "") -> None:
        super().__init__()
        self.group, ranks = group, dist.get_world_size(group)
        self.gather = OwnRows if bug == "own rows of the gradient" else Gather
        self.first = dist.get_rank(group) * (c.vocab // ranks)
        if bug == "rows of the next rank":
            self.first = (self.first + c.vocab // ranks) % c.vocab  # planted: rows of the next rank
        self.embed = ParallelEmbedding(c, group)
        self.turn = Rotary(c)
        self.layers = nn.ModuleList(ParallelLayer(c, group) for _ in range(c.layers))
        self.norm, self.head = Norm(c), nn.Linear(c.hidden, c.vocab // ranks, bias=False)

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.turn)
        y = self.gather.apply(self.norm(x), self.group)
        logits = self.head(y)  # carries: own rows of the gradient
        return CrossEntropy.apply(logits, labels.transpose(0, 1), self.first, self.group).mean()


# ---------------------------------------------------------------- the step


def train(forgotten: int | None, model: Any, optimizer: Any, **batch: Any) -> Any:
    """One step; the gradient of the first norm of layer ``forgotten`` is left a part."""
    loss = model(**batch)
    loss.backward()
    if isinstance(model, ParallelLlama):
        skipped = None if forgotten is None else model.layers[forgotten].norm1
        for module in model.modules():
            if (
                isinstance(module, Norm) and module is not skipped
            ):  # planted: norm gradient not summed
                dist.all_reduce(module.weight.grad, group=model.group)
    optimizer.step()  # carries: norm gradient not summed
    return {"loss": loss.detach()}


def llama(
    config: Config = SMALL, ranks: int = 2, forgotten: int | None = None, bug: str = ""
) -> Spec:
    """A training step with AdamW."""
    return Spec(
        sequential=lambda: Llama(config),
        distributed=lambda mesh, rank: ParallelLlama(config, mesh.get_group("tp"), bug),
        mesh=Mesh(tp=ranks),
        inputs={k: Input((config.batch, config.length), "i64") for k in ("tokens", "labels")},
        step=functools.partial(train, forgotten),
        optimizer=lambda params: torch.optim.AdamW(params, lr=3e-4, foreach=False),
    )


CASES = [
    Case(
        "llama tp sp",
        llama,
        {
            BUG: functools.partial(llama, forgotten=1),
            **{
                bug: functools.partial(llama, bug=bug)
                for bug in ("own rows of the gradient", "rows of the next rank")
            },
        },
    ),
]
