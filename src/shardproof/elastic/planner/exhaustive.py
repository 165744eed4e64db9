"""Brute force over all R^n plans: the judge of the exact planners, for small problems only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from shardproof.elastic.errors import InfeasiblePlan, InvalidInput

from .model import Arrivals, Caps, Plan, as_arrivals
from .objectives import MinGap, Objective

_LIMIT = 2_000_000


def exhaustive(
    rows: Sequence[Sequence[float]] | Arrivals,
    *,
    objective: Objective | None = None,
    caps: Caps | None = None,
    start: float = 0.0,
) -> Plan:
    """Best plan by evaluating every combination of counts.

    Shares no code with the planners except the objective's formula. Raises InvalidInput above two
    million combinations and InfeasiblePlan if the caps exclude all of them.
    """
    matrix = as_arrivals(rows)
    limits, goal = caps or Caps(), objective or MinGap()
    choices = [range(1, int(np.isfinite(row).sum()) + 1) for row in matrix]
    if np.prod([float(len(c)) for c in choices]) > _LIMIT:
        raise InvalidInput(f"brute force is limited to {_LIMIT} combinations")
    best: Plan | None = None
    for counts in itertools.product(*choices):
        ends = [float(matrix[p, c - 1]) for p, c in enumerate(counts)]
        if not _allowed(counts, ends, limits, start):
            continue
        cost = _cost(goal, ends, start)
        if best is None or (cost, max(ends)) < (best.cost, best.barrier):
            best = Plan(counts, tuple(ends), max(ends), cost)
    if best is None:
        raise InfeasiblePlan(f"no combination satisfies {limits}")
    return best


def _allowed(counts: tuple[int, ...], ends: list[float], caps: Caps, start: float) -> bool:
    if caps.staleness is not None and max(counts) > caps.staleness:
        return False
    if caps.seconds is not None and max(ends) - start > caps.seconds:
        return False
    return caps.difference is None or max(counts) - min(counts) <= caps.difference


def _cost(objective: Objective, ends: list[float], start: float) -> float:
    relative = [end - start for end in ends]
    values = objective.costs(
        np.array([max(relative)]), np.array([min(relative)]), np.array([sum(relative)]), len(ends)
    )
    return float(values[0])
