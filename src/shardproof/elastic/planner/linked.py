"""ZipLine on an ordered doubly linked list: O(R n log n) time, O(n) space beside the input.

The paper finds the oldest point of the same worker by a linear search (O(R n^2), arXiv 2001.01347,
Table I) and later by binary search (O(R n log n), DSAA 2021 extended abstract). A node per worker,
in order of its current point, makes that step O(1): unlink the node, append it at the tail; the
head is the earliest arrival. What is left is the n-way merge.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from shardproof.elastic.errors import InvalidInput

from .model import Arrivals, Plan, as_arrivals


class _Ring:
    """Workers in order of their current arrival; index n is the sentinel."""

    def __init__(self, n: int) -> None:
        self.sentinel = n
        self.prev = list(range(n + 1))
        self.next = list(range(n + 1))

    def move_to_tail(self, p: int) -> None:
        prev, nxt = self.prev, self.next
        nxt[prev[p]] = nxt[p]
        prev[nxt[p]] = prev[p]
        tail = prev[self.sentinel]
        nxt[tail] = p
        prev[p] = tail
        nxt[p] = self.sentinel
        prev[self.sentinel] = p

    @property
    def head(self) -> int:
        return self.next[self.sentinel]


def _merge(rows: list[list[float]]) -> Iterator[tuple[float, int, int]]:
    """All (time, worker, count) in order of time; a lazy n-way merge over a heap of n heads."""
    heads = [(row[0], p, 1) for p, row in enumerate(rows)]
    heapq.heapify(heads)
    while heads:
        _time, p, count = heads[0]
        yield heads[0]
        row = rows[p]
        if count < len(row):
            heapq.heapreplace(heads, (row[count], p, count + 1))
        else:
            heapq.heappop(heads)


def zipline(rows: Sequence[Sequence[float]] | Arrivals) -> Plan:
    """Least gap between first and last arrival; ties go to the earliest barrier.

    rows: predicted end times, seconds. Raises InvalidInput for malformed rows. Optimal because the
    scan visits every possible last arrival t and pairs it with every other worker's latest point
    not after t.
    """
    matrix = as_arrivals(rows)
    lists = [[t for t in row if t != float("inf")] for row in matrix.tolist()]
    n = len(lists)
    ring = _Ring(n)
    time_of, count_of = [0.0] * n, [0] * n
    filled, best, at = 0, float("inf"), 0
    for seen, (time, p, count) in enumerate(_merge(lists), start=1):
        if count == 1:
            filled += 1
        time_of[p] = time
        count_of[p] = count
        ring.move_to_tail(p)
        if filled == n and time - time_of[ring.head] < best:
            best, at = time - time_of[ring.head], seen
    if at == 0:
        raise InvalidInput("no common barrier exists")
    return _plan_at(lists, at, best)


def _plan_at(lists: list[list[float]], seen: int, cost: float) -> Plan:
    """Rebuild the plan after ``seen`` merged points; cheaper than a copy at each improvement."""
    counts = [0] * len(lists)
    for position, (_, p, count) in enumerate(_merge(lists), start=1):
        counts[p] = count
        if position == seen:
            break
    ends = tuple(row[c - 1] for row, c in zip(lists, counts, strict=True))
    return Plan(tuple(counts), ends, max(ends), cost)
