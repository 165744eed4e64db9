"""Slices at computed positions, lookups and scatters."""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
from shardproof.frontends.hlo.known import Known
from shardproof.frontends.hlo.rearrange import box
from shardproof.frontends.hlo.reduce import reducer
from shardproof.frontends.hlo.registry import lowers
from shardproof.ir.graph import Value


def _start(x: Held, size: int, part: int) -> int | None:
    """A known start of a slice, moved so that the slice fits, as XLA does."""
    n = x.number if isinstance(x, Known) else None
    return None if n is None else min(max(int(n), 0), size - part)


@lowers("dynamic-slice")
def _dynamic_slice(ctx: HloContext, xs: Sequence[Held]) -> Held:
    x, *given = xs
    sizes = ctx.array().dims
    shape = _shape(x)
    starts = [0 if n == m else _start(s, n, m) for s, n, m in zip(given, shape, sizes, strict=True)]
    if all(s is not None for s in starts):
        return box(ctx, x, [s for s in starts if s is not None], sizes)
    unknown = [d for d, s in enumerate(starts) if s is None]
    if len(unknown) != 1 or sizes[unknown[0]] != 1:
        raise Unsupported("a slice of several elements at a position that is not known")
    (d,) = unknown
    row = ctx.emit("take_rows", ctx.move(ctx.value(x), d, 0), ctx.value(given[d]))
    _in_range(ctx, shape[d])
    rest = [s if s is not None else 0 for k, s in enumerate(starts) if k != d]
    cut = box(ctx, row, rest, [n for k, n in enumerate(sizes) if k != d])
    return ctx.reshape(ctx.value(cut), sizes)


def _shape(x: Held) -> tuple[int, ...]:
    if isinstance(x, Known):
        return x.shape
    if not isinstance(x, Value):
        raise Unsupported("an operand is no array")
    return tuple(n for n in x.shape if isinstance(n, int))


def _in_range(ctx: HloContext, n: int) -> None:
    name = ctx.instruction.name
    ctx.record.assume("range", f"{name}: positions lie in [0, {n}) (XLA moves others there)")


@lowers("dynamic-update-slice")
def _dynamic_update(ctx: HloContext, xs: Sequence[Held]) -> Held:
    x, part, *given = xs
    shape, sizes = _shape(x), _shape(part)
    starts = [0 if n == m else _start(s, n, m) for s, n, m in zip(given, shape, sizes, strict=True)]
    unknown = [d for d, s in enumerate(starts) if s is None]
    base, new = ctx.value(x), ctx.value(part)
    if not unknown:
        return _put(ctx, base, new, [s for s in starts if s is not None])
    if len(unknown) == 1 and sizes == tuple(
        1 if k == unknown[0] else n for k, n in enumerate(shape)
    ):
        return _put_row(ctx, base, new, unknown[0], ctx.value(given[unknown[0]]))
    raise Unsupported("an update at a position that is not known")


def _put(ctx: HloContext, x: Value, new: Value, starts: Sequence[int]) -> Value:
    """``x`` with the box at ``starts`` replaced, dim after dim from the outside."""
    cut = [d for d, s in enumerate(starts) if new.shape[d] != x.shape[d]]
    if not cut:
        return new
    d, a = cut[0], starts[cut[0]]
    b = a + new.shape[d]
    n = x.shape[d]
    inner = [0 if k == d else s for k, s in enumerate(starts)]
    middle = _put(ctx, ctx.slice(x, d, a, b), new, inner)
    before = [ctx.slice(x, d, 0, a)] if a else []
    after = [ctx.slice(x, d, b, n)] if b != n else []
    return ctx.concat([*before, middle, *after], d)


def _put_row(ctx: HloContext, x: Value, new: Value, d: int, at: Value) -> Value:
    """``x`` with the row at a computed position replaced."""
    n = x.shape[d]
    _in_range(ctx, n if isinstance(n, int) else 0)
    column = [n if k == d else 1 for k in range(len(x.shape))]
    here = ctx.compare("eq", ctx.iota(n, dtype=at.dtype), ctx.reshape(at, ()))
    mask = ctx.expand(ctx.reshape(here, column), x.shape)
    return ctx.emit("where", mask, ctx.expand(new, x.shape), x)


@lowers("gather")
def _gather(ctx: HloContext, xs: Sequence[Held]) -> Held:
    i = ctx.instruction
    x, ids = ctx.listed(xs)
    shape = _shape(x)
    mapped, batch = i.ints("start_index_map"), i.ints("operand_batching_dims")
    sizes, collapsed = i.ints("slice_sizes"), i.ints("collapsed_slice_dims")
    if len(mapped) != 1:
        raise Unsupported("a gather by several indices")
    (d,) = mapped
    whole = all(n == m for k, (n, m) in enumerate(zip(sizes, shape, strict=True))
                if k != d and k not in batch)  # fmt: skip
    if sizes[d] != 1 or not whole or set(collapsed) - {d}:
        raise Unsupported("a gather of several rows at once")
    ids = _flat_ids(ctx, ids, i.ints("index_vector_dim")[0])
    _in_range(ctx, shape[d])
    if batch:
        return _along(ctx, x, ids, d, batch, i.ints("start_indices_batching_dims"))
    rows = ctx.emit("take_rows", ctx.move(x, d, 0), ids)
    outer, offset = len(ids.shape), i.ints("offset_dims")
    if not collapsed:
        # The looked up dim stays, with extent 1.
        rows = ctx.unsqueeze(rows, outer + d)
    kept = iter(range(outer, len(rows.shape)))
    ahead = iter(range(outer))
    order = [next(kept) if k in offset else next(ahead) for k in range(len(rows.shape))]
    return ctx.permute(rows, order)


def _flat_ids(ctx: HloContext, ids: Value, vector: int) -> Value:
    """Start indices without their vector dim, which has one entry."""
    if vector == len(ids.shape):
        return ids
    if ids.shape[vector] != 1:
        raise Unsupported("a gather by several indices")
    return ctx.drop(ids, vector)


def _along(
    ctx: HloContext, x: Value, ids: Value, d: int, batch: tuple[int, ...], paired: tuple[int, ...]
) -> Value:
    """One element of each row: the rows are dims that operand and indices share."""
    rank = len(x.shape)
    if sorted((*batch, d)) != list(range(rank)) or paired != tuple(range(len(batch))):
        raise Unsupported("a gather of part of each row")
    line = ctx.permute(x, (*batch, d))
    outer = len(batch)
    columns = ids.shape[outer:]
    if not columns:
        return ctx.reshape(ctx.emit("take_along", line, ids), ctx.array().dims)
    flat = ctx.reshape(ids, (*ids.shape[:outer], -1))
    n = flat.shape[outer]
    if not isinstance(n, int) or n > 64:
        raise Unsupported(f"a gather of {n} elements a row")
    picked = [
        ctx.unsqueeze(ctx.emit("take_along", line, ctx.drop(ctx.slice(flat, outer, k, k + 1),
                                                            outer)), outer)
        for k in range(n)
    ]  # fmt: skip
    return ctx.reshape(ctx.concat(picked, outer), ctx.array().dims)


@lowers("scatter")
def _scatter(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Rows added at computed positions: the gradient of a lookup."""
    i = ctx.instruction
    if len(xs) != 3 or reducer(ctx) != "sum":
        raise Unsupported("a scatter that does not add")
    x, ids, rows = ctx.listed(xs)
    mapped = i.ints("scatter_dims_to_operand_dims")
    if (
        len(mapped) != 1
        or i.ints("inserted_window_dims") != mapped
        or i.ints("input_batching_dims")
    ):
        raise Unsupported("a scatter by several indices")
    (d,) = mapped
    ids = _flat_ids(ctx, ids, i.ints("index_vector_dim")[0])
    window = i.ints("update_window_dims")
    _in_range(ctx, _shape(x)[d])
    ahead = [k for k in range(len(rows.shape)) if k not in window]
    rows = ctx.permute(rows, (*ahead, *window))
    total = ctx.move(ctx.emit("add_rows", rows, ids, rows=x.shape[d]), 0, d)
    zero = isinstance(xs[0], Known) and xs[0].number == 0
    return total if zero else ctx.add(x, total)
