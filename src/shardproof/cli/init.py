"""``shardproof init``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from shardproof.errors import HOLE, INSTALL_TORCH, InputError
from shardproof.report.files import write_whole
from shardproof.scaffold.choose import Choice, choose
from shardproof.scaffold.facts import Seen
from shardproof.scaffold.look import look
from shardproof.scaffold.write import FUNCTION, write

_SHOWN = 4


def init(folder: str, output: str, *, force: bool) -> int:
    """Look at a repository and write a first check file; 0.

    Raises:
        InputError: there is no such folder, no Python in it, or the file is there already.
    """
    root = Path(folder).resolve()
    if not root.is_dir():
        raise InputError(
            f"there is no folder {folder}",
            where="init",
            expected="the root of a repository",
            next_step="give the path of its folder",
        )
    path = root / output
    if path.exists() and not force:
        raise InputError(
            f"{output} is there already",
            where=str(path),
            expected="a new file",
            next_step="give another name with --output, or --force to write it anew",
        )
    seen = look(root)
    if not seen.files:
        raise InputError(
            f"there is no Python file in {folder}",
            where=str(root),
            expected="the root of a repository that has the code of a model",
            next_step="give its path: shardproof init FOLDER; for printed graphs alone, write "
            "Spec.from_graphs(...)",
        )
    choice = choose(seen)
    try:
        write_whole(path, write(seen, choice).encode())
    except OSError as error:
        raise InputError(
            f"cannot write {output}: {error.strerror}",
            where=str(path),
            expected="a file in a folder that exists and can be written",
            next_step="give another name with --output",
        ) from error
    shown = os.path.relpath(path)
    sys.stdout.write("\n".join([*_found(seen, choice), "", *_next(shown, path.read_text())]) + "\n")
    return 0


def _found(seen: Seen, choice: Choice) -> Iterator[str]:
    files = "1 Python file" if seen.files == 1 else f"{seen.files} Python files"
    yield f"Looked at {files} (nothing was run)."
    if seen.unreadable:
        yield f"  not read: {', '.join(seen.shown(p) for p in seen.unreadable[:_SHOWN])}"
    if choice.model is not None:
        m = choice.model
        yield f"  model: {m.name} at {seen.shown(m.path)}:{m.line}"
    if choice.by_hand is not None:
        p = choice.by_hand
        yield f"  the model of a rank: {p.name} at {seen.shown(p.path)}:{p.line}"
    for other in choice.others:
        yield f"  another model: {other.name} at {seen.shown(other.path)}:{other.line}"
    for use in choice.how:
        inside = f" in {use.function}" if use.function else ""
        yield f"  {use.what}: {seen.shown(use.path)}:{use.line}{inside}"
    collectives = seen.of("collective")
    for use in collectives[:_SHOWN]:
        yield f"  collective: {seen.shown(use.path)}:{use.line}: {use.text[:60]}"
    if len(collectives) > _SHOWN:
        yield f"  and {len(collectives) - _SHOWN} more collectives"
    for use in seen.of("pretrained")[:1]:
        yield f"  pretrained weights: {seen.shown(use.path)}:{use.line}; build it from its config"
    for launch in seen.launches[:_SHOWN]:
        ranks = launch.ranks if launch.ranks is not None else "?"
        yield f"  launched on {ranks} ranks: {seen.shown(launch.path)}:{launch.line}"


def _next(shown: str, text: str) -> Iterator[str]:
    holes = text.count(f"{HOLE}(") - text.count(f"def {HOLE}(")
    said = "" if not holes else " with 1 hole" if holes == 1 else f" with {holes} holes"
    yield f"Wrote {shown}{said}."
    yield "Next:"
    if "from_graphs" not in text and find_spec("torch") is None:
        yield f"  {INSTALL_TORCH}"
    if holes:
        yield f"  fill in every {HOLE} in {shown}"
    yield f"  shardproof check {shown}:{FUNCTION}"
