"""``sync_every`` per replica group for torchft, from measured step times.

torchft's LocalSGD and DiLoCo take a fixed number of local steps between synchronisations. On
unequal hardware its users choose that number by hand for each replica group so that the groups
reach the synchronisation together; the planner computes it. torchft itself is optional: nothing
here imports it, ``set_sync_every`` works on the objects it is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardproof.elastic.errors import InfeasiblePlan, InvalidInput
from shardproof.elastic.planner import Caps, Objective, WaitRate, arrivals_from_intervals, plan
from shardproof.elastic.predictors import make_predictor


@dataclass(frozen=True)
class SyncPlan:
    """Local steps of each replica group, and what to expect.

    seconds: time from one synchronisation to the next, without it. waiting_share: expected share of
    the groups' time spent waiting for each other, 0 to 1. timeout: a safe time limit for the
    synchronisation, in seconds: the longest expected wait times ``margin``.
    """

    sync_every: dict[str, int]
    seconds: float
    waiting_share: float
    timeout: float


def plan_sync_every(
    step_times: Mapping[str, Sequence[float]],
    *,
    max_steps: int,
    min_steps: int = 1,
    fragments: int = 1,
    barrier_cost: float = 0.0,
    predictor: str = "median",
    margin: float = 2.0,
) -> SyncPlan:
    """Choose ``sync_every`` for every replica group.

    step_times: recent durations of one local step, seconds, per group. max_steps, min_steps: limits
    for every group. fragments: streaming DiLoCo needs a multiple of its number of fragments.
    barrier_cost: seconds of one synchronisation. Raises InvalidInput for empty or non-positive
    times, and InfeasiblePlan if the limits allow no common synchronisation.
    """
    unit = fragments
    if fragments < 1 or not 1 <= min_steps <= max_steps or margin < 1:
        raise InvalidInput("need fragments >= 1, 1 <= min_steps <= max_steps and margin >= 1")
    if not step_times:
        raise InvalidInput("no replica group")
    least, most = math.ceil(min_steps / unit), max_steps // unit
    if least > most:
        raise InfeasiblePlan(f"no multiple of {unit} lies between {min_steps} and {max_steps}")
    names = list(step_times)
    means = [_typical(name, step_times[name], predictor) * unit for name in names]
    # The planner counts units; the first arrival considered is that after the least allowed number.
    begin = [(least - 1) * mean for mean in means]
    rows = arrivals_from_intervals(begin, means, most - least + 1)
    objective: Objective = WaitRate(barrier_cost)
    best = plan(rows, objective=objective, caps=Caps(staleness=most - least + 1))
    counts = [(c + least - 1) * unit for c in best.counts]
    longest = best.barrier - min(best.ends)
    return SyncPlan(
        dict(zip(names, counts, strict=True)),
        best.barrier,
        best.waiting / (len(names) * best.barrier),
        margin * max(longest, max(means)),
    )


def _typical(name: str, times: Sequence[float], predictor: str) -> float:
    if not times:
        raise InvalidInput(f"replica group {name!r} has no step time")
    estimator = make_predictor(predictor)
    for seconds in times:
        estimator.observe(seconds)
    known = estimator.estimate()
    assert known is not None
    return known.mean


def set_sync_every(wrapper: Any, steps: int) -> None:
    """Give a torchft LocalSGD or DiLoCo object a new ``sync_every``, between synchronisations.

    It has no public setter, so the attribute its step hook reads is set; raises InvalidInput if the
    object does not look like one of theirs, if it is in the middle of a round that has already
    passed ``steps``, or if ``steps`` is no multiple of the number of fragments.
    """
    if not hasattr(wrapper, "_sync_every") or not hasattr(wrapper, "_local_step"):
        raise InvalidInput(f"{type(wrapper).__name__} is no torchft LocalSGD or DiLoCo object")
    if steps < 1 or wrapper._local_step >= steps:
        raise InvalidInput(
            f"cannot set sync_every to {steps} after {wrapper._local_step} steps of the round"
        )
    fragments = getattr(wrapper, "_fragments", None)
    if not fragments:
        wrapper._sync_every = steps
        return
    if steps % len(fragments):
        raise InvalidInput(f"sync_every must be a multiple of {len(fragments)} fragments")
    if getattr(wrapper, "_fragment_sync_delay", 0) >= steps // len(fragments):
        raise InvalidInput(f"sync_every {steps} is too short for the fragments' delay")
    # As in its constructor: the object counts steps per fragment.
    wrapper._sync_every = steps // len(fragments)
