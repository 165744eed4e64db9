"""Optimizers as plain functions on lists of tensors.

A superstep has to be one function of tensors, so that it can be replayed, tested against a
sequential specification and captured. ``Sgd`` and ``AdamW`` compute what ``torch.optim`` computes
(tests compare them); they keep their state in the list they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from shardproof.elastic.errors import InvalidInput

Tensors: TypeAlias = list[Tensor]


class Inner(Protocol):
    """Optimizer of the local steps, or of the server in immediate-apply mode."""

    def init(self, params: Sequence[Tensor]) -> Tensors:
        """State before the first step."""
        ...

    def step(
        self, params: Sequence[Tensor], grads: Sequence[Tensor], state: Sequence[Tensor]
    ) -> tuple[Tensors, Tensors]:
        """New parameters and new state; the arguments are not modified."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Name and hyperparameters, for the server's configuration."""
        ...


@dataclass(frozen=True)
class Sgd:
    """SGD with momentum, L2 weight decay and optional Nesterov step, as ``torch.optim.SGD``."""

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        if not self.lr > 0 or not 0 <= self.momentum < 1 or self.weight_decay < 0:
            raise InvalidInput("SGD needs lr > 0, momentum in [0, 1) and weight decay >= 0")
        if self.nesterov and self.momentum == 0:
            raise InvalidInput("Nesterov needs momentum > 0")

    def init(self, params: Sequence[Tensor]) -> Tensors:
        """Zero momentum, or no state without momentum."""
        return [torch.zeros_like(p) for p in params] if self.momentum else []

    def step(
        self, params: Sequence[Tensor], grads: Sequence[Tensor], state: Sequence[Tensor]
    ) -> tuple[Tensors, Tensors]:
        """One step."""
        decayed = [
            g + self.weight_decay * p if self.weight_decay else g
            for p, g in zip(params, grads, strict=True)
        ]
        if not self.momentum:
            return [p - self.lr * g for p, g in zip(params, decayed, strict=True)], []
        velocity = [self.momentum * v + g for v, g in zip(state, decayed, strict=True)]
        move = (
            [g + self.momentum * v for g, v in zip(decayed, velocity, strict=True)]
            if self.nesterov
            else velocity
        )
        return [p - self.lr * m for p, m in zip(params, move, strict=True)], velocity

    def to_json(self) -> dict[str, Any]:
        """Name and hyperparameters."""
        return {"kind": "sgd", **asdict(self)}


@dataclass(frozen=True)
class AdamW:
    """AdamW (arXiv 1711.05101), as ``torch.optim.AdamW``.

    State: first moments, second moments, and the step count as a one-element tensor.
    """

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        if not self.lr > 0 or not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise InvalidInput("AdamW needs lr > 0 and both betas in [0, 1)")

    def init(self, params: Sequence[Tensor]) -> Tensors:
        """Zero moments and step 0."""
        moments = [torch.zeros_like(p) for _ in range(2) for p in params]
        return [*moments, torch.zeros(1, dtype=params[0].dtype, device=params[0].device)]

    def step(
        self, params: Sequence[Tensor], grads: Sequence[Tensor], state: Sequence[Tensor]
    ) -> tuple[Tensors, Tensors]:
        """One step."""
        n = len(params)
        count = state[-1] + 1
        first = [
            self.beta1 * m + (1 - self.beta1) * g for m, g in zip(state[:n], grads, strict=True)
        ]
        second = [
            self.beta2 * v + (1 - self.beta2) * g * g
            for v, g in zip(state[n : 2 * n], grads, strict=True)
        ]
        correct1, correct2 = 1 - self.beta1**count, 1 - self.beta2**count
        new = []
        for p, m, v in zip(params, first, second, strict=True):
            shrunk = p * (1 - self.lr * self.weight_decay)
            root = torch.sqrt(v) / torch.sqrt(correct2) + self.eps
            new.append(shrunk - self.lr / correct1 * m / root)
        return new, [*first, *second, count]

    def to_json(self) -> dict[str, Any]:
        """Name and hyperparameters."""
        return {"kind": "adamw", **asdict(self)}


class Outer(Protocol):
    """Turns the averaged change of a superstep into the new common weights."""

    def init(self, params: Sequence[Tensor]) -> Tensors:
        """State before the first barrier."""
        ...

    def step(
        self, start: Sequence[Tensor], change: Sequence[Tensor], state: Sequence[Tensor]
    ) -> tuple[Tensors, Tensors]:
        """New weights and state from the weights at the last barrier and the averaged change."""
        ...


@dataclass(frozen=True)
class Average:
    """Plain (weighted) averaging of the local weights: local SGD."""

    def init(self, params: Sequence[Tensor]) -> Tensors:
        """No state."""
        return []

    def step(
        self, start: Sequence[Tensor], change: Sequence[Tensor], state: Sequence[Tensor]
    ) -> tuple[Tensors, Tensors]:
        """start + averaged change."""
        return [s + c for s, c in zip(start, change, strict=True)], []


@dataclass(frozen=True)
class OuterSgd:
    """Outer SGD with Nesterov momentum on the pseudo-gradient -change (DiLoCo, arXiv 2311.08105).

    The defaults are that paper's.
    """

    lr: float = 0.7
    momentum: float = 0.9
    nesterov: bool = True

    def _sgd(self) -> Sgd:
        return Sgd(self.lr, self.momentum, nesterov=self.nesterov and self.momentum > 0)

    def init(self, params: Sequence[Tensor]) -> Tensors:
        """Zero outer momentum."""
        return self._sgd().init(params)

    def step(
        self, start: Sequence[Tensor], change: Sequence[Tensor], state: Sequence[Tensor]
    ) -> tuple[Tensors, Tensors]:
        """One outer step."""
        return self._sgd().step(start, [-c for c in change], state)


def optimizer_from_json(spec: dict[str, Any]) -> Inner:
    """Inverse of ``to_json``."""
    values = dict(spec)
    kind = values.pop("kind", None)
    if kind == "sgd":
        return Sgd(**values)
    if kind == "adamw":
        return AdamW(**values)
    raise InvalidInput(f"unknown optimizer {kind!r}; choose sgd or adamw")
