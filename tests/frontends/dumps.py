"""The published dumps with the facts that are not in them: those that ship with the project, and
all of them where the variable SHARDPROOF_GRAPHS names their folder."""

from __future__ import annotations

import lzma
import os
from pathlib import Path
from typing import Any

from tests.frontends.dump_kernels import KERNELS

from shardproof.data import GRAPHS
from shardproof.frontends.import_fx import ImportResult, import_fx

_MORE = os.environ.get("SHARDPROOF_GRAPHS")
FILES = sorted(GRAPHS.rglob("*.fx.txt.xz")) + sorted(Path(_MORE).rglob("*.fx.txt") if _MORE else ())
CONSTANTS = {"_tensor_constant*": 0}


def name(path: Path) -> str:
    """Folder and file, as a test name."""
    return "/".join(path.parts[-3:])


def text_of(path: Path) -> str:
    """The text of a dump, compressed or not."""
    raw = path.read_bytes()
    return (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode()


def packaged(folder: str, rank: int = 0, graph: str = "fw") -> Path:
    """One dump that ships with the project."""
    return GRAPHS / folder / f"{graph}.g0.r{rank}.fx.txt.xz"


def rank_of(path: Path) -> int:
    """The rank that a file name holds: ``fw.g0.r3.fx.txt``."""
    return int(path.name.split(".r")[1].split(".")[0])


def groups(path: Path) -> dict[str, Any]:
    """Ranks of the groups that this file names."""
    text = str(path)
    world = 8 if "tp8" in text else 1 if "tp1" in text or "sequential" in text else 2
    everyone = tuple(range(world))
    alone = [(r,) for r in everyone]
    return {"12": everyone, "42": everyone, "tp:0": everyone, "7": alone, "1": alone, "3": alone}


def load(path: Path, **options: Any) -> ImportResult:
    """Import one dump with all its facts."""
    facts: dict[str, Any] = {
        "rank": rank_of(path),
        "groups": groups(path),
        "constants": CONSTANTS,
        "kernels": KERNELS,
    }
    return import_fx(text_of(path), **{**facts, **options})
