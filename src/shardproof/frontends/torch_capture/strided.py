"""Where the elements of a view lie in its storage, as reshapes, slices and permutations.

A tensor is a window on a storage: shape, strides and offset. After a write to the storage every
other window on it shows new data; :func:`plan` says how to cut a window out of the flat storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod


@dataclass(frozen=True, slots=True)
class Geometry:
    """A window on a storage, counted in elements."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0

    @property
    def numel(self) -> int:
        """Number of elements, repeated ones counted."""
        return prod(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""
        expected = 1
        for n, s in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if n != 1 and s != expected:
                return False
            expected *= n
        return True

    def covers(self, total: int) -> bool:
        """Whether each of the ``total`` elements of the storage is in the window once."""
        if self.offset or self.numel != total:
            return False
        dims = sorted((s, n) for n, s in zip(self.shape, self.stride, strict=True) if n != 1)
        expected = 1
        for s, n in dims:
            if s != expected:
                return False
            expected *= n
        return True


class NoPlan(Exception):
    """A window that cannot be cut out by slices."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Cut ``flat[start:stop]``, viewed in shape ``digits``, at ``ranges``; then the kept part has
    the dims ``ordered`` (those of the window by falling stride, unit and repeated ones left
    out), and ``perm`` puts them in the window's order ``kept``."""

    start: int
    stop: int
    digits: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    ordered: tuple[int, ...]
    perm: tuple[int, ...]
    kept: tuple[int, ...]
    single: tuple[int, ...]
    """The window's shape with repeated dims (stride 0) of extent 1."""


def plan(window: Geometry, total: int) -> Plan:
    """How to cut ``window`` out of a flat storage of ``total`` elements.

    Raises:
        NoPlan: its strides are no mixed radix of each other, or it leaves the storage.
    """
    dims = [
        (s, n, k)
        for k, (n, s) in enumerate(zip(window.shape, window.stride, strict=True))
        if n != 1 and s != 0
    ]
    single = tuple(1 if s == 0 else n for n, s in zip(window.shape, window.stride, strict=True))
    by_stride = sorted(dims, key=lambda d: -d[0])
    merged: list[tuple[int, int]] = []
    for s, n, _ in by_stride:
        if merged and merged[-1][1] == n * s:
            merged[-1] = (merged[-1][0] * n, s)
        else:
            merged.append((n, s))
    start, stop, digits, ranges = _digits(merged or [(1, 1)], window.offset, total)
    order = [k for _, _, k in by_stride]
    axes = sorted(order)
    return Plan(
        start,
        stop,
        digits,
        ranges,
        tuple(n for _, n, _ in by_stride),
        tuple(order.index(k) for k in axes),
        tuple(window.shape[k] for k in axes),
        single,
    )


def _digits(
    merged: list[tuple[int, int]], offset: int, total: int
) -> tuple[int, int, tuple[int, ...], tuple[tuple[int, int], ...]]:
    top = merged[0][1]
    start, stop = 0, total - total % top
    last = offset + sum((n - 1) * s for n, s in merged)
    if last >= stop:
        start, stop = offset, offset + merged[0][0] * top
    if last >= stop or stop > total:
        raise NoPlan("it reaches beyond the last full row of its storage")
    weights = [s for _, s in merged]
    counts = [n for n, _ in merged]
    if weights[-1] > 1:
        weights.append(1)
        counts.append(1)
    digits, ranges = [], []
    above, rest = stop - start, offset - start
    for n, w in zip(counts, weights, strict=True):
        if above % w:
            raise NoPlan("its strides do not divide each other")
        digits.append(above // w)
        at, rest = divmod(rest, w)
        if at + n > digits[-1]:
            raise NoPlan("its rows overlap")
        ranges.append((at, at + n))
        above = w
    return start, stop, tuple(digits), tuple(ranges)
