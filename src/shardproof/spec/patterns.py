"""Look-up of a user's entries by exact name or name pattern, with errors for entries that miss."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

from shardproof.errors import InputError, shorten

T = TypeVar("T")


class Entries(Generic[T]):
    """Entries of one argument of the Spec, such as ``inputs``.

    An exact name wins over patterns; among patterns the first in the mapping wins. A function
    ``name -> entry or None`` may stand for the mapping.
    """

    def __init__(self, argument: str, entries: Mapping[str, T] | Callable[[str], T | None]) -> None:
        self.argument = argument
        self._function = None if isinstance(entries, Mapping) else entries
        self._entries: dict[str, T] = dict(entries) if isinstance(entries, Mapping) else {}
        self._used: set[str] = set()

    def get(self, name: str) -> T | None:
        """The entry for ``name``."""
        if self._function is not None:
            return self._called(self._function, name)
        key = name if name in self._entries else self._pattern(name)
        if key is None:
            return None
        self._used.update((key, name))
        return self._entries[key]

    def _called(self, function: Callable[[str], T | None], name: str) -> T | None:
        try:
            return function(name)
        except Exception as error:
            raise InputError(
                f"the function failed for {name!r}: {type(error).__name__}: {error}",
                where=self.where(name),
                expected="a function of the name that returns an entry or None",
                next_step="correct this function of the Spec",
            ) from error

    def where(self, name: str) -> str:
        """The place of the entry for ``name``, for messages."""
        if self._function is not None:
            return f"{self.argument}({name!r})"
        return f"{self.argument}[{(self._pattern(name) if name not in self._entries else name)!r}]"

    def check_used(self, names: Iterable[str], what: str) -> None:
        """Refuse entries that no name has used.

        Raises:
            InputError: an entry matches none of ``names``.
        """
        names = list(names)
        for key in self._entries:
            # A pattern may be shadowed by exact names: that is no mistake.
            if key in self._used or any(fnmatchcase(n, key) for n in names):
                continue
            raise unknown_name(key, names, what, f"{self.argument}[{key!r}]")

    def misspelt(self, name: str, names: Iterable[str]) -> str | None:
        """An entry that matches none of ``names`` and is nearly called ``name``."""
        names = list(names)
        near = difflib.get_close_matches(name, self._entries, n=3)
        unused = (k for k in near if not any(fnmatchcase(n, k) for n in names))
        return next(unused, None)

    def _pattern(self, name: str) -> str | None:
        return next((key for key in self._entries if fnmatchcase(name, key)), None)


def unknown_name(name: str, names: Iterable[str], what: str, where: str) -> InputError:
    """The error for a name or pattern that matches nothing."""
    names = list(names)
    near = difflib.get_close_matches(name, names, n=1)
    return InputError(
        f"{name!r} matches no {what}",
        where=where,
        expected=f"one of: {shorten(', '.join(names))}"
        if names
        else f"nothing: there is no {what}",
        next_step=f"did you mean {near[0]!r}?" if near else "correct the name or remove the entry",
    )


_LAYER = re.compile(r"(.*?\.)(0|[1-9]\d*)(\..*)")
_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d*)()")


def shown_names(names: Iterable[str]) -> str:
    """Names for a line of a report; numbered ones are drawn together: ``w_{1-3, 7}, bias``,
    ``layers.{0-31}.norm.weight``."""
    groups: dict[tuple[str, str, bool], list[int]] = {}
    for name in names:
        match = _LAYER.fullmatch(name) or _NUMBERED.fullmatch(name)
        key = (match[1], match[3], True) if match else (name, "", False)
        groups.setdefault(key, []).extend([int(match[2])] if match else [])
    return ", ".join(_group(stem, end, numbers) for (stem, end, _), numbers in groups.items())


def _group(stem: str, end: str, numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    texts = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs]
    if len(set(numbers)) <= 1:
        return stem + "".join(texts) + end
    return f"{stem}{{{', '.join(texts)}}}{end}"
