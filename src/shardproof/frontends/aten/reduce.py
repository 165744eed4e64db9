"""Reductions, running sums, sorting."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.helpers import dim_of, dims_of
from shardproof.frontends.aten.registry import lowers
from shardproof.frontends.aten.views import to_dtype
from shardproof.ir.graph import Value, is_float
from shardproof.ir.sizes import product


def summand(ctx: LowerContext, x: Value, dtype: str | None) -> Value:
    """``x`` in the element type in which PyTorch sums it."""
    if dtype is not None:
        return to_dtype(ctx, x, dtype)
    return x if is_float(x.dtype) or x.dtype[0] == "c" else ctx.cast(x, "i64")


@lowers("aten.sum.default", "aten.sum.dim_IntList", "prims.sum.default")
def _sum(
    ctx: LowerContext, self: Value, dim: Any = None, keepdim: bool = False,
    *, dtype: str | None = None, output_dtype: Any = None,
) -> Value:  # fmt: skip
    return ctx.sum(summand(ctx, self, dtype), dims_of(self, dim), keepdim)


@lowers("aten.mean.default", "aten.mean.dim")
def _mean(
    ctx: LowerContext, self: Value, dim: Any = None, keepdim: bool = False,
    *, dtype: str | None = None,
) -> Value:  # fmt: skip
    x = to_dtype(ctx, self, dtype)
    return mean(ctx, x, dims_of(x, dim), keepdim)


def mean(ctx: LowerContext, x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
    """Mean over ``dims``."""
    return ctx.emit("mean", x, dims=dims, keepdim=keepdim) if dims else x


def extremum(ctx: LowerContext, kind: str, x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
    """max or min over ``dims``; booleans are the numbers 0 and 1."""
    return ctx.emit(kind, x, dims=dims, keepdim=keepdim) if dims else x


@lowers("aten.amax.default", "aten.max.default", "prims.amax.default")
def _amax(
    ctx: LowerContext, self: Value, dim: Any = None, keepdim: bool = False, **_: Any
) -> Value:
    return extremum(ctx, "max", self, dims_of(self, dim), keepdim)


@lowers("aten.amin.default", "aten.min.default", "prims.amin.default")
def _amin(
    ctx: LowerContext, self: Value, dim: Any = None, keepdim: bool = False, **_: Any
) -> Value:
    return extremum(ctx, "min", self, dims_of(self, dim), keepdim)


def _with_position(kind: str) -> Any:
    def rule(
        ctx: LowerContext, self: Value, dim: int, keepdim: bool = False
    ) -> tuple[Value | None, ...]:
        d = dim_of(self, dim)
        dims = (d,) if self.shape else ()
        return (
            extremum(ctx, kind, self, dims, keepdim) if ctx.wanted(0) else None,
            _position(ctx, "arg" + kind, self, d, keepdim) if ctx.wanted(1) else None,
        )

    return rule


for _kind in ("max", "min"):
    lowers(f"aten.{_kind}.dim")(_with_position(_kind))


def _position(ctx: LowerContext, op: str, x: Value, d: int, keepdim: bool) -> Value:
    if not x.shape:
        return ctx.full(0, (), "i64")
    return ctx.emit(op, x, dim=d, keepdim=keepdim)


@lowers("aten.argmax.default", "aten.argmin.default")
def _argmax(ctx: LowerContext, self: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    op = ctx.statement.target.split(".")[1]
    if dim is not None:
        return _position(ctx, op, self, dim_of(self, dim), keepdim)
    out = _position(ctx, op, ctx.reshape(self, (product(self.shape),)), 0, False)
    return ctx.reshape(out, (1,) * len(self.shape)) if keepdim else out


@lowers("aten.prod.default")
def _prod(ctx: LowerContext, self: Value, *, dtype: str | None = None) -> Value:
    x = summand(ctx, self, dtype)
    return ctx.emit("prod", x, dims=dims_of(x, None), keepdim=False)


@lowers("aten.prod.dim_int")
def _prod_dim(
    ctx: LowerContext, self: Value, dim: int, keepdim: bool = False, *, dtype: str | None = None
) -> Value:
    x = summand(ctx, self, dtype)
    return ctx.emit("prod", x, dims=dims_of(x, dim), keepdim=keepdim)


@lowers("aten.any.default", "aten.any.dim", "aten.any.dims")
def _any(ctx: LowerContext, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _over_truth(ctx, "max", self, dim, keepdim)


@lowers("aten.all.default", "aten.all.dim", "aten.all.dims")
def _all(ctx: LowerContext, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return _over_truth(ctx, "min", self, dim, keepdim)


def _over_truth(ctx: LowerContext, kind: str, x: Value, dim: Any, keepdim: bool) -> Value:
    return extremum(ctx, kind, ctx.truth(x), dims_of(x, dim), keepdim)


# ------------------------------------------------------------------------------ variance


def _correction(unbiased: Any, correction: Any) -> Any:
    if correction is not None:
        return correction
    return 1 if unbiased in (None, True) else 0


def variance(
    ctx: LowerContext, x: Value, dims: tuple[int, ...], correction: Any, keepdim: bool
) -> tuple[Value, Value]:
    """Variance and mean over ``dims``."""
    centre = mean(ctx, x, dims, True)
    diff = ctx.sub(x, centre)
    square = ctx.mul(diff, diff)
    shape = [n for k, n in enumerate(x.shape) if k not in dims]
    average = centre if keepdim else ctx.reshape(centre, shape)
    c = ctx.number(correction)
    if c == 0:
        return mean(ctx, square, dims, keepdim), average
    count = product(x.shape[d] for d in dims)
    if not isinstance(count, int) or not isinstance(c, Fraction) or count <= c:
        raise Unsupported("an unbiased variance over a symbolic or single number of elements")
    return ctx.scale(ctx.sum(square, dims, keepdim), 1 / (Fraction(count) - c)), average


@lowers("aten.var.correction", "aten.var_mean.correction", "aten.std.correction",
        "aten.std_mean.correction", "prims.var.default")  # fmt: skip
def _var(
    ctx: LowerContext, self: Value, dim: Any = None, *, correction: Any = None,
    keepdim: bool = False, **_: Any,
) -> Any:  # fmt: skip
    return _spread(ctx, self, dim, _correction(None, correction), keepdim)


@lowers("aten.var.default", "aten.var_mean.default", "aten.std.default", "aten.std_mean.default")
def _var_all(ctx: LowerContext, self: Value, unbiased: bool = True) -> Any:
    return _spread(ctx, self, None, _correction(unbiased, None), False)


@lowers("aten.var.dim", "aten.var_mean.dim", "aten.std.dim", "aten.std_mean.dim")
def _var_dim(
    ctx: LowerContext, self: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False
) -> Any:
    return _spread(ctx, self, dim, _correction(unbiased, None), keepdim)


def _spread(ctx: LowerContext, x: Value, dim: Any, correction: Any, keepdim: bool) -> Any:
    op = ctx.statement.target.split(".")[1]
    v, m = variance(ctx, x, dims_of(x, dim), correction, keepdim)
    out = ctx.emit("sqrt", v) if op.startswith("std") else v
    return (out, m) if op.endswith("mean") else out


# ------------------------------------------------------------------------------ norms


@lowers("aten.linalg_vector_norm.default")
def _vector_norm(
    ctx: LowerContext, self: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False,
    *, dtype: str | None = None,
) -> Value:  # fmt: skip
    return norm(ctx, to_dtype(ctx, self, dtype), ord, dim, keepdim)


@lowers("aten.norm.Scalar", "aten.norm.ScalarOpt_dim")
def _norm(
    ctx: LowerContext, self: Value, p: Any = 2, dim: Any = None, keepdim: bool = False
) -> Value:
    return norm(ctx, self, 2 if p is None else p, dim, keepdim)


def norm(ctx: LowerContext, x: Value, p: Any, dim: Any, keepdim: bool) -> Value:
    """The p-norm over dims, for the common p."""
    dims = dims_of(x, dim)
    if p == 2:
        return ctx.emit("sqrt", ctx.sum(ctx.mul(x, x), dims, keepdim))
    size = ctx.emit("abs", x)
    if p == 1:
        return ctx.sum(size, dims, keepdim)
    if p in (float("inf"), float("-inf")):
        return extremum(ctx, "max" if p > 0 else "min", size, dims, keepdim)
    if p == 0:
        return ctx.sum(ctx.cast(ctx.truth(x), x.dtype), dims, keepdim)
    total = ctx.sum(ctx.emit("power", size, exponent=ctx.number(p)), dims, keepdim)
    return ctx.emit("power", total, exponent=1 / ctx.number(p))  # type: ignore[operator]


# ------------------------------------------------------------------------------ whole axis


@lowers("aten.logsumexp.default")
def _logsumexp(ctx: LowerContext, self: Value, dim: Any, keepdim: bool = False) -> Value:
    return ctx.emit("logsumexp", ctx.floating(self), dims=dims_of(self, dim), keepdim=keepdim)


@lowers("aten.cumsum.default")
def _cumsum(ctx: LowerContext, self: Value, dim: int, *, dtype: str | None = None) -> Value:
    x = summand(ctx, self, dtype)
    return ctx.emit("cumsum", x, dim=dim_of(x, dim)) if x.shape else x


@lowers("aten.sort.default", "aten.sort.stable")
def _sort(
    ctx: LowerContext, self: Value, dim: int = -1, descending: bool = False,
    *, stable: bool | None = None,
) -> tuple[Value, ...]:  # fmt: skip
    return ctx.emit_all("sort", self, dim=dim_of(self, dim), descending=descending)


@lowers("aten.topk.default")
def _topk(
    ctx: LowerContext, self: Value, k: int, dim: int = -1, largest: bool = True,
    sorted: bool = True,
) -> tuple[Value, ...]:  # fmt: skip
    return ctx.emit_all("topk", self, k=k, dim=dim_of(self, dim), largest=largest)
