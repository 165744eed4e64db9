"""Keeps verdicts by the content of the question, so that an unchanged one is not decided again.

The key is a digest of everything that a verdict depends on: the resolved problem (every graph,
attribute, constant, relation, obligation and source line), the inputs held fixed, the options, and
the sources of this tool. A question that cannot be digested whole, or in which operators take part
that the user declared in code, is decided anew. Failures of the tool are never kept.

An entry is trusted as far as its file is: who can write the folder can write verdicts.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from shardproof import __version__
from shardproof.ir.content import NoContent, digest
from shardproof.report.diagnostic import Verdict
from shardproof.report.files import write_whole
from shardproof.report.json import ReportError, from_json, to_json
from shardproof.spec.problem import Problem

SCHEMA = "shardproof-cache/1"
DEFAULT = ".shardproof_cache"
_IGNORE = b"# Made by shardproof.\n*\n"


class Entry(msgspec.Struct):
    """One kept verdict: its key, the report, and the digest of both."""

    schema: str
    key: str
    report: str
    check: str


class Cache:
    """Verdicts in ``folder``; in this process only where it is None."""

    def __init__(self, folder: Path | None, note: Callable[[str], object] | None = None) -> None:
        self.folder = folder
        self.note = note or _to_stderr
        self._memory: dict[str, Verdict] = {}

    def verdict(
        self,
        problem: Problem,
        fixed: dict[str, float],
        options: Any,
        decide: Callable[[], Verdict],
    ) -> Verdict:
        """The kept verdict on ``problem``, marked as such, else that of ``decide``."""
        key = key_of(problem, fixed, options)
        if key is None:
            return decide()
        kept = self._memory.get(key) or self._read(key)
        if kept is not None:
            verdict = from_json(to_json(kept))  # a copy: the caller may change it
            verdict.cached, verdict.seconds = True, {}
            return verdict
        verdict = decide()
        if _may_be_kept(verdict):
            self._memory[key] = from_json(to_json(verdict))
            self._write(key, verdict)
        return verdict

    def _path(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Verdict | None:
        path = self._path(key)
        if path is None or not path.is_file():
            return None
        try:
            entry = msgspec.json.decode(path.read_bytes(), type=Entry)
            whole = (SCHEMA, key, _check(key, entry.report))
            if (entry.schema, entry.key, entry.check) != whole:
                raise ReportError("its parts do not belong together")
            verdict = from_json(entry.report.encode())
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            self.note(f"note: the cache entry {path} is ignored: {error}")
            return None
        return verdict if _may_be_kept(verdict) else None

    def _write(self, key: str, verdict: Verdict) -> None:
        path = self._path(key)
        if path is None or self.folder is None:
            return
        report = to_json(verdict).decode()
        entry = Entry(SCHEMA, key, report, _check(key, report))
        new = not self.folder.exists()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            ignore = self.folder / ".gitignore"
            if not ignore.exists():
                write_whole(ignore, _IGNORE)
            write_whole(path, msgspec.json.encode(entry))
            if new:
                self.note(
                    f"note: verdicts are kept in {self.folder}, which git ignores; "
                    "--no-cache keeps none"
                )
        except OSError as error:
            self.note(f"note: the verdict was not kept in {self.folder}: {error.strerror}")
            self.folder = None


def key_of(problem: Problem, fixed: dict[str, float], options: Any) -> str | None:
    """The digest of everything that a verdict depends on; None where it cannot be told."""
    from shardproof import ops
    from shardproof.ops.base import known

    if known().keys() - ops.BUILT_IN:
        return None
    try:
        return digest(SCHEMA, tool(), problem, fixed, options)
    except NoContent:
        return None


@cache
def tool() -> str:
    """A digest of this tool: its version and sources, and what it computes with."""
    import numpy as np

    root = Path(__file__).parents[1]
    found = hashlib.blake2b(digest_size=32)
    for part in (__version__, platform.python_version(), np.__version__):
        found.update(f"{part}\n".encode())
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(data)}\n".encode())
        found.update(data)
    return found.hexdigest()


def _may_be_kept(verdict: Verdict) -> bool:
    """Whether a verdict is one: not partial, and no failure of the tool."""
    failed = any(f.code.startswith("SP9") for f in verdict.findings)
    return not verdict.interrupted and not failed


def _check(key: str, report: str) -> str:
    return hashlib.blake2b(f"{key}\n{report}".encode(), digest_size=16).hexdigest()


def _to_stderr(text: str) -> None:
    wiped = "\r\x1b[K" if sys.stderr.isatty() else ""  # the line that shows the stage
    sys.stderr.write(f"{wiped}{text}\n")
