"""What a run is doing, on standard error, and only where somebody can watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def progress(stream: TextIO) -> Iterator[Callable[[str], None] | None]:
    """A function that shows a stage name on one line, wiped at the end; None off a terminal."""
    if not stream.isatty():
        yield None
        return

    def show(stage: str) -> None:
        stream.write(f"\r\x1b[K{stage[:70]} ...")
        stream.flush()

    try:
        yield show
    finally:
        stream.write("\r\x1b[K")
        stream.flush()
