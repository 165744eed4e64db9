"""A training step through ring attention by hand: keys and values go round in the forward pass, and
once more in the backward pass with their gradients, which come home complete."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import context
from benchmarks.live.ring import NEVER, passed
from torch import nn

from shardproof import Input, Mesh, Shard, Spec
from shardproof.testing.cases import Case

LENGTH, WIDTH, HEADS, HEAD = 8, 8, 2, 4
SCALE = 0.5


class Attention(nn.Module):
    """Projections, rotary positions and attention; ``length`` tokens are here."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.q, self.k, self.v = (nn.Linear(WIDTH, HEADS * HEAD) for _ in range(3))
        self.out = nn.Linear(HEADS * HEAD, WIDTH)

    def positions(self, length: int) -> Any:
        return torch.arange(length)

    def forward(self, x: Any) -> Any:
        q, k, v = (layer(x).view(*x.shape[:2], HEADS, HEAD) for layer in (self.q, self.k, self.v))
        at = self.positions(x.shape[1])
        # carries: positions from zero, gradients stay behind
        q, k = context.rotated(q, at), context.rotated(k, at)
        y = self.attend(*(z.transpose(1, 2) for z in (q, k, v)))
        return self.out(y.transpose(1, 2).reshape(*x.shape[:2], -1))

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=SCALE)

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        """A mean over the elements of which the target is not negative."""
        used = y >= 0
        loss = ((self(x) - y).square() * used).sum() / used.sum()
        loss.backward()
        optimizer.step()
        return loss


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, causal: bool, bug: str) -> Any:
        ctx.causal, ctx.bug = causal, bug
        mine = k, v
        ranks = dist.get_world_size()
        top = total = out = None
        for step in range(ranks):
            scores = seen(q, k, step, causal)
            if scores is not None:
                higher = scores.max(-1, keepdim=True).values
                if top is not None:
                    higher = torch.maximum(top, higher)
                e = (scores - higher).exp()
                own, value = e.sum(-1, keepdim=True), e @ v
                if top is None:
                    top, total, out = higher, own, value
                else:
                    scale = (top - higher).exp()
                    top, total, out = higher, total * scale + own, out * scale + value
            if step < ranks - 1:
                k, v = passed(k), passed(v)
        out = out / total
        logs = top + total.log()
        ctx.save_for_backward(q, *mine, out, logs)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        q, k, v, out, logs = ctx.saved_tensors
        ranks, bug = dist.get_world_size(), ctx.bug
        inner = (grad * out).sum(-1, keepdim=True)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for step in range(ranks):
            scores = seen(q, k, step, ctx.causal)
            if scores is not None:
                if bug == "sum of the block":
                    logs = scores.logsumexp(-1, keepdim=True)  # planted: sum of the block
                p = (scores - logs).exp()  # carries: sum of the block
                ds = p * (grad @ v.transpose(-1, -2) - inner) * SCALE
                if bug == "no inner product":
                    ds = p * (grad @ v.transpose(-1, -2)) * SCALE  # planted: no inner product
                dq = dq + ds @ k
                dk = dk + ds.transpose(-1, -2) @ q
                dv = dv + p.transpose(-1, -2) @ grad
            if step < ranks - 1:
                k, v = passed(k), passed(v)
            if step < ranks - 1 or bug != "gradients stay behind":  # planted: gradients stay behind
                dk, dv = passed(dk), passed(dv)
        return dq, dk, dv, None, None  # carries: gradients stay behind


def seen(q: Any, k: Any, step: int, causal: bool) -> Any:
    """The scores of the keys that came in a step; None where no query sees any."""
    me, ranks = dist.get_rank(), dist.get_world_size()
    owner, n = (me - step) % ranks, q.shape[-2]
    if causal and owner > me:
        return None
    scores = q @ k.transpose(-1, -2) * SCALE
    if causal and owner == me:
        at = torch.arange(n)
        scores = scores.masked_fill(at > at.unsqueeze(1), NEVER)
    return scores


class Parallel(Attention):
    def __init__(self, causal: bool, bug: str) -> None:
        super().__init__(causal)
        self.bug = bug

    def positions(self, length: int) -> Any:
        start = dist.get_rank() * length
        if self.bug == "positions from zero":
            start = 0  # planted: positions from zero
        return torch.arange(start, start + length)

    def attend(self, q: Any, k: Any, v: Any) -> Any:
        return Ring.apply(q, k, v, self.causal, self.bug)

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        used = y >= 0
        count = used.sum()
        if self.bug != "own count":  # planted: own count
            dist.all_reduce(count)
        loss = ((self(x) - y).square() * used).sum() / count  # carries: own count
        loss.backward()
        for p in self.parameters():
            dist.all_reduce(p.grad)
        optimizer.step()
        total = loss.detach()
        dist.all_reduce(total)
        return total


def spec(bug: str = "", ranks: int = 2, causal: bool = False) -> Spec:
    sequence = {"cp": Shard(1)}
    return Spec(
        sequential=lambda: Attention(causal),
        distributed=lambda mesh, rank: Parallel(causal, bug),
        mesh=Mesh(cp=ranks),
        inputs={name: Input((2, LENGTH, WIDTH), "f32", sequence) for name in ("x", "y")},
        step=c.own_step,
        optimizer=c.sgd,
        parameters={"*": {}},
    )


def case(name: str, *faults: str, **how: Any) -> Case:
    make = functools.partial(spec, **how)
    return Case(name, make, {f: functools.partial(make, f) for f in faults})


FAULTS = (
    "sum of the block", "no inner product", "gradients stay behind", "positions from zero",
    "own count",
)  # fmt: skip

CASES = [
    case("ring step cp2", *FAULTS),
    case("ring step cp4, causal", *FAULTS, ranks=4, causal=True),
]
