"""What-if analysis: how much time do stragglers cost, by worker and by cause?

The idea of replaying a job with one cause removed is that of the OSDI 2025 straggler study
(arXiv 2505.05713); here the replay is our own simulation of the same policy on edited durations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.policies import Policy

from .engine import simulate
from .result import Result
from .stragglers import Draw, IterationTimes


@dataclass(frozen=True)
class WhatIf:
    """Lost time of one run.

    base: the run as it is. by_cause, by_worker: share of the run time (0 to 1) that would be saved,
    for an equal number of iterations, if the cause were absent or the worker were as fast as the
    median worker. waited_for: worker-seconds others spent waiting for each worker. A cause may
    have a small negative saving, when removing it changes where barriers fall.
    """

    base: Result
    by_cause: dict[str, float]
    by_worker: dict[int, float]
    waited_for: dict[int, float]


class _Edited:
    """Durations passed through an edit."""

    def __init__(self, source: IterationTimes, edit: Callable[[int, Draw], Draw]) -> None:
        self._source, self._edit = source, edit

    @property
    def workers(self) -> int:
        return self._source.workers

    def draw(self, worker: int, now: float) -> Draw:
        return self._edit(worker, self._source.draw(worker, now))


def what_if(
    policy: Callable[[], Policy],
    times: Callable[[], IterationTimes],
    *,
    seconds: float,
    barrier_cost: float = 0.0,
) -> WhatIf:
    """Compare the run with counterfactual ones: no stalls, equal speeds, no waiting at all.

    policy, times: factories, since both carry state. seconds: simulated time of each run.
    """

    def run(edit: Callable[[int, Draw], Draw] | None) -> Result:
        source: IterationTimes = times() if edit is None else _Edited(times(), edit)
        return simulate(policy(), source, seconds=seconds, barrier_cost=barrier_cost)

    base = run(None)
    speeds = _typical(times())
    middle = median(speeds)

    def saved(edit: Callable[[int, Draw], Draw]) -> float:
        return 1 - base.rate / run(edit).rate

    def no_stall(worker: int, draw: Draw) -> Draw:
        return Draw(draw.seconds - draw.stall)

    def equal_speed(worker: int, draw: Draw) -> Draw:
        factor = middle / speeds[worker]
        return Draw(draw.seconds * factor, draw.stall * factor)

    def constant(worker: int, draw: Draw) -> Draw:
        return Draw(speeds[worker])

    def one_worker(target: int) -> Callable[[int, Draw], Draw]:
        return lambda worker, draw: equal_speed(worker, draw) if worker == target else draw

    return WhatIf(
        base,
        {
            "stalls and slow-downs": saved(no_stall),
            "all variation in time": saved(constant),
            "unequal speeds": saved(equal_speed),
        },
        {w: saved(one_worker(w)) for w in range(len(speeds)) if speeds[w] > middle},
        _waited_for(base),
    )


def _typical(times: IterationTimes, samples: int = 101) -> list[float]:
    """Median duration of each worker without its stalls, seconds."""
    if times.workers < 1:
        raise InvalidInput("no workers")
    return [
        median(draw.seconds - draw.stall for draw in (times.draw(w, 0.0) for _ in range(samples)))
        for w in range(times.workers)
    ]


def _waited_for(base: Result) -> dict[int, float]:
    totals: dict[int, float] = {}
    for superstep in base.supersteps:
        totals[superstep.last] = totals.get(superstep.last, 0.0) + superstep.waiting
    return totals
