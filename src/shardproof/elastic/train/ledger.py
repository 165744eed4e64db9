"""The server's durable record of what was committed; tests and resume rely on it alone.

One JSON object a line, flushed to the operating system before anyone learns of the commit, so a
killed server loses no line (a crash of the whole host may; the checkpoint decides then).

* ``commit`` (local update): superstep, and per worker its tickets and weight;
* ``push`` (immediate apply): version after it, version its gradient was computed from, ticket;
* ``checkpoint``: version (superstep or push) and name of a complete checkpoint;
* ``resume``: the version a restarted server went back to, and how many updates that lost;
* ``join``, ``leave``: membership, with the cause.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shardproof.elastic.errors import InvalidInput


class Ledger:
    """Append-only file of records."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_partial_line(path)
        self.path = path
        self._file = path.open("a", encoding="utf-8")

    def write(self, kind: str, **values: Any) -> None:
        """Append and flush one record."""
        self._file.write(json.dumps({"kind": kind, **values}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _drop_partial_line(path: Path) -> None:
    """A record cut short by a crash was never acknowledged: remove it."""
    if not path.exists():
        return
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        path.write_bytes(data[: data.rfind(b"\n") + 1])


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """All records in order. Raises InvalidInput with the line number for a malformed one."""
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InvalidInput(f"{path.name}:{number}: not a ledger record") from error
        records.append(record)
    return records


def effective(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The commits and pushes that count, in order: those undone by a ``resume`` are left out."""
    kept: list[dict[str, Any]] = []
    for record in records:
        if record["kind"] == "resume":
            kept = [r for r in kept if r["version"] <= record["version"]]
        elif record["kind"] in {"commit", "push"}:
            kept.append(record)
    return kept


def tickets_in(records: list[dict[str, Any]]) -> Iterator[int]:
    """Tickets of commits and pushes, in order, with repeats if there are any."""
    for record in records:
        if record["kind"] == "push":
            yield record["ticket"]
        else:
            for part in record["parts"]:
                yield from part["tickets"]


def last_checkpoint(records: list[dict[str, Any]]) -> tuple[int, str]:
    """Version and name of the last complete checkpoint; 0 and no name if there is none.

    It cannot have been undone: a resume goes back to the last checkpoint, not beyond.
    """
    for record in reversed(records):
        if record["kind"] == "checkpoint":
            return record["version"], record["name"]
    return 0, ""
