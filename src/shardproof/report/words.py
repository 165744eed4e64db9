"""Words that several renderers use."""

from __future__ import annotations

OF_ITSELF = (
    "no collective and nothing sharded: every rank does the whole work, so that this may compare "
    "the program with itself"
)
"""The note on a proof that may be about nothing."""


def ranges(ranks: list[int]) -> str:
    """``0-3, 7`` for ``[0, 1, 2, 3, 7]``."""
    parts: list[list[int]] = []
    for r in sorted(set(ranks)):
        if parts and parts[-1][-1] == r - 1:
            parts[-1].append(r)
        else:
            parts.append([r])
    return ", ".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
