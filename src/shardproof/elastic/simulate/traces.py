"""Recorded iteration times: CSV (``worker,seconds``) and JSON lines, in and out.

JSON lines may hold ``{"worker": w, "seconds": s}`` objects or the event log of a real run, of which
the ``iteration`` events are taken.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.events import read_events

from .stragglers import TraceTimes


def load_trace(path: Path) -> TraceTimes:
    """Read a trace file, or the event logs in a run directory.

    Workers are numbered from 0 in order of their names. Raises InvalidInput with file and line
    number for anything unreadable.
    """
    if not path.exists():
        raise InvalidInput(f"no trace at {path}")
    if path.is_dir():
        pairs: Iterable[tuple[str, float]] = _from_events(path)
    elif path.suffix == ".csv":
        pairs = _from_csv(path)
    elif path.suffix in {".jsonl", ".json"}:
        pairs = _from_json_lines(path)
    else:
        raise InvalidInput(f"{path.name}: a trace must end in .csv or .jsonl")
    rows: dict[str, list[float]] = {}
    for worker, seconds in pairs:
        rows.setdefault(worker, []).append(seconds)
    if not rows:
        raise InvalidInput(f"{path.name} holds no iteration")
    return TraceTimes([rows[worker] for worker in sorted(rows, key=_natural)])


def save_trace(path: Path, rows: Iterable[tuple[int, float]]) -> None:
    """Write (worker, seconds) pairs as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["worker", "seconds"])
        writer.writerows(rows)


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), "") if name.isdecimal() else (1, 0, name)


def _from_events(path: Path) -> Iterator[tuple[str, float]]:
    for event in read_events(path):
        if event.kind == "iteration" and event.seconds > 0:
            yield str(event.worker), event.seconds


def _from_csv(path: Path) -> Iterator[tuple[str, float]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not {"worker", "seconds"} <= set(reader.fieldnames or ()):
            raise InvalidInput(f"{path.name}:1: expected the columns worker and seconds")
        for number, row in enumerate(reader, start=2):
            yield str(row["worker"]), _number(row["seconds"], path, number)


def _from_json_lines(path: Path) -> Iterator[tuple[str, float]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InvalidInput(f"{path.name}:{number}: not JSON: {error}") from error
        if not isinstance(record, dict) or "worker" not in record:
            raise InvalidInput(f"{path.name}:{number}: expected an object with a worker")
        if "kind" in record:
            if record["kind"] == "iteration":
                length = _number(record["end"], path, number)
                yield str(record["worker"]), length - _number(record["start"], path, number)
        else:
            yield str(record["worker"]), _number(record.get("seconds"), path, number)


def _number(value: object, path: Path, line: int) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{path.name}:{line}: {value!r} is no number of seconds") from error
