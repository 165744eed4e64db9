"""Mixture of experts by hand: experts cut over ep, their width over tp, tokens over dp and ep.

The router takes the best two experts of every token; an expert has room for a fixed number of
tokens of a sample, and what finds no room is dropped. Nothing is assumed about where tokens go:
the places are computed in the programs, and all of this is proved for any routing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import transformer as t
from torch import nn

from shardproof import Input, Mesh, Shard, Spec
from shardproof.testing.cases import Case, twins

EXPERTS, TOP, ROOM, WIDTH = 4, 2, 3, 4
HIDDEN, LENGTH, SAMPLES = t.HIDDEN, 4, 4


class Groups:
    """The process groups of a rank by axis of the mesh, and its fault."""

    def __init__(self, mesh: Any, bug: str) -> None:
        self.mesh, self.bug, self.names = mesh, bug, mesh.mesh_dim_names

    def size(self, axis: str) -> int:
        return self.mesh[axis].size() if axis in self.names else 1

    def of(self, axis: str) -> Any:
        return self.mesh.get_group(axis)

    def sum(self, x: Any, axes: Sequence[str], op: Any = dist.ReduceOp.SUM) -> Any:
        """In place, over those axes that there are."""
        for axis in axes:
            if axis in self.names:
                dist.all_reduce(x, op, self.of(axis))
        return x


def swapped(x: Any, cut: int, join: int, group: Any) -> Any:
    """Cut along one dim, joined along another."""
    parts = [p.contiguous() for p in x.chunk(dist.get_world_size(group), cut)]
    out = [torch.empty_like(p) for p in parts]
    dist.all_to_all(out, parts, group=group)
    return torch.cat(out, join)


class Swap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, cut: int, join: int, group: Any) -> Any:
        ctx.cut, ctx.join, ctx.group = cut, join, group
        return swapped(x, cut, join, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return swapped(grad, ctx.join, ctx.cut, ctx.group), None, None, None


class Experts(nn.Module):
    """Two layers an expert; x is [samples, experts, room, hidden]."""

    def __init__(self, experts: int = EXPERTS, width: int = WIDTH) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(experts, HIDDEN, width))
        self.down = nn.Parameter(torch.empty(experts, width, HIDDEN))

    def forward(self, x: Any) -> Any:
        # carries: experts not summed
        return F.gelu(x.transpose(0, 1).flatten(1, 2) @ self.up) @ self.down


class Moe(nn.Module):
    """Routed experts and one that all tokens see. Returns the output and the auxiliary losses."""

    def __init__(self, groups: Groups | None = None) -> None:
        super().__init__()
        self.groups = groups
        self.ep, self.tp = (groups.size(a) if groups else 1 for a in ("ep", "tp"))
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.experts = Experts(EXPERTS // self.ep, WIDTH // self.tp)
        self.shared_up = nn.Linear(HIDDEN, WIDTH // self.tp, bias=False)
        self.shared_down = nn.Linear(WIDTH // self.tp, HIDDEN, bias=False)

    @property
    def bug(self) -> str:
        return self.groups.bug if self.groups else ""

    def forward(self, x: Any) -> Any:
        logits = self.logits(x)
        p = torch.softmax(logits, -1)
        best, ids = p.topk(TOP, -1)  # carries: no backward sum of the weights
        if self.bug != "weights not normalised":
            best = best / best.sum(-1, keepdim=True)  # planted: weights not normalised
        hit = (ids.unsqueeze(-1) == torch.arange(EXPERTS)).to(x.dtype)
        gates = (hit * best.unsqueeze(-1)).sum(2)  # carries: weights not normalised
        chosen = hit.sum(2)
        at = chosen.cumsum(1) - 1
        send = (at.unsqueeze(-1) == torch.arange(ROOM)) * chosen.unsqueeze(-1)
        # carries: weights not normalised
        y = self.run(x, send, send * gates.unsqueeze(-1))
        return y, self.balance(p, chosen) + 0.01 * self.small(logits)

    def logits(self, x: Any) -> Any:
        """Scores of experts, of all tokens of the samples."""
        # carries: router not summed, no backward sum of the experts
        return self.router(x)

    def run(self, x: Any, send: Any, back: Any) -> Any:
        """The sum of the shared expert and of those that tokens are sent to."""
        if self.bug == "weighted twice":
            send = back  # planted: weighted twice
        seen = self.enter(x)
        if self.bug != "no backward sum of the weights":
            back = self.alike(back)  # planted: no backward sum of the weights
        boxes = torch.einsum("btec,btd->becd", send, seen)  # carries: weighted twice
        y = torch.einsum("btec,becd->btd", back, self.away(boxes))
        return self.leave(y + self.shared_down(F.gelu(self.shared_up(seen))))

    def away(self, boxes: Any) -> Any:
        """What the experts make of [samples, experts, room, hidden]."""
        samples = boxes.shape[0] * self.ep
        if self.ep > 1:
            boxes = Swap.apply(boxes, 1, 0, self.groups.of("ep"))
        y = self.experts(boxes).view(-1, samples, ROOM, HIDDEN).transpose(0, 1)
        if self.ep == 1:
            return y
        if self.bug == "experts in another order":
            y = Swap.apply(y, 0, 2, self.groups.of("ep"))  # planted: experts in another order
            # carries: experts in another order
            return y.reshape(boxes.shape[0] // self.ep, EXPERTS, ROOM, HIDDEN)
        return Swap.apply(y, 0, 1, self.groups.of("ep"))

    def enter(self, x: Any) -> Any:
        """What all ranks of tp read: its gradient is the sum of theirs."""
        if self.bug == "no backward sum of the experts":
            return x  # planted: no backward sum of the experts
        return self.alike(x)

    def alike(self, x: Any) -> Any:
        return c.Enter.apply(x, self.groups.of("tp")) if self.tp > 1 else x

    def leave(self, x: Any) -> Any:
        return c.Leave.apply(x, self.groups.of("tp")) if self.tp > 1 else x

    def balance(self, p: Any, chosen: Any) -> Any:
        """Shares of tokens times probabilities; the shares are those of all samples."""
        tokens = SAMPLES * LENGTH
        counts = chosen.sum((0, 1))
        if self.groups and self.bug == "own shares of tokens":
            counts = counts * (SAMPLES // p.shape[0])  # planted: own shares of tokens
        elif self.groups:
            counts = self.groups.sum(counts, ("dp", "ep"))
        # carries: own shares of tokens
        return EXPERTS * (counts / tokens * p.sum((0, 1)) / tokens).sum()

    def small(self, logits: Any) -> Any:
        """The mean of squared log-sums, as this rank's part."""
        square = torch.logsumexp(logits, -1).square()
        if self.bug == "z-loss mean of own tokens":
            return square.mean()  # planted: z-loss mean of own tokens
        return square.sum() / (SAMPLES * LENGTH)


class Layer(nn.Module):
    def __init__(self, groups: Groups | None = None) -> None:
        super().__init__()
        self.groups = groups
        tp = groups.size("tp") if groups else 1
        self.norm1, self.attention = nn.LayerNorm(HIDDEN), t.Attention(4 // tp)
        self.norm2, self.moe = nn.LayerNorm(HIDDEN), self.moe_of(groups)

    def moe_of(self, groups: Groups | None) -> Moe:
        return Moe(groups)

    def attend(self, x: Any) -> Any:
        if self.moe.tp == 1:
            return self.attention(x)
        group, out = self.groups.of("tp"), self.attention.out
        y = self.attention.context(c.Enter.apply(x, group))
        return c.Leave.apply(F.linear(y, out.weight), group) + out.bias

    def forward(self, x: Any) -> Any:
        x = x + self.attend(self.norm1(x))
        y, extra = self.moe(self.norm2(x))
        return x + y, extra


class Model(nn.Module):
    """A language model whose feed-forward layers are experts; ``layers`` of them."""

    layer: type[Layer] = Layer

    def __init__(self, layers: int, groups: Groups | None = None) -> None:
        super().__init__()
        self.groups = groups
        self.embed = nn.Embedding(t.VOCAB, HIDDEN)
        self.layers = nn.ModuleList(self.layer(groups) for _ in range(layers))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, t.VOCAB, bias=False)

    def forward(self, tokens: Any, labels: Any) -> Any:
        """The part of the loss that comes from these samples."""
        x, extra = self.start(self.embed(tokens)), 0.0
        for layer in self.layers:
            x, more = layer(x)
            extra = extra + more
        z = self.head(self.norm(self.end(x))).flatten(0, 1)
        loss = F.cross_entropy(z, labels.flatten(), reduction="sum") / (SAMPLES * LENGTH)
        return loss + 0.1 * extra

    def start(self, x: Any) -> Any:
        return x

    def end(self, x: Any) -> Any:
        return x

    def axes(self, name: str) -> tuple[str, ...]:
        """The axes whose ranks have other tokens. Experts have seen all samples of their ep
        group."""
        return ("dp",) if "experts" in name else ("dp", "ep")

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        loss = self(tokens, labels)
        loss.backward()
        if self.groups:
            axes = ("dp",) if self.groups.bug == "loss of one ep rank" else ("dp", "ep")
            loss = self.groups.sum(loss.detach(), axes)  # planted: loss of one ep rank
            self.reduce()
        optimizer.step()
        return loss

    def reduce(self) -> None:
        """Sums of gradients over the ranks that have other tokens."""
        bug = self.groups.bug
        for name, p in self.named_parameters():
            axes = self.axes(name)
            if bug == "router not summed" and "router" in name:
                continue  # planted: router not summed
            if bug == "experts averaged" and "experts" in name:
                # planted: experts averaged
                self.groups.sum(p.grad, axes, dist.ReduceOp.AVG)
            elif bug == "experts summed over ep" and "experts" in name:
                self.groups.sum(p.grad, ("dp", "ep"))  # planted: experts summed over ep
            elif bug == "experts not summed" and "experts" in name:
                continue  # planted: experts not summed
            else:
                self.groups.sum(p.grad, axes)


def parts(mesh: Mesh) -> dict[str, Any]:
    """How the parameters lie on the axes that there are."""
    axes = dict(mesh.axes)

    def at(**dims: int) -> dict[str, Any]:
        return {a: Shard(d) for a, d in dims.items() if a in axes}

    return {
        "*.experts.up": at(ep=0, tp=2),
        "*.experts.down": at(ep=0, tp=1),
        **{f"*.{n}.*": at(tp=0) for n in ("q", "k", "v", "shared_up")},
        **{f"*.{n}.weight": at(tp=1) for n in ("out", "shared_down")},
        "*": {},
    }


def spec(mesh: Mesh, bug: str, layers: int = 1, model: type[Model] = Model) -> Spec:
    rows = {a: Shard(0) for a, _ in mesh.axes if a != "tp"}
    return Spec(
        sequential=lambda: Model(layers),
        distributed=lambda device_mesh, rank: model(layers, Groups(device_mesh, bug)),
        mesh=mesh,
        inputs={k: Input((SAMPLES, LENGTH), "i64", rows) for k in ("tokens", "labels")},
        step=c.own_step,
        optimizer=c.adamw,
        parameters=parts(mesh),
    )


def ep2(bug: str = "") -> Spec:
    return spec(Mesh(ep=2), bug)


def dp2_ep2(bug: str = "") -> Spec:
    return spec(Mesh(dp=2, ep=2), bug)


def ep2_tp2(bug: str = "") -> Spec:
    return spec(Mesh(ep=2, tp=2), bug)


def whole(bug: str = "") -> Spec:
    return spec(Mesh(dp=2, ep=2, tp=2), bug, 2)


CASES = [
    Case("experts ep2", ep2, twins(ep2, "weights not normalised", "weighted twice",
         "experts in another order", "own shares of tokens", "z-loss mean of own tokens"),
         long=True),
    Case("experts dp2 ep2", dp2_ep2, twins(dp2_ep2, "experts averaged", "router not summed",
         "experts summed over ep", "experts not summed", "loss of one ep rank"), long=True),
    Case("experts ep2 tp2", ep2_tp2, twins(ep2_tp2, "no backward sum of the experts",
         "no backward sum of the weights", "router not summed"), long=True),
    Case("experts dp2 ep2 tp2, 2 layers", whole, twins(whole, "experts averaged",
         "own shares of tokens", "no backward sum of the experts", "router not summed"), long=True),
]  # fmt: skip
