"""ElasticBSP: plan the next barrier from predicted iterations, react when the prediction misses.

``published()`` follows the paper (arXiv 2001.01347; control loop of the journal version, Fig. 5):
after each barrier a monitoring phase until every worker has pushed twice, then one plan with the
last interval and least gap, kept to the end. The default differs in every point the critique names:
smoothed intervals carried over barriers, waiting per unit time, and a correction at each iteration
boundary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shardproof.elastic.errors import InfeasiblePlan, InvalidInput
from shardproof.elastic.planner import Caps, Objective, make_objective, plan
from shardproof.elastic.predictors import Estimate

from .base import Action, Policy, Progress

_NOISE_LIMIT = 0.6
_LATE_SHARE = 0.6


class _Expected:
    """Expected (or, once there, actual) arrival of every worker, as arrays for speed."""

    def __init__(
        self, members: Sequence[int], ends: Sequence[float], arrived: Sequence[bool]
    ) -> None:
        self._slot = {worker: slot for slot, worker in enumerate(members)}
        self.ends: NDArray[np.float64] = np.array(ends, dtype=np.float64)
        self._arrived: NDArray[np.bool_] = np.array(arrived, dtype=np.bool_)

    def set(self, worker: int, end: float, *, arrived: bool = False) -> None:
        """Replace the expectation of one worker."""
        slot = self._slot[worker]
        self.ends[slot] = end
        self._arrived[slot] = arrived

    def others(self, worker: int, now: float) -> tuple[float, float, float]:
        """Last, first and sum of the other workers' arrivals; who is late arrives now at best."""
        ends = np.where(self._arrived, self.ends, np.maximum(self.ends, now))
        slot = self._slot[worker]
        total = float(ends.sum() - ends[slot])
        ends[slot] = -np.inf
        last = float(ends.max())
        ends[slot] = np.inf
        return last, float(ends.min()), total


class ElasticBsp(Policy):
    """Elastic barriers.

    objective: ``wait-rate`` or ``min-gap``. predictor: ``last``, ``ewma`` or ``median``.
    lookahead: R, future iterations predicted per worker. caps: limits on the superstep.
    barrier_cost: seconds a barrier takes, or None to use the measured mean. reactive: correct the
    plan at iteration boundaries. monitor: pushes of every worker to wait for in each superstep
    before planning (the paper: 2); 0 plans at the barrier from the history.
    risk: predicted arrivals are moved later by this many standard deviations.
    """

    def __init__(
        self,
        *,
        objective: str = "wait-rate",
        predictor: str = "ewma",
        lookahead: int = 15,
        caps: Caps | None = None,
        barrier_cost: float | None = None,
        reactive: bool = True,
        monitor: int = 0,
        risk: float = 0.0,
        name: str = "elastic",
    ) -> None:
        super().__init__(name, predictor)
        if lookahead < 1:
            raise InvalidInput(f"lookahead R must be at least 1, got {lookahead}")
        if monitor < 0 or risk < 0:
            raise InvalidInput("monitor and risk must be >= 0")
        make_objective(objective)
        self._objective_kind = objective
        self._lookahead = lookahead
        self._caps = caps or Caps()
        self._fixed_cost = barrier_cost
        self._measured_cost = 0.0
        self._reactive = reactive
        self._monitor = monitor
        self._risk = risk
        self._targets: dict[int, int] | None = None
        self._expected: _Expected | None = None
        self._planned = 0.0

    def barrier_took(self, seconds: float) -> None:
        """Update the running mean of the barrier's cost."""
        known = self._measured_cost
        self._measured_cost = seconds if known == 0 else known + 0.2 * (seconds - known)

    def outlook(self) -> float | None:
        """Latest expected arrival, seconds."""
        return None if self._expected is None else float(self._expected.ends.max())

    def on_begin(self, now: float) -> None:
        """Plan at once if every worker's interval is known and no monitoring is asked for."""
        self._forget()
        if self._ready():
            self._replan(now)

    def on_leave(self, worker: int, now: float) -> None:
        """Plan again for those who are left."""
        if self._ready() or self._targets is not None:
            self._replan(now)

    def decide(self, worker: int, now: float) -> Action:
        """Follow the plan; make it when monitoring ends; correct it if ``reactive``."""
        progress = self.workers[worker]
        if self._targets is None:
            if not self._ready():
                return self._unplanned(progress)
            self._replan(now, at_boundary=worker)
        elif self._reactive:
            self._correct(worker, now)
        assert self._targets is not None
        assert self._expected is not None
        if progress.done < self._targets[worker]:
            return Action.RUN
        self._expected.set(worker, now, arrived=True)
        return Action.ARRIVE

    def _forget(self) -> None:
        self._targets = None
        self._expected = None

    def _ready(self) -> bool:
        if any(p.done < self._monitor and not p.arrived for p in self.workers.values()):
            return False
        return self.means() is not None

    def _unplanned(self, progress: Progress) -> Action:
        cap = self._caps.staleness
        return Action.ARRIVE if cap is not None and progress.done >= cap else Action.RUN

    def _objective(self) -> Objective:
        cost = self._measured_cost if self._fixed_cost is None else self._fixed_cost
        return make_objective(self._objective_kind, barrier_cost=cost)

    def _replan(self, now: float, at_boundary: int | None = None) -> None:
        """Plan from the present state; a worker that just ended an iteration may stop there."""
        members = list(self.workers)
        # A row may begin with an arrival that has already happened, which then counts as done.
        past = [self._past(w, at_boundary) for w in members]
        rows = [self._row(w, now, past=p) for w, p in zip(members, past, strict=True)]
        done = [self.workers[w].done - int(p) for w, p in zip(members, past, strict=True)]
        try:
            best = plan(
                rows, objective=self._objective(), caps=self._caps, start=self.start, done=done
            )
        except InfeasiblePlan:
            # The caps cannot be met (say, one worker is slower than the longest superstep): the
            # shortest legal superstep is the nearest thing, every worker stops as soon as it can.
            best = plan([row[:1] for row in rows], start=self.start, done=done)
        self._targets = {w: d + c for w, d, c in zip(members, done, best.counts, strict=True)}
        arrived = [self.workers[w].arrived for w in members]
        self._expected = _Expected(members, best.ends, arrived)
        self._planned = best.barrier

    def _past(self, worker: int, at_boundary: int | None) -> bool:
        published = self._monitor > 0  # plans R future iterations for everybody
        return self.workers[worker].arrived or (worker == at_boundary and not published)

    def _row(self, worker: int, now: float, *, past: bool) -> list[float]:
        progress = self.workers[worker]
        if progress.arrived:
            return [progress.last_end]
        known = self.estimate(worker)
        assert known is not None  # planning starts when every interval is known
        steps = np.arange(1, self._lookahead + 1)
        future = progress.last_end + steps * known.mean
        if self._risk:
            future = future + self._risk * known.deviation * np.sqrt(steps)
        if self._reactive and future[0] < now:
            future = future + (now - future[0])  # it is late: its iteration ends now at the soonest
        row = [float(t) for t in future]
        return [progress.last_end, *row] if past else row

    def _correct(self, worker: int, now: float) -> None:
        """Choose again how many iterations this one worker still does; O(n) a boundary."""
        assert self._targets is not None
        assert self._expected is not None
        if len(self.workers) == 1:
            return
        known = self.estimate(worker)
        assert known is not None
        done = self.workers[worker].done
        options = self._options(worker, done)
        if self._noisy(known):
            left = self._nearest(options, now, known.mean)
        else:
            left = self._cheapest(worker, options, now, known.mean)
        self._targets[worker] = done + left
        self._expected.set(worker, now + left * known.mean)

    def _noisy(self, known: Estimate) -> bool:
        """Whether the others' expected arrivals are too uncertain to be aimed at.

        The largest of n Gaussian deviations is about sigma * sqrt(2 ln n). When that exceeds about
        half an iteration, following the latest expected arrival only chases the noise: every late
        worker lets others start one more iteration, which may be late in turn. Threshold measured
        (docs/elastic.md).
        """
        n = len(self.workers)
        return known.deviation * math.sqrt(2 * math.log(n)) > _NOISE_LIMIT * known.mean

    def _nearest(self, options: list[int], now: float, mean: float) -> int:
        """Treat the planned barrier as a fixed deadline; slightly prefer to be early.

        A late arrival makes all others wait, an early one waits alone.
        """
        steps = math.floor((self._planned - now) / mean + 1 - _LATE_SHARE)
        return min(options, key=lambda k: (abs(k - max(steps, 0)), k))

    def _cheapest(self, worker: int, options: list[int], now: float, mean: float) -> int:
        """One worker's move against everybody else's expected arrival, by the objective.

        Enough, since the others get their turn at their own next boundary.
        """
        assert self._expected is not None
        last, first, total = self._expected.others(worker, now)
        mine: NDArray[np.float64] = now + np.array(options, dtype=np.float64) * mean
        n = len(self.workers)
        costs = self._objective().costs(
            np.maximum(last, mine) - self.start,
            np.minimum(first, mine) - self.start,
            total + mine - n * self.start,
            n,
        )
        return options[int(np.argmin(costs))]

    def _options(self, worker: int, done: int) -> list[int]:
        """Numbers of further iterations worth a look: none, and the plan's give or take one."""
        assert self._targets is not None
        planned = max(self._targets[worker] - done, 0)
        options = {0, planned, planned + 1, max(planned - 1, 0)}
        limit = self._lookahead if self._caps.staleness is None else self._caps.staleness
        if self._caps.difference is not None:
            limit = min(limit, min(self._targets.values()) + self._caps.difference)
        if self._caps.seconds is not None:
            known = self.estimate(worker)
            assert known is not None
            rest = self._caps.seconds - (self.workers[worker].last_end - self.start)
            limit = min(limit, done + max(int(rest / known.mean), 0))
        return sorted(k for k in options if k == 0 or done + k <= limit)


def published(lookahead: int = 15, caps: Caps | None = None) -> ElasticBsp:
    """ElasticBSP with the published rules: monitoring, last interval, least gap, no correction."""
    return ElasticBsp(
        objective="min-gap",
        predictor="last",
        lookahead=lookahead,
        caps=caps,
        reactive=False,
        monitor=2,
        name="elastic-published",
    )
