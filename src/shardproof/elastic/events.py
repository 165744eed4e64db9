"""The event log: one JSON object a line, the same from the simulator and from real runs.

Times are seconds. In a real run every process logs its own clock (``time.time``) to its own file;
clocks of one host agree, across hosts they agree as well as the hosts' time service does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias, get_args

from .errors import InvalidInput

Kind: TypeAlias = Literal[
    "iteration",  # forward, backward and local update (or push and pull)
    "wait",  # at the barrier, for slower workers
    "hold",  # bounded staleness: too far ahead
    "barrier",  # averaging, commit, reconfiguration
    "lost",  # an iteration whose result was thrown away
    "join",
    "leave",
    "checkpoint",
    "plan",  # next barrier chosen; detail: barrier
]

KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Event:
    """One interval (or instant, if start equals end) of one worker.

    worker: number of the worker, -1 for the server. superstep: its number, from 0.
    detail: further values, such as the sample ticket, the loss or the cause of a leave.
    """

    kind: Kind
    worker: int
    start: float
    end: float
    superstep: int = 0
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Duration."""
        return self.end - self.start


class EventLog:
    """Appends events to a file; each line is flushed, so a killed process leaves whole lines."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(self, event: Event) -> None:
        """Append one event."""
        self._file.write(json.dumps(asdict(event)) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_events(path: Path, events: Iterable[Event]) -> None:
    """Write all events to ``path``, one JSON object a line."""
    log = EventLog(path)
    for event in events:
        log.write(event)
    log.close()


def read_events(source: Path) -> list[Event]:
    """Read a log file, or all ``events-*.jsonl`` of a run directory, in order of start time.

    A cut last line (its process was killed while writing) is ignored; any other malformed line
    raises InvalidInput with file and line number.
    """
    files = sorted(source.glob("events-*.jsonl")) if source.is_dir() else [source]
    if not files or not files[0].exists():
        raise InvalidInput(f"no event log at {source} (expected events-*.jsonl)")
    events = [event for file in files for event in _read_file(file)]
    return sorted(events, key=lambda event: (event.start, event.end))


def _read_file(path: Path) -> Iterator[Event]:
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            event = Event(**json.loads(line))
        except (ValueError, TypeError) as error:
            if number == len(lines):
                return
            raise InvalidInput(f"{path.name}:{number}: not an event: {error}") from error
        if event.kind not in KINDS or event.end < event.start:
            raise InvalidInput(f"{path.name}:{number}: malformed event of kind {event.kind!r}")
        yield event
