"""The planning problem: predicted arrivals in, a plan out, caps in between.

Terms follow the ElasticBSP paper (arXiv 2001.01347, section III): a *superstep* is the time
between two barriers, an *iteration* ends with a push, *R* is the lookahead, that is, the number of
future iterations predicted for each worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shardproof.elastic.errors import InvalidInput

Arrivals: TypeAlias = NDArray[np.float64]
"""n x R matrix of predicted iteration end times in seconds; rows ascend, +inf pads short rows."""


@dataclass(frozen=True)
class Caps:
    """Upper limits on a superstep; ``None`` means no limit.

    staleness: most iterations any worker may do between two barriers. A peer misses at most that
        many of its updates.
    seconds: longest superstep, from its start to its last arrival.
    difference: largest iteration difference between two workers (the paper's bound R - 1).
    """

    staleness: int | None = None
    seconds: float | None = None
    difference: int | None = None

    def __post_init__(self) -> None:
        if self.staleness is not None and self.staleness < 1:
            raise InvalidInput(f"staleness cap must be at least 1 iteration, got {self.staleness}")
        if self.seconds is not None and not self.seconds > 0:
            raise InvalidInput(f"superstep cap must be more than 0 seconds, got {self.seconds}")
        if self.difference is not None and self.difference < 0:
            raise InvalidInput(f"iteration difference cap must be >= 0, got {self.difference}")


@dataclass(frozen=True)
class Plan:
    """One barrier.

    counts: further iterations per worker, each at least 1, in the order of the input rows.
    ends: predicted arrival of each worker, seconds.
    barrier: predicted time of the last arrival, seconds.
    cost: value of the objective (seconds for ``min-gap``, a share for ``wait-rate``).
    """

    counts: tuple[int, ...]
    ends: tuple[float, ...]
    barrier: float
    cost: float

    @property
    def gap(self) -> float:
        """Seconds between the first and the last arrival."""
        return self.barrier - min(self.ends)

    @property
    def waiting(self) -> float:
        """Total predicted waiting, worker-seconds."""
        return sum(self.barrier - end for end in self.ends)


def as_arrivals(rows: Sequence[Sequence[float]] | Arrivals) -> Arrivals:
    """Return ``rows`` as a checked matrix; rows may differ in length (an arrived worker has one).

    Raises InvalidInput if there is no worker, a worker has no finite first arrival, a value is NaN,
    or a row does not ascend strictly.
    """
    width = max((len(row) for row in rows), default=0)
    if len(rows) == 0 or width == 0:
        raise InvalidInput("planning needs at least one worker with one predicted arrival")
    matrix: Arrivals = np.full((len(rows), width), np.inf)
    for p, row in enumerate(rows):
        matrix[p, : len(row)] = row
    if np.isnan(matrix).any():
        raise InvalidInput("predicted arrivals contain NaN")
    late = np.flatnonzero(~np.isfinite(matrix[:, 0]))
    if late.size:
        raise InvalidInput(f"worker row {int(late[0])} has no finite predicted arrival")
    with np.errstate(invalid="ignore"):
        falls = np.isfinite(matrix[:, 1:]) & (matrix[:, 1:] <= matrix[:, :-1])
    if falls.any():
        row = int(np.argwhere(falls)[0][0])
        raise InvalidInput(f"arrivals of worker row {row} must ascend strictly")
    return matrix


def arrivals_from_intervals(
    last: Sequence[float], intervals: Sequence[float], lookahead: int
) -> Arrivals:
    """Extrapolate ``last + i * interval`` for i = 1..R (arXiv 2001.01347, section III-B).

    last: end of each worker's latest iteration, seconds. intervals: predicted seconds an iteration.
    Counting starts at i = 1: the latest push lies in the past and is no future iteration.
    """
    if len(last) != len(intervals):
        raise InvalidInput(f"{len(last)} start times for {len(intervals)} intervals")
    if lookahead < 1:
        raise InvalidInput(f"lookahead R must be at least 1, got {lookahead}")
    steps = np.asarray(intervals, dtype=np.float64)
    if steps.size == 0 or not (np.isfinite(steps).all() and (steps > 0).all()):
        raise InvalidInput("iteration intervals must be positive, finite seconds")
    start = np.asarray(last, dtype=np.float64)
    return as_arrivals(start[:, None] + steps[:, None] * np.arange(1, lookahead + 1))
