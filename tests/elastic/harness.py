"""Runs real worker and server processes, kills them on purpose, and replays the run's ledger.

Processes are forked from a server that has imported torch already, so one costs milliseconds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from shardproof.elastic.train.api import Data, make_job
from shardproof.elastic.train.config import Pace, TrainConfig
from shardproof.elastic.train.faultpoints import FaultPoints
from shardproof.elastic.train.job import Job
from shardproof.elastic.train.launch import free_port
from shardproof.elastic.train.ledger import effective, read_ledger, tickets_in
from shardproof.elastic.train.optim import Average, Inner, Outer, Sgd
from shardproof.elastic.train.superstep import State, apply_push, local_run, merge_local, unflatten
from shardproof.elastic.train.worker import run_worker

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    ["torch", "torch.distributed", "torch.distributed.checkpoint", "shardproof.elastic.train.serve"]
)


def small_problem(config: TrainConfig, inner: Inner, outer: Outer, pace: Pace) -> Job:
    """A tiny network in float64, the same in every process."""
    generator = torch.Generator().manual_seed(7)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    inputs = torch.randn(40, 6, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 3, (40,), generator=generator)
    source = Data((inputs, targets), 4, config.seed)
    return make_job(model, source, nn.functional.cross_entropy, config, inner, outer, pace)


def _serve(path: str, faults: list[dict[str, Any]]) -> None:
    import json

    from shardproof.elastic.train import serve

    os.environ["SHARDPROOF_FAULTS"] = json.dumps(faults)
    raise SystemExit(serve.main(path))


def _work(
    config: TrainConfig,
    faults: list[dict[str, Any]],
    pace: Pace,
    inner: Inner,
    outer: Outer,
    result: str,
) -> None:
    torch.set_num_threads(1)
    job = small_problem(config, inner, outer, pace)
    job.address = (config.host, config.port)
    job.points = FaultPoints(faults)
    try:
        outcome = run_worker(job)
    except Exception as error:  # reported to the test, which knows what to expect
        torch.save({"error": type(error).__name__, "message": str(error)}, result)
        raise SystemExit(5) from error
    torch.save({"params": outcome.params, "iterations": outcome.iterations}, result)


@dataclass
class Run:
    """A job with its processes. ``faults``: worker number -> faults of its first incarnation."""

    config: TrainConfig
    faults: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    server_faults: list[dict[str, Any]] = field(default_factory=list)
    pace: Pace = field(default_factory=lambda: Pace(seconds=0.004))
    inner: Inner = field(default_factory=lambda: Sgd(0.05, momentum=0.5))
    outer: Outer = field(default_factory=Average)
    replace_dead: bool = True
    late: int = 0
    kills: int = 0
    server_starts: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        values = {**self.config.__dict__, "port": free_port(self.config.host)}
        self.config = TrainConfig(**values)
        self.workdir = Path(self.config.workdir)
        self.workdir.mkdir(parents=True, exist_ok=True)
        self.config.write(self.workdir / "config.json")
        self._started = 0
        self._workers: dict[int, BaseProcess] = {}

    def go(self, timeout: float = 60.0) -> None:
        """Run to the end; replaces killed workers and a killed server; wakes stopped ones late."""
        server = self._server = self._start_server(self.server_faults)
        for number in range(self.config.workers):
            self._start_worker(self.faults.get(number, []))
        deadline = time.monotonic() + timeout
        try:
            while server.is_alive() or server.exitcode not in (0, 3):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"run did not end within {timeout} s")
                self._look_for_errors()
                # It may have ended normally since the loop's condition was evaluated.
                if not server.is_alive() and server.exitcode not in (0, 3):
                    self.kills += 1
                    server = self._server = self._start_server([])
                self._reap()
                self._admit_late()
                time.sleep(0.02)
            self.server_code = server.exitcode
            self._finish()
        finally:
            for process in [server, *self._workers.values()]:
                if process.is_alive():
                    process.kill()
                process.join(5)

    def kill(self, number: int) -> None:
        """Kill a worker from outside, whatever it is doing."""
        process = self._workers[number]
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGKILL)

    def kill_server(self) -> None:
        """Kill the server from outside."""
        self._server.kill()

    def running(self) -> list[int]:
        """Numbers of the workers that run."""
        return [number for number, process in self._workers.items() if process.is_alive()]

    def wake(self) -> None:
        """Continue stopped workers."""
        for process in self._workers.values():
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGCONT)

    def _start_server(self, faults: list[dict[str, Any]]) -> BaseProcess:
        self.server_starts += 1
        process = _CONTEXT.Process(target=_serve, args=(str(self.workdir / "config.json"), faults))
        process.start()
        return process

    def _start_worker(self, faults: list[dict[str, Any]]) -> None:
        number = self._started
        self._started += 1
        result = str(self.workdir / f"result-{number}.pt")
        process = _CONTEXT.Process(
            target=_work, args=(self.config, faults, self.pace, self.inner, self.outer, result)
        )
        process.start()
        self._workers[number] = process

    def _reap(self) -> None:
        for number, process in list(self._workers.items()):
            if process.exitcode == -signal.SIGKILL:
                self.kills += 1
                del self._workers[number]
                if self.replace_dead:
                    self._start_worker([])

    def _look_for_errors(self) -> None:
        """Fail at once, with the reason, if a worker met an error that is none of ours."""
        for number, process in self._workers.items():
            if process.exitcode == 5:
                found = torch.load(self.workdir / f"result-{number}.pt", weights_only=False)
                if found["error"] not in {"TooFewWorkers", "RunOver"}:
                    raise AssertionError(f"worker {number}: {found}")

    def _admit_late(self) -> None:
        if self.late and any(r["kind"] in {"commit", "push"} for r in self.records()):
            self.late -= 1
            self._start_worker([])

    def _finish(self) -> None:
        # A worker that is still stopped never ends; three seconds are ample for all others.
        for process in self._workers.values():
            process.join(3)
        self._reap()
        files = sorted(self.workdir.glob("result-*.pt"))
        self.results = [torch.load(file, weights_only=False) for file in files]

    # -- judgement -----------------------------------------------------------------------------

    def records(self) -> list[dict[str, Any]]:
        """All ledger records so far."""
        path = self.workdir / "ledger.jsonl"
        return read_ledger(path) if path.exists() else []

    def check(self) -> None:
        """Nothing committed was lost or applied twice, and nothing else was applied."""
        done = effective(self.records())
        tickets = list(tickets_in(done))
        assert len(tickets) == len(set(tickets)), "a ticket was committed twice"
        assert len(tickets) >= self.config.iterations
        versions = [record["version"] for record in done]
        assert versions == list(range(1, len(versions) + 1)), "a committed update is missing"
        finals = [r["params"] for r in self.results if "params" in r]
        assert finals, f"no worker finished: {self.results}"
        expected = self.replay(done)
        if self.config.mode == "immediate":
            kept = torch.load(self.workdir / "server.pt", weights_only=True)["final"]
            finals = [unflatten(kept, expected)]
        for final in finals:
            for got, want in zip(final, expected, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)

    def replay(self, done: list[dict[str, Any]]) -> list[Tensor]:
        """Recompute the final weights from the ledger in one process."""
        job = small_problem(self.config, self.inner, self.outer, Pace())
        if self.config.mode == "immediate":
            return _replay_pushes(job, done)
        state = job.blank()
        for record in done:
            state = _replay_commit(job, state, record["parts"])
        return state.params


def _replay_commit(job: Job, start: State, parts: list[dict[str, Any]]) -> State:
    runs = [
        (p["weight"], *local_run(start, map(job.batch_of, p["tickets"]), job.grad, job.inner))
        for p in parts
    ]
    sent: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        sent.append(tensor)
        return tensor

    for weight, params, inner, _ in runs:
        merge_local(start, params, inner, weight, job.outer, collect)
    total = torch.stack(sent).sum(0)
    weight, params, inner, _ = runs[0]
    return merge_local(start, params, inner, weight, job.outer, lambda _: total)


def _replay_pushes(job: Job, done: list[dict[str, Any]]) -> list[Tensor]:
    versions = [list(job.params)]
    state = job.inner.init(job.params)
    for record in done:
        grads, _ = job.grad(versions[record["pulled"]], job.batch_of(record["ticket"]))
        params, state = apply_push(versions[-1], state, grads, job.inner)
        versions.append(params)
    return versions[-1]
