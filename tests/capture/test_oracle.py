"""A captured program, replayed, is what PyTorch computes with real tensors on one device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from benchmarks.live import common as p
from tests.capture.oracle import TOLERANCE, difference
from torch import nn

from shardproof.frontends.torch_capture import Example, Step

MLP = (Example("x", (4, 8), grad=True), Example("y", (4, 8)))


class Views(nn.Module):
    """Writes through views, seen through other views."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.empty(6, 4))

    def forward(self, x: Any) -> Any:
        y = x @ self.w
        rows, column = y[1:3], y[:, 2]
        rows.mul_(3.0)
        column.add_(1.0)
        y.t()[0].zero_()
        z = torch.zeros(8, 4)
        z.view(2, 4, 4)[1].copy_(y[:4])
        z.view(-1)[::4].add_(2.0)
        out = torch.empty(5, 6)
        torch.mul(x, 0.5, out=out)
        torch.add(out, x, out=out[:, :])
        return (z + column.sum()).pow(2).sum() + rows.exp().mean() + out.sum()


class Buffers(nn.Module):
    """A table made when the model is built, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.empty(8, 8))
        self.register_buffer("angles", torch.arange(4.0)[:, None] * torch.arange(8.0))
        self.offset = torch.tensor([1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 0.0, 0.5])

    def forward(self, x: Any) -> Any:
        y = (x @ self.w) * torch.cos(self.angles) + self.offset
        return F.softmax(y, -1).pow(2).sum()


def test_forward_and_backward() -> None:
    assert difference(p.Mlp, MLP, Step("backward")) < TOLERANCE


def test_language_model() -> None:
    inputs = (Example("tokens", (2, 4), "i64"), Example("labels", (2, 4), "i64"))
    ranges = {"tokens": 32, "labels": 32}
    assert difference(p.Net, inputs, Step("backward"), ranges) < TOLERANCE


def test_writes_through_views() -> None:
    assert difference(Views, (Example("x", (5, 6)),), Step("backward")) < TOLERANCE


def test_buffers_and_constants() -> None:
    assert difference(Buffers, (Example("x", (4, 8)),), Step("backward")) < TOLERANCE


@pytest.mark.parametrize("optimizer", [p.sgd, p.adamw, p.adamw_foreach])
def test_training_step(optimizer: Any) -> None:
    assert difference(p.Mlp, MLP[:0] + tuple(Example(e.name, e.shape) for e in MLP),
                      Step("train", None, optimizer)) < TOLERANCE  # fmt: skip


@pytest.mark.parametrize("foreach", [False, True])
def test_clipping(foreach: bool) -> None:
    def step(model: Any, optimizer: Any, **inputs: Any) -> Any:
        loss = model(**inputs)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01, foreach=foreach)
        optimizer.step()
        return loss

    examples = tuple(Example(e.name, e.shape) for e in MLP)
    assert difference(p.Mlp, examples, Step("train", None, p.sgd, step)) < TOLERANCE
