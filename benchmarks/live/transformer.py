"""A small language model of two layers, whole or as the part of one rank.

The parallel versions of it (`tensor_parallel.py`, `sequence_parallel.py`, ...) replace the methods
that communicate.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from shardproof import Input, Shard

VOCAB, HIDDEN, HEAD, LAYERS = 12, 8, 2, 2
BATCH, LENGTH = 2, 4
# How the weights lie where the axes of the mesh are as long as each other; the rest is whole.
PARTS = {
    **{f"*.{name}.*": {"tp": Shard(0)} for name in ("q", "k", "v", "up")},
    **{f"*.{name}.weight": {"tp": Shard(1)} for name in ("out", "down")},
}


class Attention(nn.Module):
    """``heads`` heads of width 2; the bias of the output is a part of it on one device only."""

    def __init__(self, heads: int = 4) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(HIDDEN, heads * HEAD) for _ in range(3))
        self.out = nn.Linear(heads * HEAD, HIDDEN)

    def context(self, x: Any) -> Any:
        """What the heads read, before the output projection: [batch, length, heads * 2]."""
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, -1, HEAD).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).reshape(batch, length, -1)

    def forward(self, x: Any) -> Any:
        return self.out(self.context(x))


class FeedForward(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(HIDDEN, width), nn.Linear(width, HIDDEN)

    def forward(self, x: Any) -> Any:
        return self.down(F.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, heads: int = 4, width: int = 16) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(HIDDEN), Attention(heads)
        self.norm2, self.mlp = nn.LayerNorm(HIDDEN), FeedForward(width)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def counted(z: Any, labels: Any) -> Any:
    """The mean over the labels that count: those of -100 do not."""
    return F.cross_entropy(z.flatten(0, 1), labels.flatten())


def every(z: Any, labels: Any) -> Any:
    """The mean over all labels."""
    return -torch.log_softmax(z, -1).gather(-1, labels.unsqueeze(-1)).mean()


class Transformer(nn.Module):
    """``heads`` and ``width`` are those of one rank."""

    loss = staticmethod(counted)

    def __init__(self, heads: int = 4, width: int = 16, layers: int = LAYERS) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(self.layer(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def layer(self, heads: int, width: int) -> nn.Module:
        return Layer(heads, width)

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.loss(self.head(self.norm(x)), labels)

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = self(tokens, labels)
        loss.backward()
        optimizer.step()
        return loss


class EveryLabel(Transformer):
    loss = staticmethod(every)


def batch(placement: Any = None, rows: int = BATCH) -> dict[str, Input]:
    """Tokens and labels; the labels are given, not shifted here."""
    extra = () if placement is None else (placement,)
    return {k: Input((rows, LENGTH), "i64", *extra) for k in ("tokens", "labels")}


def share(whole: int, rank: int, ranks: int) -> int:
    """How many of ``whole`` a rank has where the first ranks take one more."""
    return whole // ranks + (rank < whole % ranks)
