"""What a run is doing, on standard error, and only where somebody can watch."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

INTERVAL = 0.05
"""Seconds between two lines: no terminal is slowed down by what nobody can read."""


@contextmanager
def progress(stream: TextIO) -> Iterator[Callable[[str], None] | None]:
    """A function that shows a stage on one line, wiped at the end; None off a terminal."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    shown = 0.0

    def show(stage: str) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < INTERVAL:
            return
        shown = now
        columns = shutil.get_terminal_size().columns
        stream.write(f"\r\x1b[K{_fit(stage, columns - 5)} ...")
        stream.flush()

    try:
        yield show
    finally:
        stream.write("\r\x1b[K")
        stream.flush()


def _fit(stage: str, room: int) -> str:
    """One line of at most ``room`` columns: a wrapped line could not be wiped."""
    flat = " ".join(stage.split())
    return flat[: max(room, 1)]
