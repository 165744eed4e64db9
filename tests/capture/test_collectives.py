"""Every way to call a collective, captured and proved: two or three ranks, one small tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from tests.capture.oracle import TOLERANCE, replayed

from shardproof import Input, Mesh, Output, Replicate, Shard, Spec

pytestmark = pytest.mark.filterwarnings("ignore")
N = 2


def sizes(x: Any) -> int:
    return dist.get_world_size()


def all_reduce(x: Any) -> Any:
    y = x.sum(0)
    dist.all_reduce(y)
    return y


def all_reduce_view(x: Any) -> Any:
    y = torch.zeros(3, x.shape[1])
    y[1].copy_(x.sum(0))
    dist.all_reduce(y[1])
    return y.sum(0)


def all_reduce_average(x: Any) -> Any:
    y = x.sum(0)
    dist.all_reduce(y, op=dist.ReduceOp.AVG)
    return y * sizes(x)


def all_reduce_premultiplied(x: Any) -> Any:
    y = x.sum(0)
    dist.all_reduce(y, op=dist._make_nccl_premul_sum(0.5))
    return y * 2


def asynchronous(x: Any) -> Any:
    y = x.sum(0)
    work = dist.all_reduce(y, async_op=True)
    z = x * 2
    work.wait()
    return y + 0 * z.sum()


def read_early(x: Any) -> Any:
    y = x.sum(0)
    work = dist.all_reduce(y, async_op=True)
    z = y * 1.0
    work.wait()
    return z


def all_reduce_coalesced(x: Any) -> Any:
    a, b = x[:, :2].sum(0), x[:, 2:].sum(0)
    with dist._coalescing_manager(async_ops=False):
        dist.all_reduce(a)
        dist.all_reduce(b)
    return torch.cat([a, b])


def functional_all_reduce(x: Any) -> Any:
    return functional.all_reduce(x.sum(0), "sum", dist.group.WORLD) * 1.0


def all_gather_tensor(x: Any) -> Any:
    out = torch.empty(x.shape[0] * sizes(x), x.shape[1])
    dist.all_gather_into_tensor(out, x)
    return out


def all_gather_stacked(x: Any) -> Any:
    out = torch.empty(sizes(x), *x.shape)
    dist.all_gather_into_tensor(out, x)
    return out.flatten(0, 1)


def all_gather_list(x: Any) -> Any:
    parts = [torch.empty_like(x) for _ in range(sizes(x))]
    dist.all_gather(parts, x)
    return torch.cat(parts)


def functional_all_gather(x: Any) -> Any:
    return functional.all_gather_tensor(x, 0, dist.group.WORLD) * 1.0


def broadcast(x: Any) -> Any:
    parts = [torch.empty_like(x) for _ in range(sizes(x))]
    for k, part in enumerate(parts):
        part.copy_(x if dist.get_rank() == k else torch.zeros_like(x))
        dist.broadcast(part, src=k)
    return torch.cat(parts)


def ring(x: Any) -> Any:
    n, me = sizes(x), dist.get_rank()
    parts = [torch.empty_like(x) for _ in range(n)]
    parts[me] = x
    for k in range(n - 1):
        got = torch.empty_like(x)
        ops = [
            dist.P2POp(dist.isend, parts[(me - k) % n].contiguous(), (me + 1) % n),
            dist.P2POp(dist.irecv, got, (me - 1) % n),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        parts[(me - k - 1) % n] = got
    return torch.cat(parts)


def send_and_receive(x: Any) -> Any:
    """Through rank 0."""
    if dist.get_rank() == 0:
        parts = [x]
        for k in range(1, sizes(x)):
            got = torch.empty_like(x)
            dist.recv(got, src=k)
            parts.append(got)
        y = torch.cat(parts)
    else:
        dist.send(x, dst=0)
        y = torch.empty(x.shape[0] * sizes(x), x.shape[1])
    dist.broadcast(y, src=0)
    return y


def reduce_to_root(x: Any) -> Any:
    y = x.sum(0)
    dist.reduce(y, dst=1)
    dist.broadcast(y, src=1)
    return y


def reduce_scatter_tensor(x: Any) -> Any:
    out = torch.empty(x.shape[0] // sizes(x), x.shape[1])
    dist.reduce_scatter_tensor(out, x)
    return out / sizes(x)


def reduce_scatter_list(x: Any) -> Any:
    parts = [c.contiguous() for c in x.chunk(sizes(x))]
    out = torch.empty_like(parts[0])
    dist.reduce_scatter(out, parts)
    return out / sizes(x)


def functional_reduce_scatter(x: Any) -> Any:
    return functional.reduce_scatter_tensor(x, "avg", 0, dist.group.WORLD) * 1.0


def scatter(x: Any) -> Any:
    parts = list(x.chunk(sizes(x))) if dist.get_rank() == 0 else None
    out = torch.empty(x.shape[0] // sizes(x), x.shape[1])
    dist.scatter(out, parts, src=0)
    return out


def all_to_all_single(x: Any) -> Any:
    """From rows to columns."""
    n = sizes(x)
    mine = torch.stack(x.chunk(n, 1)).flatten(0, 1)
    out = torch.empty_like(mine)
    dist.all_to_all_single(out, mine)
    return out


def all_to_all_list(x: Any) -> Any:
    given = [c.contiguous() for c in x.chunk(sizes(x), 1)]
    got = [torch.empty_like(c) for c in given]
    dist.all_to_all(got, given)
    return torch.cat(got)


def total(x: Any) -> Any:
    return x.sum(0)


def same(x: Any) -> Any:
    return x * 1.0


ROWS, WHOLE, COLUMNS = Shard(0), Replicate(), Shard(1)
CASES: list[tuple[Callable[[Any], Any], Callable[[Any], Any], Any, Any, int]] = [
    *((f, total, ROWS, WHOLE, 2) for f in (
        all_reduce, all_reduce_view, all_reduce_average, all_reduce_premultiplied, asynchronous,
        all_reduce_coalesced, functional_all_reduce, reduce_to_root,
    )),
    *((f, same, ROWS, WHOLE, 2) for f in (
        all_gather_tensor, all_gather_stacked, all_gather_list, functional_all_gather, broadcast,
        send_and_receive,
    )),
    (ring, same, ROWS, WHOLE, 3),
    *((f, same, WHOLE, ROWS, 2) for f in (
        reduce_scatter_tensor, reduce_scatter_list, functional_reduce_scatter, scatter,
    )),
    *((f, same, ROWS, COLUMNS, 2) for f in (all_to_all_single, all_to_all_list)),
]  # fmt: skip


def spec(run: Any, sequential: Any, given: Any, wanted: Any, ranks: int) -> Spec:
    return Spec(
        sequential=lambda: sequential,
        distributed=lambda mesh, rank: run,
        mesh=Mesh(tp=ranks),
        inputs={"x": Input((2 * ranks, 2 * ranks), "f32", given)},
        outputs={"output": Output(placement=wanted)},
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0].__name__)
def test_collective(case: Any) -> None:
    check = spec(*case)
    assert replayed(check) < TOLERANCE
    assert check.check(replay=False).status == "refines"


def test_reading_before_the_wait_is_a_finding() -> None:
    verdict = spec(read_early, total, ROWS, WHOLE, 2).check()
    assert verdict.status == "refuted"
    assert {f.code for f in verdict.findings} == {"SP103"}
    places = [f.primary.function for f in verdict.findings if f.primary is not None]
    assert places
    assert all("read_early" in place for place in places)
