"""Settings of a run, in a form that can be written as JSON for the server process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.policies import POLICIES

MODES = ("local", "immediate")
WEIGHTINGS = ("uniform", "steps")


@dataclass(frozen=True)
class Pace:
    """Injected slowness for experiments on one machine: pads every iteration with sleep.

    seconds: least duration of an iteration; factors: multiplier per worker number (missing: 1);
    jitter: relative standard deviation of the duration; seed: of that noise.
    """

    seconds: float = 0.0
    factors: tuple[float, ...] = ()
    jitter: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Faults:
    """When a worker counts as gone, and what to do then. All times in seconds.

    min_workers: fewer live workers than this end the run with TooFewWorkers, after waiting
    ``wait_for_workers`` for replacements. hang: a worker that reports nothing during an iteration
    for this long, or for 10 predicted iterations if that is longer, is removed. collective:
    timeout of a process group operation. round: a barrier attempt that takes longer removes those
    who have not voted. reconnect: how long workers try to reach a lost server.
    server_restarts: how often rank 0 starts the server again after it died.
    """

    min_workers: int = 1
    wait_for_workers: float = 10.0
    hang: float = 60.0
    collective: float = 30.0
    round: float = 90.0
    reconnect: float = 60.0
    server_restarts: int = 0


@dataclass(frozen=True)
class TrainConfig:
    """Everything the server needs to know.

    mode: ``local`` or ``immediate``. policy: a name known to ``make_policy``, or
    ``module:factory``, called with ``steps``, which caps staleness. workers: number to wait
    for at the start. iterations: the run ends at the first barrier (immediate: push) at which this
    many have been committed. weighting: ``uniform`` or ``steps``, of workers at a barrier.
    checkpoint_every: supersteps (immediate: pushes) between checkpoints, 0 for none.
    snapshot_every: committed iterations between weight snapshots for later evaluation, 0 for none.
    optimizer: JSON form of the optimizer, which the server applies in immediate mode.
    """

    workdir: str
    mode: str = "local"
    policy: str = "elastic"
    steps: int = 15
    workers: int = 1
    iterations: int = 100
    weighting: str = "uniform"
    checkpoint_every: int = 0
    snapshot_every: int = 0
    seed: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    optimizer: dict[str, Any] = field(default_factory=lambda: {"kind": "sgd", "lr": 0.1})
    faults: Faults = Faults()

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, MODES)
        _one_of("weighting", self.weighting, WEIGHTINGS)
        if not 0 < self.faults.collective < self.faults.round:
            raise InvalidInput("timeouts must satisfy 0 < collective < round")
        if ":" not in self.policy:
            _one_of("policy", self.policy, sorted(POLICIES))
        for name in ("steps", "workers", "iterations"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.mode == "local" and self.policy in {"asp", "ssp", "dssp"}:
            raise InvalidInput(
                f"policy {self.policy} has no common barrier, at which local-update mode averages; "
                "use mode='immediate'"
            )

    def write(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @staticmethod
    def read(path: Path) -> TrainConfig:
        """Read what ``write`` wrote."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["faults"] = Faults(**values["faults"])
        return TrainConfig(**values)


def _one_of(name: str, value: str, choices: tuple[str, ...] | list[str]) -> None:
    if value not in choices:
        raise InvalidInput(f"unknown {name} {value!r}; choose one of {', '.join(choices)}")
