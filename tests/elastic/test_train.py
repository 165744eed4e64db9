"""The trainer with real processes: policies, both modes, checkpoints, and ``train`` itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.elastic.harness import Run, small_problem  # noqa: E402
from torch import nn  # noqa: E402

from shardproof.elastic.errors import InvalidInput  # noqa: E402
from shardproof.elastic.events import read_events  # noqa: E402
from shardproof.elastic.policies import POLICIES, make_policy  # noqa: E402
from shardproof.elastic.train import Sgd, train  # noqa: E402
from shardproof.elastic.train.checkpoint import load  # noqa: E402
from shardproof.elastic.train.config import Faults, Pace, TrainConfig  # noqa: E402
from shardproof.elastic.train.launch import ServerProcess  # noqa: E402
from shardproof.elastic.train.ledger import effective, read_ledger, tickets_in  # noqa: E402
from shardproof.elastic.train.optim import AdamW, Average, OuterSgd  # noqa: E402
from shardproof.elastic.train.superstep import flatten  # noqa: E402

BARRIERS = sorted(name for name in POLICIES if make_policy(name).barriers)


def check_run(workdir: Path, mode: str, policy: str, **values: Any) -> Run:
    options: dict[str, Any] = {"optimizer": Sgd(0.05, momentum=0.5).to_json(), **values}
    run = Run(
        TrainConfig(
            str(workdir), mode=mode, policy=policy, steps=4, workers=3, iterations=30, **options
        )
    )
    run.go()
    run.check()
    assert len(run.results) == 3
    return run


@pytest.mark.parametrize("policy", ["bsp", "elastic"])
def test_local_mode_equals_its_ledger(tmp_path: Path, policy: str) -> None:
    check_run(tmp_path, "local", policy, weighting="steps")


@pytest.mark.parametrize("policy", ["ssp", "elastic"])
def test_immediate_mode_equals_its_ledger(tmp_path: Path, policy: str) -> None:
    check_run(tmp_path, "immediate", policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", BARRIERS)
def test_every_policy_local(tmp_path: Path, policy: str) -> None:
    check_run(tmp_path, "local", policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_immediate(tmp_path: Path, policy: str) -> None:
    check_run(tmp_path, "immediate", policy)


@pytest.mark.parametrize("inner", [AdamW(0.01), Sgd(0.05)], ids=["adamw", "sgd"])
def test_diloco(tmp_path: Path, inner: Any) -> None:
    config = TrainConfig(str(tmp_path), policy="local-sgd", steps=5, workers=2, iterations=40)
    run = Run(config, inner=inner, outer=OuterSgd())
    run.go()
    run.check()


def test_checkpoint_holds_the_state_of_its_version(tmp_path: Path) -> None:
    run = check_run(tmp_path, "local", "bsp", checkpoint_every=3)
    names = {r["version"]: r["name"] for r in run.records() if r["kind"] == "checkpoint"}
    assert list(names) == [3, 6, 9]
    job = small_problem(run.config, run.inner, Average(), Pace())
    blank = job.blank()
    got = blank.like(load(tmp_path, names[6], job.state_names(), blank.tensors()))
    commits = [r for r in run.records() if r["kind"] == "commit"]
    for a, b in zip(got.params, run.replay(commits[:6]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    with pytest.raises(InvalidInput, match="no checkpoint"):
        load(tmp_path, "00000007-none", job.state_names(), blank.tensors())


@pytest.mark.parametrize("mode", ["local", "immediate"])
def test_resume_after_everything_has_stopped(tmp_path: Path, mode: str) -> None:
    """A second run in the same directory continues from the checkpoint, exactly."""
    check_run(tmp_path, mode, "elastic", checkpoint_every=2)
    for result in tmp_path.glob("result-*.pt"):
        result.unlink()
    config = TrainConfig(
        str(tmp_path), mode=mode, policy="bsp", steps=4, workers=2, iterations=50,
        checkpoint_every=2, optimizer=Sgd(0.05, momentum=0.5).to_json(),
    )  # fmt: skip
    run = Run(config)
    run.go()
    run.check()
    [resume] = [r for r in run.records() if r["kind"] == "resume"]
    assert resume["version"] > 0


def test_a_directory_holds_one_run(tmp_path: Path) -> None:
    TrainConfig(str(tmp_path), seed=1).write(tmp_path / "config.json")
    with pytest.raises(InvalidInput, match="holds a run with seed 1, this one has 2"):
        ServerProcess.start(TrainConfig(str(tmp_path), seed=2))


def test_events_account_for_the_iterations(tmp_path: Path) -> None:
    run = check_run(tmp_path, "local", "elastic")
    events = read_events(tmp_path)
    tickets = [e.detail["ticket"] for e in events if e.kind == "iteration"]
    committed = [
        t for r in run.records() if r["kind"] == "commit" for p in r["parts"] for t in p["tickets"]
    ]
    assert sorted(tickets) == sorted(committed)
    assert {e.worker for e in events if e.kind == "wait"} == {0, 1, 2}


def test_train_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole call with a server of its own; the loss must really go down."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    torch.manual_seed(0)
    inputs = torch.randn(64, 4)
    targets = (inputs[:, 0] > 0).long()
    model = nn.Linear(4, 2)

    def accuracy(model: nn.Module) -> float:
        return float((model(inputs).argmax(1) == targets).float().mean())

    result = train(
        model,
        (inputs, targets),
        loss=nn.functional.cross_entropy,
        policy="elastic",
        optimizer=Sgd(0.5),
        iterations=60,
        batch_size=16,
        steps=4,
        workdir=tmp_path,
        snapshot_every=10,
        evaluate=accuracy,
    )
    assert result.committed >= 60
    assert accuracy(model) > 0.9
    assert result.history[-1][2] == pytest.approx(accuracy(model))
    assert [count for _, count, _ in result.history] == sorted(c for _, c, _ in result.history)


@pytest.mark.slow
def test_train_survives_the_death_of_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real server process is killed twice; rank 0 starts it again; training goes on."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    inputs = torch.randn(64, 4)
    targets = (inputs[:, 0] > 0).long()

    def strike() -> None:
        ledger = tmp_path / "ledger.jsonl"
        for commits in (10, 30):
            while not ledger.exists() or ledger.read_text().count('"commit"') < commits:
                time.sleep(0.01)
            os.kill(json.loads((tmp_path / "server.json").read_text())["pid"], signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    result = train(
        nn.Linear(4, 2), (inputs, targets), loss=nn.functional.cross_entropy, policy="bsp",
        iterations=150, batch_size=16, workdir=tmp_path, checkpoint_every=4,
        pace=Pace(seconds=0.02), faults=Faults(server_restarts=2, reconnect=60.0),
    )  # fmt: skip
    thread.join()
    records = read_ledger(tmp_path / "ledger.jsonl")
    resumes = [r for r in records if r["kind"] == "resume"]
    assert len(resumes) == 2
    assert all(r["version"] % 4 == 0 and r["version"] > 0 for r in resumes)
    assert result.committed >= 150
    tickets = list(tickets_in(effective(records)))
    assert len(tickets) == len(set(tickets))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["elastic", "ssp"])
def test_example_under_torchrun(tmp_path: Path, policy: str) -> None:
    pytest.importorskip("sklearn")
    root = Path(__file__).parents[2]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4",
        str(root / "examples" / "elastic_digits.py"), "--workdir", str(tmp_path / "run"),
        "--iterations", "400", "--policy", policy,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    last = done.stdout.strip().splitlines()[-1]
    assert float(last.split()[-1]) > 0.8, done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policy": "ssp", "mode": "local"}, "no common barrier"),
        ({"policy": "nonsense"}, "unknown policy"),
        ({"mode": "remote"}, "unknown mode"),
        ({"batch_size": 65}, "fill one batch"),
        ({"mode": "immediate", "outer": OuterSgd()}, "outer optimizer"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"model": nn.BatchNorm1d(4)}, "batch normalisation"),
        ({"model": nn.Identity()}, "no trainable parameter"),
        ({"data": (torch.zeros(64, 4), torch.zeros(63))}, "differ in length"),
    ],
)
def test_bad_arguments(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "model": nn.Linear(4, 2),
        "data": (torch.zeros(64, 4), torch.zeros(64).long()),
        "loss": nn.functional.cross_entropy,
        "iterations": 5,
        "batch_size": 8,
        "workdir": tmp_path,
        **change,
    }
    with pytest.raises(InvalidInput, match=message):
        train(arguments.pop("model"), arguments.pop("data"), **arguments)


@pytest.mark.parametrize("mode", ["local", "immediate"])
def test_snapshots_start_at_the_beginning(tmp_path: Path, mode: str) -> None:
    """Both modes start the clock of the history at the untrained weights."""
    run = check_run(tmp_path, mode, "bsp", snapshot_every=6)
    job = small_problem(run.config, run.inner, Average(), Pace())
    if mode == "immediate":
        kept = torch.load(tmp_path / "server.pt", weights_only=True)["snapshots"]
    else:
        files = sorted((tmp_path / "snapshots").glob("*.pt"))
        kept = [torch.load(file, weights_only=True) for file in files]
    assert [committed for _, committed, _ in kept][:3] == [0, 6, 12]
    torch.testing.assert_close(kept[0][2], flatten(job.params))
    assert not torch.equal(kept[1][2], kept[0][2])
