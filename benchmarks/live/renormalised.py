"""Experts whose chosen weights are scaled to add up to one: every rank holds some of the experts,
computes them for all tokens, and the ranks add up what they made.

The weights of all chosen experts meet in the denominator, so the gradient of a weight must be
complete over the ranks before it is divided.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn

from shardproof import Input, Mesh, Spec
from shardproof.testing.cases import Case, twins

HIDDEN, WIDTH, EXPERTS, CHOSEN = 8, 12, 4, 2


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(HIDDEN, WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Moe(nn.Module):
    """The experts ``first`` to ``first + count`` of all."""

    def __init__(
        self, first: int = 0, count: int = EXPERTS, group: Any = None, bug: str = ""
    ) -> None:
        super().__init__()
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.experts = nn.ModuleDict({str(first + k): Expert() for k in range(count)})
        self.group, self.bug = group, bug

    def enter(self, x: Any) -> Any:
        return c.Enter.apply(x, self.group) if self.group is not None else x

    def forward(self, x: Any) -> Any:
        entered = self.enter(x)
        if self.bug == "entered before the router":
            x = entered  # planted: entered before the router
        scores = F.softmax(self.router(x), -1)  # carries: entered before the router
        weights, chosen = torch.topk(scores, CHOSEN, -1)  # carries: weights do not enter
        total = weights.sum(-1, keepdim=True)
        if self.bug == "scaled to the own experts":
            held_here = [int(k) for k in self.experts]
            own = (chosen >= held_here[0]) & (chosen <= held_here[-1])
            held = torch.where(own, weights, 0.0)  # planted: scaled to the own experts
            total = held.sum(-1, keepdim=True)
        weights = (
            weights / total
        )  # carries: scaled to the own experts, weights do not enter, entered before the router
        if self.bug not in ("entered before the router", "weights do not enter"):
            weights = self.enter(weights)  # planted: weights do not enter
        out = torch.zeros_like(x)
        for name, expert in self.experts.items():
            number = int(name)
            if self.bug == "experts counted from zero":
                number %= len(self.experts)  # planted: experts counted from zero
            chosen_here = chosen == number  # carries: experts counted from zero
            weight = torch.where(chosen_here, weights, 0.0).sum(-1, keepdim=True)
            out = out + expert(entered) * weight  # carries: experts counted from zero
        return c.Leave.apply(out, self.group) if self.group is not None else out


class Model(nn.Module):
    def __init__(self, *args: Any) -> None:
        super().__init__()
        self.norm, self.moe = nn.LayerNorm(HIDDEN), Moe(*args)

    def forward(self, x: Any, y: Any) -> Any:
        return F.mse_loss(x + self.moe(self.norm(x)), y)


def renormalised(bug: str = "", ranks: int = 2) -> Spec:
    count = EXPERTS // ranks
    return Spec(
        sequential=Model,
        distributed=lambda mesh, rank: Model(rank * count, count, mesh["ep"].get_group(), bug),
        mesh=Mesh(ep=ranks),
        inputs={k: Input((6, HIDDEN)) for k in ("x", "y")},
        step="train",
        optimizer=c.adamw,
    )


def on_four(bug: str = "") -> Spec:
    return renormalised(bug, 4)


FAULTS = (
    "scaled to the own experts",
    "weights do not enter",
    "entered before the router",
    "experts counted from zero",
)
CASES = [
    Case("renormalised experts ep2", renormalised, twins(renormalised, *FAULTS)),
    Case("renormalised experts ep4", on_four, twins(on_four, *FAULTS), long=True),
]
