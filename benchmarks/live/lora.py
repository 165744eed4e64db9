"""Low-rank adapters on tensor- and sequence-parallel layers whose own weights are frozen."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.live import common as c
from torch import nn

from shardproof import Input, Mesh, Spec
from shardproof.examples.bugs import parts
from shardproof.testing.cases import Case, twins

HIDDEN, INNER, RANK, SCALE = 8, 16, 2, 4.0
COLUMN, ROW = ("up_a", "up_b"), ("down_a", "down_b")


class Mlp(nn.Module):
    """Two frozen layers, with adapters where ``adapters`` names them; ``inner`` is the width that
    one rank holds."""

    def __init__(self, adapters: tuple[str, ...], inner: int = INNER) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, inner, bias=False).requires_grad_(False)
        self.down = nn.Linear(inner, HIDDEN, bias=False).requires_grad_(False)
        sizes = {
            "up_a": (HIDDEN, RANK),
            "up_b": (RANK, inner),
            "down_a": (inner, RANK),
            "down_b": (RANK, HIDDEN),
        }
        for name in adapters:
            self.add_module(name, nn.Linear(*sizes[name], bias=False))

    def forward(self, x: Any) -> Any:
        h = self.up(x)
        if hasattr(self, "up_a"):
            h = h + self.up_b(self.up_a(x)) * SCALE
        h = F.gelu(h)
        y = self.down(h)
        if hasattr(self, "down_a"):
            y = y + self.down_b(self.down_a(h)) * SCALE
        return y

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = F.mse_loss(self(x), y)
        loss.backward()
        optimizer.step()
        return loss


class Column(Mlp):
    """``up_a`` is whole on every rank, ``up_b`` is cut as the layer is."""

    def __init__(self, group: Any, ranks: int, bug: str) -> None:
        super().__init__(COLUMN, INNER // ranks)
        self.group, self.bug = group, bug

    def forward(self, x: Any) -> Any:
        low = self.up_a(x)  # carries: gradient of the adapter not summed
        if self.bug != "gradient of the adapter not summed":
            low = parts.enter(low, self.group)  # planted: gradient of the adapter not summed
        scale = SCALE
        if self.bug == "scaled by the ranks":
            scale = SCALE / dist.get_world_size(self.group)  # planted: scaled by the ranks
        # carries: gradient of the adapter not summed, scaled by the ranks
        h = self.up(x) + self.up_b(low) * scale
        if self.bug == "adapter after the activation":
            # planted: adapter after the activation
            h = F.gelu(self.up(x)) + self.up_b(low) * scale
        else:
            h = F.gelu(h)
        return parts.leave(self.down(h), self.group)  # carries: adapter after the activation


class Row(Mlp):
    """``down_a`` is cut as the layer is, ``down_b`` is whole on every rank."""

    def __init__(self, group: Any, ranks: int, bug: str) -> None:
        super().__init__(ROW, INNER // ranks)
        self.group, self.bug = group, bug

    def forward(self, x: Any) -> Any:
        h = F.gelu(self.up(x))
        low = self.down_a(h)
        if self.bug == "adapter of a part":
            y = self.down_b(low) * SCALE  # planted: adapter of a part
            return parts.leave(self.down(h), self.group) + y  # carries: adapter of a part
        if self.bug == "adapter in every sum":
            low = parts.leave(low, self.group)
            y = self.down(h) + self.down_b(low) * SCALE  # planted: adapter in every sum
            return parts.leave(y, self.group)  # carries: adapter in every sum
        if self.bug == "gradient of the second factor not summed":
            # planted: gradient of the second factor not summed
            return parts.leave(self.down(h) + self.down_b(low) * SCALE, self.group)
        return parts.leave(self.down(h), self.group) + self.second(parts.leave(low, self.group))

    def second(self, low: Any) -> Any:
        return self.down_b(low) * SCALE

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        loss = F.mse_loss(self(x), y)
        loss.backward()
        optimizer.step()  # carries: gradient of the second factor not summed
        return loss


class Sequence(Mlp):
    """Between the layers every rank has its rows; both layers have adapters."""

    def __init__(self, group: Any, ranks: int, bug: str) -> None:
        super().__init__(COLUMN + ROW, INNER // ranks)
        self.group, self.bug = group, bug

    def forward(self, x: Any) -> Any:
        mine = parts.split(x, 0, self.group)
        # carries: adapters of the rows not summed
        low = parts.gather(self.up_a(mine), 0, self.group)
        whole = parts.gather(mine, 0, self.group)
        h = F.gelu(self.up(whole) + self.up_b(low) * SCALE)
        low = self.down_a(h)
        if self.bug == "own rows of the adapter":
            low = parts.mine(low, 0, self.group)  # planted: own rows of the adapter
        else:
            low = parts.scatter(low, 0, self.group)
        # carries: own rows of the adapter, adapters of the rows not summed
        y = self.down_b(low) * SCALE
        # carries: own rows of the adapter
        return parts.scatter(self.down(h), 0, self.group) + y

    def step(self, optimizer: Any, x: Any, y: Any) -> Any:
        part = self(x)
        loss = F.mse_loss(part, parts.mine(y, 0, self.group)) / dist.get_world_size(self.group)
        if self.bug == "loss not divided":
            loss = F.mse_loss(part, parts.mine(y, 0, self.group))  # planted: loss not divided
        loss.backward()  # carries: loss not divided
        for name in ("up_a", "down_b"):
            if self.bug == "adapters of the rows not summed":
                continue  # planted: adapters of the rows not summed
            grad = self.get_submodule(name).weight.grad
            dist.all_reduce(grad, group=self.group)
            if self.bug == "gradients averaged":
                grad.div_(dist.get_world_size(self.group))  # planted: gradients averaged
        optimizer.step()  # carries: adapters of the rows not summed, gradients averaged
        return parts.summed(loss.detach(), self.group)


def lora(kind: Any, adapters: tuple[str, ...], bug: str) -> Spec:
    """One step of AdamW on the adapters."""
    return Spec(
        sequential=lambda: Mlp(adapters),
        distributed=lambda mesh, rank: kind(mesh.get_group("tp"), 2, bug),
        mesh=Mesh(tp=2),
        inputs={k: Input((4, HIDDEN)) for k in ("x", "y")},
        step=c.own_step,
        optimizer=c.adamw,
    )


def column(bug: str = "") -> Spec:
    return lora(Column, COLUMN, bug)


def row(bug: str = "") -> Spec:
    return lora(Row, ROW, bug)


def sequence(bug: str = "") -> Spec:
    return lora(Sequence, COLUMN + ROW, bug)


CASES = [
    Case(
        "lora, column parallel",
        column,
        twins(
            column,
            "gradient of the adapter not summed",
            "scaled by the ranks",
            "adapter after the activation",
        ),
    ),
    Case(
        "lora, row parallel",
        row,
        twins(
            row,
            "adapter of a part",
            "adapter in every sum",
            "gradient of the second factor not summed",
        ),
    ),
    Case(
        "lora, sequence parallel",
        sequence,
        twins(
            sequence,
            "own rows of the adapter",
            "loss not divided",
            "adapters of the rows not summed",
            "gradients averaged",
        ),
    ),
]
