"""Matrix products and einsum."""

from __future__ import annotations

from typing import Any

from shardproof.frontends.aten.context import LowerContext, Unsupported
from shardproof.frontends.aten.registry import lowers
from shardproof.ir.graph import Value
from shardproof.ir.sizes import Size, product


@lowers("aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.dot.default",
        "aten.vdot.default", "aten.matmul.default", "aten.inner.default",
        "aten._int_mm.default")  # fmt: skip
def _matmul(ctx: LowerContext, self: Value, other: Value, **_: Any) -> Value:
    if "inner" in ctx.statement.target and len(other.shape) > 1:
        raise Unsupported("inner product of matrices")
    return ctx.matmul(self, other)


@lowers("aten.mm.dtype", "aten.bmm.dtype")
def _matmul_dtype(ctx: LowerContext, self: Value, mat2: Value, out_dtype: str) -> Value:
    return ctx.cast(ctx.matmul(self, mat2), out_dtype)


def plus_product(ctx: LowerContext, base: Value, product: Value, beta: Any, alpha: Any) -> Value:
    """``beta * base + alpha * product``; with ``beta == 0`` the base is not read, whatever it
    holds."""
    scaled = product if alpha == 1 else ctx.scale(product, alpha)
    if beta == 0:
        return scaled
    return ctx.add(scaled, base if beta == 1 else ctx.scale(base, beta))


@lowers("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def _addmm(
    ctx: LowerContext, self: Value, mat1: Value, mat2: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    return plus_product(ctx, self, ctx.matmul(mat1, mat2), beta, alpha)


@lowers("aten._addmm_activation.default")
def _addmm_activation(
    ctx: LowerContext, self: Value, mat1: Value, mat2: Value, *, beta: Any = 1, alpha: Any = 1,
    use_gelu: bool = False,
) -> Value:  # fmt: skip
    if use_gelu:
        raise Unsupported("which gelu _addmm_activation computes depends on the device")
    return ctx.emit("relu", _addmm(ctx, self, mat1, mat2, beta=beta, alpha=alpha))


@lowers("aten.addbmm.default")
def _addbmm(
    ctx: LowerContext, self: Value, batch1: Value, batch2: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    total = ctx.sum(ctx.matmul(batch1, batch2), (0,))
    return plus_product(ctx, self, total, beta, alpha)


@lowers("aten.addr.default")
def _addr(
    ctx: LowerContext, self: Value, vec1: Value, vec2: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value:
    return plus_product(ctx, self, _outer(ctx, vec1, vec2), beta, alpha)


@lowers("aten.outer.default", "aten.ger.default")
def _outer(ctx: LowerContext, self: Value, vec2: Value) -> Value:
    return ctx.mul(ctx.unsqueeze(self, 1), ctx.unsqueeze(vec2, 0))


@lowers("aten.linear.default")
def _linear(ctx: LowerContext, input: Value, weight: Value, bias: Value | None = None) -> Value:
    w = ctx.permute(weight, (1, 0)) if len(weight.shape) == 2 else weight
    y = ctx.matmul(input, w)
    return y if bias is None else ctx.add(y, bias)


# ------------------------------------------------------------------------------ einsum


@lowers("aten.einsum.default")
def _einsum(
    ctx: LowerContext, equation: str, tensors: tuple[Value, ...], *, path: Any = None
) -> Value:
    inputs, output = _parse(equation)
    if len(inputs) != len(tensors) or not 1 <= len(tensors) <= 2:
        raise Unsupported(f"einsum of {len(tensors)} operands")
    pairs = [
        _only(ctx, x, names, set(output).union(*(n for n in inputs if n is not names)))
        for x, names in zip(tensors, inputs, strict=True)
    ]
    if len(pairs) == 1:
        ((x, names),) = pairs
        return ctx.permute(x, [names.index(c) for c in output])
    return _einsum_pair(ctx, *pairs[0], *pairs[1], output)


def _parse(equation: str) -> tuple[list[str], str]:
    text = equation.replace(" ", "")
    left, arrow, output = text.partition("->")
    inputs = left.split(",")
    if "." in text or any(len(set(n)) != len(n) for n in [*inputs, output]):
        raise Unsupported(f"einsum {equation!r} with an ellipsis or a repeated label")
    if not arrow:
        joined = "".join(inputs)
        output = "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    return inputs, output


def _only(ctx: LowerContext, x: Value, names: str, used: set[str]) -> tuple[Value, str]:
    """``x`` summed over the labels that nothing else has."""
    lost = [k for k, c in enumerate(names) if c not in used]
    return ctx.sum(x, lost), "".join(c for c in names if c in used)


def _einsum_pair(ctx: LowerContext, a: Value, na: str, b: Value, nb: str, output: str) -> Value:
    batch = [c for c in na if c in nb and c in output]
    inner = [c for c in na if c in nb and c not in output]
    rows, cols = [c for c in na if c not in nb], [c for c in nb if c not in na]
    size: dict[str, Size] = dict(zip(na + nb, a.shape + b.shape, strict=True))
    x = ctx.permute(a, [na.index(c) for c in batch + rows + inner])
    y = ctx.permute(b, [nb.index(c) for c in batch + inner + cols])
    lead = [size[c] for c in batch]
    m, k, n = (product(size[c] for c in part) for part in (rows, inner, cols))
    z = ctx.matmul(ctx.reshape(x, (*lead, m, k)), ctx.reshape(y, (*lead, k, n)))
    names = batch + rows + cols
    z = ctx.reshape(z, [size[c] for c in names])
    return ctx.permute(z, [names.index(c) for c in output])
