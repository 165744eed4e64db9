"""Schedules whose ranks do not fit together are findings with the place of every rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from shardproof import Input, Mesh, Spec

pytestmark = pytest.mark.filterwarnings("ignore")


def receives_first(x: Any, rank: int) -> Any:
    got = torch.empty_like(x)
    dist.recv(got, src=1 - rank)
    dist.send(x, dst=1 - rank)
    return got


def sends_in_another_order(x: Any, rank: int) -> Any:
    if rank == 0:
        dist.send(x, dst=1, tag=1)
        dist.send(x * 2, dst=1, tag=2)
        return x
    second, first = torch.empty_like(x), torch.empty_like(x)
    dist.recv(second, src=0, tag=2)
    dist.recv(first, src=0, tag=1)
    return first


def send_first(x: Any, rank: int) -> Any:
    got = torch.empty_like(x)
    dist.send(x, dst=1 - rank)
    dist.recv(got, src=1 - rank)
    return got


def has_no_peer(x: Any, rank: int) -> Any:
    got = torch.empty_like(x)
    if rank == 1:
        dist.recv(got, src=0)
    return x + got * 0


def barriers_on_both(x: Any, rank: int) -> Any:
    dist.barrier()
    y = x + 0 * rank
    dist.barrier()
    return y


def barrier_on_one(x: Any, rank: int) -> Any:
    if rank == 1:
        dist.barrier()
    return x * 1.0


def barrier_in_another_place(x: Any, rank: int) -> Any:
    got = torch.empty_like(x)
    if rank == 0:
        dist.barrier()
        dist.send(x, dst=1)
        return x * 1.0
    dist.recv(got, src=0)
    dist.barrier()
    return got


def other_micro_batches(x: Any, rank: int) -> Any:
    """Rank 1 runs two micro-batches of two rows, rank 0 four of one."""
    rows = 2 if rank else 1
    hidden = torch.empty(rows, 4)
    stage = PipelineStage(nn.Identity(), rank, 2, torch.device("cpu"), hidden, hidden)
    schedule = ScheduleGPipe(stage, n_microbatches=4 // rows)
    return schedule.step(*([] if rank else [x]))


def right(x: Any, rank: int) -> Any:
    hidden = torch.empty(1, 4)
    stage = PipelineStage(nn.Identity(), rank, 2, torch.device("cpu"), hidden, hidden)
    return ScheduleGPipe(stage, n_microbatches=4).step(*([] if rank else [x]))


def check(program: Callable[[Any, int], Any]) -> Any:
    return Spec(
        sequential=lambda: lambda x: x * 1.0,
        distributed=lambda mesh, rank: lambda x: program(x, rank),
        mesh=Mesh(pp=2),
        inputs={"x": Input((4, 4))},
    ).check()


def two_messages(first: int, second: int) -> Callable[[Any, int], Any]:
    """Rank 1 receives the message with the first tag first."""

    def program(x: Any, rank: int) -> Any:
        if rank == 0:
            for work in [dist.isend(x * k, dst=1, tag=k) for k in (1, 2)]:
                work.wait()
            return x * 1.0
        got = {first: torch.empty_like(x), second: torch.empty_like(x)}
        for tag in (first, second):
            dist.recv(got[tag], src=0, tag=tag)
        return got[1] + 0 * got[2]

    return program


def test_messages_told_apart_by_their_tags_alone_are_an_assumption() -> None:
    in_order, overtaking = check(two_messages(1, 2)), check(two_messages(2, 1))
    assert in_order.status == overtaking.status == "refines"
    assert "tags" not in dict(in_order.assumptions)
    assert "NCCL ignores tags" in dict(overtaking.assumptions)["tags"]
    assert "test_pipelines.py" in dict(overtaking.assumptions)["tags"]


@pytest.mark.parametrize("program", [right, barriers_on_both])
def test_a_schedule_that_fits(program: Callable[[Any, int], Any]) -> None:
    assert check(program).status == "refines"


@pytest.mark.parametrize(
    "program",
    [
        receives_first,
        send_first,
        sends_in_another_order,
        has_no_peer,
        other_micro_batches,
        barrier_on_one,
        barrier_in_another_place,
    ],
)
def test_a_schedule_that_does_not_fit(program: Callable[[Any, int], Any]) -> None:
    verdict = check(program)
    assert verdict.status == "refuted"
    first = verdict.findings[0]
    assert first.code in ("SP100", "SP101", "SP102", "SP103")
    assert first.primary is not None
