"""The error that every reader of user input raises."""

from __future__ import annotations

from typing import Any


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


def shorten(text: str, limit: int = 120) -> str:
    """One line of at most ``limit`` characters, for quoting untrusted input in an error."""
    flat = "".join(c if c.isprintable() else " " for c in text[: 4 * limit])
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."
