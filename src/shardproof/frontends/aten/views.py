"""Views, copies and casts."""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import DType, LowerContext, Unsupported
from shardproof.frontends.aten.helpers import (
    clip,
    dim_of,
    dims_of,
    is_one,
    nonnegative,
)
from shardproof.frontends.aten.registry import lowers
from shardproof.frontends.fx_lexer import Ref
from shardproof.ir.graph import Value, is_bool, is_float
from shardproof.ir.sizes import Size, div_mod, product

MAX_PIECES = 1 << 16
"""A split into more pieces than this is left opaque."""


def sizes_arg(size: Any) -> tuple[Size, ...]:
    """A shape argument: a list, or a single size."""
    return tuple(size) if isinstance(size, tuple) else (size,)


@lowers("aten.alias.default", "aten.detach.default", "aten.clone.default",
        "aten.contiguous.default", "aten.lift_fresh_copy.default", "aten.lift_fresh.default",
        "aten.lift.default", "aten.detach_copy.default", "aten.alias_copy.default",
        "aten.positive.default", "aten.pin_memory.default", "aten._pin_memory.default",
        "aten.resolve_conj.default", "aten.resolve_neg.default",
        "prims.clone.default", "prims.device_put.default")  # fmt: skip
def _same(ctx: LowerContext, self: Value, *_: Any, **__: Any) -> Value:
    return self


def to_dtype(ctx: LowerContext, x: Value, dtype: str | None) -> Value:
    """A cast that the report can list; a float becomes a truth value by ``x != 0``."""
    if dtype is None or dtype == x.dtype:
        return x
    if is_bool(dtype):
        return ctx.truth(x)
    if dtype[0] == "c":
        raise Unsupported("complex numbers")
    if is_float(x.dtype) and is_float(dtype):
        ctx.record.casts.append((ctx.statement.name, x.dtype, dtype))
    return ctx.cast(x, dtype)


@lowers("aten._to_copy.default")
def _to_copy(ctx: LowerContext, self: Value, *, dtype: DType | None = None) -> Value:
    return to_dtype(ctx, self, dtype)


@lowers("prims.convert_element_type.default", "aten.to.dtype")
def _convert(ctx: LowerContext, self: Value, dtype: DType, *_: Any, **__: Any) -> Value:
    return to_dtype(ctx, self, dtype)


@lowers("aten.type_as.default", "aten.to.other")
def _type_as(ctx: LowerContext, self: Value, other: Value, *_: Any, **__: Any) -> Value:
    return to_dtype(ctx, self, other.dtype)


@lowers("aten.copy.default")
def _copy(ctx: LowerContext, self: Value, src: Value, non_blocking: bool = False) -> Value:
    return ctx.expand(to_dtype(ctx, src, self.dtype), self.shape)


@lowers("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default",
        "aten.view_copy.default", "aten._reshape_alias.default", "aten._reshape_copy.default",
        "prims.reshape.default")  # fmt: skip
def _view(ctx: LowerContext, self: Value, size: Any, stride: Any = None) -> Value:
    return ctx.reshape(self, sizes_arg(size))


@lowers("aten.view_as.default", "aten.reshape_as.default")
def _view_as(ctx: LowerContext, self: Value, other: Value) -> Value:
    return ctx.reshape(self, other.shape)


@lowers("aten.view.dtype")
def _view_dtype(ctx: LowerContext, self: Value, dtype: DType) -> Value:
    if dtype == self.dtype:
        return self
    raise Unsupported("a view of the bits as another element type")


@lowers("aten.flatten.using_ints")
def _flatten(ctx: LowerContext, self: Value, start_dim: int = 0, end_dim: int = -1) -> Value:
    if not self.shape:
        return ctx.reshape(self, (1,))
    a, b = dim_of(self, start_dim), dim_of(self, end_dim)
    merged = product(self.shape[a : b + 1])
    return ctx.reshape(self, (*self.shape[:a], merged, *self.shape[b + 1 :]))


@lowers("aten.unflatten.int")
def _unflatten(ctx: LowerContext, self: Value, dim: int, sizes: Any) -> Value:
    d = dim_of(self, dim)
    return ctx.reshape(self, (*self.shape[:d], *sizes, *self.shape[d + 1 :]))


@lowers("aten.unsqueeze.default", "aten.unsqueeze_copy.default")
def _unsqueeze(ctx: LowerContext, self: Value, dim: int) -> Value:
    return ctx.unsqueeze(self, dim_of(self, dim, extra=1))


@lowers("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
        "aten.squeeze_copy.dim")  # fmt: skip
def _squeeze(ctx: LowerContext, self: Value, dim: Any = None) -> Value:
    dims = dims_of(self, dim) if dim != () else ()
    return ctx.reshape(
        self, [n for k, n in enumerate(self.shape) if k not in dims or not is_one(n)]
    )


@lowers("prims.squeeze.default")
def _prims_squeeze(ctx: LowerContext, self: Value, dimensions: Any) -> Value:
    return _squeeze(ctx, self, dimensions)


@lowers("prims.broadcast_in_dim.default")
def _broadcast_in_dim(
    ctx: LowerContext, self: Value, shape: Any, broadcast_dimensions: Any
) -> Value:
    inner: list[Size] = [1] * len(shape)
    for n, d in zip(self.shape, broadcast_dimensions, strict=True):
        inner[d] = n
    return ctx.expand(ctx.reshape(self, inner), shape)


@lowers("aten.expand.default", "aten.expand_copy.default", "aten.broadcast_to.default")
def _expand(ctx: LowerContext, self: Value, size: Any, implicit: bool = False) -> Value:
    skip = len(size) - len(self.shape)
    shape = [self.shape[k - skip] if n == -1 else n for k, n in enumerate(size)]
    return ctx.expand(self, shape)


@lowers("aten.expand_as.default")
def _expand_as(ctx: LowerContext, self: Value, other: Value) -> Value:
    return ctx.expand(self, other.shape)


@lowers("aten.permute.default", "aten.permute_copy.default", "prims.transpose.default")
def _permute(ctx: LowerContext, self: Value, dims: Any) -> Value:
    return ctx.permute(self, [dim_of(self, d) for d in dims])


@lowers("aten.transpose.int", "aten.transpose_copy.int", "aten.swapaxes.default",
        "aten.swapdims.default")  # fmt: skip
def _transpose(ctx: LowerContext, self: Value, dim0: int, dim1: int) -> Value:
    perm = list(range(len(self.shape)))
    if not perm:
        return self
    a, b = dim_of(self, dim0), dim_of(self, dim1)
    perm[a], perm[b] = perm[b], perm[a]
    return ctx.permute(self, perm)


@lowers("aten.t.default", "aten.t_copy.default", "aten.mT.default", "aten.numpy_T.default",
        "aten.adjoint.default")  # fmt: skip
def _t(ctx: LowerContext, self: Value) -> Value:
    if len(self.shape) < 2:
        return self
    if "mT" in ctx.statement.target or "adjoint" in ctx.statement.target:
        return _transpose(ctx, self, -2, -1)
    return ctx.permute(self, range(len(self.shape) - 1, -1, -1))


@lowers("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int")
def _movedim(ctx: LowerContext, self: Value, source: Any, destination: Any) -> Value:
    src = [dim_of(self, d) for d in sizes_arg(source)]  # type: ignore[arg-type]
    dst = [dim_of(self, d) for d in sizes_arg(destination)]  # type: ignore[arg-type]
    rest = iter(k for k in range(len(self.shape)) if k not in src)
    perm = [src[dst.index(k)] if k in dst else next(rest) for k in range(len(self.shape))]
    return ctx.permute(self, perm)


# ------------------------------------------------------------------------------ slices


def strided_slice(
    ctx: LowerContext, x: Value, dim: int, start: Size | None, end: Size | None, step: Size
) -> Value:
    """``x[..., start:end:step, ...]``; a step is a slice of a reshape where it divides."""
    d = dim_of(x, dim)
    n = x.shape[d]
    a, b = clip(start, n, 0), clip(end, n, n)
    if isinstance(a, int) and isinstance(b, int):
        b = max(a, b)
    if step == 1:
        return ctx.slice(x, d, a, b)
    if not (isinstance(step, int) and isinstance(a, int)):
        raise Unsupported("a slice with a symbolic step or start")
    rows, rest = div_mod(n, step)
    if rest != 0 or not 0 <= a < step or b != n:
        raise Unsupported(f"a slice with step {step} that does not cover a dim of size {n}")
    split = ctx.reshape(x, (*x.shape[:d], rows, step, *x.shape[d + 1 :]))
    return ctx.drop(ctx.slice(split, d + 1, a, a + 1), d + 1)


@lowers("aten.slice.Tensor", "aten.slice_copy.Tensor")
def _slice(
    ctx: LowerContext, self: Value, dim: int = 0, start: Any = None, end: Any = None,
    step: Any = 1,
) -> Value:  # fmt: skip
    return strided_slice(ctx, self, dim, start, end, step)


@lowers("aten.narrow.default", "aten.narrow_copy.default")
def _narrow(ctx: LowerContext, self: Value, dim: int, start: Any, length: Any) -> Value:
    d = dim_of(self, dim)
    a = nonnegative(start, self.shape[d])
    return ctx.slice(self, d, a, a + length)


@lowers("aten.select.int", "aten.select_copy.int")
def _select(ctx: LowerContext, self: Value, dim: int, index: Any) -> Value:
    d = dim_of(self, dim)
    k = nonnegative(index, self.shape[d])
    return ctx.drop(ctx.slice(self, d, k, k + 1), d)


def pieces(ctx: LowerContext, x: Value, dim: int, widths: Any) -> tuple[Value | None, ...]:
    """Slices of the given widths along ``dim``; None for one that nobody reads."""
    out: list[Value | None] = []
    at: Size = 0
    for k, w in enumerate(widths):
        out.append(ctx.slice(x, dim, at, at + w) if ctx.wanted(k) else None)
        at = at + w
    return tuple(out)


@lowers(
    "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default",
    "aten.unsafe_split_with_sizes.default",
    "aten.split.sizes",
)
def _split_with_sizes(
    ctx: LowerContext, self: Value, split_sizes: Any, dim: int = 0
) -> tuple[Value | None, ...]:
    return pieces(ctx, self, dim_of(self, dim), split_sizes)


@lowers("aten.split.Tensor", "aten.split_copy.Tensor", "aten.unsafe_split.Tensor")
def _split(
    ctx: LowerContext, self: Value, split_size: Any, dim: int = 0
) -> tuple[Value | None, ...]:
    d = dim_of(self, dim)
    n = self.shape[d]
    count, last = div_mod(n, split_size)
    if not isinstance(count, int) or count > MAX_PIECES:
        raise Unsupported(f"a split into {count} pieces")
    return pieces(ctx, self, d, [split_size] * count + ([last] if last != 0 else []))


@lowers("aten.chunk.default", "aten.unsafe_chunk.default")
def _chunk(ctx: LowerContext, self: Value, chunks: int, dim: int = 0) -> tuple[Value | None, ...]:
    n = self.shape[dim_of(self, dim)]
    width = div_mod(n + chunks - 1, chunks)[0] if isinstance(n, int) else div_mod(n, chunks)[0]
    return _split(ctx, self, width, dim)


@lowers("aten.unbind.int", "aten.unbind_copy.int")
def _unbind(ctx: LowerContext, self: Value, dim: int = 0) -> tuple[Value | None, ...]:
    d = dim_of(self, dim)
    n = self.shape[d]
    if not isinstance(n, int) or n > MAX_PIECES:
        raise Unsupported(f"a split into {n} pieces")
    parts = pieces(ctx, self, d, [1] * n)
    return tuple(p if p is None else ctx.drop(p, d) for p in parts)


@lowers("aten.as_strided.default", "aten.as_strided_copy.default")
def _as_strided(
    ctx: LowerContext, self: Value, size: Any, stride: Any, storage_offset: Any = None
) -> Value:
    """Only where the printed strides show that it is a reshape, or nothing at all."""
    arg = ctx.statement.args[0]
    known = ctx.types.get(arg.name) if isinstance(arg, Ref) else None
    if storage_offset not in (None, 0) or known is None or known.stride is None:
        raise Unsupported("as_strided of a tensor whose strides are not printed")
    if size == self.shape and stride == known.stride:
        return self
    if (
        known.stride == contiguous(self.shape)
        and stride == contiguous(size)
        and product(size) == self.type.numel
    ):
        return ctx.reshape(self, size)
    raise Unsupported("as_strided that is not a plain view")


def contiguous(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """Strides of a contiguous tensor."""
    return tuple(product(shape[k + 1 :]) for k in range(len(shape)))
