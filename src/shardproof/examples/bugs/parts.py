"""Pairs of a collective and its backward, as tensor-parallel code writes them, and small steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from shardproof import Input, Mesh, Replicate, Shard, Spec


class Enter(torch.autograd.Function):
    """Into a column-parallel layer: identity; backward sums over the group."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any) -> Any:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class Leave(torch.autograd.Function):
    """Out of a row-parallel layer: sum over the group; backward is the identity."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Any) -> Any:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


class _Pair(torch.autograd.Function):
    """``there`` on the way forward, ``back`` on the gradient; both along ``dim`` over a group."""

    @staticmethod
    def forward(ctx: Any, x: Any, dim: int, group: Any, there: Any, back: Any) -> Any:
        ctx.back = partial(back, dim=dim, group=group)
        return there(x, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ctx.back(grad), None, None, None, None


def enter(x: Any, group: Any = None) -> Any:
    """Identity; backward sums over the group."""
    return Enter.apply(x, group)


def leave(x: Any, group: Any = None) -> Any:
    """Sum over the group; backward is the identity."""
    return Leave.apply(x, group)


def gather(x: Any, dim: int = 0, group: Any = None) -> Any:
    """Shards joined along ``dim``; backward sums and cuts."""
    return _Pair.apply(x, dim, group, gathered, scattered)


def scatter(x: Any, dim: int = 0, group: Any = None) -> Any:
    """Sum over the group, cut along ``dim``; backward joins."""
    return _Pair.apply(x, dim, group, scattered, gathered)


def split(x: Any, dim: int = 0, group: Any = None) -> Any:
    """This rank's part of a replicated tensor; backward joins."""
    return _Pair.apply(x, dim, group, mine, gathered)


def gathered(x: Any, dim: int = 0, group: Any = None) -> Any:
    """Shards joined along ``dim``; autograd does not see it."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, x.contiguous(), group=group)
    return torch.cat(parts, dim)


def scattered(x: Any, dim: int = 0, group: Any = None) -> Any:
    """Sum over the group, cut along ``dim``; autograd does not see it."""
    parts = [t.contiguous() for t in x.chunk(dist.get_world_size(group), dim)]
    out = torch.empty_like(parts[0])
    dist.reduce_scatter(out, parts, group=group)
    return out


def mine(x: Any, dim: int = 0, group: Any = None) -> Any:
    """This rank's part of a replicated tensor."""
    return x.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)]


def summed(x: Any, group: Any = None) -> Any:
    """Sum over the group; autograd does not see it."""
    x = x.clone()
    dist.all_reduce(x, group=group)
    return x


Function = Callable[..., Any]


def spec(
    sequential: Function | None,
    distributed: Function | None,
    mesh: Mesh,
    inputs: Mapping[str, Input],
    *,
    after: Callable[[Mapping[str, Any]], None] | None = None,
    whole_step: Callable[..., Any] | None = None,
    step: str = "backward",
    outputs: Mapping[str, Any] | None = None,
    built: Callable[[Any, int], None] | None = None,
) -> Spec:
    """A check of two functions of the same inputs, which return the loss (or, with "forward", a
    tensor).

    Args:
        after: is given the inputs of a rank after its backward pass, to synchronise gradients.
        whole_step: runs the step of a rank itself, with the model and the inputs; without
            ``sequential`` that of both programs, and the sequential model is None.
        built: is given the device mesh and the rank before the program of the rank runs.
        outputs: as in :class:`Spec`; a loss that is each rank's own is left out by ``OWN_LOSS``.
    """

    def run(model: Any, optimizer: Any, **values: Any) -> Any:
        on_rank = model.on_rank
        if whole_step is not None and (on_rank or sequential is None):
            return whole_step(model if on_rank else None, optimizer, **values)
        loss = model(**values)
        loss.backward()
        if after is not None and on_rank:
            with torch.no_grad():
                after(values)
        return loss

    def program(function: Function | None, on_rank: bool) -> Any:
        def model(**values: Any) -> Any:
            assert function is not None
            return function(**values)

        model.on_rank = on_rank  # type: ignore[attr-defined]
        return model

    def on_mesh(device_mesh: Any, rank: int) -> Any:
        if built is not None:
            built(device_mesh, rank)
        return program(distributed, True)

    return Spec(
        sequential=lambda: program(sequential, False),
        distributed=on_mesh,
        mesh=mesh,
        inputs=dict(inputs),
        step=step if after is None and whole_step is None else run,
        outputs=dict(outputs) if outputs is not None else None,
    )


OWN_LOSS: dict[str, Any] = {"loss": None}
ROWS_OUT, COLUMNS_OUT = {"output": Shard(0)}, {"output": Shard(1)}


def f32(*shape: int, at: Any = None, grad: bool = False) -> Input:
    """A float input, cut as ``at`` says."""
    return Input(shape, "f32", Replicate() if at is None else at, grad=grad)


def i64(*shape: int, at: Any = None) -> Input:
    """An integer input, cut as ``at`` says."""
    return Input(shape, "i64", Replicate() if at is None else at)


def weights(names: Sequence[str], shape: tuple[int, ...], at: Any = None) -> dict[str, Input]:
    """Float inputs whose gradients are asked for."""
    return {n: f32(*shape, at=at, grad=True) for n in names}
