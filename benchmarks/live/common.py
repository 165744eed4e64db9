"""Models, inputs and optimizers that several modules of cases use."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from shardproof import Input
from shardproof import Shard as Cut
from shardproof.examples.bugs.parts import Enter as Enter
from shardproof.examples.bugs.parts import Leave as Leave


class Mlp(nn.Module):
    """Two linear layers and a squared error, tensor parallel where there is a group."""

    def __init__(self, group: Any = None) -> None:
        super().__init__()
        self.group = group
        ranks = dist.get_world_size(group) if group else 1
        self.up = nn.Linear(8, 16 // ranks)
        self.down = nn.Linear(16 // ranks, 8, bias=False)

    def forward(self, x: Any, y: Any) -> Any:
        if self.group is None:
            return F.mse_loss(self.down(F.gelu(self.up(x))), y)
        h = self.down(F.gelu(self.up(Enter.apply(x, self.group))))
        return F.mse_loss(Leave.apply(h, self.group), y)


class Block(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.q, self.k, self.v = (nn.Linear(hidden, hidden) for _ in range(3))
        self.o = nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)

    def forward(self, x: Any) -> Any:
        y = self.norm1(x)
        b, t, _ = y.shape
        q, k, v = (p(y).view(b, t, -1, 4).transpose(1, 2) for p in (self.q, self.k, self.v))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(o.transpose(1, 2).reshape(b, t, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    """A language model with one block."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.emb = nn.Embedding(32, hidden)
        self.block = Block(hidden)
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Linear(hidden, 32, bias=False)

    def forward(self, tokens: Any, labels: Any) -> Any:
        z = self.head(self.norm(self.block(self.emb(tokens))))
        return -torch.log_softmax(z, -1).gather(-1, labels.unsqueeze(-1)).mean()


def dtensor_tp(mesh: Any, rank: int, net: Any = None) -> nn.Module:
    net = net or Net()
    plan: dict[str, Any] = {n: ColwiseParallel() for n in ("q", "k", "v", "up")}
    plan.update({n: RowwiseParallel() for n in ("o", "down")})
    parallelize_module(net.block, mesh["tp"], plan)
    outer = {
        "emb": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Replicate()),
    }
    return parallelize_module(net, mesh["tp"], outer)


def pairs(placement: Any = None) -> dict[str, Input]:
    extra = () if placement is None else (placement,)
    return {k: Input((4, 8), "f32", *extra) for k in ("x", "y")}


def tokens(placement: Any = None) -> dict[str, Input]:
    extra = () if placement is None else (placement,)
    return {k: Input((4, 8), "i64", *extra) for k in ("tokens", "labels")}


BATCH = {"dp": Cut(0)}


def sgd(params: Any) -> Any:
    return torch.optim.SGD(params, lr=0.1, momentum=0.9)


def adamw(params: Any) -> Any:
    return torch.optim.AdamW(params, lr=0.01)


def adamw_foreach(params: Any) -> Any:
    return torch.optim.AdamW(params, lr=0.01, foreach=True)


def own_step(model: Any, optimizer: Any, **inputs: Any) -> Any:
    """The step that the model brings along."""
    return model.step(optimizer, **inputs)
