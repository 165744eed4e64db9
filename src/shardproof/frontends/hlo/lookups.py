"""Gathers and scatters that are lookups of rows, or of one element of each row."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
from shardproof.frontends.hlo.indexing import in_range, put, put_row, shape_of
from shardproof.frontends.hlo.known import Known
from shardproof.frontends.hlo.reduce import assigns, reducer
from shardproof.frontends.hlo.registry import lowers
from shardproof.ir.graph import Value

MAX_COLUMNS = 64


@lowers("gather")
def _gather(ctx: HloContext, xs: Sequence[Held]) -> Held:
    i = ctx.instruction
    x, shape = ctx.value(xs[0]), shape_of(xs[0])
    mapped, batch = i.ints("start_index_map"), i.ints("operand_batching_dims")
    sizes = i.ints("slice_sizes")
    for k, (n, m) in enumerate(zip(sizes, shape, strict=True)):
        if (k in mapped and n != 1) or (k not in mapped and k not in batch and n != m):
            raise Unsupported("a gather of several rows at once")
    columns = index_columns(ctx, xs[1], i.ints("index_vector_dim")[0])
    in_range(ctx, shape[mapped[-1]])
    if batch or len(mapped) > 1:
        rows = row_dims(mapped, batch, columns, shape)
        if i.ints("start_indices_batching_dims") not in ((), tuple(range(len(batch)))):
            raise Unsupported("a gather with its rows in another order")
        d, ids = rows.column, ctx.value(columns[rows.place])
        return _along(ctx, x, ids, d, rows.dims)
    (d,) = mapped
    ids = ctx.value(columns[0])
    found = ctx.emit("take_rows", ctx.move(x, d, 0), ids)
    outer, offset = len(ids.shape), i.ints("offset_dims")
    if d not in i.ints("collapsed_slice_dims"):
        found = ctx.unsqueeze(found, outer + d)
    kept, ahead = iter(range(outer, len(found.shape))), iter(range(outer))
    order = [next(kept) if k in offset else next(ahead) for k in range(len(found.shape))]
    return ctx.permute(found, order)


def index_columns(ctx: HloContext, ids: Held, vector: int) -> list[Held]:
    """Start indices, one tensor an indexed dim."""
    v = ctx.value(ids)
    if vector == len(v.shape):
        return [v]
    if v.shape[vector] == 1:
        return [ctx.drop(v, vector)]
    parts = ctx.columns.get(v)
    if parts is None or vector != len(v.shape) - 1 or len(parts) != v.shape[vector]:
        raise Unsupported("a gather by several indices")
    outer = v.shape[:-1]
    return [p if isinstance(p, Known) else ctx.reshape(ctx.value(p), outer) for p in parts]


class Rows:
    """One element of each row is meant: ``dims`` count the rows, ``column`` is indexed by the
    start indices at ``place``."""

    def __init__(self, dims: tuple[int, ...], column: int, place: int) -> None:
        self.dims, self.column, self.place = dims, column, place


def row_dims(
    mapped: tuple[int, ...], batch: tuple[int, ...], columns: Sequence[Held],
    shape: tuple[int, ...],
) -> Rows:  # fmt: skip
    """How several indices pick one element of each row: all but one just count the rows.

    Raises:
        Unsupported: they do something else.
    """
    counted = [k for k, c in enumerate(columns) if isinstance(c, Known)]
    free = [k for k in range(len(columns)) if k not in counted]
    if len(free) != 1 or len(counted) > 1 or (batch and counted):
        raise Unsupported("a gather by several indices")
    for k in counted:
        column = columns[k]
        assert isinstance(column, Known)
        n, dense = shape[mapped[k]], column.dense()
        if not n or dense is None or dense.size % n:
            raise Unsupported("a gather by several indices")
        if not bool((dense.ravel() == np.repeat(np.arange(n), dense.size // n)).all()):
            raise Unsupported("a gather by several indices")
    dims = batch or tuple(mapped[k] for k in counted)
    if len(dims) + 1 != len(shape):
        raise Unsupported("a gather of part of each row")
    return Rows(dims, mapped[free[0]], free[0])


def _along(ctx: HloContext, x: Value, ids: Value, d: int, rows: tuple[int, ...]) -> Value:
    line = ctx.permute(x, (*rows, d))
    outer = [int(n) for n in line.shape[:-1] if isinstance(n, int)]
    flat = ctx.reshape(ids, [*outer, -1])
    last = len(outer)
    n = flat.shape[last]
    if not isinstance(n, int) or n > MAX_COLUMNS:
        raise Unsupported(f"a gather of {n} elements a row")
    picked = []
    for k in range(n):
        column = ctx.drop(ctx.slice(flat, last, k, k + 1), last)
        picked.append(ctx.unsqueeze(ctx.emit("take_along", line, column), last))
    return ctx.reshape(ctx.concat(picked, last), ctx.array().dims)


@lowers("scatter")
def _scatter(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Rows added at computed positions: the gradient of a lookup."""
    i = ctx.instruction
    if len(xs) == 3 and assigns(ctx):
        return _assigned(ctx, xs)
    if len(xs) != 3 or reducer(ctx) != "sum":
        raise Unsupported("a scatter that neither adds nor sets one row")
    shape, mapped = shape_of(xs[0]), i.ints("scatter_dims_to_operand_dims")
    batch, inserted = i.ints("input_batching_dims"), i.ints("inserted_window_dims")
    columns = index_columns(ctx, xs[1], i.ints("index_vector_dim")[0])
    in_range(ctx, shape[mapped[-1]])
    new = _updates(ctx, ctx.value(xs[2]), shape, mapped, (*batch, *inserted))
    if batch or len(mapped) > 1:
        rows = row_dims(mapped, batch, columns, shape)
        total = _hot(ctx, new, ctx.value(columns[rows.place]), shape, rows)
    else:
        total = ctx.emit("add_rows", new, ctx.value(columns[0]), rows=shape[mapped[0]])
        total = ctx.move(total, 0, mapped[0])
    zero = isinstance(xs[0], Known) and xs[0].number == 0
    return total if zero else ctx.add(ctx.value(xs[0]), total)


def _assigned(ctx: HloContext, xs: Sequence[Held]) -> Value:
    """One row replaced at a computed position."""
    i, x, shape = ctx.instruction, ctx.value(xs[0]), shape_of(xs[0])
    mapped, inserted = i.ints("scatter_dims_to_operand_dims"), i.ints("inserted_window_dims")
    if len(mapped) != 1 or i.ints("input_batching_dims") or prod(shape_of(xs[1])) != 1:
        raise Unsupported("a scatter that sets several rows")
    (d,) = mapped
    new = _updates(ctx, ctx.value(xs[2]), shape, mapped, inserted)
    row = ctx.reshape(new, [1 if k == d else n for k, n in enumerate(shape)])
    known = xs[1].number if isinstance(xs[1], Known) else None
    if known is not None and 0 <= known < shape[d]:
        return put(ctx, x, row, [int(known) if k == d else 0 for k in range(len(shape))])
    return put_row(ctx, x, row, d, ctx.reshape(ctx.value(xs[1]), ()))


def _updates(
    ctx: HloContext, new: Value, shape: tuple[int, ...], mapped: tuple[int, ...],
    absent: tuple[int, ...],
) -> Value:  # fmt: skip
    """Updates with the scattered dims first, then whole dims of the operand."""
    window = ctx.instruction.ints("update_window_dims")
    ahead = [k for k in range(len(new.shape)) if k not in window]
    new = ctx.permute(new, (*ahead, *window))
    have = [d for d in range(len(shape)) if d not in absent]
    for k in reversed(range(len(have))):
        n, d = new.shape[len(ahead) + k], have[k]
        if d in mapped and n == 1:
            new = ctx.drop(new, len(ahead) + k)
        elif d in mapped or n != shape[d]:
            raise Unsupported("a scatter of part of each row")
    return new


def _hot(ctx: HloContext, new: Value, ids: Value, shape: tuple[int, ...], rows: Rows) -> Value:
    """One number added in each row."""
    outer = [shape[d] for d in rows.dims]
    if ids.type.numel != prod(outer) or new.type.numel != prod(outer):
        raise Unsupported("a scatter of several elements a row")
    here, width = ctx.reshape(ids, [*outer, 1]), shape[rows.column]
    hot = ctx.cast(ctx.compare("eq", here, ctx.iota(width, dtype=ids.dtype)), new.dtype)
    line = ctx.mul(hot, ctx.reshape(new, [*outer, 1]))
    order = (*rows.dims, rows.column)
    return ctx.permute(line, [order.index(d) for d in range(len(shape))])
