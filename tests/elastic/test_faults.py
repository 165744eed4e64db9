"""Real processes killed, hung, slowed and joining at every stage of a superstep.

The default run has a handful of kills; ``-m slow`` runs all of them (more than 50). Each run is
judged by its ledger: no ticket twice, no version missing, and the survivors' final weights equal a
recomputation of exactly the committed updates.
"""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.elastic.harness import Run  # noqa: E402

from shardproof.elastic.train.config import Faults, Pace, TrainConfig  # noqa: E402
from shardproof.elastic.train.faultpoints import (  # noqa: E402
    SERVER_STAGES,
    WORKER_STAGES_IMMEDIATE,
    WORKER_STAGES_LOCAL,
)
from shardproof.elastic.train.optim import OuterSgd, Sgd  # noqa: E402

QUICK = Faults(hang=1.5, collective=1.5, round=4.0, reconnect=20.0)


def config(workdir: Path, mode: str, **values: Any) -> TrainConfig:
    base: dict[str, Any] = {
        "policy": "elastic",
        "steps": 3,
        "workers": 3,
        "iterations": 45,
        "checkpoint_every": 2,
        "faults": QUICK,
        "optimizer": Sgd(0.05, momentum=0.5).to_json(),
    }
    return TrainConfig(str(workdir), mode=mode, **{**base, **values})


def fault(stage: str, kind: str = "kill", **values: Any) -> dict[str, Any]:
    # Joining comes before the first superstep; everything else strikes a run under way.
    return {"stage": stage, "kind": kind, "superstep": 0 if stage == "joining" else 2, **values}


def kill_once(workdir: Path, mode: str, stage: str, policy: str, victim: int = 1) -> Run:
    """One worker killed at ``stage``; a replacement joins; the run must be exact."""
    # The worker that joined first writes the checkpoints, and which process that is is a race.
    victims = range(3) if stage == "in-checkpoint" else [victim]
    run = Run(
        config(workdir, mode, policy=policy), faults={number: [fault(stage)] for number in victims}
    )
    run.go()
    run.check()
    assert 1 <= run.kills <= len(victims), f"wrong number of kills at {stage}: {run.kills}"
    assert any(r["kind"] == "leave" and r["cause"] != "finished" for r in run.records())
    return run


@pytest.mark.parametrize("stage", ["iteration-computed", "in-reduce", "after-vote"])
def test_worker_killed_local(tmp_path: Path, stage: str) -> None:
    kill_once(tmp_path, "local", stage, "elastic")


@pytest.mark.parametrize("stage", ["in-push", "after-push"])
def test_worker_killed_immediate(tmp_path: Path, stage: str) -> None:
    kill_once(tmp_path, "immediate", stage, "elastic")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["bsp", "elastic"])
@pytest.mark.parametrize("stage", WORKER_STAGES_LOCAL)
def test_worker_killed_at_every_stage_local(tmp_path: Path, stage: str, policy: str) -> None:
    kill_once(tmp_path, "local", stage, policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["ssp", "elastic"])
@pytest.mark.parametrize("stage", WORKER_STAGES_IMMEDIATE)
def test_worker_killed_at_every_stage_immediate(tmp_path: Path, stage: str, policy: str) -> None:
    values = fault(stage)
    if policy == "ssp":  # has no supersteps; strike after a few iterations
        values |= {"superstep": 0, "after": 0 if stage == "joining" else 4}
    run = Run(config(tmp_path, "immediate", policy=policy), faults={1: [values]})
    run.go()
    run.check()
    assert run.kills == 1


def kill_server(workdir: Path, stage: str) -> Run:
    """The parameter server dies; a new one resumes from the checkpoint and states the loss."""
    settings = config(workdir, "immediate", checkpoint_every=5)
    run = Run(settings, server_faults=[fault(stage, superstep=17)])
    run.go()
    run.check()
    resumes = [r for r in run.records() if r["kind"] == "resume"]
    assert run.server_starts == 2
    assert len(resumes) == 1
    before = [r["version"] for r in run.records() if r["kind"] == "push"]
    assert resumes[0]["version"] in (15, 20)
    # Versions that were pushed a second time are exactly those the resume record calls lost.
    assert resumes[0]["lost"] == len(before) - len(set(before))
    return run


def test_server_killed_immediate(tmp_path: Path) -> None:
    kill_server(tmp_path, "server-after-apply")


@pytest.mark.slow
@pytest.mark.parametrize("stage", SERVER_STAGES)
def test_server_killed_at_every_stage(tmp_path: Path, stage: str) -> None:
    kill_server(tmp_path, stage)


@pytest.mark.slow
def test_server_killed_local(tmp_path: Path) -> None:
    run = Run(config(tmp_path, "local", iterations=150, policy="bsp"), pace=Pace(seconds=0.02))

    def strike() -> None:
        ledger = tmp_path / "ledger.jsonl"
        while not ledger.exists() or ledger.read_text().count('"commit"') < 9:
            time.sleep(0.01)
        run.kill_server()

    thread = threading.Thread(target=strike)
    thread.start()
    run.go()
    thread.join()
    run.check()
    [resume] = [r for r in run.records() if r["kind"] == "resume"]
    assert resume["version"] >= 8
    assert resume["version"] % 2 == 0


@pytest.mark.parametrize("mode", ["local", "immediate"])
def test_hung_worker_is_removed_and_may_come_back(tmp_path: Path, mode: str) -> None:
    run = Run(
        config(tmp_path, mode, iterations=300),
        pace=Pace(seconds=0.01),
        faults={1: [fault("iteration-computed", "stop")]},
    )

    def wake() -> None:
        while not any(r.get("cause") == "hung" for r in run.records()):
            time.sleep(0.01)
        run.wake()

    waker = threading.Thread(target=wake)
    waker.start()
    run.go()
    waker.join()
    run.check()
    # Three at the start, and the one that woke up (more if the machine was too busy).
    assert sum(r["kind"] == "join" for r in run.records()) >= 4
    assert len(run.results) == 3


@pytest.mark.slow
@pytest.mark.parametrize("stage", WORKER_STAGES_LOCAL)
def test_hung_worker_at_every_stage(tmp_path: Path, stage: str) -> None:
    # Whether this process is the one that writes checkpoints is a race.
    run = Run(config(tmp_path, "local"), faults={1: [fault(stage, "stop")]})
    run.go()
    run.check()
    if stage != "in-checkpoint":
        assert any(r.get("cause") == "hung" for r in run.records())


def test_slow_worker_stays(tmp_path: Path) -> None:
    slow = fault("iteration-computed", "slow", seconds=0.5)
    run = Run(config(tmp_path, "local"), faults={1: [slow]})
    run.go()
    run.check()
    assert all(r["cause"] == "finished" for r in run.records() if r["kind"] == "leave")


def test_worker_joins_late(tmp_path: Path) -> None:
    """Joins in the middle of a superstep, gets the state at the next barrier, and contributes."""
    run = Run(config(tmp_path, "local", workers=2, iterations=80), outer=OuterSgd(), late=1)
    run.go()
    run.check()
    parts = [part["worker"] for r in run.records() if r["kind"] == "commit" for part in r["parts"]]
    assert set(parts) == {0, 1, 2}
    assert len(run.results) == 3


@pytest.mark.parametrize("mode", ["local", "immediate"])
def test_too_few_workers_is_a_clear_error(tmp_path: Path, mode: str) -> None:
    few = Faults(
        min_workers=2, wait_for_workers=0.0, hang=1.5, collective=1.5, round=4.0, reconnect=20.0
    )
    run = Run(
        config(tmp_path, mode, workers=2, faults=few),
        replace_dead=False,
        faults={1: [fault("iteration-computed")]},
    )
    run.go()
    assert run.server_code == 3
    [result] = run.results
    assert result["error"] == "TooFewWorkers"
    assert "1 live worker(s) left, the run needs at least 2" in result["message"]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["local", "immediate"])
@pytest.mark.parametrize("seed", range(3))
def test_random_kills(tmp_path: Path, mode: str, seed: int) -> None:
    """Workers killed from outside at random times, five a run, each replaced."""
    run = Run(config(tmp_path, mode, iterations=400), pace=Pace(seconds=0.01))
    rng = random.Random(seed)

    def strike() -> None:
        while not (tmp_path / "ledger.jsonl").exists():
            time.sleep(0.01)
        for _ in range(5):
            time.sleep(rng.uniform(0.1, 0.4))
            run.kill(rng.choice(run.running()))

    thread = threading.Thread(target=strike)
    thread.start()
    run.go()
    thread.join()
    run.check()
    assert run.kills >= 4  # a victim may just have been dying or finished
