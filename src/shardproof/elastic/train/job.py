"""What a worker needs to know about the training problem, independent of mode and policy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from shardproof.elastic.events import Event, EventLog, Kind

from .checkpoint import load
from .config import Pace, TrainConfig
from .faultpoints import FaultPoints
from .optim import Inner, Outer, Tensors
from .superstep import Batch, GradFn, State


@dataclass
class Job:
    """One worker's view of a run.

    names, params: the model's parameters. grad: gradient of the loss. batch_of: ticket -> batch.
    """

    config: TrainConfig
    address: tuple[str, int]
    names: list[str]
    params: Tensors
    grad: GradFn
    batch_of: Callable[[int], Batch]
    inner: Inner
    outer: Outer
    pace: Pace = field(default_factory=Pace)
    points: FaultPoints = field(default_factory=lambda: FaultPoints([]))

    @property
    def workdir(self) -> Path:
        """Directory of the run."""
        return Path(self.config.workdir)

    def state_names(self) -> list[str]:
        """Names of all tensors of the state, for checkpoints."""
        state = self.blank()
        return [
            *(f"params.{name}" for name in self.names),
            *(f"inner.{i}" for i in range(len(state.inner))),
            *(f"outer.{i}" for i in range(len(state.outer))),
        ]

    def blank(self) -> State:
        """State before the first superstep."""
        return State(list(self.params), self.inner.init(self.params), self.outer.init(self.params))

    def restored(self, name: str) -> State:
        """State of a checkpoint; of the initial weights if ``name`` is empty."""
        state = self.blank()
        if not name:
            return state
        return state.like(load(self.workdir, name, self.state_names(), state.tensors()))


class Pacer:
    """Pads iterations with sleep, to make this worker as slow as the experiment wants it."""

    def __init__(self, pace: Pace, worker: int) -> None:
        factor = pace.factors[worker] if worker < len(pace.factors) else 1.0
        self._seconds = pace.seconds * factor
        self._jitter = pace.jitter
        self._rng = np.random.default_rng([pace.seed, worker])

    def pad(self, started: float) -> None:
        """Sleep until the iteration that began at ``started`` has lasted long enough."""
        noise = max(1 + self._jitter * self._rng.standard_normal(), 0.05)
        rest = started + self._seconds * noise - time.time()
        if rest > 0:
            time.sleep(rest)


class Recorder:
    """Event log of one worker."""

    def __init__(self, workdir: Path, worker: int, run: str) -> None:
        self.worker, self.superstep = worker, 0
        self._log = EventLog(workdir / f"events-{run}-{worker:04d}.jsonl")

    def log(self, kind: Kind, start: float, **detail: object) -> None:
        """An event that began at ``start`` and ends now."""
        end = time.time()
        self._log.write(Event(kind, self.worker, min(start, end), end, self.superstep, detail))

    def close(self) -> None:
        """Close the file."""
        self._log.close()


@dataclass(frozen=True)
class Outcome:
    """What a worker knows at the end: final parameters and its own number of iterations."""

    params: list[Tensor]
    worker: int
    iterations: int
    committed: int
