"""Reductions, scans and products."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from math import inf, prod

from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
from shardproof.frontends.hlo.elementwise import COMPARE
from shardproof.frontends.hlo.known import Known, Number
from shardproof.frontends.hlo.module import Computation, Instruction
from shardproof.frontends.hlo.registry import lowers
from shardproof.ir.graph import Value, is_bool, is_float

_KINDS = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "product",
          "and": "and", "or": "or"}  # fmt: skip
_TRANSPARENT = ("convert", "copy", "bitcast", "reduce-precision")


def reducer(ctx: HloContext, key: str = "to_apply") -> str | None:
    """What a reducer computation does to its two parameters: sum, max, min, product, and, or."""
    found = ctx.module.computations.get(ctx.instruction.computation(key))
    return None if found is None else kind_of(found)


def assigns(ctx: HloContext) -> bool:
    """Whether the reducer takes the new value and drops the old one."""
    body = ctx.module.computations.get(ctx.instruction.computation("to_apply"))
    root = body.root if body is not None else None
    return root is not None and root.opcode == "parameter" and root.literal == "1"


def kind_of(computation: Computation) -> str | None:
    """What a computation does to its two parameters, if it is one of the reductions."""
    names = {i.name: i for i in computation.instructions}
    root = computation.root
    root = _through(root, names) if root is not None else None
    if root is None or root.opcode not in _KINDS or len(root.operands) != 2:
        return None
    ends = [_through(names.get(x), names) for x in root.operands]
    numbers = [e.literal for e in ends if e is not None and e.opcode == "parameter"]
    return _KINDS[root.opcode] if sorted(numbers) == ["0", "1"] else None


def _through(i: Instruction | None, names: dict[str, Instruction]) -> Instruction | None:
    while i is not None and i.opcode in _TRANSPARENT and i.operands:
        i = names.get(i.operands[0])
    return i


def reduction(ctx: HloContext, kind: str | None, dtype: str) -> str:
    """The core name of an elementwise reduction of values of one element type.

    Raises:
        Unsupported: it has none.
    """
    if kind in ("and", "or") and is_bool(dtype):
        return "min" if kind == "and" else "max"
    if kind is None or kind in ("and", "or") or (is_bool(dtype) and kind in ("sum", "product")):
        raise Unsupported("a reduction that is none of sum, product, max, min, and, or")
    return kind


@lowers("reduce")
def _reduce(ctx: HloContext, xs: Sequence[Held]) -> Held:
    dims = ctx.instruction.ints("dimensions")
    if len(xs) != 2:
        return _arg_extremum(ctx, xs, dims)
    x, start = ctx.value(xs[0]), xs[1]
    kind = reduction(ctx, reducer(ctx), x.dtype)
    out = _reduced(ctx, kind, x, dims)
    return _from_start(ctx, kind, out, start)


def _reduced(ctx: HloContext, kind: str, x: Value, dims: tuple[int, ...]) -> Value:
    if not dims:
        return x
    core = {"product": "prod"}.get(kind, kind)
    return ctx.emit(core, x, dims=tuple(sorted(dims)), keepdim=False)


def _from_start(ctx: HloContext, kind: str, x: Value, start: Held) -> Value:
    """Combine with the start value, unless it is neutral."""
    n = start.number if isinstance(start, Known) else None
    if n is not None and _neutral(kind, n, x.dtype):
        return x
    core = {"sum": "add", "product": "mul", "max": "maximum", "min": "minimum"}[kind]
    if is_bool(x.dtype):
        return ctx.logic("or" if kind == "max" else "and", x, ctx.expand(ctx.value(start), x.shape))
    return ctx.emit(core, x, ctx.expand(ctx.value(start), x.shape))


def _neutral(kind: str, n: Number, dtype: str) -> bool:
    if kind in ("sum", "product"):
        return n == (kind == "product")
    if is_bool(dtype):
        return n == (kind == "min")
    if is_float(dtype):
        return n == (-inf if kind == "max" else inf)
    bits = int(dtype[1:])
    low = -(1 << bits - 1) if dtype[0] == "i" else 0
    return n == (low if kind == "max" else low + (1 << bits) - 1)


# ---------------------------------------------------------------- index of the extremum

_ORDER_ONLY = frozenset(("parameter", "compare", "select", "or", "and", "tuple"))


def _arg_extremum(ctx: HloContext, xs: Sequence[Held], dims: tuple[int, ...]) -> Held:
    """Value and position of the maximum or minimum: a reduction of values and positions whose
    reducer only compares, so that nine cases tell what it does."""
    body = ctx.module.computations.get(ctx.instruction.computation("to_apply"))
    if len(xs) != 4 or len(dims) != 1 or body is None:
        raise Unsupported("a reduction of several operands")
    places = xs[1]
    if not isinstance(places, Known) or places.table is not None or places.base != 0:
        raise Unsupported("a reduction of several operands")
    along = [int(k == dims[0] and n > 1) for k, n in enumerate(places.shape)]
    if list(places.strides) != along or any(i.opcode not in _ORDER_ONLY for i in body.instructions):
        raise Unsupported("a reduction of several operands")
    kind = next((k for k in ("max", "min") if _picks(body, k)), None)
    if kind is None:
        raise Unsupported("a reduction of several operands")
    x = ctx.value(xs[0])
    best = ctx.emit(kind, x, dims=dims, keepdim=False)
    index = ctx.emit(f"arg{kind}", x, dim=dims[0], keepdim=False)
    return best, ctx.cast(index, places.dtype)


def _picks(body: Computation, kind: str) -> bool:
    """Whether ``body`` takes the better of two (value, position), the first of equal ones."""
    sign = 1 if kind == "max" else -1
    for v, w, i, j in itertools.product((0, 1), (0, 1), (0, 1), (0, 1)):
        better = (v, i) if (sign * v, -i) >= (sign * w, -j) else (w, j)
        if _run(body, (v, i, w, j)) != better:
            return False
    return True


def _run(body: Computation, arguments: tuple[int, ...]) -> tuple[int, ...] | None:
    env: dict[str, int] = {}
    for i in body.instructions:
        xs = [env[x] for x in i.operands if x in env]
        if i.opcode == "parameter":
            env[i.name] = arguments[int(i.literal)]
        elif i.opcode == "tuple":
            return tuple(xs)
        elif i.opcode == "compare":
            env[i.name] = int(COMPARE[i.attrs["direction"]](*xs))
        elif i.opcode == "select":
            env[i.name] = xs[1] if xs[0] else xs[2]
        else:
            env[i.name] = xs[0] | xs[1] if i.opcode == "or" else xs[0] & xs[1]
    return None


# ---------------------------------------------------------------- scans


@lowers("reduce-window")
def _window(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Running sums: a window over all elements before."""
    x, window = ctx.value(xs[0]), ctx.instruction.attrs.get("window", "")
    fields = dict(re.findall(r"(\w+)=([\dx_\-]+)", window))
    sizes = [int(n) for n in fields.get("size", "").split("x") if n]
    pads = fields.get("pad", "x".join("0_0" for _ in sizes)).split("x")
    wide = [d for d, n in enumerate(sizes) if n != 1]
    neutral = isinstance(xs[1], Known) and xs[1].number == 0
    if len(xs) != 2 or len(wide) != 1 or not neutral or set(fields) - {"size", "pad"}:
        raise Unsupported("a reduction over windows")
    (d,) = wide
    n = x.shape[d]
    full = sizes[d] == n and pads[d] == f"{sizes[d] - 1}_0" and reducer(ctx) == "sum"
    if not full or any(p != "0_0" for k, p in enumerate(pads) if k != d):
        raise Unsupported("a reduction over windows")
    return ctx.emit("cumsum", x, dim=d)


@lowers("topk")
def _topk(ctx: HloContext, xs: Sequence[Held]) -> Held:
    x = ctx.value(xs[0])
    k = ctx.instruction.ints("k")[0]
    largest = ctx.instruction.attrs.get("largest", "true") == "true"
    values, places = ctx.emit_all("topk", x, k=k, dim=len(x.shape) - 1, largest=largest)
    return values, ctx.cast(places, "i32")


# ---------------------------------------------------------------- products


@lowers("dot")
def _dot(ctx: HloContext, xs: Sequence[Held]) -> Held:
    i = ctx.instruction
    a, b = ctx.listed(xs)
    batch = i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")
    summed = i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims")
    free = [
        tuple(d for d in range(len(v.shape)) if d not in (*batch[k], *summed[k]))
        for k, v in enumerate((a, b))
    ]
    left = _matrix(ctx, a, batch[0], free[0], summed[0])
    right = _matrix(ctx, b, batch[1], summed[1], free[1])
    if is_bool(a.dtype):
        raise Unsupported("a product of booleans")
    out = ctx.matmul(left, right)
    outer = [a.shape[d] for d in batch[0]]
    rows, columns = ([v.shape[d] for d in f] for v, f in zip((a, b), free, strict=True))
    return ctx.reshape(out, [*outer, *rows, *columns])


def _matrix(
    ctx: HloContext, x: Value, batch: tuple[int, ...], rows: tuple[int, ...],
    columns: tuple[int, ...],
) -> Value:  # fmt: skip
    """``x`` as a batch of matrices; several dims of one side become one."""
    x = ctx.permute(x, (*batch, *rows, *columns))
    n, m = len(batch), len(batch) + len(rows)
    sizes = [int(s) for s in x.shape if isinstance(s, int)]
    return ctx.reshape(x, [*sizes[:n], prod(sizes[n:m]), prod(sizes[m:])])
