"""``shardproof check``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from shardproof.cli.target import load_target
from shardproof.errors import InputError
from shardproof.report import text
from shardproof.report.diagnostic import Verdict
from shardproof.report.files import write_whole
from shardproof.report.json import to_json
from shardproof.report.progress import progress


def check_target(
    target: str, *, json: str | None, full: bool, replay: bool, for_all: str | None = None,
    certificate: str | None = None,
) -> int:  # fmt: skip
    """Check, report, and return the exit code of the verdict."""
    if json is not None and json != "-":
        _check_writable(Path(json))
    if certificate is not None:
        _check_writable(Path(certificate), "--certificate")
    keep = None if certificate is None else partial(write_whole, Path(certificate))
    spec = load_target(target)
    with progress(sys.stderr) as show:
        verdict = spec.check(replay=replay, for_all=for_all, certificate=keep, progress=show)
    report(verdict, json=json, full=full)
    return verdict.exit_code


def report(verdict: Verdict, *, json: str | None, full: bool) -> None:
    """Print the verdict as text, or as JSON where ``json`` is ``-``; write a JSON file else."""
    if json == "-":
        sys.stdout.write(to_json(verdict).decode())
        return
    text.write(verdict, sys.stdout, full=full)
    if json is not None:
        try:
            write_whole(Path(json), to_json(verdict))
        except OSError as error:
            raise _unwritable(Path(json), error.strerror or str(error)) from error


def _check_writable(path: Path, option: str = "--json") -> None:
    if path.name.startswith("-"):
        raise _unwritable(path, "it looks like an option", option)
    if path.is_dir():
        raise _unwritable(path, "it is a folder", option)
    if not path.parent.is_dir():
        raise _unwritable(path, "its folder does not exist", option)


def _unwritable(path: Path, reason: str, option: str = "--json") -> InputError:
    return InputError(
        f"cannot write {path.name}: {reason}",
        where=f"{option} {path}",
        expected="a file in a folder that exists and can be written",
        next_step="make the folder, or give another path",
    )
