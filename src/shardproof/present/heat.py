"""The counterexample as tensors: the worst output on the ranks, cut to what can be shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from shardproof.diagnose.evidence import Evidence
from shardproof.ops.base import Array
from shardproof.replay.again import output_values
from shardproof.replay.errors import NotReplayable, ReplayFault
from shardproof.report.view import Heat

EDGE = 16
RANKS = 2


def heats(evidence: Evidence) -> list[Heat]:
    """The cuts of the output on which the counterexample was found, of the ranks that differ
    first; none where there is no counterexample or its run stopped."""
    witness = evidence.witness
    if witness is None or witness.resized is None or witness.counterexample is None:
        return []
    if witness.fault:
        return []
    try:
        values = output_values(witness.resized, witness.counterexample.seed, evidence.fixed,
                               witness.counterexample.output)  # fmt: skip
    except (ReplayFault, NotReplayable):
        return []
    bad = witness.counterexample.ranks
    values.sort(key=lambda v: (v.rank not in bad, v.rank))
    shown = [v for v in values[:RANKS] if v.expected.shape == v.found.shape]
    return [_heat(v.rank, v.expected, v.found) for v in shown]


def _heat(rank: int, want: Array, got: Array) -> Heat:
    """A cut through the worst element along the last two dims."""
    want, got = _real(want), _real(got)
    shape = want.shape
    flat = np.abs(got - want)
    flat = np.where(np.isfinite(flat), flat, np.inf)
    worst = np.unravel_index(int(np.argmax(flat)), shape) if flat.size else (0,) * len(shape)
    index = tuple(int(k) for k in worst)
    two: Any = (*index[:-2], ...) if len(shape) >= 2 else ...
    a, b = np.atleast_2d(want[two]), np.atleast_2d(got[two])
    at = ((0, 0), (0, index[-1] if index else 0), index[-2:])[min(len(shape), 2)]
    top, left = (_corner(at[0], a.shape[0]), _corner(at[1], a.shape[1]))
    cut = (slice(top, top + EDGE), slice(left, left + EDGE))
    return Heat(
        rank=f"rank {rank}",
        axes=_axes(index, len(shape)),
        corner=[top, left],
        worst=[at[0] - top, at[1] - left],
        expected=_rows(a[cut]),
        found=_rows(b[cut]),
    )


def _corner(at: int, size: int) -> int:
    return max(0, min(at - EDGE // 2, size - EDGE))


def _axes(index: tuple[int, ...], dims: int) -> str:
    """Which slice is shown, such as ``[3, :, :]``."""
    if dims == 0:
        return ""
    shown = [*map(str, index[:-2]), ":", ":"] if dims >= 2 else [":"]
    return f"[{', '.join(shown)}]"


def _real(x: Array) -> Any:
    return (np.real(x) if x.dtype.kind == "c" else x).astype(np.float64)


def _rows(x: Any) -> list[list[float | None]]:
    return [[float(v) if math.isfinite(v) else None for v in row] for row in x]
