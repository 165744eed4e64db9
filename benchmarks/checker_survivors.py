"""Why a mutant of the checker may survive: ``checker_survivors.toml``.

An entry has a ``class``, a ``reason`` of one sentence, and the names of mutants as the run prints
them (``mutants``), or what their names hold (``like``, regular expressions; ``kind`` may restrict
these). The classes:

    equivalent    no input can tell it from the checker
    rejects more  it may refuse what is right, and accepts nothing else
    work          limits of work, or speed
    text          what a message says, or which of two refusals it is
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.checker_mutants import Mutant

FILE = Path(__file__).with_suffix(".toml")
CLASSES = ("equivalent", "rejects more", "work", "text")


@dataclass(frozen=True, slots=True)
class Why:
    """A class of survivors, and the reason of those that ``matches``."""

    group: str
    reason: str
    name: str = ""
    like: re.Pattern[str] | None = None
    kind: str = ""

    def matches(self, m: Mutant) -> bool:
        """Whether a mutant is meant."""
        if self.like is None:
            return m.name == self.name
        return self.kind in ("", m.kind) and self.like.search(m.name) is not None


def entries(path: Path = FILE) -> list[Why]:
    """All of the file: one a name, and one a pattern."""
    out = []
    for row in tomllib.loads(path.read_text())["why"]:
        group, reason, kind = row["class"], row["reason"], row.get("kind", "")
        out += [Why(group, reason, name) for name in row.get("mutants", [])]
        out += [Why(group, reason, "", re.compile(x), kind) for x in row.get("like", [])]
    return out


def explained(mutants: Iterable[Mutant], whys: list[Why]) -> dict[str, Why]:
    """The reason of each mutant that has one, by its name."""
    by_name = {w.name: w for w in whys if w.like is None}
    patterns = [w for w in whys if w.like is not None]
    out = {}
    for m in mutants:
        found = by_name.get(m.name) or next((w for w in patterns if w.matches(m)), None)
        if found is not None:
            out[m.name] = found
    return out


def without_mutant(mutants: list[Mutant], whys: list[Why]) -> list[str]:
    """Entries that match no mutant any more."""
    names = {m.name for m in mutants}
    return [
        w.name or w.like.pattern if w.like else w.name
        for w in whys
        if (w.name not in names if w.like is None else not any(map(w.matches, mutants)))
    ]
