"""A small transformer with hand-written tensor parallelism, checked from its code.

    shardproof check examples/tp_transformer.py:right       one training step, 2 ranks
    shardproof check examples/tp_transformer.py:no_backward_sum   and three wrong twins

The functions below are ordinary PyTorch; nothing in the model knows of Shardproof. The weights
are never allocated and nothing is sent. `make demo-live` runs `right` and one twin.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from shardproof import Input, Mesh, Spec

VOCAB, HIDDEN, HEADS, LAYERS = 32, 16, 4, 2


class Enter(torch.autograd.Function):
    """The input of a column-parallel layer: every rank's gradient is a part of the sum."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class EnterWithoutSum(Enter):
    """The bug: the backward all-reduce is missing."""

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Leave(torch.autograd.Function):
    """The output of a row-parallel layer: the ranks' outputs are parts of the sum."""

    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Attention(nn.Module):
    def __init__(self, ranks=1):
        super().__init__()
        self.heads = HEADS // ranks
        self.query = nn.Linear(HIDDEN, HIDDEN // ranks)
        self.key = nn.Linear(HIDDEN, HIDDEN // ranks)
        self.value = nn.Linear(HIDDEN, HIDDEN // ranks)
        self.out = nn.Linear(HIDDEN // ranks, HIDDEN, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self, ranks=1):
        super().__init__()
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN // ranks)
        self.down = nn.Linear(4 * HIDDEN // ranks, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, group=None, enter=Enter, scale=1.0):
        super().__init__()
        ranks = 1 if group is None else dist.get_world_size(group)
        self.group, self.enter, self.scale = group, enter, scale
        self.norm1, self.attention = nn.LayerNorm(HIDDEN), Attention(ranks)
        self.norm2, self.mlp = nn.LayerNorm(HIDDEN), Mlp(ranks)

    def parallel(self, block, x):
        if self.group is None:
            return block(x)
        return Leave.apply(block(self.enter.apply(x, self.group)), self.group) * self.scale

    def forward(self, x):
        x = x + self.parallel(self.attention, self.norm1(x))
        return x + self.parallel(self.mlp, self.norm2(x))


class VocabEmbedding(nn.Module):
    """A slice of the rows of the table; `shift` is a bug: the slice starts elsewhere."""

    def __init__(self, group, shift=0):
        super().__init__()
        self.group = group
        self.rows = VOCAB // dist.get_world_size(group)
        self.first = dist.get_rank(group) * self.rows + shift
        self.weight = nn.Parameter(torch.empty(self.rows, HIDDEN))

    def forward(self, tokens):
        local = tokens - self.first
        absent = (local < 0) | (local >= self.rows)
        rows = F.embedding(local.masked_fill(absent, 0), self.weight)
        return Leave.apply(rows.masked_fill(absent.unsqueeze(-1), 0.0), self.group)


class Transformer(nn.Module):
    def __init__(self, group=None, enter=Enter, scale=1.0, shift=0):
        super().__init__()
        parallel = group is not None
        self.embed = VocabEmbedding(group, shift) if parallel else nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer(group, enter, scale) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens, labels):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def check(ranks=2, step="train", **bug):
    return Spec(
        sequential=Transformer,
        distributed=lambda mesh, rank: Transformer(mesh.get_group("tp"), **bug),
        mesh=Mesh(tp=ranks),
        inputs={"tokens": Input((2, 8), "i64"), "labels": Input((2, 8), "i64")},
        step=step,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-3),
    )


def right():
    """One training step: loss, gradients, AdamW state and updated weights."""
    return check()


def no_backward_sum():
    """The backward all-reduce is missing: the loss is right, the gradients are not."""
    return check(step="backward", enter=EnterWithoutSum)


def wrong_scale():
    """The output of every block is scaled by the number of ranks."""
    return check(step="forward", scale=2.0)


def wrong_offset():
    """The rows of the embedding table start one too late."""
    return check(step="forward", shift=1)
