"""Slices and updates at computed positions."""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
from shardproof.frontends.hlo.known import Known
from shardproof.frontends.hlo.rearrange import box
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
    shape = shape_of(x)
    starts = [0 if n == m else _start(s, n, m) for s, n, m in zip(given, shape, sizes, strict=True)]
    if all(s is not None for s in starts):
        return box(ctx, x, [s for s in starts if s is not None], sizes)
    unknown = [d for d, s in enumerate(starts) if s is None]
    if len(unknown) != 1 or sizes[unknown[0]] != 1:
        raise Unsupported("a slice of several elements at a position that is not known")
    (d,) = unknown
    row = ctx.emit("take_rows", ctx.move(ctx.value(x), d, 0), ctx.value(given[d]))
    in_range(ctx, shape[d])
    rest = [s if s is not None else 0 for k, s in enumerate(starts) if k != d]
    cut = box(ctx, row, rest, [n for k, n in enumerate(sizes) if k != d])
    return ctx.reshape(ctx.value(cut), sizes)


def shape_of(x: Held) -> tuple[int, ...]:
    """The extents of an array."""
    if isinstance(x, Known):
        return x.shape
    if not isinstance(x, Value):
        raise Unsupported("an operand is no array")
    return tuple(n for n in x.shape if isinstance(n, int))


def in_range(ctx: HloContext, n: int) -> None:
    """List that positions of this instruction lie in [0, n)."""
    name = ctx.instruction.name
    ctx.record.assume("range", f"{name}: positions lie in [0, {n}) (XLA moves others there)")


@lowers("dynamic-update-slice")
def _dynamic_update(ctx: HloContext, xs: Sequence[Held]) -> Held:
    x, part, *given = xs
    shape, sizes = shape_of(x), shape_of(part)
    starts = [0 if n == m else _start(s, n, m) for s, n, m in zip(given, shape, sizes, strict=True)]
    unknown = [d for d, s in enumerate(starts) if s is None]
    base, new = ctx.value(x), ctx.value(part)
    if not unknown:
        return put(ctx, base, new, [s for s in starts if s is not None])
    if len(unknown) == 1 and sizes == tuple(
        1 if k == unknown[0] else n for k, n in enumerate(shape)
    ):
        return put_row(ctx, base, new, unknown[0], ctx.value(given[unknown[0]]))
    raise Unsupported("an update at a position that is not known")


def put(ctx: HloContext, x: Value, new: Value, starts: Sequence[int]) -> Value:
    """``x`` with the box at ``starts`` replaced, dim after dim from the outside."""
    cut = [d for d, s in enumerate(starts) if new.shape[d] != x.shape[d]]
    if not cut:
        return new
    d, a = cut[0], starts[cut[0]]
    b = a + new.shape[d]
    n = x.shape[d]
    inner = [0 if k == d else s for k, s in enumerate(starts)]
    middle = put(ctx, ctx.slice(x, d, a, b), new, inner)
    before = [ctx.slice(x, d, 0, a)] if a else []
    after = [ctx.slice(x, d, b, n)] if b != n else []
    return ctx.concat([*before, middle, *after], d)


def put_row(ctx: HloContext, x: Value, new: Value, d: int, at: Value) -> Value:
    """``x`` with the row at a computed position replaced."""
    n = x.shape[d]
    in_range(ctx, n if isinstance(n, int) else 0)
    column = [n if k == d else 1 for k in range(len(x.shape))]
    here = ctx.compare("eq", ctx.iota(n, dtype=at.dtype), ctx.reshape(at, ()))
    mask = ctx.expand(ctx.reshape(here, column), x.shape)
    return ctx.emit("where", mask, ctx.expand(new, x.shape), x)
