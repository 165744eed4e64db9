"""Writing by integer index or mask: the functional forms of in-place assignment."""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.helpers import dim_of
from shardproof.frontends.aten.lookup import along_rows, row_lines
from shardproof.frontends.aten.registry import lowers
from shardproof.ir.graph import Value, is_bool
from shardproof.ops.shapes import broadcast


@lowers("aten.index_put.default", "aten._unsafe_index_put.default", "aten.index_put.hacked_twin")
def _index_put(
    ctx: LowerContext, self: Value, indices: Any, values: Value, accumulate: bool = False
) -> Value:
    x, v = self, ctx.cast(values, self.dtype)
    used = [i for i in indices if i is not None]
    if len(used) == 1 and is_bool(used[0].dtype):
        return _put_mask(ctx, x, indices.index(used[0]), used[0], v, accumulate)
    ids = along_rows(ctx, x, indices)
    if ids is not None:
        v = ctx.expand(v, ids.shape)
        if accumulate:
            zeros = ctx.full(0, x.shape, x.dtype)
            return ctx.add(x, ctx.emit("put_along", zeros, ids, v))
        return ctx.emit("put_along", x, ids, v)
    if accumulate and len(used) == 1:
        return _add_at(ctx, x, indices.index(used[0]), used[0], v)
    raise Unsupported("index_put with these index tensors")


def _put_mask(
    ctx: LowerContext, x: Value, d: int, mask: Value, v: Value, accumulate: bool
) -> Value:
    """``x[mask] = v`` for a mask over dims d, d+1, ... of x."""
    behind = len(x.shape) - d - len(mask.shape)
    if behind < 0 or x.shape[d : d + len(mask.shape)] != mask.shape:
        raise Unsupported("a mask that does not fit the tensor")
    if len(v.shape) > behind and any(n != 1 for n in v.shape[: len(v.shape) - behind]):
        raise Unsupported("x[mask] = v with one value for each true element")
    v = ctx.reshape(v, v.shape[max(0, len(v.shape) - behind) :])
    m = ctx.reshape(mask, (*mask.shape, *(1,) * behind))
    if accumulate:
        zero = ctx.full(0, x.shape, x.dtype)
        return ctx.add(x, ctx.where(m, v, zero))
    return ctx.where(m, v, x)


def _add_at(ctx: LowerContext, x: Value, d: int, ids: Value, v: Value) -> Value:
    """``x[ids] += v`` (repeated ids add up), at dim ``d``."""
    shape = (*ids.shape, *x.shape[:d], *x.shape[d + 1 :])
    r = len(ids.shape)
    full = ctx.expand(v, (*x.shape[:d], *ids.shape, *x.shape[d + 1 :]))
    perm = [*range(d, d + r), *range(d), *range(d + r, len(full.shape))]
    g = ctx.permute(full, perm)
    if g.shape != shape:
        raise Unsupported("index_put whose values do not fit")
    rows = ctx.emit("add_rows", g, ids, rows=x.shape[d])
    return ctx.add(x, ctx.move(rows, 0, d))


@lowers("aten.index_add.default")
def _index_add(
    ctx: LowerContext, self: Value, dim: int, index: Value, source: Value, *, alpha: Any = 1
) -> Value:
    return _add_at(ctx, self, dim_of(self, dim), index, ctx.scale(source, alpha))


@lowers("aten.index_copy.default")
def _index_copy(ctx: LowerContext, self: Value, dim: int, index: Value, source: Value) -> Value:
    n = self.shape[dim_of(self, dim)]
    if ctx.aranges.get(index) == 0 and index.shape == (n,):
        return source
    raise Unsupported("index_copy")


@lowers("aten.scatter.src", "aten.scatter.value", "aten.scatter_add.default")
def _scatter(ctx: LowerContext, self: Value, dim: int, index: Value, src: Any) -> Value:
    if not self.shape:
        raise Unsupported("scatter into a scalar")
    d = dim_of(self, dim)
    if any(index.shape[k] != self.shape[k] for k in range(len(self.shape)) if k != d):
        raise Unsupported("scatter with an index that is smaller than the tensor")
    last = len(self.shape) - 1
    line, ids = row_lines(ctx, self, d, index)
    if isinstance(src, Value):
        for k, n in enumerate(index.shape):
            src = ctx.slice(src, k, 0, n)
        src = ctx.cast(ctx.move(src, d, last), self.dtype)
    adds = "scatter_add" in ctx.statement.target
    out = line
    for c, i in enumerate(ids):
        if isinstance(src, Value):
            v = ctx.drop(ctx.slice(src, last, c, c + 1), last)
        else:
            v = ctx.full(src, i.shape, self.dtype)
        if adds:
            v = ctx.add(ctx.emit("take_along", out, i), v)
        out = ctx.emit("put_along", out, i, v)
    return ctx.move(out, last, d)


@lowers("aten.masked_scatter.default")
def _masked_scatter(ctx: LowerContext, self: Value, mask: Value, source: Value) -> Value:
    known = ctx.constant_of(source)
    if known is None:
        raise Unsupported("masked_scatter takes elements in an order that depends on the mask")
    x = ctx.expand(self, broadcast(self.shape, mask.shape))
    return ctx.masked_fill(x, mask, known)
