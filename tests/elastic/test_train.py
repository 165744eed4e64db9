"""The trainer with real processes: every policy, both modes, against a replay of the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from shardproof.elastic.policies import POLICIES  # noqa: E402
from shardproof.elastic.train.config import TrainConfig  # noqa: E402
from shardproof.elastic.train.optim import OuterSgd, Sgd  # noqa: E402
from tests.elastic.harness import Run  # noqa: E402

BARRIER = ["bsp", "local-sgd", "time-budget", "dylu", "elastic", "elastic-published"]


@pytest.mark.parametrize("policy", ["bsp", "elastic"])
def test_local_mode_equals_its_ledger(tmp_path: Path, policy: str) -> None:
    run = Run(TrainConfig(str(tmp_path), policy=policy, steps=4, workers=3, iterations=24))
    run.go()
    run.check()
    assert len(run.results) == 3


@pytest.mark.parametrize("policy", ["ssp", "elastic"])
def test_immediate_mode_equals_its_ledger(tmp_path: Path, policy: str) -> None:
    run = Run(
        TrainConfig(
            str(tmp_path),
            mode="immediate",
            policy=policy,
            steps=3,
            workers=3,
            iterations=24,
            optimizer=Sgd(0.05, momentum=0.5).to_json(),
        )
    )
    run.go()
    run.check()
