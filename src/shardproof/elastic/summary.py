"""What an event log says: time spent by each worker, and the supersteps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from shardproof.elastic.events import Event


@dataclass
class WorkerSummary:
    """Totals of one worker. Times in seconds.

    steps: iterations in its current superstep, hence how stale the others' view of it is.
    """

    worker: int
    iterations: int = 0
    computing: float = 0.0
    waiting: float = 0.0
    barrier: float = 0.0
    superstep: int = 0
    steps: int = 0
    last_seen: float = 0.0
    state: str = "joined"

    @property
    def total(self) -> float:
        """Accounted time."""
        return self.computing + self.waiting + self.barrier

    @property
    def waiting_share(self) -> float:
        """Share of the accounted time spent waiting, 0 to 1."""
        return self.waiting / self.total if self.total else 0.0


@dataclass
class Summary:
    """Totals of a run.

    lengths: duration of each superstep in seconds, from its first iteration to its last arrival.
    next_barrier: latest predicted barrier time on the log's clock, if any.
    """

    workers: dict[int, WorkerSummary] = field(default_factory=dict)
    lengths: dict[int, float] = field(default_factory=dict)
    next_barrier: float | None = None
    first: float = 0.0
    last: float = 0.0

    @property
    def seconds(self) -> float:
        """From the first to the last event."""
        return self.last - self.first

    @property
    def iterations(self) -> int:
        """Iterations of all workers."""
        return sum(w.iterations for w in self.workers.values())

    @property
    def waiting_share(self) -> float:
        """Share of all workers' accounted time spent waiting, 0 to 1."""
        total = sum(w.total for w in self.workers.values())
        return sum(w.waiting for w in self.workers.values()) / total if total else 0.0

    def to_json(self) -> dict[str, object]:
        """The figures as plain data."""
        return {
            "seconds": self.seconds,
            "iterations": self.iterations,
            "waiting_share": self.waiting_share,
            "supersteps": len(self.lengths),
            "mean_superstep_seconds": sum(self.lengths.values()) / max(len(self.lengths), 1),
            "workers": [
                {
                    "worker": w.worker,
                    "iterations": w.iterations,
                    "computing": w.computing,
                    "waiting": w.waiting,
                    "barrier": w.barrier,
                    "waiting_share": w.waiting_share,
                }
                for w in sorted(self.workers.values(), key=lambda w: w.worker)
            ],
        }


def summarise(events: Iterable[Event]) -> Summary:
    """Add up a log; events in order of start."""
    summary = Summary()
    begins: dict[int, float] = {}
    ends: dict[int, float] = defaultdict(float)
    ordered = list(events)
    if ordered:
        summary.first = ordered[0].start
    for event in ordered:
        summary.last = max(summary.last, event.end)
        if event.kind == "plan":
            summary.next_barrier = event.detail.get("barrier")
        if event.worker < 0:
            continue
        _add(summary.workers.setdefault(event.worker, WorkerSummary(event.worker)), event)
        if event.kind == "iteration":
            begins.setdefault(event.superstep, event.start)
            ends[event.superstep] = max(ends[event.superstep], event.end)
    summary.lengths = {s: ends[s] - begins[s] for s in begins}
    return summary


def _add(worker: WorkerSummary, event: Event) -> None:
    worker.last_seen = max(worker.last_seen, event.end)
    worker.state = event.kind
    if event.kind == "iteration":
        worker.iterations += 1
        worker.computing += event.seconds
        if event.superstep != worker.superstep:
            worker.superstep, worker.steps = event.superstep, 0
        worker.steps += 1
    elif event.kind in {"wait", "hold"}:
        worker.waiting += event.seconds
    elif event.kind in {"barrier", "checkpoint"}:
        worker.barrier += event.seconds
