"""A correct program with its faulty twins, and whether a finding blames the planted fault.

The fault of a twin is marked where it stands: the line (of any statement) carries the comment
``# planted: NAME``. Where the fault is that something is missing, the value that is then wrong
appears first in another statement; that one carries ``# carries: NAME`` (a comment alone on its
line is about the statement below). Both are written by the
author of the case, from what the program means, not from what the verifier says. A wrong value that
appears first inside a library has the comment ``# carries in FILE: NAME: CODE`` anywhere in the
case's file, where FILE ends the path of the library's file and CODE is part of the line.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from shardproof.report.diagnostic import Finding, Verdict
    from shardproof.spec.spec import Spec

# Calls of helpers between a planted statement and the operator that it makes.
CALLS = 3
_MARK = re.compile(r"#.*\b(planted|carries): (.+?)\s*$")
_ELSEWHERE = re.compile(r"#.*\bcarries in (\S+): (.+?): (.+?)\s*$")


@dataclass(frozen=True, slots=True)
class Case:
    """A program that is right and programs that are nearly so.

    ``twins`` maps the name of a fault, unique in its file, to the function that makes the Spec.
    ``expected`` is "unproved" only for a program whose spelling is stated to be out of reach.
    ``long``: checking it takes more than about ten seconds.
    """

    name: str
    spec: Callable[[], Spec]
    twins: Mapping[str, Callable[[], Spec]] = field(default_factory=dict)
    expected: Literal["refines", "unproved"] = "refines"
    long: bool = False


def twins(make: Callable[..., Spec], *bugs: str) -> dict[str, Callable[[], Spec]]:
    """The twins of a function that takes the name of a fault."""
    return {bug: functools.partial(make, bug) for bug in bugs}


@dataclass(frozen=True, slots=True)
class Marks:
    """Lines of one fault: where it was planted, and where the wrong value is first made or used.
    Each is the range of lines of its statement. ``elsewhere`` are lines of libraries, as the end
    of a path and a part of the line."""

    file: str
    planted: tuple[range, ...]
    carries: tuple[range, ...]
    elsewhere: tuple[tuple[str, str], ...] = ()

    def blamed_by(self, finding: Finding) -> bool:
        """Whether the finding points at the fault or at the value that it made wrong: by its own
        line, or, where that is in a helper of another file, by the line that called the helper."""
        span = finding.primary
        if span is None:
            return False
        if any(span.file.endswith(f) and code in span.code for f, code in self.elsewhere):
            return True
        stack = self.lines([f"{span.file}:{span.line}", *span.callers])
        made = any(line in lines for line in stack[:CALLS] for lines in self.planted)
        return made or any(line in lines for line in stack[:1] for lines in self.carries)

    def lines(self, stack: list[str]) -> list[int]:
        """The lines of a stack that are in the file of the case, innermost first."""
        frames = [frame.rpartition(":") for frame in stack]
        here = Path(self.file).resolve()
        return [int(n) for file, _, n in frames if file and Path(file).resolve() == here]


def marks(file: str, fault: str) -> Marks:
    """The marked lines of ``fault`` in ``file``.

    Raises:
        ValueError: no line is marked as the planted one.
    """
    text = Path(file).read_text(encoding="utf-8")
    found: dict[str, list[range]] = {"planted": [], "carries": []}
    for number, line in enumerate(text.splitlines(), 1):
        mark = _MARK.search(line)
        if mark and fault in (n.strip() for n in mark[2].split(",")):
            found[mark[1]].append(_statement(text, number))
    if not found["planted"]:
        raise ValueError(f"{file}: no line carries '# planted: {fault}'")
    elsewhere = [
        (m[1], m[3]) for m in map(_ELSEWHERE.search, text.splitlines()) if m and m[2] == fault
    ]
    return Marks(file, tuple(found["planted"]), tuple(found["carries"]), tuple(elsewhere))


def file_of(program: Callable[..., object]) -> str:
    """The file that defines a function, also one with arguments bound."""
    while isinstance(program, functools.partial):
        program = program.func
    return inspect.getfile(program)


@functools.cache
def _statements(text: str) -> tuple[range, ...]:
    """Lines of every statement that has no statements in it, and of the heads of those that do."""
    out = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
            out.append(range(node.lineno, max(node.lineno, last or 0) + 1))
    return tuple(out)


def _statement(text: str, line: int) -> range:
    """The statement on a line; for a comment alone on its line, the one below."""
    if text.splitlines()[line - 1].lstrip().startswith("#"):
        below = [r for r in _statements(text) if r.start > line]
        return min(below, key=lambda r: (r.start, len(r)), default=range(line, line + 1))
    around = [r for r in _statements(text) if line in r]
    return min(around, key=len, default=range(line, line + 1))


def blame(verdict: Verdict, fault: Marks) -> bool:
    """Whether the first finding names the fault."""
    return bool(verdict.findings) and fault.blamed_by(verdict.findings[0])
