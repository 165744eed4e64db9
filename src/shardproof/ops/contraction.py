"""Sums of products: matrix products, sums and means."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Attrs, TensorType, Value, is_bool
from shardproof.ir.sizes import Size, product
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, Contract, ShapeError
from shardproof.ops.declare import declare
from shardproof.ops.definitions import real
from shardproof.ops.shapes import (
    broadcast,
    broadcast_labels,
    floating,
    labels,
    promote,
    reduced,
    reduced_labels,
    text,
)

Shape = tuple[Size, ...]


def _split(a: Shape, b: Shape) -> tuple[Shape, Shape, Shape, Shape]:
    """Batch dims of both operands, rows of a (none for a vector), columns of b (likewise)."""
    if not a or not b:
        raise ShapeError("operands of a matrix product need at least one dim")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ShapeError(
            f"inner sizes of {text(a)} and {text(b)} differ: {a[-1]} is not shown to be {inner}"
        )
    return a[:-2], b[:-2], a[-2:-1], b[-1:] if len(b) > 1 else ()


def _matmul_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    batch_a, batch_b, rows, cols = _split(inputs[0].shape, inputs[1].shape)
    dtype = promote(inputs)
    if is_bool(dtype):
        raise ShapeError("operands are all boolean; cast them to integers or floats")
    return TensorType(dtype, (*broadcast(batch_a, batch_b), *rows, *cols))


def _matmul_algebra(inputs: tuple[TensorType, ...], attrs: Attrs) -> Contract:
    batch_a, batch_b, rows, cols = _split(inputs[0].shape, inputs[1].shape)
    batch = broadcast(batch_a, batch_b)
    names = labels(len(batch), "b")
    m, n = ("m",) * len(rows), ("n",) * len(cols)
    left = (*broadcast_labels(batch_a, batch, names), *m, "k")
    right = (*broadcast_labels(batch_b, batch, names), "k", *n)
    return Contract((left, right), (*names, *m, *n))


declare(
    "matmul", "a b",
    doc="""The matrix product of the last two dims, with NumPy's rules: leading dims broadcast, a
    one-dimensional a is a row and a one-dimensional b a column, whose dim is then dropped.""",
    types=_matmul_types,
    algebra=_matmul_algebra,
    evaluate=lambda arrays, attrs: np.matmul(*arrays),
)  # fmt: skip


def _reduced_type(x: TensorType, attrs: Attrs, dtype: str) -> TensorType:
    dims = at.dims(attrs, x.rank)
    return TensorType(dtype, reduced(x.shape, dims, at.flag(attrs, "keepdim")))


def _sum_algebra(x: TensorType, attrs: Attrs, scale_by_count: bool) -> Contract:
    names = labels(x.rank)
    out = reduced_labels(names, at.dims(attrs, x.rank), at.flag(attrs, "keepdim"))
    return Contract((names,), out, scale_by_count)


def _reduce(fn: str, x: Array, attrs: Attrs) -> Array:
    out = getattr(np, fn)(x, axis=at.dims(attrs, x.ndim), keepdims=at.flag(attrs, "keepdim"))
    return np.asarray(out)


def _mean_definition(b: Builder, v: tuple[Value, ...], attrs: Attrs) -> Value:
    x = real(b, v[0])
    dims = at.dims(attrs, x.type.rank)
    total = b.emit("sum", x, dims=dims, keepdim=at.flag(attrs, "keepdim"))
    count = product(x.shape[d] for d in dims)
    if isinstance(count, int) and count > 0:
        return b.emit("scale", total, by=Fraction(1, count))
    return b.emit("div", total, b.emit("full", value=count, shape=(), dtype=total.dtype))


declare(
    "sum", "x", "dims keepdim?",
    doc="""The sum over `dims` (a tuple; none of them leaves x as it is), which are kept with
    extent 1 if `keepdim`. Booleans are counted.""",
    types=lambda inputs, attrs: _reduced_type(
        inputs[0], attrs, "i64" if is_bool(inputs[0].dtype) else inputs[0].dtype
    ),
    algebra=lambda inputs, attrs: _sum_algebra(inputs[0], attrs, False),
    evaluate=lambda arrays, attrs: _reduce("sum", arrays[0], attrs),
)  # fmt: skip

declare(
    "mean", "x", "dims keepdim?",
    doc="""The sum over `dims` divided by the number of summed elements, which is at least 1.""",
    types=lambda inputs, attrs: _reduced_type(inputs[0], attrs, floating(inputs[0].dtype)),
    algebra=lambda inputs, attrs: _sum_algebra(inputs[0], attrs, True),
    evaluate=lambda arrays, attrs: _reduce("mean", arrays[0].astype(np.float64), attrs),
    define=_mean_definition,
)  # fmt: skip
