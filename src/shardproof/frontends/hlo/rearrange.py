"""Rearrangements: broadcast, reshape, transpose, slices, concatenation, padding, constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np

from shardproof.frontends.hlo import known as kn
from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
from shardproof.frontends.hlo.known import Known
from shardproof.frontends.hlo.registry import lowers
from shardproof.frontends.hlo.shapes import Array, HloSyntaxError
from shardproof.ir.graph import Value

_NUMBER = re.compile(r"-?nan|-?inf|[-+]?[\d.]+(?:e[-+]?\d+)?|true|false")
MAX_REVERSED = 64


@lowers("constant")
def _constant(ctx: HloContext, xs: Sequence[Held]) -> Held:
    literal, want = ctx.instruction.literal, ctx.array()
    if "..." in literal:
        return _elided(ctx, want)
    words = _NUMBER.findall(literal.lower())
    if len(words) != prod(want.dims) or want.dtype[0] == "c":
        raise Unsupported(f"a constant of type {want} with {len(words)} numbers")
    numbers = [kn.read_number(w, want.dtype) for w in words]
    for word, number in zip(words, numbers, strict=True):
        if isinstance(number, Fraction) and number != Fraction(word):
            ctx.record.assume("arithmetic", f"the constant {word} is read as {number}")
    if not want.dims:
        return kn.scalar(want.dtype, numbers[0])
    table = np.empty(len(numbers), dtype=object)
    table[:] = numbers
    return kn.from_table(want.dtype, table.reshape(want.dims))


def _elided(ctx: HloContext, want: Array) -> Value:
    """A constant whose value the printer left out: the k-th of its type."""
    stem = f"constant_{want.dtype}_{'x'.join(map(str, want.dims)) or 'scalar'}_elided"
    key = f"{stem}@{ctx.instruction.line}"
    if key not in ctx.constants:
        count = sum(k.startswith(stem + "@") for k in ctx.constants)
        ctx.constants[key] = ctx.named_constant(f"elided{count}", want.dtype, want.dims)
    return ctx.constants[key]


@lowers("iota")
def _iota(ctx: HloContext, xs: Sequence[Held]) -> Held:
    want = ctx.array()
    return kn.iota(want.dtype, want.dims, ctx.instruction.ints("iota_dimension")[0])


@lowers("partition-id")
def _partition(ctx: HloContext, xs: Sequence[Held]) -> Held:
    return kn.scalar("u32", ctx.facts.partition)


@lowers("replica-id")
def _replica(ctx: HloContext, xs: Sequence[Held]) -> Held:
    return kn.scalar("u32", ctx.facts.replica)


@lowers("broadcast")
def _broadcast(ctx: HloContext, xs: Sequence[Held]) -> Held:
    x, shape, dims = xs[0], ctx.array().dims, ctx.instruction.ints("dimensions")
    if isinstance(x, Known):
        done = kn.broadcast(x, shape, dims)
        if done is not None:
            return done
    v = ctx.value(x)
    order = sorted(range(len(dims)), key=lambda k: dims[k])
    v = ctx.permute(v, order)
    return ctx.expand(ctx.reshape(v, [n if k in dims else 1 for k, n in enumerate(shape)]), shape)


@lowers("reshape", "dynamic-reshape")
def _reshape(ctx: HloContext, xs: Sequence[Held]) -> Held:
    return _reshaped(ctx, xs[0], ctx.array().dims)


def _reshaped(ctx: HloContext, x: Held, shape: tuple[int, ...]) -> Held:
    if isinstance(x, Known):
        done = kn.reshape(x, shape)
        if done is not None:
            return done
    v = ctx.value(x)
    out = ctx.reshape(v, shape)
    columns = ctx.columns.get(v)
    if columns is not None and shape and shape[-1] == v.shape[-1]:
        ctx.columns[out] = [_reshaped(ctx, c, (*shape[:-1], 1)) for c in columns]
    return out


@lowers("bitcast")
def _bitcast(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """The same memory under another shape: rows in memory order, reshaped."""
    want, x = ctx.array(), xs[0]
    have = ctx.sources[0].shape
    if not isinstance(have, Array) or have.dtype != want.dtype:
        raise Unsupported("a bitcast to another element type")
    x = transpose(ctx, x, tuple(reversed(have.layout)))
    stored = tuple(want.dims[k] for k in reversed(want.layout))
    x = _reshaped(ctx, x, stored)
    order = tuple(reversed(want.layout))
    return transpose(ctx, x, tuple(order.index(k) for k in range(len(order))))


@lowers("transpose")
def _transpose(ctx: HloContext, xs: Sequence[Held]) -> Held:
    return transpose(ctx, xs[0], ctx.instruction.ints("dimensions"))


def transpose(ctx: HloContext, x: Held, perm: tuple[int, ...]) -> Held:
    """Dim k of the result is dim ``perm[k]``."""
    if isinstance(x, Known):
        return kn.transpose(x, perm)
    return ctx.permute(ctx.value(x), perm)


@lowers("slice")
def _slice(ctx: HloContext, xs: Sequence[Held]) -> Held:
    text = ctx.instruction.attrs.get("slice", "")
    bounds = [tuple(map(int, b.split(":"))) for b in re.findall(r"\[([\d:]+)\]", text)]
    starts, stops = [b[0] for b in bounds], [b[1] for b in bounds]
    steps = [b[2] if len(b) > 2 else 1 for b in bounds]
    sizes = [-(-(b - a) // s) for a, b, s in zip(starts, stops, steps, strict=True)]
    return box(ctx, xs[0], starts, sizes, steps)


def box(
    ctx: HloContext, x: Held, starts: Sequence[int], sizes: Sequence[int],
    steps: Sequence[int] | None = None,
) -> Held:  # fmt: skip
    """A box of ``x``, strided if there are ``steps``."""
    steps = steps or [1] * len(sizes)
    if isinstance(x, Known):
        return kn.cut(x, starts, sizes, steps)
    v = ctx.value(x)
    if len(sizes) != len(v.shape):
        raise HloSyntaxError(f"a slice with {len(sizes)} dims of a tensor with {len(v.shape)}")
    for d, (a, n, step) in enumerate(zip(starts, sizes, steps, strict=True)):
        v = ctx.slice(v, d, a, a + n) if step == 1 else _strided(ctx, v, d, a, n, step)
    return v


def _strided(ctx: HloContext, x: Value, d: int, start: int, n: int, step: int) -> Value:
    """Every ``step``-th element: the first column of rows of ``step`` elements."""
    whole = x.shape[d]
    assert isinstance(whole, int)
    x = ctx.slice(x, d, start, min(whole, start + n * step))
    have = x.shape[d]
    assert isinstance(have, int)
    if have < n * step:
        shape = (*x.shape[:d], n * step - have, *x.shape[d + 1 :])
        x = ctx.concat([x, ctx.full(0, shape, x.dtype)], d)
    rows = ctx.reshape(x, (*x.shape[:d], n, step, *x.shape[d + 1 :]))
    return ctx.drop(ctx.slice(rows, d + 1, 0, 1), d + 1)


@lowers("concatenate")
def _concatenate(ctx: HloContext, xs: Sequence[Held]) -> Held:
    (dim,) = ctx.instruction.ints("dimensions")
    if all(isinstance(x, Known) for x in xs):
        parts = [x.dense() for x in xs if isinstance(x, Known)]
        dense = [p for p in parts if p is not None]
        if len(dense) == len(xs):
            return kn.from_table(ctx.array().dtype, np.concatenate(dense, axis=dim))
    out = ctx.concat(ctx.listed(xs), dim)
    if dim == len(out.shape) - 1 and all(v.shape[dim] == 1 for v in ctx.listed(xs)):
        ctx.columns[out] = list(xs)
    return out


@lowers("pad")
def _pad(ctx: HloContext, xs: Sequence[Held]) -> Held:
    edges = [
        tuple(int(n) for n in part.split("_"))
        for part in ctx.instruction.attrs.get("padding", "").split("x")
    ]
    filler = xs[1].number if isinstance(xs[1], Known) else None
    if filler is None or filler != filler:
        raise Unsupported("padding with a value that is not a known number")
    x = ctx.value(xs[0])
    for d, edge in enumerate(edges):
        low, high, inner = (*edge, 0)[:3]
        if inner:
            x = _spread(ctx, x, d, inner, filler)
        x = _padded(ctx, x, d, low, high, filler)
    return x


def _spread(ctx: HloContext, x: Value, d: int, inner: int, filler: object) -> Value:
    """``inner`` fillers after each element but the last."""
    n = x.shape[d]
    rows = ctx.reshape(x, (*x.shape[: d + 1], 1, *x.shape[d + 1 :]))
    rest = ctx.full(filler, (*x.shape[: d + 1], inner, *x.shape[d + 1 :]), x.dtype)
    joined = ctx.concat([rows, rest], d + 1)
    wide = ctx.reshape(joined, (*x.shape[:d], n * (inner + 1), *x.shape[d + 1 :]))
    return ctx.slice(wide, d, 0, n * (inner + 1) - inner)


def _padded(ctx: HloContext, x: Value, d: int, low: int, high: int, filler: object) -> Value:
    """``low`` and ``high`` fillers around dim ``d``; negative numbers cut."""
    n = x.shape[d]
    x = ctx.slice(x, d, max(-low, 0), n + min(high, 0))
    parts = []
    for k, count in enumerate((low, 0, high)):
        if k == 1:
            parts.append(x)
        elif count > 0:
            shape = (*x.shape[:d], count, *x.shape[d + 1 :])
            parts.append(ctx.full(filler, shape, x.dtype))
    return ctx.concat(parts, d)


@lowers("reverse")
def _reverse(ctx: HloContext, xs: Sequence[Held]) -> Held:
    x = xs[0]
    if isinstance(x, Known):
        dense = x.dense()
        if dense is not None:
            return kn.from_table(x.dtype, np.flip(dense, ctx.instruction.ints("dimensions")))
    v = ctx.value(x)
    for d in ctx.instruction.ints("dimensions"):
        n = v.shape[d]
        if not isinstance(n, int) or n > MAX_REVERSED:
            raise Unsupported(f"reversing a dim of {n} elements")
        v = ctx.concat([ctx.slice(v, d, k, k + 1) for k in reversed(range(n))], d)
    return v


@lowers("rng")
def _random(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Values drawn at random: an input that both sides have."""
    want = ctx.array()
    name = f"random_{len(ctx.record.random_inputs)}"
    ctx.record.random_inputs.append(name)
    return ctx.builder.input(name, want.dtype, want.dims)
