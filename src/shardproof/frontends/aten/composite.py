"""Operators that are a few others spelled as one."""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.helpers import dim_of, dims_of
from shardproof.frontends.aten.reduce import extremum
from shardproof.frontends.aten.registry import lowers
from shardproof.ir.graph import Value
from shardproof.ir.sizes import div_mod


def _halves(ctx: LowerContext, x: Value, d: int) -> tuple[Value, Value]:
    half, rest = div_mod(x.shape[d], 2)
    if rest != 0:
        raise Unsupported("glu of a dim of odd size")
    return ctx.slice(x, d, 0, half), ctx.slice(x, d, half, x.shape[d])


@lowers("aten.glu.default")
def _glu(ctx: LowerContext, self: Value, dim: int = -1) -> Value:
    a, b = _halves(ctx, self, dim_of(self, dim))
    return ctx.mul(a, ctx.emit("sigmoid", b))


@lowers("aten.glu_backward.default")
def _glu_backward(ctx: LowerContext, grad_output: Value, self: Value, dim: int) -> Value:
    d = dim_of(self, dim)
    a, b = _halves(ctx, self, d)
    s = ctx.emit("sigmoid", b)
    db = ctx.emit("sigmoid_grad", ctx.mul(grad_output, a), s)
    return ctx.concat([ctx.mul(grad_output, s), db], d)


@lowers("aten.frac.default")
def _frac(ctx: LowerContext, self: Value) -> Value:
    return ctx.sub(self, ctx.emit("trunc", self))


@lowers("aten.hypot.default")
def _hypot(ctx: LowerContext, self: Value, other: Value) -> Value:
    return ctx.emit("sqrt", ctx.add(ctx.mul(self, self), ctx.mul(other, other)))


@lowers("aten.logaddexp.default")
def _logaddexp(ctx: LowerContext, self: Value, other: Value) -> Value:
    return ctx.emit("log", ctx.add(ctx.emit("exp", self), ctx.emit("exp", other)))


@lowers("aten.logit.default")
def _logit(ctx: LowerContext, self: Value, eps: Any = None) -> Value:
    x = self
    if eps is not None:
        e = ctx.number(eps)
        x = ctx.emit("clamp", x, min=e, max=1 - e)
    rest = ctx.shift(ctx.emit("neg", x), 1)
    return ctx.emit("log", ctx.div(x, rest))


@lowers("aten.nan_to_num.default")
def _nan_to_num(
    ctx: LowerContext, self: Value, nan: Any = None, posinf: Any = None, neginf: Any = None
) -> Value:
    ctx.record.assume("defined", f"{ctx.statement.name}: all values are finite")
    return self


@lowers("aten.celu.default")
def _celu(ctx: LowerContext, self: Value, alpha: Any = 1.0) -> Value:
    a = ctx.number(alpha)
    below = ctx.scale(ctx.emit("expm1", ctx.scale(self, 1 / a)), a)  # type: ignore[operator]
    return ctx.where(ctx.compare("gt", self, 0), self, below)


@lowers("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def _count_nonzero(ctx: LowerContext, self: Value, dim: Any = None) -> Value:
    ones = ctx.cast(ctx.truth(self), "i64")
    return ctx.sum(ones, dims_of(self, dim))


@lowers("aten.aminmax.default")
def _aminmax(
    ctx: LowerContext, self: Value, *, dim: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    dims = dims_of(self, dim)
    return tuple(extremum(ctx, kind, self, dims, keepdim) for kind in ("min", "max"))  # type: ignore[return-value]


@lowers("aten.unfold.default")
def _unfold(ctx: LowerContext, self: Value, dimension: int, size: int, step: int) -> Value:
    d = dim_of(self, dimension)
    n = self.shape[d]
    if step != size or div_mod(n, size)[1] != 0:
        raise Unsupported("unfold into overlapping or incomplete windows")
    split = ctx.reshape(self, (*self.shape[:d], div_mod(n, size)[0], size, *self.shape[d + 1 :]))
    return ctx.move(split, d + 1, len(split.shape) - 1)
