"""Experts without a limit of room, under stated routings: ranks exchange what is routed.

How many that is must be known when a program is captured, so a routing policy is a constant of
both programs. Where the route is an input instead, and every rank makes room for all of its tokens,
the proof is for any route, or for the one that the Spec states as a fact.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from benchmarks.live import experts as e
from torch import nn

from shardproof import Input, Mesh, Shard, Spec
from shardproof.testing.cases import Case, twins

EXPERTS, TOKENS, HIDDEN, WIDTH = 4, 8, 4, 6
# The expert of every token; the first half of them are those of rank 0.
POLICIES = {
    "balanced": (2, 0, 3, 1, 1, 3, 0, 2),
    "all to one": (1,) * TOKENS,
    "an empty expert": (3, 0, 3, 1, 0, 0, 3, 1),
}


def sent(x: Any, gets: Sequence[int], gives: Sequence[int], group: Any) -> Any:
    """So many rows from every rank, for so many to every rank."""
    out = x.new_empty((sum(gets), *x.shape[1:]))
    dist.all_to_all_single(out, x.contiguous(), list(gets), list(gives), group=group)
    return out


class Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, gets: Sequence[int], gives: Sequence[int], group: Any) -> Any:
        ctx.gets, ctx.gives, ctx.group = gets, gives, group
        return sent(x, gets, gives, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return sent(grad, ctx.gives, ctx.gets, ctx.group), None, None, None


def by_expert(ids: Sequence[int]) -> list[int]:
    """The places of rows, those of the first expert first."""
    return sorted(range(len(ids)), key=lambda k: ids[k])


def taken(x: Any, order: Sequence[int]) -> Any:
    """These rows, in this order."""
    return torch.cat([x[k : k + 1] for k in order]) if order else x[:0]


def inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda k: order[k])


class Experts(nn.Module):
    """Experts ``first`` to ``first + count``; rows come with the numbers of their experts."""

    def __init__(self, first: int, count: int) -> None:
        super().__init__()
        self.first = first
        self.up = nn.Parameter(torch.empty(count, HIDDEN, WIDTH))
        self.down = nn.Parameter(torch.empty(count, WIDTH, HIDDEN))

    def forward(self, x: Any, ids: Sequence[int], bug: str = "") -> Any:
        order = by_expert(ids)
        if bug == "rows not grouped":
            order = list(range(len(ids)))  # planted: rows not grouped
        rows = taken(x, order).split([ids.count(self.first + k) for k in range(len(self.up))])
        # carries: rows not grouped
        y = torch.cat([F.gelu(r @ u) @ d for r, u, d in zip(rows, self.up, self.down, strict=True)])
        return taken(y, inverse(order))


class Dropless(nn.Module):
    """Every token goes to one expert, and what comes back is weighted by its score."""

    def __init__(self, route: Sequence[int], groups: e.Groups | None = None) -> None:
        super().__init__()
        self.groups, self.bug = groups, groups.bug if groups else ""
        self.ranks = groups.size("ep") if groups else 1
        self.rank = dist.get_rank() if groups else 0
        count = EXPERTS // self.ranks
        self.router = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.experts = Experts(count * self.rank, count)
        share = TOKENS // self.ranks
        self.routes = [route[share * r : share * (r + 1)] for r in range(self.ranks)]

    def forward(self, x: Any, y: Any) -> Any:
        """The part of the squared error that comes from these tokens."""
        ids = self.routes[self.rank]
        p = torch.sigmoid(self.router(x))  # carries: router not summed
        if self.bug == "weight of another expert":
            p = p.roll(1, -1)  # planted: weight of another expert
        weight = torch.stack([p[k, i] for k, i in enumerate(ids)]).unsqueeze(-1)
        if self.bug == "weighted twice":
            x = x * weight  # planted: weighted twice
        out = self.dispatch(x, ids) if self.groups else self.experts(x, ids)
        # carries: not put back, weight of another expert
        return (out * weight - y).square().sum() / TOKENS

    def dispatch(self, x: Any, ids: Sequence[int]) -> Any:
        """Rows to the ranks of their experts, and back."""
        group = self.groups.of("ep")
        home = [[i // len(self.experts.up) for i in route] for route in self.routes]
        order = by_expert(home[self.rank])
        gives = [home[self.rank].count(r) for r in range(self.ranks)]
        gets = [there.count(self.rank) for there in home]
        there = [i for route, at in zip(self.routes, home, strict=True)
                 for i, r in zip(route, at, strict=True) if r == self.rank]  # fmt: skip
        rows = Send.apply(taken(x, order), gets, gives, group)  # carries: weighted twice
        rows = Send.apply(self.experts(rows, there, self.bug), gives, gets, group)
        if self.bug == "not put back":
            return rows  # planted: not put back
        return taken(rows, inverse(order))

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = self(x, y)
        loss.backward()
        if self.groups:
            loss = self.groups.sum(loss.detach(), ("ep",))
            if self.bug != "router not summed":
                # planted: router not summed
                self.groups.sum(self.router.weight.grad, ("ep",))
        optimizer.step()
        return loss


def dropless(route: Sequence[int], bug: str = "") -> Spec:
    return Spec(
        sequential=lambda: Dropless(route),
        distributed=lambda mesh, rank: Dropless(route, e.Groups(mesh, bug)),
        mesh=Mesh(ep=2),
        inputs={k: Input((TOKENS, HIDDEN), "f32", Shard(0)) for k in ("x", "y")},
        step=c.own_step,
        optimizer=c.sgd,
        parameters={"experts.*": Shard(0), "*": {}},
        uneven=False,  # the routes are for these counts
    )


class Given(nn.Module):
    """The route is an input: the expert of every token."""

    def __init__(self, groups: e.Groups | None = None) -> None:
        super().__init__()
        self.groups, self.bug = groups, groups.bug if groups else ""
        self.ranks = groups.size("ep") if groups else 1
        self.experts = e.Experts(EXPERTS // self.ranks, WIDTH)

    def forward(self, x: Any, y: Any, route: Any) -> Any:
        """The part of the squared error that comes from these tokens."""
        hit = (route.unsqueeze(-1) == torch.arange(EXPERTS)).to(x.dtype)
        boxes = torch.einsum("bte,btd->betd", hit, x)
        if self.ranks > 1:
            boxes = e.Swap.apply(boxes, 1, 0, self.groups.of("ep"))
        out = self.experts(boxes)
        out = out.view(-1, len(boxes), *boxes.shape[2:]).transpose(0, 1)
        if self.ranks > 1 and self.bug == "sent to the wrong rank":
            out = e.Swap.apply(out, 0, 1, self.groups.of("ep"))
            out = out.roll(EXPERTS // 2, 1)  # planted: sent to the wrong rank
        elif self.ranks > 1:
            out = e.Swap.apply(out, 0, 1, self.groups.of("ep"))
        if self.bug == "mask of the next expert":
            hit = hit.roll(1, -1)  # planted: mask of the next expert
        # carries: sent to the wrong rank, mask of the next expert
        out = torch.einsum("bte,betd->btd", hit, out)
        return (out - y).square().sum() / TOKENS

    def step(self, optimizer: Any, x: Any, y: Any, route: Any) -> Any:
        loss = self(x, y, route)
        loss.backward()
        if self.groups and self.bug == "experts summed over ep":
            for p in self.experts.parameters():
                self.groups.sum(p.grad, ("ep",))  # planted: experts summed over ep
        if self.groups:
            loss = self.groups.sum(loss.detach(), ("ep",))
        optimizer.step()
        return loss


def given(fixed: dict[str, int] | None, bug: str = "") -> Spec:
    rows = {k: Input((2, TOKENS // 2, e.HIDDEN), "f32", Shard(0)) for k in ("x", "y")}
    return Spec(
        sequential=lambda: Given(),
        distributed=lambda mesh, rank: Given(e.Groups(mesh, bug)),
        mesh=Mesh(ep=2),
        inputs={**rows, "route": Input((2, TOKENS // 2), "i64", Shard(0))},
        fixed=fixed,
        step=c.own_step,
        optimizer=c.sgd,
        parameters={"experts.*": Shard(0)},
    )


def _dropless(policy: str) -> Case:
    make = functools.partial(dropless, POLICIES[policy])
    faults = ["weighted twice", "weight of another expert", "router not summed",
              "rows not grouped", "not put back"]  # fmt: skip
    if policy == "all to one":
        faults.remove("rows not grouped")  # there is one group
        faults.remove("not put back")  # and one order
    return Case(f"dropless experts ep2, {policy}", make, twins(make, *faults))


any_route = functools.partial(given, None)
one_route = functools.partial(given, {"route": 1})

CASES = [
    *map(_dropless, POLICIES),
    Case("given route ep2, any", any_route, twins(any_route, "sent to the wrong rank",
         "mask of the next expert", "experts summed over ep")),
    Case("given route ep2, all to one", one_route, twins(one_route, "sent to the wrong rank",
         "mask of the next expert", "experts summed over ep")),
]  # fmt: skip
