"""Policies without a barrier: ASP, SSP and DSSP. They only make sense with immediate apply."""

from __future__ import annotations

from typing import ClassVar

from shardproof.elastic.errors import InvalidInput

from .base import Action, Policy


class Asp(Policy):
    """Nobody ever waits."""

    barriers: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__("asp")

    def decide(self, worker: int, now: float) -> Action:
        """Always run."""
        return Action.RUN


class Ssp(Policy):
    """Stale synchronous parallel: at most ``bound`` iterations ahead of the slowest worker.

    Ho et al., NeurIPS 2013. A worker that joins starts at the slowest worker's count.
    """

    barriers: ClassVar[bool] = False

    def __init__(self, bound: int, name: str = "ssp", predictor: str = "ewma") -> None:
        super().__init__(name, predictor)
        if bound < 0:
            raise InvalidInput(f"staleness bound must be >= 0, got {bound}")
        self.bound = bound

    def on_join(self, worker: int, now: float) -> None:
        """Start the newcomer at the slowest count, or it would stop everyone else."""
        others = [p.done for w, p in self.workers.items() if w != worker]
        self.workers[worker].done = min(others, default=0)

    def decide(self, worker: int, now: float) -> Action:
        """Hold workers that are too far ahead."""
        return Action.RUN if self._lead(worker) <= self.bound else Action.HOLD

    def released(self) -> list[int]:
        """Held workers whose lead has shrunk to the bound."""
        held = [w for w, p in self.workers.items() if p.held]
        if not held:
            return []
        slowest = min(p.done for p in self.workers.values())
        free = [w for w in held if self.workers[w].done - slowest <= self.bound]
        for worker in free:
            self.workers[worker].held = False
        return free

    def _lead(self, worker: int) -> int:
        return self.workers[worker].done - min(p.done for p in self.workers.values())


class Dssp(Ssp):
    """Dynamic SSP (ICDCS 2019, Algorithms 1 and 2): bound chosen at run time in [low, high].

    The fastest worker, when it exceeds ``low``, is granted the number of extra iterations that
    brings its push nearest to a predicted push of the slowest worker. Published with the last
    interval as the prediction, so that is the default here. The printed Algorithm 1 lacks an
    "otherwise" before its wait line, and nothing in it stops repeated grants from exceeding
    ``high``, which Theorem 2 needs as a bound; the evident intent is implemented for both.
    """

    def __init__(self, low: int, high: int, predictor: str = "last") -> None:
        super().__init__(low, "dssp", predictor)
        if high < low:
            raise InvalidInput(f"staleness range [{low}, {high}] is empty")
        self.high = high
        self._credit: dict[int, int] = {}

    def decide(self, worker: int, now: float) -> Action:
        """Spend credit first, then the lower bound, then ask the controller."""
        if self._credit.get(worker, 0) > 0:
            self._credit[worker] -= 1
            return Action.RUN
        if self._lead(worker) <= self.bound:
            return Action.RUN
        if self.workers[worker].done == max(p.done for p in self.workers.values()):
            granted = self._control(worker)
            if granted > 0:
                self._credit[worker] = granted - 1
                return Action.RUN
        return Action.HOLD

    def on_leave(self, worker: int, now: float) -> None:
        """Forget the credit of a worker that has gone."""
        self._credit.pop(worker, None)

    def _control(self, fastest: int) -> int:
        slowest = min(self.workers, key=lambda w: self.workers[w].done)
        fast, slow = self.estimate(fastest), self.estimate(slowest)
        if fast is None or slow is None:
            return 0
        own, other = self.workers[fastest].last_end, self.workers[slowest].last_end
        steps = range(max(self.high + 1 - self._lead(fastest), 0) + 1)
        pushes = [other + (k + 1) * slow.mean for k in steps]
        return min(steps, key=lambda r: min(abs(push - (own + r * fast.mean)) for push in pushes))
