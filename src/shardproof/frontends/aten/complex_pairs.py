"""Complex tensors as pairs of real ones (rotary embeddings are often written with them).

A complex graph input becomes a real input with a last dim of 2, as ``view_as_real`` lays it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.registry import find, lowers
from shardproof.ir.graph import Value
from shardproof.ir.sizes import Size

REAL_OF = {"c64": "f32", "c128": "f64"}


@dataclass(frozen=True, slots=True)
class Complex:
    """Real and imaginary part."""

    re: Value
    im: Value

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.re.shape


def unpack(ctx: LowerContext, x: Value) -> Complex:
    """The complex tensor of a real one whose last dim has two elements."""
    d = len(x.shape) - 1
    return Complex(*(ctx.drop(ctx.slice(x, d, k, k + 1), d) for k in (0, 1)))


def pack(ctx: LowerContext, x: Complex) -> Value:
    """The inverse of :func:`unpack`."""
    d = len(x.shape)
    return ctx.concat([ctx.unsqueeze(x.re, d), ctx.unsqueeze(x.im, d)], d)


def holds_complex(args: tuple[Any, ...]) -> bool:
    """Whether an argument, or an element of a list argument, is complex."""
    return any(
        type(a) is Complex or (type(a) is tuple and any(type(y) is Complex for y in a))
        for a in args
    )


# Linear over the reals, with the other arguments alike for both parts.
_BY_PARTS = frozenset(
    f"aten.{name}"
    for name in (
        "view.default _unsafe_view.default reshape.default permute.default transpose.int "
        "unsqueeze.default squeeze.default squeeze.dim squeeze.dims expand.default slice.Tensor "
        "select.int split.Tensor split_with_sizes.default chunk.default unbind.int cat.default "
        "stack.default clone.default detach.default alias.default contiguous.default t.default "
        "neg.default sum.default sum.dim_IntList mean.default mean.dim narrow.default "
        "flatten.using_ints roll.default index_select.default index.Tensor copy.default "
        "lift_fresh_copy.default slice_scatter.default select_scatter.default "
        "slice_backward.default select_backward.default resolve_conj.default"
    ).split()
)


def lower(ctx: LowerContext, target: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Lower an operator with complex arguments."""
    special = _SPECIAL.get(target)
    if special is not None:
        return special(ctx, *args, **kwargs)
    rule = find(target)
    if target not in _BY_PARTS or rule is None:
        raise Unsupported("complex numbers")
    parts = [rule(ctx, *(_part(a, k) for a in args), **kwargs) for k in ("re", "im")]
    if isinstance(parts[0], tuple):
        return tuple(None if a is None else Complex(a, b) for a, b in zip(*parts, strict=True))
    return Complex(*parts)


def _part(a: Any, name: str) -> Any:
    if isinstance(a, Complex):
        return getattr(a, name)
    return tuple(_part(y, name) for y in a) if type(a) is tuple else a


def _mul(ctx: LowerContext, self: Any, other: Any) -> Complex:
    if not isinstance(self, Complex):
        self, other = other, self
    if isinstance(other, Complex):
        return Complex(
            ctx.sub(ctx.mul(self.re, other.re), ctx.mul(self.im, other.im)),
            ctx.add(ctx.mul(self.re, other.im), ctx.mul(self.im, other.re)),
        )
    times = find("aten.mul.Tensor")
    assert times is not None
    return Complex(times(ctx, self.re, other), times(ctx, self.im, other))


def _sum_of(op: str) -> Callable[..., Complex]:
    def rule(ctx: LowerContext, self: Any, other: Any, *, alpha: Any = 1) -> Complex:
        if alpha != 1 or not (isinstance(self, Complex) and isinstance(other, Complex)):
            raise Unsupported("a sum of complex and real numbers")
        return Complex(
            ctx.emit(op, self.re, other.re),
            ctx.emit(op, self.im, other.im),
        )

    return rule


def _conj(ctx: LowerContext, self: Complex) -> Complex:
    return Complex(self.re, ctx.emit("neg", self.im))


def _convert(ctx: LowerContext, self: Complex, *, dtype: str | None = None) -> Any:
    if dtype is None:
        return self
    if dtype not in REAL_OF:
        return ctx.cast(self.re, dtype)
    return Complex(*(ctx.cast(x, REAL_OF[dtype]) for x in (self.re, self.im)))


def _abs(ctx: LowerContext, self: Complex) -> Value:
    squares = ctx.add(ctx.mul(self.re, self.re), ctx.mul(self.im, self.im))
    return ctx.emit("sqrt", squares)


_SPECIAL: dict[str, Callable[..., Any]] = {
    "aten.mul.Tensor": _mul,
    "aten.mul.Scalar": _mul,
    "aten.add.Tensor": _sum_of("add"),
    "aten.sub.Tensor": _sum_of("sub"),
    "aten.view_as_real.default": pack,
    "aten.view_as_real_copy.default": pack,
    "aten._conj.default": _conj,
    "aten.conj.default": _conj,
    "aten.conj_physical.default": _conj,
    "aten._conj_physical.default": _conj,
    "aten.real.default": lambda ctx, self: self.re,
    "aten.imag.default": lambda ctx, self: self.im,
    "aten._to_copy.default": _convert,
    "aten.abs.default": _abs,
    "aten.angle.default": lambda ctx, self: ctx.emit("atan2", self.im, self.re),
}


@lowers("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def _view_as_complex(ctx: LowerContext, self: Value) -> Complex:
    return unpack(ctx, self)


@lowers("aten.polar.default")
def _polar(ctx: LowerContext, abs: Value, angle: Value) -> Complex:
    return Complex(
        ctx.mul(abs, ctx.emit("cos", angle)),
        ctx.mul(abs, ctx.emit("sin", angle)),
    )


@lowers("aten.complex.default")
def _complex(ctx: LowerContext, real: Value, imag: Value) -> Complex:
    return Complex(real, imag)
