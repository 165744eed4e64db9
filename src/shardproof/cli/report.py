"""``--report``, ``--model-explorer`` and ``shardproof report``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from shardproof.errors import InputError

if TYPE_CHECKING:
    from shardproof.diagnose.evidence import Evidence
    from shardproof.report.run import Outcome, Run
    from shardproof.report.view import View


class Folders:
    """The folders that a run writes reports to, and what they are made from."""

    def __init__(self, report: str | None, explorer: str | None) -> None:
        self.report = _folder(report, "--report")
        self.explorer = _folder(explorer, "--model-explorer")
        self.written = False
        self._evidence: list[Evidence] = []

    @property
    def wanted(self) -> bool:
        return self.report is not None or self.explorer is not None

    def observe(self, evidence: Evidence) -> None:
        """Remember what a verdict was made from, until it is written."""
        self._evidence.append(evidence)

    def write(self, outcome: Outcome) -> None:
        """Write the report of one configuration.

        Raises:
            InputError: a folder cannot be written.
        """
        evidence = self._evidence[-1] if self._evidence else None
        self._evidence.clear()
        if not self.wanted or outcome.verdict is None:
            return
        view = self._view(outcome, evidence)
        name = folder_name(outcome.label)
        if self.report is not None:
            self._write_report(self.report / name, outcome, view)
        if self.explorer is not None and view is not None:
            from shardproof.report.model_explorer import write

            _guarded(self.explorer, "--model-explorer", lambda f: write(f / name, view))

    def finish(self, run: Run) -> None:
        """Write the table of a matrix, and say where the report is."""
        if self.report is None:
            return
        if run.matrix:
            self._write_table(self.report, run)
        if self.written:
            sys.stderr.write(f"report: {self.report / 'index.html'}\n")

    def _write_table(self, folder: Path, run: Run) -> None:
        from shardproof.report.folder import Configuration, Matrix, write_matrix
        from shardproof.report.text import counts

        lines = []
        for o in run.outcomes:
            name = folder_name(o.label) if o.verdict is not None else ""
            text = counts(o.verdict) if o.verdict is not None else ""
            lines.append(Configuration(o.label, o.status, name, o.error, o.seconds, text))
        matrix = Matrix(run.target, lines)
        _guarded(folder, "--report", lambda f: write_matrix(f, matrix))

    def _write_report(self, folder: Path, outcome: Outcome, view: View | None) -> None:
        from shardproof.report.folder import is_report, write

        verdict = outcome.verdict
        assert verdict is not None
        if verdict.interrupted and is_report(folder):
            sys.stderr.write(f"stopped: the earlier report in {folder} is left as it is\n")
            return
        _guarded(folder, "--report", lambda f: write(f, verdict, view))
        self.written = True

    @staticmethod
    def _view(outcome: Outcome, evidence: Evidence | None) -> View | None:
        if evidence is None or outcome.verdict is None:
            return None
        from shardproof.present.build import build

        try:
            return build(outcome.verdict, evidence)
        except Exception as error:  # a fault in the drawing must not take the verdict away
            from shardproof.cli.internal import describe

            sys.stderr.write(f"the report has no drawings: {describe(error)}")
            return None


def render_report(path: str) -> int:
    """Make the pages of a report again.

    Raises:
        InputError: the folder holds no report, or cannot be written.
    """
    from shardproof.report.folder import FolderError, render_again

    try:
        pages = render_again(Path(path))
    except FolderError as error:
        raise InputError(
            str(error),
            where="report",
            expected="a folder written by `shardproof check --report DIR`",
            next_step="write it again with this version",
        ) from error
    except OSError as error:
        raise _unwritable(Path(path), error, "report") from error
    sys.stdout.write("".join(f"{page}\n" for page in pages))
    return 0


def folder_name(label: str) -> str:
    """A configuration as the name of a folder: ``tp=2,dp=1``; empty for a single check."""
    return label.replace(" ", ",")


def _folder(path: str | None, option: str) -> Path | None:
    if path is None:
        return None
    folder = Path(path)
    if not path or folder.name.startswith("-") or (folder.exists() and not folder.is_dir()):
        raise InputError(
            f"cannot write to {path!r}: it is no folder",
            where=option,
            expected="a folder, which is made if there is none",
            next_step="give another path",
        )
    return folder


def _guarded(folder: Path, option: str, write: object) -> None:
    assert callable(write)
    try:
        write(folder)
    except OSError as error:
        raise _unwritable(folder, error, option) from error


def _unwritable(folder: Path, error: OSError, where: str) -> InputError:
    return InputError(
        f"cannot write to {folder}: {error.strerror or error}",
        where=where,
        expected="a folder that can be written",
        next_step="give another path",
    )
