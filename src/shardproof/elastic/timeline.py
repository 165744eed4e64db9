"""Event log -> Chrome trace JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

One track a worker; arrows run from the last arrival of a superstep to the workers that waited.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from shardproof.elastic.events import Event

_INSTANTS = {"join", "leave", "plan"}
_PROCESS = 1


def to_chrome_trace(events: Iterable[Event]) -> dict[str, Any]:
    """Trace document; times are microseconds since the first event."""
    ordered = sorted(events, key=lambda event: event.start)
    origin = ordered[0].start if ordered else 0.0
    workers = sorted({event.worker for event in ordered})
    entries: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": _PROCESS, "args": {"name": "elastic run"}}
    ]
    entries += [_track_name(worker) for worker in workers]
    entries += [_entry(event, origin) for event in ordered]
    entries += _arrows(ordered, origin)
    return {"traceEvents": entries, "displayTimeUnit": "ms"}


def write_timeline(events: Iterable[Event], path: Path) -> None:
    """Write the trace document to ``path``."""
    path.write_text(json.dumps(to_chrome_trace(events)), encoding="utf-8")


def _track_name(worker: int) -> dict[str, Any]:
    name = "server" if worker < 0 else f"worker {worker}"
    return {
        "ph": "M",
        "name": "thread_name",
        "pid": _PROCESS,
        "tid": worker,
        "args": {"name": name},
    }


def _micros(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _entry(event: Event, origin: float) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": event.kind,
        "cat": "elastic",
        "pid": _PROCESS,
        "tid": event.worker,
        "ts": _micros(event.start - origin),
        "args": {"superstep": event.superstep, **event.detail},
    }
    if event.kind in _INSTANTS:
        return {**entry, "ph": "i", "s": "t"}
    return {**entry, "ph": "X", "dur": _micros(event.seconds)}


def _arrows(events: list[Event], origin: float) -> Iterator[dict[str, Any]]:
    waits: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        if event.kind == "wait":
            waits[event.superstep].append(event)
    for superstep, group in waits.items():
        last = min(group, key=lambda event: event.seconds)
        for event in group:
            if event is last:
                continue
            link = {
                "cat": "elastic",
                "name": "waited for",
                "pid": _PROCESS,
                "id": superstep * 100_000 + event.worker,
            }
            # An arrow binds to the slice around its point, hence the tiny shift into the slice.
            start, end = _micros(last.start - origin), _micros(event.end - origin)
            yield {**link, "ph": "s", "tid": last.worker, "ts": max(start - 0.001, 0.0)}
            yield {**link, "ph": "f", "bp": "e", "tid": event.worker, "ts": max(end - 0.001, 0.0)}
