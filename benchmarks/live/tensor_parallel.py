"""Tensor and sequence parallelism written by hand, in the style of Megatron."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c

from shardproof import Mesh, Spec
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
        dist.all_reduce(grad, group=ctx.group)
        return grad, None, None


class Mlp(c.Mlp):
    def __init__(self, group: Any, bug: str = "") -> None:
        super().__init__(group)
        self.bug = bug

    def forward(self, x: Any, y: Any) -> Any:
        x = Enter.apply(x, self.group, self.bug)  # carries: no backward sum
        h = self.down(F.gelu(self.up(x)))
        if self.bug == "half of the sum":
            h = h / 2  # planted: half of the sum
        if self.bug != "no sum":
            h = c.Leave.apply(h, self.group)
        return F.mse_loss(h, y)  # planted: no sum


def mlp(bug: str = "") -> Spec:
    """Two linear layers over four ranks, with AdamW."""
    return Spec(
        sequential=c.Mlp,
        distributed=lambda mesh, rank: Mlp(mesh.get_group("tp"), bug),
        mesh=Mesh(tp=4),
        inputs={k: c.Input((4, 8), "f32", grad=k == "x") for k in ("x", "y")},
        step="train",
        optimizer=c.adamw,
    )


CASES = [
    Case("tp mlp", mlp, twins(mlp, "no backward sum", "half of the sum", "no sum")),
]
