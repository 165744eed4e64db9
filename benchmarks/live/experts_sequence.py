"""Mixture of experts with expert, tensor and sequence parallelism: between attention and experts
each rank of tp holds its part of the sequence.

Scores are computed of the own tokens and gathered, so that all ranks of a tp group route alike:
which tokens find room at an expert depends on the whole sequence.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from benchmarks.live import experts as e
from benchmarks.live import sequence_parallel as sp

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins

# The gradient is complete over ep by a line of the other file, which does not sum it over tp.
# carries in experts.py: router of own tokens: dist.all_reduce(x, op, self.of(axis))
# carries in experts.py: bias of own tokens: dist.all_reduce(x, op, self.of(axis))


def along(function: type[torch.autograd.Function], x: Any, groups: e.Groups) -> Any:
    """A function of the first dim, applied to the second, which is the sequence."""
    return function.apply(x.transpose(0, 1), groups.of("tp"), groups.bug).transpose(0, 1)


class Moe(e.Moe):
    def logits(self, x: Any) -> Any:
        own = self.router(x)  # carries: router of own tokens
        if self.bug == "gathered scores summed":
            return along(sp.Gather, own, self.groups)  # planted: gathered scores summed
        return along(sp.Join, own, self.groups)

    def enter(self, x: Any) -> Any:
        return along(sp.Gather, x, self.groups)

    def leave(self, x: Any) -> Any:
        if self.bug == "sum of the experts taken twice":
            x = e.c.Leave.apply(x, self.groups.of("tp"))
            return along(sp.Scatter, x, self.groups)  # planted: sum of the experts taken twice
        return along(sp.Scatter, x, self.groups)


class Layer(e.Layer):
    def moe_of(self, groups: e.Groups | None) -> Moe:
        return Moe(groups)

    def attend(self, x: Any) -> Any:
        out = self.attention.out
        y = self.attention.context(along(sp.Gather, x, self.groups))
        y = along(sp.Scatter, F.linear(y, out.weight), self.groups)
        return y + out.bias  # carries: bias of own tokens


class Model(e.Model):
    layer = Layer

    def start(self, x: Any) -> Any:
        return along(sp.Split, x, self.groups)

    def end(self, x: Any) -> Any:
        return along(sp.Join, x, self.groups)

    def axes(self, name: str) -> tuple[str, ...]:
        """Norms, router and the bias after attention have seen the tokens of their part only."""
        axes, bug = super().axes(name), self.groups.bug
        if bug == "router of own tokens" and "router" in name:
            return axes  # planted: router of own tokens
        if bug == "bias of own tokens" and "out.bias" in name:
            return axes  # planted: bias of own tokens
        part = ("norm1", "norm2", "router", "out.bias")
        return (*axes, "tp") if any(x in name for x in part) else axes


def ep2_tp2(bug: str = "") -> Spec:
    return e.spec(Mesh(ep=2, tp=2), bug, model=Model)


CASES = [
    Case("experts ep2 tp2 sp", ep2_tp2, twins(ep2_tp2, "gathered scores summed",
         "router of own tokens", "bias of own tokens", "sum of the experts taken twice"),
         long=True),
]  # fmt: skip
