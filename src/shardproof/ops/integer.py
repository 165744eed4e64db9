"""Comparisons, boolean logic and selection."""

from __future__ import annotations

import numpy as np

from shardproof.ir.graph import Attrs, TensorType, is_bool, is_integer
from shardproof.ir.sizes import Poly
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, Compare, Logic, Scalar, Select, ShapeError
from shardproof.ops.declare import declare
from shardproof.ops.numbers import as_float
from shardproof.ops.shapes import broadcast, need_bool, promote

_COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
_LOGIC = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _value(attrs: Attrs) -> Scalar | None:
    return None if attrs.get("value") is None else at.scalar_of(attrs, "value")


def _compare_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    at.choice(attrs, "kind", tuple(_COMPARISONS))
    if (len(inputs) == 2) == (_value(attrs) is not None):
        raise ShapeError("expected either a second operand or the attribute 'value'")
    return TensorType("b8", broadcast(*(t.shape for t in inputs)))


def _compare(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    fn, value = _COMPARISONS[str(attrs["kind"])], _value(attrs)
    other = arrays[1] if value is None else as_float(value)
    return np.asarray(fn(arrays[0], other))


declare(
    "compare", "a b?", "kind value?",
    doc="""a compared with b, elementwise with broadcasting, or with the number or symbolic size
    `value`. `kind` is lt, le, gt, ge, eq or ne. The result is boolean: the numbers 0 and 1.""",
    types=_compare_types,
    algebra=lambda inputs, attrs: Compare(str(attrs["kind"]), _value(attrs)),
    evaluate=_compare,
)  # fmt: skip


def _logic_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    kind = at.choice(attrs, "kind", (*_LOGIC, "not"))
    if len(inputs) != (1 if kind == "not" else 2):
        raise ShapeError(f"{kind!r} got {len(inputs)} operands")
    for name, t in zip("ab", inputs, strict=False):
        need_bool(name, t)
    return TensorType("b8", broadcast(*(t.shape for t in inputs)))


def _logic(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    if attrs["kind"] == "not":
        return np.logical_not(arrays[0])
    return np.asarray(_LOGIC[str(attrs["kind"])](*arrays))


declare(
    "logic", "a b?", "kind",
    doc="""Boolean `and`, `or`, `xor` of a and b, elementwise with broadcasting, or `not` a.""",
    types=_logic_types,
    algebra=lambda inputs, attrs: Logic(str(attrs["kind"])),
    evaluate=_logic,
)  # fmt: skip


def _where_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    c, a, b = inputs
    need_bool("the condition", c)
    return TensorType(promote((a, b)), broadcast(c.shape, a.shape, b.shape))


declare(
    "where", "c a b",
    doc="""a where the boolean c holds, else b, elementwise with broadcasting. The element that
    is not selected plays no part, even if it is infinite.""",
    types=_where_types,
    algebra=lambda inputs, attrs: Select(),
    evaluate=lambda arrays, attrs: np.where(*arrays),
)  # fmt: skip


def _fill_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    x, mask = inputs
    need_bool("the mask", mask)
    value = at.scalar_of(attrs, "value")
    if is_bool(x.dtype) and value not in (0, 1):
        raise ShapeError(f"value {value} is no boolean")
    discrete = is_integer(x.dtype) or is_bool(x.dtype)
    if discrete and not isinstance(value, Poly) and value not in (int(at.number(attrs, "value")),):
        raise ShapeError(f"value {value} is no {x.dtype}")
    return TensorType(x.dtype, broadcast(x.shape, mask.shape))


def _fill(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    x, mask = arrays
    value = as_float(at.scalar_of(attrs, "value"))
    return np.asarray(np.where(mask, np.asarray(value).astype(x.dtype), x))


declare(
    "masked_fill", "x mask", "value",
    doc="""The number, infinity or symbolic size `value` where the boolean mask holds, else x,
    elementwise with broadcasting.""",
    types=_fill_types,
    algebra=lambda inputs, attrs: Select(at.scalar_of(attrs, "value")),
    evaluate=_fill,
)  # fmt: skip
