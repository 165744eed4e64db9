"""Captured ranks, replayed in lock-step, compute what the captured sequential program does; and
where the engine can prove it, it does."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.live import common as p
from tests.capture import steps
from tests.capture.oracle import TOLERANCE, replayed

from shardproof import Mesh, Spec
from shardproof.infer.run import infer

pytestmark = pytest.mark.filterwarnings("ignore")

LEFT_OUT = {"loss": None}
CASES: dict[str, dict[str, Any]] = {
    "tp": {
        "sequential": p.Mlp,
        "distributed": lambda mesh, rank: p.Mlp(mesh.get_group("tp")),
        "mesh": Mesh(tp=4),
        "inputs": p.pairs(),
        "step": "train",
        "optimizer": p.adamw,
    },
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
    "ddp": {
        "sequential": p.Mlp,
        "distributed": p.ddp,
        "mesh": Mesh(dp=2),
        "inputs": p.pairs(p.BATCH),
        "step": "train",
        "optimizer": p.sgd,
        "outputs": LEFT_OUT,
    },
    "ddp, hook": {
        "sequential": p.Mlp,
        "distributed": p.ddp_hook,
        "mesh": Mesh(dp=2),
        "inputs": p.pairs(p.BATCH),
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
    "uneven accumulation": {
        "sequential": p.Mlp,
        "distributed": lambda mesh, rank: steps.Accumulating(mesh.get_group("tp")),
        "mesh": Mesh(tp=2),
        "inputs": p.pairs(),
        "step": steps.accumulated,
        "optimizer": p.sgd,
    },
    "sharded optimizer": {
        "sequential": p.Mlp,
        "distributed": lambda mesh, rank: p.Mlp(),
        "mesh": Mesh(dp=2),
        "inputs": p.pairs(p.BATCH),
        "step": steps.sharded_optimizer,
        "optimizer": p.sgd,
        "outputs": {"loss": None, "grad.*": None, "state.*": None},
    },
    "loss parallel": {
        "sequential": steps.CrossEntropy,
        "distributed": steps.vocabulary_parallel,
        "mesh": Mesh(tp=2),
        "inputs": p.tokens(),
        "step": steps.with_loss_parallel,
    },
}

UNPROVED = {"loss parallel"}


@pytest.mark.parametrize("case", CASES)
def test_ranks_equal_the_sequential_program(case: str) -> None:
    spec = Spec(name=case, **CASES[case])
    assert replayed(spec) < TOLERANCE
    # See test_engine_gaps.py.
    assert infer(spec.resolve()).holds == (case not in UNPROVED)


def summed(mesh: Any, rank: int) -> Any:
    """DDP whose hook forgets to divide."""
    wrapped = p.nn.parallel.DistributedDataParallel(p.Mlp(), bucket_cap_mb=1)
    wrapped.register_comm_hook(2, p.summing)
    return wrapped


TWINS: dict[str, tuple[str, dict[str, Any], str]] = {
    "equal weights": (
        "uneven accumulation", {"step": steps.equally_weighted}, "equally_weighted",
    ),
    "wrong part of the parameters": (
        "sharded optimizer", {"step": steps.wrong_part}, "sharded_optimizer",
    ),
    "sum instead of mean": (
        "sharded optimizer", {"step": steps.not_averaged}, "forward",
    ),
    "ddp without the mean": ("ddp, hook", {"distributed": summed}, ""),
}  # fmt: skip


@pytest.mark.parametrize("twin", TWINS)
def test_wrong_twins_are_refuted(twin: str) -> None:
    case, change, function = TWINS[twin]
    verdict = Spec(name=twin, **{**CASES[case], **change}).check()
    assert verdict.status == "refuted"
    spans = [f.primary for f in verdict.findings if f.primary is not None]
    assert any(function in s.function for s in spans), spans
