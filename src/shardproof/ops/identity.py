"""Operators that change nothing over the reals, and casts that do."""

from __future__ import annotations

import numpy as np

from shardproof.ir.graph import Attrs, TensorType, is_bool, is_float, is_integer
from shardproof.ops import attributes as at
from shardproof.ops.base import Algebra, Array, Compare, Identity, Opaque, Pointwise
from shardproof.ops.declare import declare

_BITS = {f"{kind}{bits}": bits for kind in "iu" for bits in (8, 16, 32, 64)}


def _narrows(source: str, target: str) -> bool:
    """Whether a program may cast between these integer types to drop high bits."""
    return _BITS[target] < 32 and (
        _BITS[target] < _BITS[source] or (source[0], target[0]) == ("i", "u")
    )


def _cast_algebra(inputs: tuple[TensorType, ...], attrs: Attrs) -> Algebra:
    source, target = inputs[0].dtype, at.dtype(attrs)
    if source == target or is_bool(source):
        return Identity()
    if "c" in (source[0], target[0]):
        same = source[0] == target[0]
        return Identity() if same else Opaque(f"cast from {source} to {target}")
    if is_bool(target):
        # Booleans are the numbers 0 and 1.
        return Compare("ne", 0)
    if is_float(target):
        return Identity()
    if is_float(source):
        return Pointwise("trunc") if _BITS[target] >= 32 else Pointwise(f"to_{target}")
    return Pointwise(f"to_{target}") if _narrows(source, target) else Identity()


def _cast(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    (x,), target = arrays, at.dtype(attrs)
    if is_bool(target):
        return np.asarray(x != 0)
    if not is_integer(target):
        return x.astype(np.float64) if is_float(target) else x.astype(np.complex128)
    whole = np.trunc(x).astype(np.int64) if x.dtype.kind == "f" else x.astype(np.int64)
    return _wrap(whole, target) if _BITS[target] < 32 else whole


def _wrap(x: Array, target: str) -> Array:
    span = 1 << _BITS[target]
    low = span // 2 if target[0] == "i" else 0
    return np.asarray((x + low) % span - low)


declare(
    "cast", "x", "dtype",
    doc="""The elements of x as another element type. Between floats, from booleans (0 and 1) and
    from integers it is the identity over the reals; the report lists the types. To booleans it
    is `x != 0`; from floats to integers it rounds towards zero; to an integer type of 8 or 16
    bits that is narrower it keeps the low bits. Wider integers are assumed not to overflow.""",
    types=lambda inputs, attrs: TensorType(at.dtype(attrs), inputs[0].shape),
    algebra=_cast_algebra,
    evaluate=_cast,
)  # fmt: skip

declare(
    "wait", "x",
    doc="""Ends an asynchronous collective: x may be read from here on. The identity.""",
    types=lambda inputs, attrs: inputs[0],
    algebra=lambda inputs, attrs: Identity(),
    evaluate=lambda arrays, attrs: arrays[0],
)  # fmt: skip
