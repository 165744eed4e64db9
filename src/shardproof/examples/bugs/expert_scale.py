"""F05: scales of auxiliary losses and of the gradients of experts."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

ROWS = {"tp": Shard(0)}
EXPERTS = {"ep": Shard(0)}


def losses(x: Any, router: Any, c: Any) -> tuple[Any, Any]:
    """Sums over tokens of a main loss and of an auxiliary one."""
    logits = x @ router
    return (logits * c).sum(), logits.exp().sum(1).log().square().sum()  # carries: B061, B062


def token_scale(bug: str) -> Spec:
    """The auxiliary loss is scaled by a token count, the finaliser divides by the global one."""

    def sequential(x: Any, router: Any, c: Any) -> Any:
        main, extra = losses(x, router, c)
        return main / 8 + 0.1 * extra / 8

    def distributed(x: Any, router: Any, c: Any) -> Any:
        main, extra = losses(x, router, c)
        mean = extra / x.shape[0]  # the mean over local tokens
        tokens = x.shape[0]
        if bug == "B061":
            mean = p.leave(extra) / 8  # planted: B061
        if bug == "B062":
            mean = mean / x.shape[0]  # planted: B062
        return main + 0.1 * mean * tokens  # carries: B061, B062

    def after(v: Any) -> None:
        dist.all_reduce(v["router"].grad)
        v["router"].grad.div_(8)  # carries: B061, B062

    inputs = {
        "x": p.f32(8, 4, at=ROWS),
        "router": p.f32(4, 3, grad=True),
        "c": p.f32(8, 3, at=ROWS),
    }
    return p.spec(sequential, distributed, Mesh(tp=2), inputs, after=after, outputs=p.OWN_LOSS)


class Attached(torch.autograd.Function):
    """Identity on ``x``; the backward pass also starts one at the auxiliary loss."""

    @staticmethod
    def forward(ctx: Any, x: Any, loss: Any, scale: float) -> Any:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, torch.full((), ctx.scale), None


def attached_loss(bug: str) -> Spec:
    """An auxiliary loss is attached to the activations, and has its own scale."""

    def sequential(x: Any, router: Any, c: Any) -> Any:
        main, extra = losses(x, router, c)
        return main / 8 + 0.1 * extra / 8

    def distributed(x: Any, router: Any, c: Any) -> Any:
        logits = x @ router
        extra = logits.exp().sum(1).log().square().sum()
        scale = 0.1 / 4 / (2 if bug == "B064 scale" else 1)  # planted: B064 scale
        attached = Attached.apply(logits, extra, scale)
        if bug == "B064 dropped":
            attached = logits  # planted: B064 dropped
        return (attached * c).sum() / 4  # carries: B064 scale, B064 dropped

    def after(v: Any) -> None:
        dist.all_reduce(v["router"].grad, dist.ReduceOp.AVG)

    cut = {"dp": Shard(0)}
    inputs = {
        "x": p.f32(8, 4, at=cut),
        "router": p.f32(4, 3, grad=True),
        "c": p.f32(8, 3, at=cut),
    }
    return p.spec(sequential, distributed, Mesh(dp=2), inputs, after=after, outputs=p.OWN_LOSS)


def expert_average(bug: str) -> Spec:
    """An expert's gradient has the tokens of all ranks already; others are averaged."""

    def sequential(x: Any, gate: Any, up: Any) -> Any:
        return torch.einsum("te,th,ehf->tf", x @ gate, x, up).square().mean()

    def distributed(x: Any, gate: Any, up: Any) -> Any:
        scores, tokens = p.gather(x @ gate), p.gather(x)
        first = dist.get_rank() * 2
        mine = scores[:, first : first + 2]
        own = torch.einsum("te,th,ehf->tf", mine, tokens, up)  # carries: B065
        return p.scatter(own).square().mean()

    def after(v: Any) -> None:
        dist.all_reduce(v["gate"].grad, dist.ReduceOp.AVG)
        if bug != "B065":
            v["up"].grad.div_(2)  # planted: B065

    inputs = {
        "x": p.f32(6, 4, at=EXPERTS),
        "gate": p.f32(4, 4, grad=True),
        "up": p.f32(4, 4, 3, at=EXPERTS, grad=True),
    }
    return p.spec(sequential, distributed, Mesh(ep=2), inputs, after=after, outputs=p.OWN_LOSS)


def divided_experts(bug: str) -> Spec:
    """Expert gradients divided by the size of ep: right, see :func:`expert_average`."""
    return expert_average("")


def expert_norm(bug: str) -> Spec:
    """Squared norms of experts are summed over ep, not averaged."""

    def sequential(expert: Any, other: Any) -> Any:
        return (expert.square().sum() + other.square().sum()).sqrt()

    def distributed(expert: Any, other: Any) -> Any:
        mine = expert.square().sum()
        total = p.summed(mine)
        if bug == "B067":
            total = total / dist.get_world_size()  # planted: B067
        return (total + other.square().sum()).sqrt()  # carries: B067

    inputs = {"expert": p.f32(4, 3, at=EXPERTS), "other": p.f32(5)}
    return p.spec(sequential, distributed, Mesh(ep=2), inputs, step="forward")


BUGS = [
    Bug("B061", "Y-bwd", "auxiliary loss scaled by local tokens once too often", token_scale),
    Bug("B062", "Y-bwd", "auxiliary loss divided by tokens twice", token_scale),
    Bug(
        "B064",
        "Y-bwd",
        "attached auxiliary loss dropped, or scaled down",
        attached_loss,
        ("B064 dropped", "B064 scale"),
    ),
    Bug("B065", "Y-bwd", "expert gradients averaged over the wrong mesh", expert_average),
    Bug("B067", "Y-opt", "squared norms of experts averaged", expert_norm),
    Bug("N8", "control", "expert gradients divided by the size of ep", divided_experts),
]
