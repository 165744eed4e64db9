"""Where the report of a run goes: standard output, files of several formats, a GitHub run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardproof.errors import InputError, shorten
from shardproof.report import matrix
from shardproof.report.files import write_whole
from shardproof.report.places import Places, repository_root
from shardproof.report.run import Run

STDOUT = "-"


def _json(run: Run, places: Places) -> bytes:
    from shardproof.report.json import run_to_json

    return run_to_json(run)


def _sarif(run: Run, places: Places) -> bytes:
    from shardproof.report.sarif import to_sarif

    return to_sarif(run, places)


def _junit(run: Run, places: Places) -> bytes:
    from shardproof.report.junit import to_junit

    return to_junit(run)


def _markdown(run: Run, places: Places) -> bytes:
    from shardproof.report.markdown import to_markdown

    return to_markdown(run, places)


def _text(run: Run, places: Places) -> bytes:
    return matrix.plain(run).encode()


FORMATS: dict[str, Callable[[Run, Places], bytes]] = {
    "json": _json, "junit": _junit, "markdown": _markdown, "sarif": _sarif, "text": _text,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Destination:
    """A format and the file it is written to, ``-`` for standard output."""

    format: str
    path: str
    option: str

    @property
    def to_stdout(self) -> bool:
        return self.path == STDOUT


def destinations(outputs: Sequence[str], json: str | None) -> list[Destination]:
    """What ``--output FORMAT=FILE`` and ``--json FILE`` ask for.

    Raises:
        InputError: a format is unknown, a file cannot be written, or two go to standard output.
    """
    found = [_parse(given) for given in outputs]
    if json is not None:
        found.append(Destination("json", json, "--json"))
    for d in found:
        if not d.to_stdout:
            check_writable(Path(d.path), d.option)
    if sum(d.to_stdout for d in found) > 1:
        raise InputError(
            "two formats go to standard output",
            where="--output",
            expected="at most one FORMAT=-",
            next_step="write one of them to a file",
        )
    return found


def _parse(given: str) -> Destination:
    form, sign, path = given.partition("=")
    if sign and path and form in FORMATS:
        return Destination(form, path, f"--output {form}=")
    raise InputError(
        f"{shorten(given)!r} is no output",
        where="--output",
        expected=f"FORMAT=FILE with a format of {', '.join(FORMATS)}",
        next_step="write for example --output sarif=shardproof.sarif",
    )


def on_github(asked: bool | None) -> bool:
    """Whether to annotate: as asked, by default in a GitHub run."""
    return os.environ.get("GITHUB_ACTIONS") == "true" if asked is None else asked


def report(run: Run, to: Sequence[Destination], *, full: bool, github: bool) -> None:
    """Print the run, unless a format goes to standard output, and write every file. A reader of
    standard output that goes away ends the printing, not the report.

    Raises:
        InputError: a file cannot be written.
    """
    places = Places(repository_root(Path.cwd()), run.file, run.line)
    try:
        first = next((d for d in to if d.to_stdout), None)
        if first is None:
            matrix.write(run, sys.stdout, full=full)
        else:
            sys.stdout.write(FORMATS[first.format](run, places).decode())
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    write_files(run, to, places)
    if github:
        tell_github(run, places)


def report_error(error: InputError, run: Run, to: Sequence[Destination], github: bool) -> None:
    """Tell the formats that can hold it, and GitHub, why there is no verdict."""
    places = Places(repository_root(Path.cwd()), run.file, run.line)
    write_files(run, [d for d in to if d.format not in ("json", "text")], places)
    if github:
        tell_github(run, places)


def write_files(run: Run, to: Sequence[Destination], places: Places) -> None:
    """Write every destination that is a file."""
    for d in to:
        if not d.to_stdout:
            try:
                write_whole(Path(d.path), FORMATS[d.format](run, places))
            except OSError as error:
                raise _unwritable(Path(d.path), error.strerror or str(error), d.option) from error


def tell_github(run: Run, places: Places) -> None:
    """Annotations on standard error, and the summary of the step if the run has one."""
    from shardproof.report.github import commands, summary

    sys.stderr.write("".join(f"{line}\n" for line in commands(run, places)))
    sys.stderr.flush()
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if path:
        with open(path, "ab") as file:
            file.write(summary(run, places))


def silence_stdout() -> None:
    """After the reader of a pipe went away: what is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_writable(path: Path, option: str) -> None:
    """Refuse a path before the work rather than after it.

    Raises:
        InputError: it is a folder, its folder does not exist, or it looks like an option.
    """
    if path.name.startswith("-"):
        raise _unwritable(path, "it looks like an option", option)
    if path.is_dir():
        raise _unwritable(path, "it is a folder", option)
    if not path.parent.is_dir():
        raise _unwritable(path, "its folder does not exist", option)


def _unwritable(path: Path, reason: str, option: str) -> InputError:
    return InputError(
        f"cannot write {path.name}: {reason}",
        where=f"{option} {path}".replace("= ", "="),
        expected="a file in a folder that exists and can be written",
        next_step="make the folder, or give another path",
    )
