"""Optimizers written by hand whose work is divided over the data-parallel ranks (ZeRO-1)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch.optim.adamw import adamw

from shardproof import Mesh, Spec
from shardproof.testing.cases import Case, twins


class Plain(c.Mlp):
    """The sequential step: descent along the gradient."""

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        with torch.no_grad():
            for p in self.parameters():
                p -= 0.1 * p.grad
        return loss


class Flat(c.Mlp):
    """Each rank updates its part of the flat parameters and gathers the rest."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.bug = bug

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        n, me = dist.get_world_size(), dist.get_rank()
        params = list(self.parameters())
        with torch.no_grad():
            grads = torch.cat([p.grad.flatten() for p in params])
            pad = (0, -grads.numel() % n)
            mine = torch.empty((grads.numel() + pad[1]) // n)
            op = dist.ReduceOp.AVG
            if self.bug == "sum of gradients":
                op = dist.ReduceOp.SUM  # planted: sum of gradients
            dist.reduce_scatter_tensor(mine, F.pad(grads, pad), op=op)  # carries: sum of gradients
            if self.bug == "own gradients":
                mine = F.pad(grads, pad).chunk(n)[me]  # planted: own gradients
            old = F.pad(torch.cat([p.flatten() for p in params]), pad)
            part = old.chunk(n)[me]
            if self.bug == "wrong part":
                part = old.chunk(n)[(me + 1) % n]  # planted: wrong part
            part = part - 0.1 * mine  # carries: wrong part, own gradients
            new = torch.empty_like(old)
            dist.all_gather_into_tensor(new, part)
            at = 0
            for p in params:
                p.copy_(new[at : at + p.numel()].view_as(p))
                at += p.numel()
        return loss


def flat(bug: str = "", ranks: int = 2) -> Spec:
    return Spec(
        sequential=Plain,
        distributed=lambda mesh, rank: Flat(bug),
        mesh=Mesh(dp=ranks),
        inputs={k: c.Input((6, 8), "f32", c.BATCH) for k in ("x", "y")},
        step=c.own_step,
        optimizer=c.sgd,
        outputs={"loss": None, "grad.*": None, "state.*": None},
    )


class Sharded(torch.optim.Optimizer):
    """AdamW of which each rank keeps the state of its rows of every parameter."""

    def __init__(self, params: Any, bug: str) -> None:
        super().__init__(params, {"lr": 0.01})
        self.bug = bug

    @torch.no_grad()
    def step(self) -> None:
        for p in self.param_groups[0]["params"]:
            self.update(p)

    def update(self, p: Any) -> None:
        n, me = dist.get_world_size(), dist.get_rank()
        rows = p.shape[0] // n
        grad = torch.empty(rows, *p.shape[1:])
        op = dist.ReduceOp.AVG
        if self.bug == "sum of rows":
            op = dist.ReduceOp.SUM  # planted: sum of rows
        dist.reduce_scatter_tensor(grad, p.grad, op=op)  # carries: sum of rows
        if self.bug == "rows not reduced":
            grad = p.grad.chunk(n)[me]  # planted: rows not reduced
        own = p.chunk(n)[me].clone()
        if self.bug == "rows of the next rank":
            own = p.chunk(n)[(me + 1) % n].clone()  # planted: rows of the next rank
        self.rule(p, own, grad)
        if self.bug == "rows not gathered":
            p[me * rows : (me + 1) * rows] = own  # planted: rows not gathered
        else:
            dist.all_gather_into_tensor(p, own)  # carries: rows of the next rank

    def rule(self, p: Any, own: Any, grad: Any) -> None:
        state = self.state[p]
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(own), torch.zeros_like(own)
        # carries: rows not reduced, rows of the next rank
        adamw(
            [own], [grad], [state["exp_avg"]], [state["exp_avg_sq"]], [], [state["step"]],
            amsgrad=False, beta1=0.9, beta2=0.999, lr=0.01,
            weight_decay=0.1 if self.bug == "other decay" else 0.01,  # planted: other decay
            eps=1e-8, maximize=False,
        )  # fmt: skip


class Trained(c.Mlp):
    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        optimizer.step()
        return loss


def sharded(bug: str = "", ranks: int = 2) -> Spec:
    """The gradients stay those of the rank's own samples, so only what is updated is compared."""

    def optimizer(params: Any) -> Any:
        if dist.get_world_size() == 1:
            return torch.optim.AdamW(params, lr=0.01)
        return Sharded(params, bug)

    return Spec(
        sequential=Trained,
        distributed=lambda mesh, rank: Trained(),
        mesh=Mesh(dp=ranks),
        inputs=c.pairs(c.BATCH),
        step=c.own_step,
        optimizer=optimizer,
        outputs={"loss": None, "grad.*": None},
    )


def sharded4(bug: str = "") -> Spec:
    return sharded(bug, 4)


def flat3(bug: str = "") -> Spec:
    """Three ranks do not divide the parameters: the last part is padded."""
    return flat(bug, 3)


FAULTS = ("sum of gradients", "own gradients", "wrong part")
ROWS = (
    "sum of rows", "rows not reduced", "rows of the next rank", "rows not gathered", "other decay",
)  # fmt: skip

CASES = [
    Case("zero1 sgd dp2", flat, twins(flat, *FAULTS)),
    Case("zero1 sgd dp3, padded", flat3, twins(flat3, *FAULTS)),
    Case("zero1 adamw dp2", sharded, twins(sharded, *ROWS)),
    Case("zero1 adamw dp4", sharded4, twins(sharded4, *ROWS[1:4])),
]
