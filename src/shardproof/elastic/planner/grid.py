"""GridScan and FullGridScan, the published heuristic baselines (arXiv 2001.01347, section IV).

Neither is exact: pairing every worker with its point nearest to a reference point may combine
points on both sides of it, although a slightly different reference gives a smaller gap.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .model import Arrivals, Plan, as_arrivals


def _nearest_to(matrix: Arrivals, reference: float) -> tuple[Arrivals, Arrivals]:
    index = np.argmin(np.abs(np.where(np.isfinite(matrix), matrix, np.inf) - reference), axis=1)
    return matrix[np.arange(len(matrix)), index], index.astype(np.float64)


def _best_for_row(matrix: Arrivals, row: int) -> Plan:
    best: Plan | None = None
    for reference in matrix[row][np.isfinite(matrix[row])]:
        ends, index = _nearest_to(matrix, float(reference))
        gap = float(ends.max() - ends.min())
        if best is None or gap < best.cost:
            counts = tuple(int(i) + 1 for i in index)
            best = Plan(counts, tuple(float(e) for e in ends), float(ends.max()), gap)
    assert best is not None  # as_arrivals guarantees a finite first arrival in every row
    return best


def grid_scan(rows: Sequence[Sequence[float]] | Arrivals) -> Plan:
    """Nearest points to each arrival of the worker that arrives first; O(R^2 n), heuristic."""
    matrix = as_arrivals(rows)
    return _best_for_row(matrix, int(np.argmin(matrix[:, 0])))


def full_grid_scan(rows: Sequence[Sequence[float]] | Arrivals) -> Plan:
    """GridScan with every worker as the reference in turn; O(R^2 n^2), still a heuristic."""
    matrix = as_arrivals(rows)
    plans = [_best_for_row(matrix, row) for row in range(len(matrix))]
    return min(plans, key=lambda plan: (plan.cost, plan.barrier))
