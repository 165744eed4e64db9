"""What a backend sees of a call and a graph of its results does not: that ranks wait for each
other, which call it was, and how a tensor lies in memory."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.capture.sums import Program, check, gathered, reduced

from shardproof.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore")


def object_then_sum(y: Any, rank: int) -> Any:
    gathered(rank)
    return reduced(y)


def object_on_another_side(y: Any, rank: int) -> Any:
    if rank == 0:
        gathered(rank)
    y = reduced(y)
    if rank == 1:
        gathered(rank)
    return y


def object_between_messages(y: Any, rank: int) -> Any:
    got = torch.empty_like(y)
    if rank == 0:
        dist.send(y, 1)
        gathered(rank)
        dist.recv(got, 1)
    else:
        gathered(rank)
        dist.recv(got, 0)
        dist.send(y, 0)
    return y + got


class Plain:
    """No comparison of its own, and the same words for all."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "Plain()"


def plain_objects(y: Any, rank: int) -> Any:
    return reduced(y * gathered(Plain(1.0 + rank))[0].value)


def plain_object_of_the_other(y: Any, rank: int) -> Any:
    return reduced(y * gathered(Plain(1.0 + rank))[1].value / (1 + rank))


def reduce_to_the_first(y: Any, rank: int) -> Any:
    dist.reduce(y, dst=0)
    out = y.clone() if rank == 0 else torch.empty_like(y)
    dist.broadcast(out, 0)
    return out


def reduce_to_oneself(y: Any, rank: int) -> Any:
    dist.reduce(y, dst=rank)
    return y


def reduce_against_all_reduce(y: Any, rank: int) -> Any:
    if rank == 0:
        dist.reduce(y, dst=0)
        return y
    return reduced(y)


def barrier_against_all_reduce(y: Any, rank: int) -> Any:
    y = reduced(y)
    if rank == 0:
        dist.barrier()
    else:
        dist.all_reduce(torch.zeros(()))
    return y


def scatter_against_broadcast(y: Any, rank: int) -> Any:
    y = reduced(y)
    if rank == 0:
        out = torch.empty(3)
        dist.scatter(out, [y, y], src=0)
        return out
    both = torch.empty(2, 3)
    dist.broadcast(both, 0)
    return both[1].clone()


def barrier_waited_for_later(y: Any, rank: int) -> Any:
    got = torch.empty_like(y)
    if rank == 0:
        work = dist.barrier(async_op=True)
        dist.send(y, 1)
        work.wait()
        dist.recv(got, 1)
    else:
        dist.recv(got, 0)
        dist.barrier()
        dist.send(y, 0)
    return y + got


def exchange(y: Any, rank: int) -> Any:
    got = torch.empty_like(y)
    work = dist.isend(y, 1 - rank)
    dist.recv(got, 1 - rank)
    work.wait()
    return y + got


def waits_before_it_receives(y: Any, rank: int) -> Any:
    got = torch.empty_like(y)
    work = dist.isend(y, 1 - rank)
    z = y * 1.0
    work.wait()
    dist.recv(got, 1 - rank)
    return z + got


def waits_before_a_sum(y: Any, rank: int) -> Any:
    work = dist.isend(y, 1) if rank == 0 else None
    z = y * 1.0
    if work is not None:
        work.wait()
        return reduced(z)
    z = reduced(z)
    dist.recv(torch.empty_like(y), 0)
    return z


def turned(y: Any) -> Any:
    return torch.stack([y, 2 * y]).t()


def all_turned(y: Any, rank: int) -> Any:
    return reduced(turned(y))[:, 0].clone()


def one_turned(y: Any, rank: int) -> Any:
    m = turned(y)
    return reduced(m if rank == 0 else m.contiguous())[:, 0].clone()


def broadcast_into_another_order(y: Any, rank: int) -> Any:
    m = turned(reduced(y))
    out = m.clone() if rank == 0 else torch.empty(3, 2)
    dist.broadcast(out, 0)
    return out[:, 0].clone()


def a_column(y: Any, rank: int) -> Any:
    both = torch.stack([y, 2 * y], 1)
    dist.all_reduce(both[:, 0])
    return both[:, 0].clone()


def a_turned_message(y: Any, rank: int) -> Any:
    m = torch.stack([y, y]).t()
    got = torch.empty(3, 2)
    work = dist.isend(m, 1 - rank)
    dist.recv(got, 1 - rank)
    work.wait()
    return y + got[:, 0]


def by_the_environment(y: Any, rank: int) -> Any:
    return reduced(y * float(os.environ["WORLD_SIZE"]) / 2 * (1 + 0 * int(os.environ["RANK"])))


def wrongly_by_the_environment(y: Any, rank: int) -> Any:
    return reduced(y * (1.0 if os.environ["RANK"] == "0" else 2.0))


RIGHT = [object_then_sum, plain_objects, reduce_to_the_first, barrier_waited_for_later, exchange,
         all_turned, by_the_environment]  # fmt: skip
WRONG = [
    object_on_another_side, object_between_messages, plain_object_of_the_other, reduce_to_oneself,
    reduce_against_all_reduce, barrier_against_all_reduce, scatter_against_broadcast,
    waits_before_it_receives, waits_before_a_sum, one_turned, broadcast_into_another_order,
    wrongly_by_the_environment,
]  # fmt: skip


@pytest.mark.parametrize("program", RIGHT)
def test_calls_that_fit(program: Program) -> None:
    verdict = check(program)
    assert (verdict.status, verdict.certificate) == ("refines", "certificate checked")


@pytest.mark.parametrize("program", WRONG)
def test_calls_that_do_not_fit(program: Program) -> None:
    assert check(program).status == "refuted"


@pytest.mark.parametrize("program", [a_column, a_turned_message])
def test_tensors_that_backends_refuse_or_send_in_another_order(program: Program) -> None:
    with pytest.raises(InputError, match="not contiguous"):
        check(program)


def test_tensors_as_objects_are_refused() -> None:
    with pytest.raises(InputError, match="tensors are passed as Python objects"):
        check(lambda y, rank: reduced(gathered(y)[0].clone()))


def test_a_sum_of_booleans_is_refused() -> None:
    with pytest.raises(InputError, match="sum of booleans"):
        check(lambda y, rank: y * reduced(y > 0))


def test_groups_are_created_by_all_ranks_in_one_order() -> None:
    def own(y: Any, rank: int) -> Any:
        first = rank // 2 * 2
        group = dist.new_group([first, first + 1])
        dist.all_reduce(y, group=group)
        return reduced(y) / 2

    def every(y: Any, rank: int) -> Any:
        groups = [dist.new_group([k, k + 1]) for k in (0, 2)]
        dist.all_reduce(y, group=groups[rank // 2])
        return reduced(y) / 2

    assert check(every, 4).status == "refines"
    with pytest.raises(InputError, match="do not create the same process groups"):
        check(own, 4)
