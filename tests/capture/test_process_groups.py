"""Process groups with the same members are different communicators: only calls on one meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from shardproof import Input, Mesh, Shard, Spec

pytestmark = pytest.mark.filterwarnings("ignore")
Step = Callable[[Any, Any, Any, Any, int], tuple[Any, Any]]


class Two(nn.Module):
    """Two sums over the ranks, each on its own process group."""

    def __init__(self, step: Step | None, rank: int) -> None:
        super().__init__()
        self.step, self.rank = step, rank
        if step is not None:
            self.a, self.b = dist.new_group([0, 1]), dist.new_group([0, 1])

    def forward(self, x: Any) -> Any:
        y, z = x.sum(0), (x * x).sum(0)
        if self.step is not None:
            y, z = self.step(y, z, self.a, self.b, self.rank)
        return y + 2 * z


def asynchronous(*calls: tuple[Any, Any]) -> None:
    for work in [dist.all_reduce(t, group=g, async_op=True) for t, g in calls]:
        work.wait()


def in_one_order(y: Any, z: Any, a: Any, b: Any, rank: int) -> tuple[Any, Any]:
    asynchronous((y, a), (z, b))
    return y, z


def issued_in_another_order(y: Any, z: Any, a: Any, b: Any, rank: int) -> tuple[Any, Any]:
    asynchronous(*([(y, a), (z, b)] if rank == 0 else [(z, b), (y, a)]))
    return y, z


def crossed(y: Any, z: Any, a: Any, b: Any, rank: int) -> tuple[Any, Any]:
    asynchronous((y, a if rank == 0 else b), (z, b if rank == 0 else a))
    return y, z


def crossed_in_place(y: Any, z: Any, a: Any, b: Any, rank: int) -> tuple[Any, Any]:
    asynchronous(*([(y, a), (z, b)] if rank == 0 else [(y, b), (z, a)]))
    return y, z


def blocking_in_another_order(y: Any, z: Any, a: Any, b: Any, rank: int) -> tuple[Any, Any]:
    for t, g in [(y, a), (z, b)] if rank == 0 else [(z, b), (y, a)]:
        dist.all_reduce(t, group=g)
    return y, z


def on_other_groups(y: Any, z: Any, a: Any, b: Any, rank: int) -> tuple[Any, Any]:
    dist.all_reduce(y, group=a if rank == 0 else b)
    dist.all_reduce(z, group=a)
    return y, z


def of_the_world(y: Any, z: Any, a: Any, b: Any, rank: int) -> tuple[Any, Any]:
    dist.all_reduce(y, group=a if rank == 0 else None)
    dist.all_reduce(z)
    return y, z


def exchanged(send: Any, recv: Any) -> Step:
    """Both sums by messages; the groups on which each rank sends and receives are given."""

    def step(y: Any, z: Any, a: Any, b: Any, rank: int) -> tuple[Any, Any]:
        both = torch.stack([y, z])
        got = torch.empty_like(both)
        to = send((a, b), rank)
        work = dist.isend(both, 1 - rank, group=to)
        dist.recv(got, 1 - rank, group=recv((a, b), rank))
        work.wait()
        return both[0] + got[0], both[1] + got[1]

    return step


def check(step: Step) -> Any:
    return Spec(
        sequential=lambda: Two(None, 0),
        distributed=lambda mesh, rank: Two(step, rank),
        mesh=Mesh(dp=2),
        inputs={"x": Input((4, 3), "f32", {"dp": Shard(0)})},
    ).check()


RIGHT = [
    in_one_order,
    issued_in_another_order,
    exchanged(lambda g, r: g[0], lambda g, r: g[0]),
    exchanged(lambda g, r: g[r], lambda g, r: g[1 - r]),
    exchanged(lambda g, r: None, lambda g, r: None),
]
WRONG = [
    crossed,
    crossed_in_place,
    blocking_in_another_order,
    on_other_groups,
    of_the_world,
    exchanged(lambda g, r: g[0], lambda g, r: g[1]),
    exchanged(lambda g, r: g[r], lambda g, r: g[r]),
    exchanged(lambda g, r: None, lambda g, r: g[0]),
]


@pytest.mark.parametrize("step", RIGHT)
def test_calls_that_meet(step: Step) -> None:
    assert check(step).status == "refines"


@pytest.mark.parametrize("step", WRONG)
def test_calls_that_do_not_meet(step: Step) -> None:
    assert check(step).status == "refuted"
