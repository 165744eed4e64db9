"""Rows and elements picked, or written, by integer index."""

from __future__ import annotations

import numpy as np

from shardproof.ir.graph import Attrs, TensorType
from shardproof.ir.sizes import Size
from shardproof.ops import attributes as at
from shardproof.ops.base import AddRows, Array, PutAlong, ShapeError, TakeAlong, TakeRows
from shardproof.ops.declare import declare
from shardproof.ops.shapes import need_integer, need_shape, text


def _in_range(op: str, ids: Array, rows: int) -> Array:
    """``ids``, all of which must lie in ``[0, rows)``: negative ones do not count from the end."""
    bad = ids[(ids < 0) | (ids >= rows)]
    if bad.size:
        raise IndexError(f"{op}: index {int(bad.flat[0])} is outside [0, {rows})")
    return ids


def _take_rows_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    table, ids = inputs
    need_integer("ids", ids)
    if not table.rank:
        raise ShapeError("the table needs at least one dim")
    return TensorType(table.dtype, ids.shape + table.shape[1:])


declare(
    "take_rows", "table ids",
    doc="""Rows of the table (its first dim) by integer index, the lookup of an embedding:
    `out[p] = table[ids[p]]`. Indices lie in [0, rows); evaluation refuses others.""",
    types=_take_rows_types,
    algebra=lambda inputs, attrs: TakeRows(),
    evaluate=lambda arrays, attrs: (
        arrays[0][_in_range("take_rows", arrays[1], arrays[0].shape[0])]
    ),
)  # fmt: skip


def _row_ids(x: TensorType, ids: TensorType) -> tuple[Size, ...]:
    need_integer("ids", ids)
    if not x.rank:
        raise ShapeError("x needs at least one dim")
    need_shape("ids", ids, x.shape[:-1])
    return ids.shape


def _along(op: str, x: Array, ids: Array) -> Array:
    return _in_range(op, ids, x.shape[-1])[..., None]


declare(
    "take_along", "x ids",
    doc="""One element of each row: `out[i] = x[i, ids[i]]` over the last dim, where i stands for
    all leading dims. Indices lie in [0, size of the last dim); evaluation refuses others.""",
    types=lambda inputs, attrs: TensorType(inputs[0].dtype, _row_ids(*inputs)),
    algebra=lambda inputs, attrs: TakeAlong(),
    evaluate=lambda arrays, attrs: np.take_along_axis(
        arrays[0], _along("take_along", *arrays), axis=-1
    )[..., 0],
)  # fmt: skip


def _add_rows_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    g, ids = inputs
    need_integer("ids", ids)
    if g.shape[: ids.rank] != ids.shape:
        raise ShapeError(
            f"g must have the shape of ids in its first dims: {text(g.shape)}, {text(ids.shape)}"
        )
    return TensorType(g.dtype, (at.extent(attrs, "rows"), *g.shape[ids.rank :]))


def _add_rows(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    g, ids = arrays
    rows = at.integer(attrs, "rows")
    out = np.zeros((rows, *g.shape[ids.ndim :]), dtype=g.dtype)
    np.add.at(out, _in_range("add_rows", ids, rows), g)
    return out


declare(
    "add_rows", "g ids", "rows",
    doc="""The gradient of `take_rows` with respect to its table of `rows` rows: row v is the sum
    of `g[p]` over the positions p with `ids[p] == v`. Evaluation refuses indices outside
    [0, rows).""",
    types=_add_rows_types,
    algebra=lambda inputs, attrs: AddRows(at.size(attrs, "rows")),
    evaluate=_add_rows,
)  # fmt: skip


def _put_along_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    x, ids, v = inputs
    need_shape("v", v, _row_ids(x, ids))
    return x


def _put_along(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    x, ids, v = arrays
    out = x.copy()
    np.put_along_axis(out, _along("put_along", x, ids), v[..., None].astype(x.dtype), axis=-1)
    return out


declare(
    "put_along", "x ids v",
    doc="""x with one element of each row replaced: `[i, ids[i]]` becomes `v[i]` over the last
    dim, where i stands for all leading dims. Indices as in `take_along`.""",
    types=_put_along_types,
    algebra=lambda inputs, attrs: PutAlong(),
    evaluate=_put_along,
)  # fmt: skip
