"""The one interface behind which all synchronisation policies live.

A policy is told when workers start a superstep, finish an iteration, or disappear, and answers what
the worker does next. It never sees tensors and never blocks, so the simulator, the trainer's server
and the tests drive the very same objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.predictors import Estimate, Predictor, make_predictor


class Action(Enum):
    """What a worker does after an iteration."""

    RUN = "run"
    """Start another iteration."""
    ARRIVE = "arrive"
    """Stop and wait at the barrier."""
    HOLD = "hold"
    """Wait until the policy releases it (bounded staleness without a barrier)."""


@dataclass
class Progress:
    """State of one worker within the current superstep.

    done: iterations finished in this superstep. last_end: end of the latest one (or start of the
    superstep), seconds. arrived: waits at the barrier. held: waits for the policy.
    """

    done: int = 0
    last_end: float = 0.0
    arrived: bool = False
    held: bool = False


class Policy(ABC):
    """Base of all policies: bookkeeping of members, counts and interval estimates."""

    barriers: ClassVar[bool] = True
    """Whether the policy has common barriers; without them only immediate apply makes sense."""

    def __init__(self, name: str, predictor: str = "ewma") -> None:
        self.name = name
        self._predictor_kind = predictor
        make_predictor(predictor)  # reject unknown names here rather than at the first iteration
        self._predictors: dict[int, Predictor] = {}
        self.workers: dict[int, Progress] = {}
        self.start = 0.0

    # -- driven by the simulator or the server -------------------------------------------------

    def begin(self, members: Sequence[int], now: float) -> None:
        """A superstep starts with these workers; joins and clean-ups take effect here."""
        if not members:
            raise InvalidInput("a superstep needs at least one worker")
        self.start = now
        self.workers = {worker: Progress(last_end=now) for worker in members}
        for gone in set(self._predictors) - set(members):
            del self._predictors[gone]
        self.on_begin(now)

    def finished(self, worker: int, now: float, seconds: float) -> Action:
        """Worker ended an iteration at ``now`` that took ``seconds``; say what it does next."""
        progress = self._progress(worker)
        self._predictors.setdefault(worker, make_predictor(self._predictor_kind)).observe(seconds)
        progress.done += 1
        progress.last_end = now
        action = self.decide(worker, now)
        progress.arrived = action is Action.ARRIVE
        progress.held = action is Action.HOLD
        return action

    def leave(self, worker: int, now: float) -> None:
        """Worker died, hung or was removed in the middle of a superstep."""
        self._progress(worker)
        del self.workers[worker]
        self._predictors.pop(worker, None)
        if self.workers:
            self.on_leave(worker, now)

    def join(self, worker: int, now: float) -> None:
        """Admit a worker outside a barrier (policies without barriers only)."""
        if self.barriers:
            raise InvalidInput(f"policy {self.name} admits workers at barriers only")
        self.workers[worker] = Progress(last_end=now)
        self.on_join(worker, now)

    def released(self) -> list[int]:
        """Held workers that may run now; each is reported once."""
        return []

    def barrier_took(self, seconds: float) -> None:  # noqa: B027  optional hook
        """Cost of the barrier just passed (averaging, reconfiguration), for those who plan."""

    def outlook(self) -> float | None:
        """Predicted time of the next barrier in seconds, where the policy has one."""
        return None

    # -- for implementations -------------------------------------------------------------------

    @abstractmethod
    def decide(self, worker: int, now: float) -> Action:
        """What ``worker`` does after its latest iteration."""

    def on_begin(self, now: float) -> None:  # noqa: B027  optional hook
        """Hook: a superstep has started."""

    def on_leave(self, worker: int, now: float) -> None:  # noqa: B027  optional hook
        """Hook: a worker has gone, others remain."""

    def on_join(self, worker: int, now: float) -> None:  # noqa: B027  optional hook
        """Hook: a worker was admitted outside a barrier."""

    def estimate(self, worker: int) -> Estimate | None:
        """Predicted iteration interval of a worker, None before its first iteration."""
        predictor = self._predictors.get(worker)
        return predictor.estimate() if predictor else None

    def means(self) -> dict[int, float] | None:
        """Mean interval per member in seconds, or None while one of them is unknown."""
        found: dict[int, float] = {}
        for worker in self.workers:
            known = self.estimate(worker)
            if known is None:
                return None
            found[worker] = known.mean
        return found

    def _progress(self, worker: int) -> Progress:
        if worker not in self.workers:
            raise InvalidInput(f"worker {worker} is no member of this superstep")
        return self.workers[worker]
