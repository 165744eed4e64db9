"""A GPT over tensor, pipeline and data parallel ranks, in the way that large trainers run it: two
stages that send to each other, four micro-batches, and one embedding that the first stage looks up
and the last one multiplies by."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import transformer as t
from torch import nn

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts
from shardproof.testing.cases import Case, twins

MICRO, ROWS = 4, 8


class Gpt(t.Transformer):
    """The head multiplies by the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.head = None  # type: ignore[assignment]

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return t.every(F.linear(self.norm(x), self.embed.weight), labels)


class Layer(t.Layer):
    """One rank's heads and its part of the width."""

    def __init__(self, heads: int, width: int, group: Any, bug: str) -> None:
        super().__init__(heads, width)
        self.group, self.bug = group, bug

    def leave(self, x: Any, out: nn.Linear) -> Any:
        x = F.linear(x, out.weight)  # carries: no tensor sum
        if self.bug == "no tensor sum":
            return x + out.bias  # planted: no tensor sum
        return parts.leave(x, self.group) + out.bias

    def forward(self, x: Any) -> Any:
        y = parts.enter(self.norm1(x), self.group)
        x = x + self.leave(self.attention.context(y), self.attention.out)
        y = parts.enter(self.norm2(x), self.group)
        return x + self.leave(F.gelu(self.mlp.up(y)), self.mlp.down)


class Stage(nn.Module):
    """What one rank runs: the first stage has layer 0, the last one layer 1 and the norm."""

    def __init__(self, mesh: Any, tp: int, bug: str) -> None:
        super().__init__()
        names = mesh.mesh_dim_names
        self.tp, self.pp = mesh.get_group("tp"), mesh.get_group("pp")
        self.dp = mesh.get_group("dp") if "dp" in names else None
        self.first, self.bug = dist.get_rank(self.pp) == 0, bug
        self.peer = dist.get_global_rank(self.pp, 1 if self.first else 0)
        self.embed = nn.Embedding(t.VOCAB, t.HIDDEN)
        self.layers = nn.ModuleDict(
            {"0" if self.first else "1": Layer(4 // tp, 16 // tp, self.tp, bug)}
        )
        if not self.first:
            self.norm = nn.LayerNorm(t.HIDDEN)

    def run_first(self, tokens: Any) -> None:
        sent = []
        for rows in tokens.chunk(MICRO):
            h = self.layers["0"](self.embed(rows))
            dist.send(h.detach(), dst=self.peer)
            sent.append(h)
        for h in sent:
            grad = torch.empty(h.shape)
            dist.recv(grad, src=self.peer)
            h.backward(grad)  # carries: tied gradients not summed

    def run_last(self, labels: Any) -> Any:
        total, received = torch.zeros(()), []
        for rows in labels.chunk(MICRO):
            h = torch.empty(*rows.shape, t.HIDDEN)
            dist.recv(h, src=self.peer)
            h.requires_grad_()
            z = F.linear(self.norm(self.layers["1"](h)), self.embed.weight)
            loss = t.every(z, rows)  # carries: micro-batches not scaled
            if self.bug != "micro-batches not scaled":
                loss = loss / MICRO  # planted: micro-batches not scaled
            loss.backward()  # carries: tied gradients not summed
            total = total + loss.detach()
            received.append(h)
        for h in received:
            dist.send(h.grad, dst=self.peer)
        return total

    def synchronise(self) -> None:
        if self.bug != "tied gradients not summed":
            grad = self.embed.weight.grad
            dist.all_reduce(grad, group=self.pp)  # planted: tied gradients not summed
        if self.bug == "tied gradients averaged":
            self.embed.weight.grad.div_(2)  # planted: tied gradients averaged
        if self.dp is None:
            return
        for p in self.parameters():
            op = dist.ReduceOp.AVG
            if self.bug == "replicas summed":
                op = dist.ReduceOp.SUM  # planted: replicas summed
            dist.all_reduce(p.grad, op, self.dp)  # carries: replicas summed

    def step(self, optimizer: Any, tokens: Any, labels: Any) -> Any:
        total = None
        if self.first:
            self.run_first(tokens)
        else:
            total = self.run_last(labels)
        self.synchronise()
        # carries: tied gradients not summed, tied gradients averaged
        optimizer.step()
        if total is not None and self.dp is not None:
            dist.all_reduce(total, dist.ReduceOp.AVG, self.dp)
        return total


def gpt(mesh: Mesh, placement: Any, bug: str) -> Spec:
    return Spec(
        sequential=Gpt,
        distributed=lambda device_mesh, rank: Stage(device_mesh, 2, bug),
        mesh=mesh,
        inputs=t.batch(placement, ROWS),
        parameters=t.PARTS,
        step=c.own_step,
        optimizer=c.sgd,
    )


def tp_pp(bug: str = "") -> Spec:
    return gpt(Mesh(pp=2, tp=2), None, bug)


def tp_pp_dp(bug: str = "") -> Spec:
    return gpt(Mesh(dp=2, pp=2, tp=2), {"dp": Shard(0)}, bug)


FAULTS = (
    "tied gradients not summed", "tied gradients averaged", "micro-batches not scaled",
    "no tensor sum", "replicas summed",
)  # fmt: skip

CASES = [
    Case("tp2 pp2 gpt, tied embedding", tp_pp, twins(tp_pp, *FAULTS[:3]), long=True),
    Case("tp2 pp2 dp2 gpt, 4 micro-batches", tp_pp_dp, twins(tp_pp_dp, *FAULTS[2:]), long=True),
]
