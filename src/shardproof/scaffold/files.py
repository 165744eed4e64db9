"""The files of a repository that are worth a look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

SKIPPED = frozenset(
    """.git .hg .venv venv env node_modules build dist __pycache__ site-packages .tox .nox .eggs
    .mypy_cache .pytest_cache .ruff_cache wandb outputs""".split()
)
SCRIPTS = frozenset({".sh", ".slurm", ".sbatch", ".yml", ".yaml", ".md", ".rst", ".toml", ".txt"})
MAX_FILES = 5_000
MAX_BYTES = 1_000_000


def python_files(root: Path) -> Iterator[Path]:
    """Python files below ``root``, in order of their paths; links are not followed."""
    return (p for p in _files(root) if p.suffix == ".py")


def scripts(root: Path) -> Iterator[Path]:
    """Files that may hold launch commands."""
    return (p for p in _files(root) if p.suffix in SCRIPTS or p.name in ("Makefile", "justfile"))


def read(path: Path) -> str:
    """The text of a file; empty where it is none, or far too large."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _files(root: Path) -> Iterator[Path]:
    count = 0
    for folder, names, files in os.walk(root, followlinks=False):
        names[:] = sorted(n for n in names if n not in SKIPPED and not n.endswith(".egg-info"))
        for name in sorted(files):
            path = Path(folder) / name
            if path.is_symlink():
                continue
            count += 1
            if count > MAX_FILES:
                return
            yield path
