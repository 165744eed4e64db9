"""Activation checkpointing, reentrant and not, of a DTensor model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.live import common as p
from tests.capture.oracle import TOLERANCE, replayed
from torch.utils.checkpoint import checkpoint

from shardproof import Mesh, Spec

pytestmark = pytest.mark.filterwarnings("ignore")


class Checkpointed(p.Net):
    """The block's activations are computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant

    def forward(self, tokens: Any, labels: Any) -> Any:
        x = checkpoint(self.block, self.emb(tokens), use_reentrant=self.reentrant)
        z = self.head(self.norm(x))
        return -torch.log_softmax(z, -1).gather(-1, labels.unsqueeze(-1)).mean()


CASES: dict[str, dict[str, Any]] = {
    "checkpointed": {
        "sequential": p.Net,
        "distributed": lambda mesh, rank: p.dtensor_tp(mesh, rank, Checkpointed(False)),
        "mesh": Mesh(tp=2),
        "inputs": p.tokens(),
        "step": "backward",
    },
    "checkpointed, reentrant": {
        "sequential": p.Net,
        "distributed": lambda mesh, rank: p.dtensor_tp(mesh, rank, Checkpointed(True)),
        "mesh": Mesh(tp=2),
        "inputs": p.tokens(),
        "step": "backward",
    },
}


@pytest.mark.parametrize("case", CASES)
def test_ranks_equal_the_sequential_program(case: str) -> None:
    spec = Spec(name=case, **CASES[case])
    assert replayed(spec) < TOLERANCE
    assert spec.check().status == "refines"
