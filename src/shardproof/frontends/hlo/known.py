"""Tensors whose elements are known at import: constants, positions, arithmetic on the rank.

An SPMD module computes offsets from ``partition-id``. On one rank they are numbers, and the graph
of that rank holds them as attributes, so that the ranks differ in attributes only. A known tensor
is affine in its index, ``base + sum_k strides[k] * i_k``, or a small table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, nan
from typing import Any

import numpy as np

from shardproof.ir.graph import is_bool, is_float, is_integer
from shardproof.ops.numbers import exact

Number = int | Fraction | float
MAX_TABLE = 1 << 16
"""A table of more elements than this is not computed with."""
_BITS = {f"{kind}{bits}": bits for kind in "iu" for bits in (8, 16, 32, 64)}


@dataclass(frozen=True, slots=True)
class Known:
    """``base + sum_k strides[k] * i_k``; a stride is 0 along dims of extent 0 or 1. With
    ``table`` set, the elements are those of the table."""

    dtype: str
    shape: tuple[int, ...]
    base: Number = 0
    strides: tuple[Number, ...] = ()
    table: np.ndarray[Any, np.dtype[Any]] | None = None

    @property
    def number(self) -> Number | None:
        """The one value of all elements, if there is one."""
        return self.base if self.table is None and not any(self.strides) else None

    @property
    def count(self) -> int:
        out = 1
        for n in self.shape:
            out *= n
        return out

    def dense(self) -> np.ndarray[Any, np.dtype[Any]] | None:
        """All elements (of Python numbers), unless there are too many."""
        if self.table is not None:
            return self.table
        if self.count > MAX_TABLE:
            return None
        out = np.full(self.shape, self.base, dtype=object)
        for k, stride in enumerate(self.strides):
            if stride:
                step = np.array([i * stride for i in range(self.shape[k])], dtype=object)
                out = out + step.reshape([-1 if j == k else 1 for j in range(len(self.shape))])
        return out


def filled(dtype: str, shape: Sequence[int], value: Number) -> Known:
    """All elements are ``value``."""
    return Known(dtype, tuple(shape), value, (0,) * len(shape))


def scalar(dtype: str, value: Number) -> Known:
    """A number."""
    return Known(dtype, (), value)


def iota(dtype: str, shape: Sequence[int], dim: int) -> Known:
    """The index along ``dim``."""
    strides = tuple(int(k == dim and n > 1) for k, n in enumerate(shape))
    return Known(dtype, tuple(shape), 0, strides)


def from_table(dtype: str, table: np.ndarray[Any, np.dtype[Any]]) -> Known:
    """A table, as an affine tensor where it is one."""
    shape = tuple(table.shape)
    if not table.size:
        return filled(dtype, shape, 0)
    base = table[(0,) * table.ndim]
    if base == base and abs(base) != inf:
        strides = tuple(
            table[tuple(int(j == k) for j in range(table.ndim))] - base if n > 1 else 0
            for k, n in enumerate(shape)
        )
        affine = Known(dtype, shape, base, strides)
        whole = is_integer(dtype) or not any(strides)
        if whole and all(s == s and abs(s) != inf for s in strides):
            spread = affine.dense()
            if spread is not None and bool((spread == table).all()):
                return affine
    elif bool((table == base).all()):
        return filled(dtype, shape, base)
    return Known(dtype, shape, table=table)


def read_number(text: str, dtype: str) -> Number:
    """A number of a literal.

    Raises:
        ValueError: it is none.
    """
    word = text.strip()
    if word in ("true", "false"):
        return int(word == "true")
    if is_bool(dtype) or is_integer(dtype):
        return int(word)
    value = float(word)
    if value != value:
        return nan
    return _fraction(value, dtype) if isfinite(value) else value


def _fraction(value: float, dtype: str) -> Fraction:
    """The number that a printed constant stands for. A printer rounds to the element type: a
    fraction with a small denominator that rounds to the same value is what was meant, as 1/3 by
    0.333333343."""
    found, _ = exact(value)
    if dtype not in _DENOMINATORS:
        return found
    bits, most = _DENOMINATORS[dtype]
    near = found.limit_denominator(most)
    return near if near and abs(near - found) <= abs(found) / 2**bits else found


# Bits of the significand, and denominators small enough that few other numbers come near.
_DENOMINATORS = {"f32": (24, 512), "f16": (11, 16), "bf16": (8, 8)}


# ---------------------------------------------------------------- rearrangements


def broadcast(x: Known, shape: tuple[int, ...], dims: tuple[int, ...]) -> Known | None:
    """Dim k of ``x`` becomes dim ``dims[k]`` of the result; the others repeat."""
    if x.table is None:
        strides: list[Number] = [0] * len(shape)
        for k, d in enumerate(dims):
            strides[d] = x.strides[k]
        return Known(x.dtype, shape, x.base, tuple(strides))
    if int(np.prod(shape)) > MAX_TABLE:
        return None
    order = np.transpose(x.table, np.argsort(dims)) if dims else x.table
    spread = order.reshape([n if k in dims else 1 for k, n in enumerate(shape)])
    return from_table(x.dtype, np.array(np.broadcast_to(spread, shape)))


def reshape(x: Known, shape: tuple[int, ...]) -> Known | None:
    """The same elements in another shape."""
    if x.number is not None:
        return filled(x.dtype, shape, x.base)
    wide = [(n, s) for n, s in zip(x.shape, x.strides, strict=False) if n != 1]
    if x.table is None and [n for n, _ in wide] == [n for n in shape if n != 1]:
        rest = iter([s for _, s in wide])
        return Known(x.dtype, shape, x.base, tuple(0 if n == 1 else next(rest) for n in shape))
    dense = x.dense()
    return None if dense is None else from_table(x.dtype, dense.reshape(shape))


def transpose(x: Known, perm: tuple[int, ...]) -> Known:
    """Dim k of the result is dim ``perm[k]`` of ``x``."""
    shape = tuple(x.shape[p] for p in perm)
    if x.table is None:
        return Known(x.dtype, shape, x.base, tuple(x.strides[p] for p in perm))
    return from_table(x.dtype, np.transpose(x.table, perm))


def cut(x: Known, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Known:
    """A strided box of ``x``."""
    shape = tuple(sizes)
    if x.table is None:
        base = x.base + sum(s * a for s, a in zip(x.strides, starts, strict=True) if s)
        strides = tuple(
            s * t if n > 1 else 0 for s, t, n in zip(x.strides, steps, shape, strict=True)
        )
        return Known(x.dtype, shape, base, strides)
    box = tuple(slice(a, a + n * t, t) for a, n, t in zip(starts, shape, steps, strict=True))
    return from_table(x.dtype, x.table[box])


def convert(x: Known, dtype: str) -> Known | None:
    """``x`` as another element type."""
    if is_integer(dtype) and is_integer(x.dtype) and x.table is None and any(x.strides):
        # Positions: the first and the last element tell whether any changes.
        ends = (x.base, x.base + sum((n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)))
        if all(e == _as(e, dtype) for e in ends) and min(ends) == min(_corners(x)):
            return Known(dtype, x.shape, x.base, x.strides)
    if is_float(dtype) and is_integer(x.dtype) and x.table is None:
        return Known(dtype, x.shape, x.base, x.strides)
    return elementwise(lambda v: _as(v, dtype), dtype, [x])


def _corners(x: Known) -> tuple[Number, Number]:
    spans = [(n - 1) * s for n, s in zip(x.shape, x.strides, strict=True)]
    return (x.base + sum(s for s in spans if s < 0), x.base + sum(s for s in spans if s > 0))


def _as(value: Number, dtype: str) -> Number:
    if is_bool(dtype):
        return int(value != 0)
    if not is_integer(dtype) or value != value or abs(value) == inf:
        return value if not is_integer(dtype) else 0
    return wrap(int(value), dtype)


def wrap(value: Number, dtype: str) -> Number:
    """``value`` as an integer type holds it."""
    if not is_integer(dtype) or not isinstance(value, int):
        return value
    span = 1 << _BITS[dtype]
    low = span // 2 if dtype[0] == "i" else 0
    return (value + low) % span - low


# ---------------------------------------------------------------- arithmetic


def elementwise(f: Callable[..., Number], dtype: str, xs: Sequence[Known]) -> Known | None:
    """``f`` of each element; None where that cannot be computed."""
    shape = max((x.shape for x in xs), key=len)
    numbers = [x.number for x in xs]
    try:
        if all(n is not None for n in numbers):
            return filled(dtype, shape, wrap(f(*numbers), dtype))
        dense = [x.dense() for x in xs]
        if any(d is None for d in dense):
            return None
        table = np.frompyfunc(lambda *v: wrap(f(*v), dtype), len(xs), 1)(*dense)
        return from_table(dtype, np.asarray(table, dtype=object))
    except (ZeroDivisionError, OverflowError, ValueError, TypeError):
        return None


def add(x: Known, y: Known, sign: int = 1) -> Known | None:
    """``x + sign * y``."""
    if x.table is None and y.table is None and x.shape == y.shape:
        strides = tuple(a + sign * b for a, b in zip(x.strides, y.strides, strict=True))
        return _wrapped(Known(x.dtype, x.shape, x.base + sign * y.base, strides))
    return elementwise(lambda a, b: a + sign * b, x.dtype, [x, y])


def multiply(x: Known, y: Known) -> Known | None:
    """``x * y``."""
    if x.number is None and y.number is not None:
        x, y = y, x
    if x.number is not None and y.table is None and x.shape == y.shape:
        n = x.number
        return _wrapped(Known(y.dtype, y.shape, n * y.base, tuple(n * s for s in y.strides)))
    return elementwise(lambda a, b: a * b, x.dtype, [x, y])


def _wrapped(x: Known) -> Known | None:
    """``x`` if no element leaves its integer type; else the wrapped elements."""
    if not is_integer(x.dtype) or all(c == wrap(c, x.dtype) for c in _corners(x)):
        return x
    return elementwise(lambda v: v, x.dtype, [x])
