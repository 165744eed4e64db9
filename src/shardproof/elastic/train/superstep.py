"""One superstep of each mode as plain functions on tensors.

``train`` executes exactly these functions; processes, sockets and policies only decide which
batches a worker takes, when a barrier closes and who takes part. They are free of side effects, so
they can be replayed (tests recompute a whole run from its ledger) and captured.

* local update: ``local_run`` on every worker, then ``merge_local`` with an all-reduce;
* immediate apply: ``gradient`` on a worker with the weights pulled, ``apply_push`` on the server.

Sequential meaning. One local step with weights 1/n and plain SGD is SGD on the union of the batches
(exactly, over real numbers). A local-update superstep is the weighted average of independent local
runs. An immediate-apply superstep is the recursion ``w[k+1] = step(w[k], grad(w[pulled[k]],
batch[k]))`` in the order of the pushes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .optim import Inner, Outer, Tensors

Batch: TypeAlias = Any
GradFn: TypeAlias = Callable[[Sequence[Tensor], Batch], tuple[Tensors, Tensor]]
"""(parameters, batch) -> (gradients, loss)."""
AllReduce: TypeAlias = Callable[[Tensor], Tensor]
"""Sum over all workers of the superstep."""


@dataclass(frozen=True)
class State:
    """What all workers agree on after a barrier: weights, inner and outer optimizer state."""

    params: Tensors
    inner: Tensors
    outer: Tensors

    def tensors(self) -> Tensors:
        """All tensors in a fixed order."""
        return [*self.params, *self.inner, *self.outer]

    def like(self, tensors: Sequence[Tensor]) -> State:
        """A state of the same layout with these tensors."""
        p, i = len(self.params), len(self.params) + len(self.inner)
        return State(list(tensors[:p]), list(tensors[p:i]), list(tensors[i:]))


def gradient(loss_of: Callable[[Sequence[Tensor], Batch], Tensor]) -> GradFn:
    """Turn a loss function of (parameters, batch) into a gradient function."""

    def grads(params: Sequence[Tensor], batch: Batch) -> tuple[Tensors, Tensor]:
        leaves = [p.detach().requires_grad_() for p in params]
        loss = loss_of(leaves, batch)
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
        dense = [
            torch.zeros_like(p) if g is None else g for p, g in zip(leaves, found, strict=True)
        ]
        return dense, loss.detach()

    return grads


def local_step(
    params: Sequence[Tensor], inner: Sequence[Tensor], batch: Batch, grad: GradFn, optimizer: Inner
) -> tuple[Tensors, Tensors, Tensor]:
    """One local iteration: new parameters, new inner state, loss."""
    grads, loss = grad(params, batch)
    new, state = optimizer.step(params, grads, inner)
    return new, state, loss


def local_run(
    start: State, batches: Iterable[Batch], grad: GradFn, optimizer: Inner
) -> tuple[Tensors, Tensors, int]:
    """All local iterations of one worker: its parameters, its inner state, their number.

    ``batches`` may be lazy: the trainer's iterator asks the policy after each iteration whether
    there is another one.
    """
    params, inner, steps = list(start.params), list(start.inner), 0
    for batch in batches:
        params, inner, _ = local_step(params, inner, batch, grad, optimizer)
        steps += 1
    return params, inner, steps


def merge_local(
    start: State,
    params: Sequence[Tensor],
    inner: Sequence[Tensor],
    weight: float,
    outer: Outer,
    all_reduce: AllReduce,
) -> State:
    """Barrier of the local-update mode.

    weight: this worker's share; the weights of all workers sum to 1. The change of the weights
    since the last barrier goes through the outer optimizer; the inner state is averaged with the
    same weights, so that momentum SGD with one local step stays large-batch SGD.
    """
    mine = [weight * (p - s) for p, s in zip(params, start.params, strict=True)]
    state = [weight * t for t in inner]
    flat = all_reduce(flatten([*mine, *state]))
    summed = unflatten(flat, [*start.params, *start.inner])
    change, averaged = summed[: len(mine)], summed[len(mine) :]
    new, outer_state = outer.step(start.params, change, start.outer)
    return State(new, averaged, outer_state)


def local_superstep(
    start: State,
    batches: Iterable[Batch],
    weight: float,
    *,
    grad: GradFn,
    optimizer: Inner,
    outer: Outer,
    all_reduce: AllReduce,
) -> State:
    """One whole superstep of one worker in local-update mode: ``local_run``, ``merge_local``."""
    params, inner, _ = local_run(start, batches, grad, optimizer)
    return merge_local(start, params, inner, weight, outer, all_reduce)


def apply_push(
    params: Sequence[Tensor], state: Sequence[Tensor], grads: Sequence[Tensor], optimizer: Inner
) -> tuple[Tensors, Tensors]:
    """The server's answer to one push in immediate-apply mode: new parameters and state."""
    return optimizer.step(params, grads, state)


def immediate_superstep(
    params: Sequence[Tensor],
    state: Sequence[Tensor],
    pushes: Iterable[tuple[int, Batch]],
    *,
    grad: GradFn,
    optimizer: Inner,
) -> tuple[Tensors, Tensors]:
    """All pushes between two barriers, in order: the delayed-gradient recursion.

    pushes: (version pulled, batch); version k is the state after k pushes of this superstep.
    """
    versions: list[Tensors] = [list(params)]
    current, optimizer_state = list(params), list(state)
    for pulled, batch in pushes:
        grads, _ = grad(versions[pulled], batch)
        current, optimizer_state = apply_push(current, optimizer_state, grads, optimizer)
        versions.append(current)
    return current, optimizer_state


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate tensors of one dtype into a vector."""
    return torch.cat([t.reshape(-1) for t in tensors])


def unflatten(flat: Tensor, like: Sequence[Tensor]) -> Tensors:
    """Cut a vector into tensors shaped as in ``like``."""
    parts = torch.split(flat, [t.numel() for t in like])
    return [part.reshape(t.shape) for part, t in zip(parts, like, strict=True)]
