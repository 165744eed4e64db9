"""Where a finding is shown in a repository: paths relative to its root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from shardproof.report.diagnostic import Finding, Span


@dataclass(frozen=True, slots=True)
class Place:
    """A file of the repository, with forward slashes, and a line of at least 1."""

    path: str
    line: int


class Places:
    """Resolves spans against a repository.

    ``root`` is its folder; ``file`` and ``line`` are the check function's, which stands in where
    a finding has no line inside the repository (code of a library, or of a captured program).
    """

    def __init__(self, root: Path, file: str, line: int) -> None:
        self.root = root.resolve()
        self.check = Place(self.relative(file) or Path(file).name or ".", max(line, 1))

    def of(self, finding: Finding) -> Place:
        """Where the finding is shown."""
        for span in (finding.primary, finding.secondary):
            found = self.span(span)
            if found is not None:
                return found
        return self.check

    def span(self, span: Span | None) -> Place | None:
        """The place of a span, None where it is not a line of a file in the repository."""
        if span is None or span.line < 1:
            return None
        path = self.relative(span.file)
        return Place(path, span.line) if path else None

    def relative(self, file: str) -> str:
        """The path from the root; empty for what is not a file below it. What is written relative
        is looked for in the working directory, then in the root."""
        if not file or "\0" in file:
            return ""
        for start in (Path.cwd(), self.root):
            try:
                path = (start / file).resolve()
                if path.is_file():
                    return path.relative_to(self.root).as_posix()
            except (ValueError, OSError):
                continue
        return ""


def repository_root(start: Path, environment: dict[str, str] | None = None) -> Path:
    """The workspace of a GitHub run, else the nearest folder with ``.git``, else ``start``."""
    given = (os.environ if environment is None else environment).get("GITHUB_WORKSPACE")
    if given and Path(given).is_dir():
        return Path(given)
    start = start.resolve()
    return next((p for p in (start, *start.parents) if (p / ".git").exists()), start)
