"""Reading by integer index: embeddings, gather, advanced indexing."""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.helpers import dim_of
from shardproof.frontends.aten.registry import lowers
from shardproof.ir.graph import Value, is_bool
from shardproof.ir.sizes import Size
from shardproof.ops.shapes import broadcast, expands

MAX_COLUMNS = 16
"""A gather of more elements than this from one row is left opaque."""


@lowers("aten.embedding.default")
def _embedding(
    ctx: LowerContext, weight: Value, indices: Value, padding_idx: int = -1, *_: Any, **__: Any
) -> Value:
    return ctx.emit("take_rows", weight, indices)


@lowers("aten.embedding_dense_backward.default")
def _embedding_dense_backward(
    ctx: LowerContext, grad_output: Value, indices: Value, num_weights: Any, padding_idx: int,
    scale_grad_by_freq: bool,
) -> Value:  # fmt: skip
    if scale_grad_by_freq:
        raise Unsupported("embedding_dense_backward with scale_grad_by_freq")
    g = grad_output
    if padding_idx >= 0:
        padding = ctx.compare("eq", indices, padding_idx)
        g = ctx.masked_fill(g, ctx.unsqueeze(padding, len(padding.shape)), 0)
    return ctx.emit("add_rows", g, indices, rows=num_weights)


@lowers("aten.index_select.default")
def _index_select(ctx: LowerContext, self: Value, dim: int, index: Value) -> Value:
    return take_along_dim(ctx, self, dim_of(self, dim), index)


def take_along_dim(ctx: LowerContext, x: Value, d: int, ids: Value) -> Value:
    """``x`` with dim ``d`` replaced by the elements at ``ids``, whose dims stand there."""
    rows = ctx.emit("take_rows", ctx.move(x, d, 0), ids)
    r = len(ids.shape)
    perm = [*range(r, r + d), *range(r), *range(r + d, len(rows.shape))]
    return ctx.permute(rows, perm)


# ------------------------------------------------------------------------------ gather


def row_lines(ctx: LowerContext, x: Value, d: int, index: Value) -> tuple[Value, list[Value]]:
    """``x`` with dim ``d`` last and cut to the rows that ``index`` has, and the columns of
    ``index`` as one tensor of row positions each."""
    columns = index.shape[d]
    if not isinstance(columns, int) or columns > MAX_COLUMNS:
        raise Unsupported(f"an index with {columns} elements a row")
    for k in range(len(x.shape)):
        if k != d and x.shape[k] != index.shape[k]:
            x = ctx.slice(x, k, 0, index.shape[k])
    last = len(x.shape) - 1
    line, ids = ctx.move(x, d, last), ctx.move(index, d, last)
    return line, [ctx.drop(ctx.slice(ids, last, c, c + 1), last) for c in range(columns)]


@lowers("aten.gather.default")
def _gather(
    ctx: LowerContext, self: Value, dim: int, index: Value, *, sparse_grad: bool = False
) -> Value:
    if not self.shape:
        return self
    d = dim_of(self, dim)
    line, ids = row_lines(ctx, self, d, index)
    last = len(self.shape) - 1
    parts = [ctx.unsqueeze(ctx.emit("take_along", line, i), last) for i in ids]
    return ctx.move(ctx.concat(parts, last), last, d)


# ------------------------------------------------------------------------------ x[i, j, ...]


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor", "aten.index.Tensor_hacked_twin")
def _index(ctx: LowerContext, self: Value, indices: Any) -> Value:
    used = [(k, i) for k, i in enumerate(indices) if i is not None]
    if any(is_bool(i.dtype) for _, i in used):
        raise Unsupported("the shape of x[mask] depends on the data")
    if len(used) == 1:
        ((d, ids),) = used
        given = ctx.written(ids)
        if given:
            return slices(ctx, self, d, given)
        return take_along_dim(ctx, self, d, ids)
    ids = along_rows(ctx, self, indices)
    if ids is not None:
        return ctx.emit("take_along", self, ids)
    dims = [d for d, _ in used]
    if dims != list(range(dims[0], dims[0] + len(dims))):
        raise Unsupported("indexing with index tensors that are apart")
    many = [i for _, i in used]
    found = _rearranged(ctx, self, dims[0], many)
    return found if found is not None else _element_by_element(ctx, self, dims[0], many)


def slices(ctx: LowerContext, x: Value, d: int, indices: list[int]) -> Value:
    """The elements of dim ``d`` at given indices, negative ones counted from its end."""
    starts = [k + x.shape[d] if k < 0 else k for k in indices]
    return ctx.concat([ctx.slice(x, d, k, k + 1) for k in starts], d)


def _rearranged(ctx: LowerContext, x: Value, first: int, indices: list[Value]) -> Value | None:
    """``x[i, j, ...]`` where every index is an arange that runs through its dim along an axis of
    its own: ``x`` with these dims in the order of the axes."""
    axes = [ctx.aranges.get(i, -1) for i in indices]
    extents = x.shape[first : first + len(indices)]
    full = all(i.type.numel == n for i, n in zip(indices, extents, strict=True))
    if min(axes) < 0 or len(set(axes)) != len(axes) or not full:
        return None
    order = sorted(range(len(axes)), key=lambda k: -axes[k])
    perm = [*range(first), *(first + k for k in order), *range(first + len(axes), len(x.shape))]
    shape: list[Size] = [1] * max(len(i.shape) for i in indices)
    for k in order:
        shape[len(shape) - 1 - axes[k]] = extents[k]
    return ctx.reshape(
        ctx.permute(x, perm), (*x.shape[:first], *shape, *x.shape[first + len(axes) :])
    )


def _element_by_element(ctx: LowerContext, x: Value, first: int, indices: list[Value]) -> Value:
    """``x`` with the dims from ``first`` on, one for each of ``indices``, replaced by their common
    shape: the rows at the first index, of each the element at the second, and so on."""
    shape: tuple[Size, ...] = ()
    for i in indices:
        shape = broadcast(shape, i.shape)
    head, *others = indices
    x = take_along_dim(ctx, x, first, ctx.expand(head, shape))
    for i in others:
        line = ctx.move(x, first + len(shape), len(x.shape) - 1)
        ids = ctx.expand(i, shape)
        after = len(line.shape) - 1 - first - len(shape)
        ids = ctx.reshape(ids, (*[1] * first, *shape, *[1] * after))
        x = ctx.emit("take_along", line, ctx.expand(ids, line.shape[:-1]))
    return x


def along_rows(ctx: LowerContext, x: Value, indices: Any) -> Value | None:
    """The last of ``indices`` if the others are aranges that run through their dims, so that
    ``x[indices]`` picks one element of each row."""
    rank = len(x.shape)
    if len(indices) != rank or rank < 2 or any(i is None for i in indices):
        return None
    *rows, ids = indices
    outer: tuple[Size, ...] = x.shape[:-1]
    for k, i in enumerate(rows):
        # An arange along an axis counted from the right, as broadcasting counts.
        if ctx.aranges.get(i) != len(outer) - 1 - k or i.type.numel != outer[k]:
            return None
    if not expands(ids.shape, outer) or any(len(i.shape) > len(outer) for i in rows):
        return None
    return ids if ids.shape == outer else ctx.expand(ids, outer)


@lowers("aten.take_along_dim.default")
def _take_along_dim(ctx: LowerContext, self: Value, indices: Value, dim: Any = None) -> Value:
    if dim is None:
        raise Unsupported("take_along_dim of the flat tensor")
    return _gather(ctx, self, dim, indices)


@lowers("aten.one_hot.default")
def _one_hot(ctx: LowerContext, self: Value, num_classes: Any = -1) -> Value:
    if num_classes == -1:
        raise Unsupported("one_hot whose number of classes depends on the data")
    hot = ctx.compare("eq", ctx.unsqueeze(self, len(self.shape)), ctx.iota(num_classes))
    return ctx.cast(hot, "i64")
