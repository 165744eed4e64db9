"""Tensors made from nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from shardproof.ir.graph import Attrs, TensorType, is_bool, is_float, is_integer
from shardproof.ir.sizes import Poly, Size
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, Constant, Iota, ShapeError, Undefined
from shardproof.ops.declare import declare
from shardproof.ops.numbers import as_float

# Contents that no program can depend on unnoticed: they poison sums, and are no valid index.
_JUNK: dict[type, float | int | bool] = {np.float64: np.nan, np.int64: -(2**40), np.bool_: False}


def storage(dtype: str) -> type[Any]:
    """The NumPy type that stands for an element type in reference evaluation."""
    if is_bool(dtype):
        return np.bool_
    return np.int64 if is_integer(dtype) else np.float64 if is_float(dtype) else np.complex128


def concrete_shape(shape: tuple[Size, ...]) -> tuple[int, ...]:
    """A shape of integers.

    Raises:
        ValueError: a size is symbolic.
    """
    if any(isinstance(n, Poly) for n in shape):
        raise ValueError(f"the shape {shape} is symbolic; evaluation needs numbers")
    return tuple(int(n) for n in shape if not isinstance(n, Poly))


def _made(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    return TensorType(at.dtype(attrs), at.sizes(attrs, "shape"))


def _full_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    out, value = _made(inputs, attrs), at.scalar_of(attrs, "value")
    if is_bool(out.dtype) and value not in (0, 1):
        raise ShapeError(f"value {value} is no boolean")
    if isinstance(value, Poly) or is_float(out.dtype):
        return out
    if isinstance(value, float) or (is_integer(out.dtype) and value.denominator != 1):
        raise ShapeError(f"value {value} is no {out.dtype}")
    if is_integer(out.dtype) and not fits(value, out.dtype):
        raise ShapeError(f"value {value} does not fit into {out.dtype}")
    return out


def fits(value: Fraction, dtype: str) -> bool:
    """Whether an integer type such as i64 or u8 has the value."""
    bits = int(dtype[1:])
    unsigned = dtype.startswith("u")
    low: int = 0 if unsigned else -(1 << bits - 1)
    high: int = 1 << bits if unsigned else 1 << bits - 1
    return low <= value < high


def _full(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    kind = storage(at.dtype(attrs))
    value = as_float(at.scalar_of(attrs, "value"))
    exact_integers = kind is np.int64
    return np.full(
        concrete_shape(at.sizes(attrs, "shape")),
        int(at.number(attrs, "value")) if exact_integers else value,
        dtype=kind,
    )


declare(
    "full", "", "value shape dtype",
    doc="""A tensor of the given shape and element type whose elements are all `value`: a number,
    an infinity, or a symbolic size; 0 and 1 (or false and true) for booleans.""",
    types=_full_types,
    algebra=lambda inputs, attrs: Constant(at.scalar_of(attrs, "value")),
    evaluate=_full,
)  # fmt: skip


def _iota_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    at.size(attrs, "start")
    at.integer(attrs, "step")
    if is_bool(at.dtype(attrs)):
        raise ShapeError("positions are no booleans")
    return TensorType(at.dtype(attrs), (at.extent(attrs, "size"),))


def _iota(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    size, start = at.integer(attrs, "size"), at.integer(attrs, "start")
    out = start + at.integer(attrs, "step") * np.arange(size, dtype=np.int64)
    return out.astype(storage(at.dtype(attrs)))


declare(
    "iota", "", "size start step dtype",
    doc="""The one-dimensional tensor `start + i * step` for i in [0, size). `size` and `start`
    may be symbolic, `step` is an integer.""",
    types=_iota_types,
    algebra=lambda inputs, attrs: Iota(at.size(attrs, "start"), at.integer(attrs, "step")),
    evaluate=_iota,
)  # fmt: skip


def _undefined(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    kind = storage(at.dtype(attrs))
    return np.full(concrete_shape(at.sizes(attrs, "shape")), _JUNK.get(kind, np.nan), dtype=kind)


declare(
    "undefined", "", "shape dtype",
    doc="""Memory that was allocated and not written. Its contents must not reach an output;
    evaluation fills it with not-a-number, or with an integer that is no valid index.""",
    types=_made,
    algebra=lambda inputs, attrs: Undefined(),
    evaluate=_undefined,
)  # fmt: skip
