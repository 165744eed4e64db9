"""Cases of DTensor and FSDP2 that are not in the library of live cases yet."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.live import common as p
from tests.capture import steps
from tests.capture.oracle import TOLERANCE, replayed

from shardproof import Mesh, Spec

pytestmark = pytest.mark.filterwarnings("ignore")

LEFT_OUT = {"loss": None}
CASES: dict[str, dict[str, Any]] = {
    "dtensor tp": {
        "sequential": p.Net,
        "distributed": p.dtensor_tp,
        "mesh": Mesh(tp=2),
        "inputs": p.tokens(),
        "step": "train",
        "optimizer": p.sgd,
    },
    "dtensor tp and sp": {
        "sequential": p.Net,
        "distributed": p.dtensor_sp,
        "mesh": Mesh(tp=2),
        "inputs": p.tokens(),
        "step": "backward",
    },
    "fsdp2": {
        "sequential": p.Net,
        "distributed": p.fsdp,
        "mesh": Mesh(dp=2),
        "inputs": p.tokens(p.BATCH),
        "step": "train",
        "optimizer": p.adamw_foreach,
        "outputs": LEFT_OUT,
    },
    "fsdp2, uneven": {
        "sequential": p.Mlp,
        "distributed": lambda mesh, rank: p.fully_shard(p.Mlp(), mesh=mesh["dp"]),
        "mesh": Mesh(dp=3),
        "inputs": {k: p.Input((6, 8), "f32", p.BATCH) for k in ("x", "y")},
        "step": "train",
        "optimizer": p.sgd,
        "outputs": LEFT_OUT,
    },
    "fsdp2, tp and sp": {
        "sequential": p.Net,
        "distributed": p.fsdp_and_sp,
        "mesh": Mesh(dp=2, tp=2),
        "inputs": p.tokens(p.BATCH),
        "step": "backward",
        "outputs": LEFT_OUT,
    },
    "fsdp2, clipped": {
        "sequential": p.Mlp,
        "distributed": lambda mesh, rank: p.fully_shard(p.Mlp(), mesh=mesh["dp"]),
        "mesh": Mesh(dp=2),
        "inputs": p.pairs(p.BATCH),
        "step": steps.clipped,
        "optimizer": p.sgd,
        "outputs": LEFT_OUT,
    },
    "checkpointed": {
        "sequential": p.Net,
        "distributed": lambda mesh, rank: p.dtensor_tp(mesh, rank, steps.Checkpointed(False)),
        "mesh": Mesh(tp=2),
        "inputs": p.tokens(),
        "step": "backward",
    },
    "checkpointed, reentrant": {
        "sequential": p.Net,
        "distributed": lambda mesh, rank: p.dtensor_tp(mesh, rank, steps.Checkpointed(True)),
        "mesh": Mesh(tp=2),
        "inputs": p.tokens(),
        "step": "backward",
    },
    "loss parallel": {
        "sequential": steps.CrossEntropy,
        "distributed": steps.vocabulary_parallel,
        "mesh": Mesh(tp=2),
        "inputs": p.tokens(),
        "step": steps.with_loss_parallel,
    },
}


@pytest.mark.parametrize("case", CASES)
def test_ranks_equal_the_sequential_program(case: str) -> None:
    spec = Spec(name=case, **CASES[case])
    assert replayed(spec) < TOLERANCE
    assert spec.check().status == "refines"
