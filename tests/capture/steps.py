"""Steps of the cases in test_replay_dtensor.py."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.live import common as p
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from torch.utils.checkpoint import checkpoint


def clipped(model: Any, optimizer: Any, **inputs: Any) -> Any:
    """A training step with clipping."""
    loss = model(**inputs)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    return loss


class Checkpointed(p.Net):
    """The block's activations are computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = checkpoint(self.block, self.emb(tokens), use_reentrant=self.reentrant)
        z = self.head(self.norm(x))
        return -torch.log_softmax(z, -1).gather(-1, labels.unsqueeze(-1)).mean()


class CrossEntropy(p.Net):
    def forward(self, tokens: Any, labels: Any) -> Any:
        z = self.head(self.norm(self.block(self.emb(tokens))))
        return F.cross_entropy(z.flatten(0, 1), labels.flatten())


def vocabulary_parallel(mesh: Any, rank: int) -> nn.Module:
    """The logits stay cut over the vocabulary."""
    net = CrossEntropy()
    plan: dict[str, Any] = {n: ColwiseParallel() for n in ("q", "k", "v", "up")}
    plan.update({n: RowwiseParallel() for n in ("o", "down")})
    parallelize_module(net.block, mesh["tp"], plan)
    outer = {
        "emb": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    return parallelize_module(net, mesh["tp"], outer)


def with_loss_parallel(model: Any, optimizer: Any, **inputs: Any) -> Any:
    with loss_parallel():
        loss = model(**inputs)
        loss.backward()
    return loss
