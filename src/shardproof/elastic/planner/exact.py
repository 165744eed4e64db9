"""Exact planner for every objective and cap, O(R n log(R n)) in array operations.

Why it is exact. Fix the time t at which the barrier closes. Worker p may have finished at most
k_p(t) iterations. With a cap D on the iteration difference it may count at most m(t) + D of them,
where m(t) is the least k over all workers. Taking that maximum for every worker is feasible and
makes every arrival as late as possible, which is best for both objectives; so one candidate a time
t is enough, and the candidate only changes when some worker's admitted count grows. Iteration i of
worker p is admitted at ``max(e[p, i], max over q of e[q, i - D])``; the scan visits these times.

The minimum over the arrivals needs no linked list: in order of arrival, the earliest arrival that
is still current at t is the first one whose successor is admitted after t, and a running maximum of
those successor times turns the search into a binary search.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from shardproof.elastic.errors import InfeasiblePlan, InvalidInput

from .model import Arrivals, Caps, Plan, as_arrivals
from .objectives import MinGap, Objective


def plan(
    rows: Sequence[Sequence[float]] | Arrivals,
    *,
    objective: Objective | None = None,
    caps: Caps | None = None,
    start: float = 0.0,
    done: Sequence[int] | None = None,
) -> Plan:
    """Choose the best barrier within the predicted arrivals; ties go to the earliest.

    rows: predicted end times in seconds, one ascending row per worker. start: time at which the
    superstep began. done: iterations each worker has already finished in this superstep; caps count
    them. Default objective: ``MinGap``. Raises InvalidInput for malformed input and InfeasiblePlan
    if the caps exclude every barrier in the lookahead.
    """
    matrix = as_arrivals(rows)
    limits = caps or Caps()
    finished = _finished(done, len(matrix))
    if np.nanmin(matrix) < start and done is None:
        raise InvalidInput(f"an arrival lies before the start of the superstep at {start} s")
    admitted = _admitted(matrix, finished, limits)
    times, costs, order = _candidates(matrix, admitted, objective or MinGap(), start)
    if limits.seconds is not None:
        costs = np.where(times - start <= limits.seconds * (1 + 1e-12), costs, np.inf)
    if costs.size == 0 or not np.isfinite(costs).any():
        raise InfeasiblePlan(_why(matrix, limits, start))
    best = int(np.argmin(costs))
    counts = np.sum(admitted <= times[best], axis=1)
    ends = matrix[order, counts - 1]
    return Plan(
        tuple(int(c) for c in counts),
        tuple(float(e) for e in ends),
        float(ends.max()),
        float(costs[best]),
    )


def _finished(done: Sequence[int] | None, n: int) -> NDArray[np.int64]:
    if done is None:
        return np.zeros(n, dtype=np.int64)
    if len(done) != n or any(d < 0 for d in done):
        raise InvalidInput("done must give a count >= 0 for every worker")
    return np.asarray(done, dtype=np.int64)


def _admitted(matrix: Arrivals, done: NDArray[np.int64], caps: Caps) -> Arrivals:
    """Time from which each iteration may be counted; +inf where a cap excludes it."""
    _n, width = matrix.shape
    admitted = matrix.copy()
    index = done[:, None] + np.arange(1, width + 1)
    if caps.staleness is not None:
        # One more iteration is always allowed: the worker is already in it.
        admitted[(index > caps.staleness) & (np.arange(width) > 0)] = np.inf
    if caps.difference is not None:
        reached = _everyone_reached(matrix, done)
        need = np.clip(index - caps.difference, 0, len(reached) - 1)
        admitted = np.maximum(admitted, reached[need])
        admitted[:, 0] = matrix[:, 0]
    return admitted


def _everyone_reached(matrix: Arrivals, done: NDArray[np.int64]) -> NDArray[np.float64]:
    """Entry m: time at which every worker has finished m iterations of this superstep."""
    n, width = matrix.shape
    reached = np.full(int(done.max()) + width + 2, -np.inf)
    for p in range(n):
        row = np.full(len(reached), np.inf)
        row[: done[p] + 1] = -np.inf
        row[done[p] + 1 : done[p] + 1 + width] = matrix[p]
        np.maximum(reached, row, out=reached)
    return reached


def _candidates(
    matrix: Arrivals, admitted: Arrivals, objective: Objective, start: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Every candidate barrier time and its cost, in order of time."""
    n, width = matrix.shape
    with np.errstate(invalid="ignore"):  # inf - inf in the padding of short rows, never selected
        step = np.diff(matrix, axis=1, prepend=start)
    flat = admitted.ravel()
    order = np.argsort(flat, kind="stable")
    order = order[np.isfinite(flat[order])]
    times = flat[order]
    total = np.cumsum(step.ravel()[order])
    full = np.cumsum(order % width == 0) == n
    # Of several admissions at one instant only the last describes the candidate completely.
    full &= np.append(times[1:] > times[:-1], True) if times.size else full
    first = _earliest_current(matrix, admitted, times[full])
    barrier = times[full]
    costs = objective.costs(barrier - start, first - start, total[full], n)
    return barrier, costs, np.arange(n)


def _earliest_current(
    matrix: Arrivals, admitted: Arrivals, times: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For each time, the least arrival among the workers' current iterations."""
    successor = np.full_like(admitted, np.inf)
    successor[:, :-1] = admitted[:, 1:]
    flat = matrix.ravel()
    order = np.argsort(flat, kind="stable")
    expires = np.maximum.accumulate(successor.ravel()[order])
    at = np.searchsorted(expires, times, side="right")
    return np.asarray(flat[order][at], dtype=np.float64)


def _why(matrix: Arrivals, caps: Caps, start: float) -> str:
    slowest = float(matrix[:, 0].max()) - start
    return (
        f"no barrier within the lookahead satisfies {caps}: the slowest worker needs "
        f"{slowest:.6g} s for its next iteration"
    )
