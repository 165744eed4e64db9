"""Lines that called a line of the program: those of the program only."""

from __future__ import annotations

import torch
from torch import nn

from shardproof import Input, Mesh, Spec
from shardproof.ir.graph import Node


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def nodes(step: str) -> list[Node]:
    spec = Spec(
        sequential=Net,
        distributed=lambda mesh, rank: Net(),
        mesh=Mesh(tp=1),
        inputs={"x": Input((2, 4))},
        loss=None if step == "forward" else (lambda output, x: output.sum()),
        step=step,
    )
    return spec.resolve().sequential.nodes


def test_what_runs_the_capture_is_no_caller() -> None:
    for step in ("forward", "backward"):
        for node in nodes(step):
            places = [node.origin.file, *node.origin.callers]
            assert all("test_callers.py" in p for p in places if p), places


def test_the_line_that_calls_is() -> None:
    (relu,) = [n for n in nodes("forward") if n.op == "relu"]
    assert relu.origin.code == "return torch.relu(self.layer(x))"
    assert len(relu.origin.callers) == 1
