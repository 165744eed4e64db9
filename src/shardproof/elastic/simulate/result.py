"""What a simulation measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from shardproof.elastic.events import Event


@dataclass(frozen=True)
class Superstep:
    """One closed superstep. Times in seconds; ``last`` is the worker everybody waited for.

    stall: seconds that ``last`` lost to slow-downs and stalls within it.
    """

    start: float
    end: float
    steps_min: int
    steps_max: int
    waiting: float
    last: int
    stall: float


@dataclass
class Result:
    """Totals of a run. All times are worker-seconds summed per worker unless said otherwise.

    presence: time each worker was a member. staleness: summed and counted over iterations; see
    ``staleness_mean``.
    """

    policy: str
    seconds: float
    workers: int
    iterations: dict[int, int] = field(default_factory=dict)
    compute: dict[int, float] = field(default_factory=dict)
    waiting: dict[int, float] = field(default_factory=dict)
    barrier: dict[int, float] = field(default_factory=dict)
    lost: dict[int, float] = field(default_factory=dict)
    supersteps: list[Superstep] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    staleness_sum: float = 0.0
    staleness_max: float = 0.0
    difference_max: int = 0
    counted: int = 0

    @property
    def presence(self) -> float:
        """Worker-seconds spent in the run."""
        parts = (self.compute, self.waiting, self.barrier, self.lost)
        return sum(sum(part.values()) for part in parts)

    @property
    def idle_share(self) -> float:
        """Share of worker time spent waiting for other workers, 0 to 1."""
        return sum(self.waiting.values()) / self.presence if self.presence else 0.0

    @property
    def barrier_share(self) -> float:
        """Share of worker time spent in barriers (averaging and the like), 0 to 1."""
        return sum(self.barrier.values()) / self.presence if self.presence else 0.0

    @property
    def rate(self) -> float:
        """Finished iterations a second, all workers together."""
        return sum(self.iterations.values()) / self.seconds

    @property
    def staleness_mean(self) -> float:
        """Mean number of iterations *per peer* that an iteration did not see.

        Barrier policies (local update): local iterations since the weights were last common.
        Immediate apply: foreign pushes between pull and push, divided by the number of peers.
        """
        return self.staleness_sum / self.counted if self.counted else 0.0

    @property
    def superstep_seconds(self) -> float:
        """Mean length of a closed superstep, without the barrier itself; 0 if there was none."""
        if not self.supersteps:
            return 0.0
        return sum(s.end - s.start for s in self.supersteps) / len(self.supersteps)

    @property
    def superstep_steps(self) -> float:
        """Mean of the largest iteration count of a superstep; 0 if none closed."""
        if not self.supersteps:
            return 0.0
        return sum(s.steps_max for s in self.supersteps) / len(self.supersteps)

    def summary(self) -> dict[str, float | int | str]:
        """The figures of the benchmark table."""
        return {
            "policy": self.policy,
            "workers": self.workers,
            "idle_share": self.idle_share,
            "barrier_share": self.barrier_share,
            "iterations_per_second": self.rate,
            "staleness_mean": self.staleness_mean,
            "staleness_max": self.staleness_max,
            "difference_max": self.difference_max,
            "superstep_seconds": self.superstep_seconds,
            "superstep_steps": self.superstep_steps,
            "supersteps": len(self.supersteps),
        }
