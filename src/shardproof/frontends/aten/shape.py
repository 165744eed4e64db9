"""Joining, repeating, padding and triangles."""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.helpers import clip, dim_of
from shardproof.frontends.aten.registry import lowers
from shardproof.frontends.aten.views import sizes_arg, strided_slice
from shardproof.ir.graph import Value, is_bool
from shardproof.ir.sizes import Size, lt, product


@lowers("aten.cat.default", "aten.concat.default", "aten.concatenate.default", "prims.cat.default")
def _cat(ctx: LowerContext, tensors: tuple[Value, ...], dim: int = 0) -> Value:
    # PyTorch lets one-dimensional empty tensors join anything.
    parts = [x for x in tensors if x.shape != (0,)] or list(tensors[:1])
    out = ctx.concat(parts, dim_of(parts[0], dim))
    ctx.join_written(out, parts)
    return out


@lowers("aten.stack.default")
def _stack(ctx: LowerContext, tensors: tuple[Value, ...], dim: int = 0) -> Value:
    d = dim_of(tensors[0], dim, extra=1)
    return ctx.concat([ctx.unsqueeze(x, d) for x in tensors], d)


@lowers("aten.repeat.default", "aten.tile.default")
def _repeat(ctx: LowerContext, self: Value, repeats: Any) -> Value:
    counts = (1,) * (len(self.shape) - len(repeats)) + tuple(repeats)
    shape = (1,) * (len(counts) - len(self.shape)) + self.shape
    inner: list[Size] = []
    outer: list[Size] = []
    for n, c in zip(shape, counts, strict=True):
        inner += [1, n] if c != 1 else [n]
        outer += [c, n] if c != 1 else [n]
    wide = ctx.expand(ctx.reshape(self, inner), outer)
    return ctx.reshape(wide, [n * c for n, c in zip(shape, counts, strict=True)])


@lowers("aten.repeat_interleave.self_int")
def repeat_interleave(
    ctx: LowerContext, self: Value, repeats: Any, dim: int | None = None,
    *, output_size: Any = None,
) -> Value:  # fmt: skip
    """Every element along ``dim`` repeated in place."""
    x = ctx.reshape(self, (product(self.shape),)) if dim is None else self
    d = 0 if dim is None else dim_of(x, dim)
    wide = ctx.unsqueeze(x, d + 1)
    wide = ctx.expand(wide, (*x.shape[: d + 1], repeats, *x.shape[d + 1 :]))
    return ctx.reshape(wide, (*x.shape[:d], x.shape[d] * repeats, *x.shape[d + 1 :]))


@lowers("aten.roll.default")
def _roll(ctx: LowerContext, self: Value, shifts: Any, dims: Any = ()) -> Value:
    if dims == ():
        flat = ctx.reshape(self, (product(self.shape),))
        return ctx.reshape(_rolled(ctx, flat, 0, sizes_arg(shifts)[0]), self.shape)
    x = self
    for s, d in zip(sizes_arg(shifts), sizes_arg(dims), strict=True):
        x = _rolled(ctx, x, dim_of(x, d), s)  # type: ignore[arg-type]
    return x


def _rolled(ctx: LowerContext, x: Value, d: int, shift: Size) -> Value:
    n = x.shape[d]
    if isinstance(shift, int) and isinstance(n, int):
        shift = shift % n if n else 0
    elif isinstance(shift, int) and shift < 0:
        shift = n + shift
    if shift == 0:
        return x
    cut = n - shift
    return ctx.concat([ctx.slice(x, d, cut, n), ctx.slice(x, d, 0, cut)], d)


@lowers("aten.flip.default", "prims.rev.default")
def _flip(ctx: LowerContext, self: Value, dims: Any) -> Value:
    moved = [dim_of(self, d) for d in dims if self.shape[dim_of(self, d)] != 1]
    if not moved:
        return self
    n = self.shape[moved[0]]
    if len(moved) != 1 or not isinstance(n, int) or n > 16:
        raise Unsupported("flip of a dim of more than 16 elements")
    (d,) = moved
    return ctx.concat([ctx.slice(self, d, k, k + 1) for k in range(n - 1, -1, -1)], d)


@lowers("aten.constant_pad_nd.default")
def _constant_pad(ctx: LowerContext, self: Value, pad: Any, value: Any = 0) -> Value:
    x = self
    for k in range(len(pad) // 2):
        d = dim_of(x, -1 - k)
        x = _pad_dim(ctx, x, d, pad[2 * k], pad[2 * k + 1], value)
    return x


@lowers("aten.pad.default")
def _pad(
    ctx: LowerContext, self: Value, pad: Any, mode: str = "constant", value: Any = None
) -> Value:
    if mode != "constant":
        raise Unsupported(f"padding mode {mode!r}")
    return _constant_pad(ctx, self, pad, 0 if value is None else value)


def _pad_dim(ctx: LowerContext, x: Value, d: int, before: Size, after: Size, fill: Any) -> Value:
    n = x.shape[d]
    start = -before if lt(before, 0) else 0
    stop = n + after if lt(after, 0) else n
    parts = [ctx.slice(x, d, start, stop)]
    for width, at in ((before, 0), (after, len(parts) + 1)):
        if lt(0, width):
            shape = (*x.shape[:d], width, *x.shape[d + 1 :])
            parts.insert(at, ctx.full(fill, shape, x.dtype))
    return ctx.concat(parts, d)


@lowers("aten.tril.default", "aten.triu.default")
def _triangle(ctx: LowerContext, self: Value, diagonal: int = 0) -> Value:
    rows, cols = self.shape[-2:]
    row = ctx.unsqueeze(ctx.iota(rows), 1)
    col = ctx.unsqueeze(ctx.iota(cols), 0)
    lower = "tril" in ctx.statement.target
    # Kept: col - row <= diagonal below, >= above.
    outside = ctx.compare("gt" if lower else "lt", col, ctx.shift(row, diagonal))
    if is_bool(self.dtype):
        return ctx.logic("and", self, ctx.logic("not", outside))
    return ctx.masked_fill(self, outside, 0)


@lowers("aten.slice_scatter.default")
def _slice_scatter(
    ctx: LowerContext, self: Value, src: Value, dim: int = 0, start: Any = None,
    end: Any = None, step: Any = 1,
) -> Value:  # fmt: skip
    d = dim_of(self, dim)
    if step != 1:
        raise Unsupported(f"slice_scatter with step {step}")
    return put_slice(ctx, self, src, d, start, end)


def put_slice(ctx: LowerContext, x: Value, src: Value, d: int, start: Any, end: Any) -> Value:
    """``x`` with elements [start, end) along ``d`` replaced by ``src``."""
    n = x.shape[d]
    a, b = clip(start, n, 0), clip(end, n, n)
    middle = ctx.cast(ctx.expand(src, (*x.shape[:d], b - a, *x.shape[d + 1 :])), x.dtype)
    if a == 0 and b == n:
        return middle
    return ctx.concat(
        [p for p in (
            ctx.slice(x, d, 0, a) if a != 0 else None,
            middle,
            ctx.slice(x, d, b, n) if b != n else None,
        ) if p is not None],
        d,
    )  # fmt: skip


@lowers("aten.select_scatter.default")
def _select_scatter(ctx: LowerContext, self: Value, src: Value, dim: int, index: Any) -> Value:
    d = dim_of(self, dim)
    k = index + self.shape[d] if isinstance(index, int) and index < 0 else index
    return put_slice(ctx, self, ctx.unsqueeze(src, d), d, k, k + 1)


@lowers("aten.slice_backward.default")
def _slice_backward(
    ctx: LowerContext, grad_output: Value, input_sizes: Any, dim: int, start: Any, end: Any,
    step: Any,
) -> Value:  # fmt: skip
    zeros = ctx.full(0, input_sizes, grad_output.dtype)
    if step != 1:
        return _spread(ctx, zeros, grad_output, dim_of(zeros, dim), start, end, step)
    return put_slice(ctx, zeros, grad_output, dim_of(zeros, dim), start, end)


def _spread(
    ctx: LowerContext, zeros: Value, g: Value, d: int, start: Any, end: Any, step: Any
) -> Value:
    """The gradient of a strided slice: a column of a reshaped zero tensor."""
    probe = strided_slice(ctx, zeros, d, start, end, step)
    if probe.shape != g.shape or not isinstance(start, int):
        raise Unsupported("slice_backward with a step that does not divide the dim")
    split = (*g.shape[: d + 1], step, *g.shape[d + 1 :])
    wide = put_slice(
        ctx, ctx.full(0, split, g.dtype), ctx.unsqueeze(g, d + 1), d + 1, start, start + 1
    )
    return ctx.reshape(wide, zeros.shape)


@lowers("aten.select_backward.default")
def _select_backward(
    ctx: LowerContext, grad_output: Value, input_sizes: Any, dim: int, index: Any
) -> Value:
    return _select_scatter(
        ctx, ctx.full(0, input_sizes, grad_output.dtype), grad_output, dim, index
    )
