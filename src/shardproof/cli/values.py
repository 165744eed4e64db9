"""Two tensors side by side, with the elements marked in which they differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardproof.replay.again import OutputValue

ROWS, COLUMNS = 6, 5


def side_by_side(value: OutputValue, tolerance: float) -> list[str]:
    """A cut through the element that differs most, along the last two dims: what it should be,
    what it is. ``*`` marks elements that differ, ``>`` the one that differs most."""
    want, got = value.expected, value.found
    if want.shape != got.shape:
        return [f"sequential: shape {list(want.shape)}; rank {value.rank}: {list(got.shape)}"]
    if not want.size:
        return [f"rank {value.rank}: no elements"]
    error = _errors(want, got)
    at = tuple(int(k) for k in np.unravel_index(int(np.argmax(error)), want.shape))
    rows, columns, index = _cut(want.shape, at)
    marks = np.where(error > tolerance, "*", " ").astype("<U1")
    if error[at] > tolerance:
        marks[at] = ">"
    cut: Any = (*at[:-2], ...) if want.ndim >= 2 else ...
    a, b, m = (np.atleast_2d(x[cut])[rows, columns] for x in (want, got, marks))
    left = [[_number(x) for x in row] for row in a]
    right = [[s + _number(x) for s, x in zip(ms, row, strict=True)]
             for ms, row in zip(m, b, strict=True)]  # fmt: skip
    out = [f"{'sequential' + index:{_width(left)}}   |  rank {value.rank}{index}"]
    for x, y in zip(_aligned(left), _aligned(right), strict=True):
        out.append(f"{x}   | {y}".rstrip())
    many = int(np.count_nonzero(error > tolerance))
    out.append(f"{many} of {want.size} elements differ" + (
        f", most of all [{', '.join(map(str, at))}]: {_number(want[at])} and {_number(got[at])}"
        if many and want.ndim else ""))  # fmt: skip
    return out


def _errors(want: Any, got: Any) -> Any:
    """Difference of every element relative to the larger of the two tensors; infinite where only
    one is a number."""
    with np.errstate(all="ignore"):
        finite = [np.abs(x[np.isfinite(x)]) for x in (want, got)]
        scale = max([float(x.max()) for x in finite if x.size] + [1e-300])
        error = np.abs(got.astype(want.dtype) - want) / scale if want.dtype.kind != "b" else (
            (got != want).astype(float))  # fmt: skip
    error = np.where(np.isnan(want), 0.0, np.where(np.isnan(error), np.inf, error))
    return np.where(got == want, 0.0, error)


def _cut(shape: tuple[int, ...], at: tuple[int, ...]) -> tuple[slice, slice, str]:
    """The window of a cut, and how it is written."""
    last = (1, 1, *shape)[-2:]
    where = (0, 0, *at)[-2:]
    spans = []
    for n, k, most in zip(last, where, (ROWS, COLUMNS), strict=True):
        start = max(0, min(k - most // 2, n - most))
        spans.append((start, min(n, start + most)))
    text = [*map(str, at[:-2]), *(f"{a}:{b}" for a, b in spans)][-max(len(shape), 0) or 99 :]
    index = f"[{', '.join(text)}]" if shape else ""
    return slice(*spans[0]), slice(*spans[1]), index


def _number(x: Any) -> str:
    if isinstance(x, np.complexfloating):
        return f"{x:.4g}"
    return f"{float(x):.6g}" if x.dtype.kind == "f" else str(x.item())


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(x.rjust(w) for x, w in zip(row, widths, strict=True)) for row in rows]
    return [line.ljust(_width(rows)) for line in lines]


def _width(rows: list[list[str]]) -> int:
    return max(sum(max(len(row[k]) for row in rows) + 2 for k in range(len(rows[0]))), 24)
