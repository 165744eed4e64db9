"""Baselines with a common barrier: BSP, fixed-H local SGD, time budget, DyLU-style local steps."""

from __future__ import annotations

from shardproof.elastic.errors import InvalidInput

from .base import Action, Policy


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise InvalidInput(f"{name} must be at least 1, got {value}")
    return value


class LocalSgd(Policy):
    """Every worker does exactly H iterations between barriers (local SGD; BSP for H = 1)."""

    def __init__(self, steps: int, name: str = "local-sgd") -> None:
        super().__init__(name)
        self.steps = _positive("local steps H", steps)

    def decide(self, worker: int, now: float) -> Action:
        """Run until H iterations are done."""
        return Action.RUN if self.workers[worker].done < self.steps else Action.ARRIVE

    def outlook(self) -> float | None:
        """The slowest worker's expected end."""
        means = self.means()
        if means is None:
            return None
        return max(p.last_end + (self.steps - p.done) * means[w] for w, p in self.workers.items())


class TimeBudget(Policy):
    """All stop at the iteration boundary nearest to a common deadline; no planner.

    steps: the deadline lies this many iterations of the *fastest* worker after the start, so that
    no worker exceeds ``steps`` by much; ``steps`` is also enforced as a cap.
    """

    def __init__(self, steps: int, predictor: str = "ewma") -> None:
        super().__init__("time-budget", predictor)
        self.steps = _positive("steps", steps)
        self._deadline: float | None = None

    def on_begin(self, now: float) -> None:
        """Fix the deadline from the intervals seen so far."""
        means = self.means()
        self._deadline = None if means is None else now + self.steps * min(means.values())

    def decide(self, worker: int, now: float) -> Action:
        """Stop if one more iteration would end farther from the deadline than stopping now."""
        known = self.estimate(worker)
        if self._deadline is None or known is None or self.workers[worker].done >= self.steps:
            return Action.ARRIVE
        return Action.RUN if now + known.mean / 2 < self._deadline else Action.ARRIVE

    def outlook(self) -> float | None:
        """The deadline."""
        return self._deadline


class DyLU(Policy):
    """Local steps in proportion to speed: floor(H * slowest-to-fastest ratio), at least 1.

    The rule of dynamic local updates (arXiv 2401.09135, section 5), used here with a common barrier
    so that it can be compared; in that paper workers synchronise asynchronously.
    """

    def __init__(self, steps: int, predictor: str = "ewma") -> None:
        super().__init__("dylu", predictor)
        self.steps = _positive("steps", steps)
        self._targets: dict[int, int] = {}

    def on_begin(self, now: float) -> None:
        """Set each worker's number of local steps."""
        means = self.means()
        if means is None:
            self._targets = dict.fromkeys(self.workers, 1)
            return
        fastest = min(means.values())
        # The tiny slack keeps equal speeds at H steps despite rounding in the ratio.
        self._targets = {
            w: max(1, int(self.steps * fastest / mean + 1e-9)) for w, mean in means.items()
        }

    def decide(self, worker: int, now: float) -> Action:
        """Run until the worker's own number of steps is done."""
        done = self.workers[worker].done
        return Action.RUN if done < self._targets[worker] else Action.ARRIVE

    def outlook(self) -> float | None:
        """The expected end of the worker that takes longest."""
        means = self.means()
        if means is None:
            return None
        return max(
            p.last_end + (self._targets[w] - p.done) * means[w] for w, p in self.workers.items()
        )
