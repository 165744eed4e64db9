"""Captured graphs that ship with the project; see ``graphs/NOTICE.txt`` for their origin."""

from __future__ import annotations

import re
from pathlib import Path

GRAPHS = Path(__file__).parent / "graphs"


def graph_files(folder: str, prefix: str = "") -> list[Path]:
    """The compressed dumps in ``folder``, one a rank, in rank order.

    Example:
        >>> [p.name for p in graph_files("gpt/tp2_layers1")]
        ['fw.g0.r0.fx.txt.xz', 'fw.g0.r1.fx.txt.xz']
    """
    found = list((GRAPHS / folder).glob(f"{prefix}*.xz"))
    if not found:
        raise FileNotFoundError(f"no packaged graphs in {folder!r}")
    return sorted(found, key=_rank)


def _rank(path: Path) -> int:
    match = re.search(r"\.r(\d+)\.", path.name)
    return int(match.group(1)) if match else 0
