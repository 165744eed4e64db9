"""The error that every reader of user input raises."""

from __future__ import annotations

import os
import traceback
from typing import Any

HOLE = "TODO"
"""The function that stands in a file written by `shardproof init` for what is still to be written;
it raises NotImplementedError."""
INSTALL_TORCH = "install PyTorch (its CPU build is enough): pip install 'torch>=2.13'"


class InputError(Exception):
    """Input that cannot be read, or that does not describe a program.

    Always says four things: ``what`` is wrong, ``where`` (``file:line``), what was ``expected``
    and the user's ``next_step``. The command line prints it and exits with ``exit_code``.
    """

    exit_code = 2

    def __init__(self, what: str, where: str, expected: str, next_step: str) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.next_step = next_step

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.where, self.expected, self.next_step)

    def __str__(self) -> str:
        return (
            f"error: {self.what}\n"
            f"  where: {self.where}\n"
            f"  expected: {self.expected}\n"
            f"  next: {self.next_step}"
        )


def hole(error: BaseException) -> InputError | None:
    """The message for a file with a hole in it; None for other errors."""
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, NotImplementedError) or len(frames) < 2 or frames[-1].name != HOLE:
        return None
    at = frames[-2]
    return InputError(
        f"{os.path.basename(at.filename)} is not finished: {shorten(str(error), 200)}",
        where=f"{os.path.relpath(at.filename)}:{at.lineno}",
        expected=f"a file without {HOLE}(...)",
        next_step=f"write it there in place of {HOLE}(...)",
    )


def shorten(text: str, limit: int = 120) -> str:
    """One line of at most ``limit`` characters, for quoting untrusted input in an error."""
    flat = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
