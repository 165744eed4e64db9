"""How long iterations take: straggler models and recorded traces.

A model draws the duration of one iteration and names the causes of its excess over the worker's own
normal speed, so that lost time can be attributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shardproof.elastic.errors import InvalidInput

_BLOCK = 512


@dataclass(frozen=True)
class Draw:
    """One iteration: its duration in seconds, and the part of it due to a slow-down or stall."""

    seconds: float
    stall: float = 0.0


class IterationTimes(Protocol):
    """Source of iteration durations."""

    @property
    def workers(self) -> int:
        """Number of workers the source can serve."""
        ...

    def draw(self, worker: int, now: float) -> Draw:
        """Duration of the iteration that ``worker`` starts at ``now`` seconds."""
        ...


@dataclass(frozen=True)
class Cluster:
    """Parameters of a synthetic cluster.

    workers: 1 or more. fastest, slowest: each worker's normal seconds an iteration is drawn
    uniformly between them (the published generator uses 1.0 to 1.5). jitter: standard deviation of
    every iteration, relative to the normal time. tail: probability of a stall; its length is Pareto
    distributed with shape ``tail_shape`` and scale ``tail_scale`` normal iterations.
    slow_every: mean seconds between transient slow-downs of a worker (0: none), each lasting
    ``slow_for`` seconds on average (exponential) and multiplying times by ``slow_factor``.
    """

    workers: int
    fastest: float = 1.0
    slowest: float = 1.5
    jitter: float = 0.0
    tail: float = 0.0
    tail_shape: float = 1.5
    tail_scale: float = 1.0
    slow_every: float = 0.0
    slow_for: float = 20.0
    slow_factor: float = 2.0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InvalidInput(f"a cluster needs at least 1 worker, got {self.workers}")
        if not 0 < self.fastest <= self.slowest:
            raise InvalidInput("iteration times must satisfy 0 < fastest <= slowest")
        if not 0 <= self.jitter < 1:
            raise InvalidInput(f"relative jitter must lie in [0, 1), got {self.jitter}")
        if not 0 <= self.tail <= 1 or self.tail_shape <= 1 or self.tail_scale < 0:
            raise InvalidInput("tail must be a probability, its shape > 1 and its scale >= 0")
        if self.slow_every < 0 or self.slow_for <= 0 or self.slow_factor < 1:
            raise InvalidInput("slow-downs need slow_every >= 0, slow_for > 0, slow_factor >= 1")

    def times(self, seed: int) -> SyntheticTimes:
        """A source of durations; equal seeds give equal durations whatever the policy does."""
        return SyntheticTimes(self, seed)


class SyntheticTimes:
    """Draws from a ``Cluster``; iteration k of worker p depends on (seed, p, k) only."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        children = np.random.SeedSequence(seed).spawn(cluster.workers)
        self._rngs = [np.random.default_rng(child) for child in children]
        self.normal = [rng.uniform(cluster.fastest, cluster.slowest) for rng in self._rngs]
        self._noise: list[NDArray[np.float64]] = [np.empty(0)] * cluster.workers
        self._stalls: list[NDArray[np.float64]] = [np.empty(0)] * cluster.workers
        self._at = [_BLOCK] * cluster.workers
        # Slow-downs live in time, not in iterations, and have their own stream for that reason.
        self._slow_rngs = [np.random.default_rng(c.spawn(1)[0]) for c in children]
        self._slow = [self._next_slow(p, 0.0) for p in range(cluster.workers)]

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self._cluster.workers

    def draw(self, worker: int, now: float) -> Draw:
        """Duration of the next iteration of ``worker``."""
        if self._at[worker] == _BLOCK:
            self._refill(worker)
        at = self._at[worker]
        self._at[worker] = at + 1
        base = self.normal[worker] * float(self._noise[worker][at])
        stall = self.normal[worker] * float(self._stalls[worker][at])
        stall += base * (self._factor(worker, now) - 1)
        return Draw(base + stall, stall)

    def _refill(self, worker: int) -> None:
        rng, cluster = self._rngs[worker], self._cluster
        noise = 1 + cluster.jitter * rng.standard_normal(_BLOCK)
        self._noise[worker] = np.maximum(noise, 0.05)  # a Gaussian has no right to negative times
        hit = rng.random(_BLOCK) < cluster.tail
        lengths = cluster.tail_scale * (1 + rng.pareto(cluster.tail_shape, _BLOCK))
        self._stalls[worker] = np.where(hit, lengths, 0.0)
        self._at[worker] = 0

    def _next_slow(self, worker: int, after: float) -> tuple[float, float]:
        if self._cluster.slow_every == 0:
            return (np.inf, np.inf)
        rng = self._slow_rngs[worker]
        begin = after + rng.exponential(self._cluster.slow_every)
        return (begin, begin + rng.exponential(self._cluster.slow_for))

    def _factor(self, worker: int, now: float) -> float:
        begin, end = self._slow[worker]
        while now >= end:
            begin, end = self._slow[worker] = self._next_slow(worker, end)
        return self._cluster.slow_factor if now >= begin else 1.0


class TraceTimes:
    """Replays recorded durations; a worker that outruns its trace starts it again.

    rows: seconds of successive iterations, one non-empty sequence a worker.
    """

    def __init__(self, rows: Sequence[Sequence[float]]) -> None:
        if not rows or any(len(row) == 0 for row in rows):
            raise InvalidInput("a trace needs at least one iteration for every worker")
        self._rows = [np.asarray(row, dtype=np.float64) for row in rows]
        for worker, row in enumerate(self._rows):
            if not (np.isfinite(row).all() and (row > 0).all()):
                raise InvalidInput(f"trace of worker {worker} has a non-positive or infinite time")
        self._medians = [float(np.median(row)) for row in self._rows]
        self._at = [0] * len(self._rows)

    @property
    def workers(self) -> int:
        """Number of workers in the trace."""
        return len(self._rows)

    def draw(self, worker: int, now: float) -> Draw:
        """Next recorded duration; what exceeds 1.5 times the worker's median counts as a stall."""
        row = self._rows[worker]
        seconds = float(row[self._at[worker] % len(row)])
        self._at[worker] += 1
        median = self._medians[worker]
        return Draw(seconds, seconds - median if seconds > 1.5 * median else 0.0)
