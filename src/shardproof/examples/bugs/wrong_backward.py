"""F02: the forward pass is right, the backward pass of a collective is not."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

TP2 = Mesh(tp=2)
ROWS, COLUMNS = {"tp": Shard(0)}, {"tp": Shard(1)}


def target_log_prob(bug: str) -> Spec:
    """The log-probability of the target over a cut vocabulary."""

    def sequential(z: Any, t: Any, c: Any) -> Any:
        return (torch.log_softmax(z, -1).gather(1, t.unsqueeze(1)).squeeze(1) * c).sum()

    def distributed(z: Any, t: Any, c: Any) -> Any:
        start = dist.get_rank() * 4
        inside = (t >= start) & (t < start + 4)
        local = torch.where(inside, t - start, 0)
        own = z.gather(1, local.unsqueeze(1)).squeeze(1)
        total = p.leave(z.exp().sum(1)).log()  # carries: B020
        if bug == "B020":
            target = p.summed(torch.where(inside, own - total, 0.0))  # planted: B020
        else:
            target = p.leave(torch.where(inside, own, 0.0)) - total
        return (target * c).sum()

    inputs = {
        "z": p.f32(5, 8, at=COLUMNS, grad=True),
        "t": p.i64(5),
        "c": p.f32(5),
    }
    return p.spec(sequential, distributed, TP2, inputs)


def routing_weight(bug: str) -> Spec:
    """Slots of other ranks' experts have weight zero, but not gradient zero."""

    def sequential(x: Any, w: Any, chosen: Any, up: Any, c: Any) -> Any:
        outs = torch.einsum("th,thf->tf", x, up[chosen])
        return (w.unsqueeze(1) * outs * c).sum()

    def distributed(x: Any, w: Any, chosen: Any, up: Any, c: Any) -> Any:
        first = dist.get_rank() * 2
        mine = (chosen >= first) & (chosen < first + 2)
        local = torch.where(mine, chosen - first, 0)
        weight = p.enter(w)  # carries: B022
        experts = up[local]
        if bug != "B022":
            experts = torch.where(mine.view(-1, 1, 1), experts, 0.0)
        outs = torch.einsum("th,thf->tf", p.enter(x), experts)
        if bug == "B022":
            return (p.leave(Clamped.apply(weight, outs, mine)) * c).sum()  # planted: B022
        return (p.leave(weight.unsqueeze(1) * outs) * c).sum()

    inputs = {
        "x": p.f32(5, 4, grad=True),
        "w": p.f32(5, grad=True),
        "chosen": p.i64(5),
        "c": p.f32(5, 3),
        "up": p.f32(4, 4, 3, at=ROWS, grad=True),
    }
    return p.spec(sequential, distributed, TP2, inputs)


class Clamped(torch.autograd.Function):
    """``where(mine, w, 0) * f`` whose gradient for ``w`` forgets the mask."""

    @staticmethod
    def forward(ctx: Any, w: Any, f: Any, mine: Any) -> Any:
        masked = torch.where(mine, w, 0.0).unsqueeze(1)
        ctx.save_for_backward(f, masked)
        return masked * f

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        f, masked = ctx.saved_tensors
        return (grad * f).sum(1), grad * masked, None


def gathered_router(bug: str) -> Spec:
    """Routing probabilities are gathered by a collective that autograd does not see."""

    def sequential(x: Any, gate: Any, up: Any) -> Any:
        probs = torch.softmax(x @ gate, -1)
        return torch.einsum("te,th,ehf->tf", probs, x, up).square().sum()

    def distributed(x: Any, gate: Any, up: Any) -> Any:
        own = torch.softmax(x @ gate, -1)
        probs = p.gathered(own) if bug == "B023" else p.gather(own)  # planted: B023
        tokens = p.gather(x)
        first = dist.get_rank() * 2
        out = torch.einsum("te,th,ehf->tf", probs[:, first : first + 2], tokens, up)
        return p.scatter(out).square().sum()

    def after(v: Any) -> None:
        grad = v["gate"].grad
        if grad is None:
            v["gate"].grad = torch.zeros_like(v["gate"])  # carries: B023
        else:
            dist.all_reduce(grad)

    inputs = {
        "x": p.f32(6, 4, at=ROWS, grad=True),
        "gate": p.f32(4, 4, grad=True),
        "up": p.f32(4, 4, 3, at=ROWS, grad=True),
    }
    return p.spec(sequential, distributed, TP2, inputs, after=after, outputs=p.OWN_LOSS)


def divided_bias(bug: str) -> Spec:
    """Every rank adds its share of the bias before the reduction."""

    def sequential(x: Any, w: Any, b: Any) -> Any:
        return (x @ w + b).square().sum()

    def distributed(x: Any, w: Any, b: Any) -> Any:
        return p.leave(x @ w + b / 2).square().sum()  # carries: B025

    def after(v: Any) -> None:
        if bug != "B025":
            dist.all_reduce(v["b"].grad)  # planted: B025

    inputs = {
        "x": p.f32(5, 8, at=COLUMNS, grad=True),
        "w": p.f32(8, 4, at=ROWS, grad=True),
        "b": p.f32(4, grad=True),
    }
    return p.spec(sequential, distributed, TP2, inputs, after=after)


class CopyIn(torch.autograd.Function):
    """Into a column-parallel layer. The gradient may come with strides of a transpose."""

    @staticmethod
    def forward(ctx: Any, x: Any, bug: str) -> Any:
        ctx.bug = bug
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        dense = grad.contiguous()
        dist.all_reduce(dense)
        if ctx.bug == "B026":
            return grad, None  # planted: B026
        return dense, None


def copied_gradient(bug: str) -> Spec:
    """The sum goes into a contiguous copy, the gradient as it was is returned."""

    def sequential(x: Any, w: Any, c: Any) -> Any:
        return (x.T @ w * c).sum()

    def distributed(x: Any, w: Any, c: Any) -> Any:
        columns = CopyIn.apply(x, bug).T.reshape(-1)  # carries: B026
        return (columns.view(4, 6) @ w * c).sum()  # carries: B026

    inputs = {
        "x": p.f32(6, 4, grad=True),
        "w": p.f32(6, 8, at=COLUMNS, grad=True),
        "c": p.f32(4, 8, at=COLUMNS),
    }
    return p.spec(sequential, distributed, TP2, inputs, outputs=p.OWN_LOSS)


BUGS = [
    Bug("B020", "Y-bwd", "sum of exponentials hidden from autograd", target_log_prob),
    Bug("B022", "Y-bwd", "gradient of routing weights of slots that are not local", routing_weight),
    Bug("B023", "Y-bwd", "router probabilities gathered outside autograd", gathered_router),
    Bug("B025", "Y-bwd", "gradient of a bias that each rank added a share of", divided_bias),
    Bug("B026", "P", "the summed copy of the gradient is dropped", copied_gradient),
]
