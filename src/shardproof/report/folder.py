"""A report as a folder: ``report.json`` (the verdict), ``view.json`` (what is drawn beside it) and
``index.html``, which is made from these two and can be made again.

The report of a matrix has a folder for every configuration, ``matrix.json``, which lists them, and
an ``index.html`` with the table.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from shardproof.report import json as verdicts
from shardproof.report import view as views
from shardproof.report.diagnostic import Verdict
from shardproof.report.files import write_whole
from shardproof.report.html.page import render, render_matrix
from shardproof.report.view import View

VERDICT, VIEW, PAGE, MATRIX = "report.json", "view.json", "index.html", "matrix.json"
MATRIX_SCHEMA = "shardproof-matrix/1"


class FolderError(ValueError):
    """A folder that holds no report, or one that cannot be read."""


class Configuration(msgspec.Struct):
    """One line of a matrix; ``folder`` is empty where ``error`` prevented a verdict."""

    label: str
    status: str
    folder: str = ""
    error: str = ""
    seconds: float = 0.0
    counts: str = ""


class Matrix(msgspec.Struct):
    """The configurations of one run."""

    target: str
    configurations: list[Configuration]
    schema: str = MATRIX_SCHEMA


def is_report(folder: Path) -> bool:
    """Whether a folder holds a report."""
    return (folder / VERDICT).is_file() or (folder / MATRIX).is_file()


def write(folder: Path, verdict: Verdict, view: View | None) -> None:
    """Write the report of one check. Everything is made before the first file is replaced, so
    that a failure leaves an earlier report as it was.

    Raises:
        OSError: the folder cannot be written.
    """
    page = render(verdict, view).encode()
    data = verdicts.to_json(verdict)
    drawn = views.to_json(view) if view is not None else None
    folder.mkdir(parents=True, exist_ok=True)
    if drawn is not None:
        write_whole(folder / VIEW, drawn)
    else:
        (folder / VIEW).unlink(missing_ok=True)
    write_whole(folder / VERDICT, data)
    write_whole(folder / PAGE, page)


def write_matrix(folder: Path, matrix: Matrix) -> None:
    """Write the table of a run over configurations.

    Raises:
        OSError: the folder cannot be written.
    """
    page = render_matrix(matrix.target, matrix.configurations).encode()
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / MATRIX, msgspec.json.encode(matrix) + b"\n")
    write_whole(folder / PAGE, page)


def render_again(folder: Path) -> list[Path]:
    """Make the pages of a report again from its JSON files; the pages made.

    Raises:
        FolderError: there is no report, or it is of another version.
        OSError: the folder cannot be read or written.
    """
    if not is_report(folder):
        raise FolderError(f"{folder} holds no {VERDICT}")
    pages = []
    if (folder / VERDICT).is_file():
        pages.append(_one(folder))
    if (folder / MATRIX).is_file():
        matrix = _matrix(folder / MATRIX)
        inside = [folder / c.folder for c in matrix.configurations if _is_name(c.folder)]
        pages += [_one(f) for f in inside if (f / VERDICT).is_file()]
        write_whole(folder / PAGE, render_matrix(matrix.target, matrix.configurations).encode())
        pages.append(folder / PAGE)
    return pages


def read(folder: Path) -> tuple[Verdict, View | None]:
    """The verdict and the view of a report.

    Raises:
        FolderError: one of them cannot be understood.
        OSError: the folder cannot be read.
    """
    try:
        verdict = verdicts.from_json((folder / VERDICT).read_bytes())
        path = folder / VIEW
        return verdict, views.from_json(path.read_bytes()) if path.is_file() else None
    except (verdicts.ReportError, views.ViewError) as error:
        raise FolderError(str(error)) from error


def _one(folder: Path) -> Path:
    verdict, view = read(folder)
    try:
        page = render(verdict, view)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        # Numbers of rows and texts lead nowhere: the file was changed.
        raise FolderError(f"{VIEW} does not fit together: {error}") from error
    write_whole(folder / PAGE, page.encode())
    return folder / PAGE


def _matrix(path: Path) -> Matrix:
    try:
        matrix = msgspec.json.decode(path.read_bytes(), type=Matrix)
    except msgspec.DecodeError as error:
        raise FolderError(f"not a matrix: {error}") from error
    if matrix.schema != MATRIX_SCHEMA:
        raise FolderError(f"schema {matrix.schema!r}, expected {MATRIX_SCHEMA!r}")
    return matrix


def _is_name(text: str) -> bool:
    """Whether a folder lies inside: a name alone, not a path to elsewhere."""
    return bool(text) and Path(text).name == text and text != ".."
