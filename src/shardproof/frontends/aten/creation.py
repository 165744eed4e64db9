"""Tensors made from nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.registry import lowers
from shardproof.frontends.aten.views import sizes_arg
from shardproof.ir.graph import Value, is_float, is_integer
from shardproof.ir.sizes import Poly, Size


def number_dtype(x: Any) -> str:
    """Element type of a tensor made from a Python number."""
    return "b8" if isinstance(x, bool) else "i64" if isinstance(x, int | Poly) else "f32"


@lowers("aten.full.default", "prims.full.default")
def _full(
    ctx: LowerContext, size: Any, fill_value: Any, *, dtype: str | None = None, **_: Any
) -> Value:
    return ctx.full(fill_value, size, dtype or number_dtype(fill_value))


@lowers("aten.full_like.default")
def _full_like(
    ctx: LowerContext, self: Value, fill_value: Any, *, dtype: str | None = None
) -> Value:
    return ctx.full(fill_value, self.shape, dtype or self.dtype)


@lowers("aten.fill.Scalar", "aten.fill.Tensor")
def _fill(ctx: LowerContext, self: Value, value: Any) -> Value:
    if isinstance(value, Value):
        return ctx.expand(ctx.cast(value, self.dtype), self.shape)
    return ctx.full(value, self.shape, self.dtype)


@lowers("aten.new_full.default")
def _new_full(
    ctx: LowerContext, self: Value, size: Any, fill_value: Any, *, dtype: str | None = None
) -> Value:
    return ctx.full(fill_value, size, dtype or self.dtype)


def _constant(value: int) -> tuple[Any, Any, Any]:
    def plain(ctx: LowerContext, size: Any, *, dtype: str | None = None) -> Value:
        return ctx.full(value, sizes_arg(size), dtype or "f32")

    def like(ctx: LowerContext, self: Value, *, dtype: str | None = None) -> Value:
        return ctx.full(value, self.shape, dtype or self.dtype)

    def new(ctx: LowerContext, self: Value, size: Any, *, dtype: str | None = None) -> Value:
        return ctx.full(value, sizes_arg(size), dtype or self.dtype)

    return plain, like, new


for _name, _value in (("zeros", 0), ("ones", 1)):
    _plain, _like, _new = _constant(_value)
    lowers(f"aten.{_name}.default")(_plain)
    lowers(f"aten.{_name}_like.default")(_like)
    lowers(f"aten.new_{_name}.default")(_new)


@lowers("aten.zero.default")
def _zero(ctx: LowerContext, self: Value) -> Value:
    return ctx.full(0, self.shape, self.dtype)


@lowers("aten.scalar_tensor.default")
def _scalar_tensor(ctx: LowerContext, s: Any, *, dtype: str | None = None) -> Value:
    return ctx.full(s, (), dtype or "f32")


# -- memory that is not written yet


@lowers("aten.empty.memory_format", "aten.empty_strided.default", "aten.empty_permuted.default",
        "prims.empty_strided.default", "prims.empty_permuted.default")  # fmt: skip
def _empty(ctx: LowerContext, size: Any, layout: Any = None, *, dtype: str | None = None) -> Value:
    return ctx.emit("undefined", shape=sizes_arg(size), dtype=dtype or "f32")


@lowers("aten.empty_like.default")
def _empty_like(ctx: LowerContext, self: Value, *, dtype: str | None = None) -> Value:
    return ctx.emit("undefined", shape=self.shape, dtype=dtype or self.dtype)


@lowers("aten.new_empty.default", "aten.new_empty_strided.default")
def _new_empty(
    ctx: LowerContext, self: Value, size: Any, stride: Any = None, *, dtype: str | None = None
) -> Value:
    return ctx.emit("undefined", shape=sizes_arg(size), dtype=dtype or self.dtype)


# -- sequences


@lowers("aten.arange.default")
def _arange(ctx: LowerContext, end: Any, *, dtype: str | None = None) -> Value:
    return arange(ctx, 0, end, 1, dtype)


@lowers("aten.arange.start", "aten.arange.start_step")
def _arange_start(
    ctx: LowerContext, start: Any, end: Any, step: Any = 1, *, dtype: str | None = None
) -> Value:
    return arange(ctx, start, end, step, dtype)


def arange(ctx: LowerContext, start: Any, end: Any, step: Any, dtype: str | None) -> Value:
    """``start, start + step, ...`` below ``end``."""
    floats = any(isinstance(x, float) for x in (start, end, step))
    out = dtype or ("f32" if floats else "i64")
    whole = [_whole(x) for x in (start, end, step)]
    if None in whole:
        return _fractional(ctx, start, end, step, out)
    a, b, s = whole
    n = _length(a, b, s)
    if not isinstance(s, int):
        raise Unsupported("a symbolic step")
    values = ctx.iota(n, a or 0, s, out if is_integer(out) else "i64")
    return ctx.cast(values, out)


def _whole(x: Any) -> Any:
    if isinstance(x, float):
        return int(x) if x.is_integer() else None
    return x


def _length(a: Any, b: Any, s: Any) -> Size:
    span = b - a
    if s == 1:
        return Poly(span.terms) if isinstance(span, Poly) else max(int(span), 0)
    if isinstance(span, Poly) or isinstance(s, Poly):
        raise Unsupported("a symbolic range with a step")
    return max(-(-int(span) // int(s)), 0)


def _fractional(ctx: LowerContext, start: Any, end: Any, step: Any, dtype: str) -> Value:
    a, b, s = (ctx.number(x) for x in (start, end, step))
    if not (isinstance(a, Fraction) and isinstance(b, Fraction) and isinstance(s, Fraction)):
        raise Unsupported("a symbolic range with fractions")
    n = max(-((a - b) // s), 0)
    return ctx.shift(ctx.scale(ctx.cast(ctx.iota(n), dtype), s), a)


@lowers("prims.iota.default")
def _iota(ctx: LowerContext, length: Any, *, start: Any, step: Any, dtype: str, **_: Any) -> Value:
    return ctx.iota(length, start, step, dtype)


@lowers("aten.linspace.default")
def _linspace(
    ctx: LowerContext, start: Any, end: Any, steps: int, *, dtype: str | None = None
) -> Value:
    out = dtype or "f32"
    a, b = ctx.number(start), ctx.number(end)
    if steps == 1 or not is_float(out):
        raise Unsupported("linspace of one element or of integers")
    x = ctx.cast(ctx.iota(steps), out)
    return ctx.shift(ctx.scale(x, (b - a) / (steps - 1)), a)  # type: ignore[operator]


@lowers("aten.eye.default", "aten.eye.m")
def _eye(ctx: LowerContext, n: Any, m: Any = None, *, dtype: str | None = None) -> Value:
    cols = n if m is None else m
    row = ctx.unsqueeze(ctx.iota(n), 1)
    equal = ctx.compare("eq", row, ctx.unsqueeze(ctx.iota(cols), 0))
    return ctx.cast(equal, dtype or "f32")
