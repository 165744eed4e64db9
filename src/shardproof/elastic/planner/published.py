"""ZipLine as published, for comparison; use ``plan`` or ``zipline`` for work.

All three read the merged points in order, keep one current point per worker in a list Z sorted by
time, and differ in how they find the point which a new one replaces:

* ``zipline_published``: linear search (arXiv 2001.01347, Algorithm 2), O(R n^2);
* ``zipline_opt``: no search if the leftmost element is the one (DSAA 2021 extended abstract);
* ``zipline_opt_bs``: else a binary search for the worker's known time, O(R n log n) comparisons.

The pseudo code of the last two is not public; they are written from their description.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from .linked import _merge
from .model import Arrivals, Plan, as_arrivals

_Point = tuple[float, int, int]
_Locate = Callable[[list[_Point], int, list[float]], int]


def _linear(z: list[_Point], p: int, current: list[float]) -> int:
    for index, point in enumerate(z):
        if point[1] == p:
            return index
    return -1


def _head_first(z: list[_Point], p: int, current: list[float]) -> int:
    return 0 if z and z[0][1] == p else _linear(z, p, current)


def _bisected(z: list[_Point], p: int, current: list[float]) -> int:
    if z and z[0][1] == p:
        return 0
    if current[p] < 0:
        return -1
    index = bisect_left(z, (current[p], p, 0))
    return index if index < len(z) and z[index][1] == p else -1


def _scan(rows: Sequence[Sequence[float]] | Arrivals, locate: _Locate) -> Plan:
    matrix = as_arrivals(rows)
    origin = float(matrix[:, 0].min())
    lists = [[t - origin for t in row if t != float("inf")] for row in matrix.tolist()]
    n = len(lists)
    z: list[_Point] = []
    current = [-1.0] * n
    best, chosen = float("inf"), list(z)
    for point in _merge(lists):
        index = locate(z, point[1], current)
        if index >= 0:
            z.pop(index)
        z.append(point)
        current[point[1]] = point[0]
        if len(z) == n and point[0] - z[0][0] < best:
            best, chosen = point[0] - z[0][0], list(z)
    by_worker = sorted(chosen, key=lambda point: point[1])
    counts = tuple(count for _, _, count in by_worker)
    ends = tuple(float(matrix[p, c - 1]) for p, c in enumerate(counts))
    return Plan(counts, ends, max(ends), max(ends) - min(ends))


def zipline_published(rows: Sequence[Sequence[float]] | Arrivals) -> Plan:
    """Least gap (seconds) by the published scan with a linear search."""
    return _scan(rows, _linear)


def zipline_opt(rows: Sequence[Sequence[float]] | Arrivals) -> Plan:
    """Least gap (seconds); skips the search when the new point replaces the leftmost one."""
    return _scan(rows, _head_first)


def zipline_opt_bs(rows: Sequence[Sequence[float]] | Arrivals) -> Plan:
    """Least gap (seconds); binary search for the point to replace."""
    return _scan(rows, _bisected)
