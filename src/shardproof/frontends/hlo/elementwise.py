"""Elementwise operators; on known operands they are computed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf, trunc

from shardproof.frontends.hlo import known as kn
from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
from shardproof.frontends.hlo.known import Known, Number
from shardproof.frontends.hlo.registry import lowers
from shardproof.ir.graph import Value, is_bool, is_float, is_integer

UNARY = {
    "exponential": "exp", "exponential-minus-one": "expm1", "log": "log", "log-plus-one": "log1p",
    "logistic": "sigmoid", "tanh": "tanh", "cosine": "cos", "sine": "sin", "tan": "tan",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "abs": "abs", "sign": "sign", "floor": "floor",
    "ceil": "ceil", "round-nearest-even": "round", "erf": "erf", "acos": "acos", "asin": "asin",
    "atan": "atan", "sinh": "sinh", "cosh": "cosh",
}  # fmt: skip
BINARY = {"power": "pow", "maximum": "maximum", "minimum": "minimum", "atan2": "atan2",
          "remainder": "fmod"}  # fmt: skip
UNINTERPRETED = (
    "cbrt", "popcnt", "count-leading-zeros", "is-finite", "round-nearest-afz", "shift-left",
    "shift-right-logical", "shift-right-arithmetic", "asinh", "acosh", "atanh",
)  # fmt: skip
COMPARE = {"EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le,
           "GT": operator.gt, "GE": operator.ge}  # fmt: skip


def _quotient(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return trunc(Fraction(a, b))
    return a / b


def _rest(a: Number, b: Number) -> Number:
    return a - b * trunc(Fraction(a) / Fraction(b))


_ON_NUMBERS: dict[str, Callable[..., Number]] = {
    "divide": _quotient, "remainder": _rest, "maximum": max, "minimum": min, "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0), "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b, "shift-left": lambda a, b: a << b,
    "shift-right-logical": lambda a, b: a >> b,
    "floor": lambda a: a // 1, "ceil": lambda a: -(-a // 1),
}  # fmt: skip


def folded(ctx: HloContext, xs: Sequence[Held], opcode: str) -> Known | None:
    """The result on known operands, where it can be computed."""
    if not all(isinstance(x, Known) for x in xs):
        return None
    ks = [x for x in xs if isinstance(x, Known)]
    if opcode in ("add", "subtract"):
        return kn.add(ks[0], ks[1], 1 if opcode == "add" else -1)
    if opcode == "multiply":
        return kn.multiply(ks[0], ks[1])
    if opcode == "negate":
        return kn.multiply(kn.filled(ks[0].dtype, ks[0].shape, -1), ks[0])
    if opcode == "not" and is_bool(ks[0].dtype):
        return kn.elementwise(lambda a: 1 - a, "b8", ks)
    f = _ON_NUMBERS.get(opcode)
    if f is None or (opcode in ("floor", "ceil") and any(x.number in (inf, -inf) for x in ks)):
        return None
    # Over long axes positions stay symbolic: only numbers and tables are computed with.
    if any(x.table is None and x.number is None for x in ks):
        return None
    return kn.elementwise(f, ks[0].dtype, ks)


@lowers("add", "subtract", "multiply", "divide")
def _arithmetic(ctx: HloContext, xs: Sequence[Held]) -> Held:
    opcode = ctx.instruction.opcode
    done = folded(ctx, xs, opcode)
    if done is not None:
        return done
    a, b = xs
    dtype = ctx.array().dtype
    if is_bool(dtype):
        kind = {"add": "or", "multiply": "and"}.get(opcode)
        if kind is None:
            raise Unsupported(f"{opcode} of booleans")
        return ctx.logic(kind, *ctx.listed(xs))
    if opcode == "divide" and is_integer(dtype):
        return ctx.emit("floor_divide", *_nonnegative(ctx, xs))
    return _with_number(ctx, opcode, a, b)


def _nonnegative(ctx: HloContext, xs: Sequence[Held]) -> list[Value]:
    name = ctx.instruction.name
    ctx.record.assume("range", f"{name}: integers that are divided are not negative")
    return ctx.listed(xs)


def _with_number(ctx: HloContext, opcode: str, a: Held, b: Held) -> Value:
    """Arithmetic; a number on one side becomes an attribute."""
    x, y = _number(a), _number(b)
    if y is not None and isinstance(a, Value):
        if opcode == "multiply" or (opcode == "divide" and y != 0):
            return ctx.scale(a, y if opcode == "multiply" else 1 / Fraction(y))
        if opcode in ("add", "subtract"):
            return ctx.shift(a, y if opcode == "add" else -y)
    if x is not None and isinstance(b, Value):
        if opcode == "multiply":
            return ctx.scale(b, x)
        if opcode == "add":
            return ctx.shift(b, x)
    core = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div"}[opcode]
    return ctx.emit(core, *ctx.listed([a, b]))


def _number(x: Held) -> Number | None:
    """The finite number that a known operand is."""
    n = x.number if isinstance(x, Known) else None
    return n if n is not None and n == n and abs(n) != inf else None


@lowers("negate")
def _negate(ctx: HloContext, xs: Sequence[Held]) -> Held:
    return folded(ctx, xs, "negate") or ctx.emit("neg", *ctx.listed(xs))


@lowers(*UNARY)
def _unary(ctx: HloContext, xs: Sequence[Held]) -> Held:
    opcode = ctx.instruction.opcode
    return folded(ctx, xs, opcode) or ctx.emit(UNARY[opcode], *ctx.listed(xs))


@lowers(*BINARY)
def _binary(ctx: HloContext, xs: Sequence[Held]) -> Held:
    opcode = ctx.instruction.opcode
    done = folded(ctx, xs, opcode)
    if done is not None:
        return done
    exponent = _number(xs[1])
    if opcode == "power" and exponent is not None and isinstance(xs[0], Value):
        return ctx.emit("power", xs[0], exponent=exponent)
    if opcode in ("maximum", "minimum"):
        for x, other in (xs, (xs[1], xs[0])):
            bound = _number(other)
            if bound is not None and isinstance(x, Value):
                side = "min" if opcode == "maximum" else "max"
                if opcode == "maximum" and bound == 0 and is_float(x.dtype):
                    return ctx.emit("relu", x)
                return ctx.emit("clamp", x, **{side: bound})
            if isinstance(other, Known) and other.number == (-inf if opcode == "maximum" else inf):
                return x
    return ctx.emit(BINARY[opcode], *ctx.listed(xs))


@lowers("and", "or", "xor", "not")
def _logic(ctx: HloContext, xs: Sequence[Held]) -> Held:
    opcode = ctx.instruction.opcode
    done = folded(ctx, xs, opcode)
    if done is not None:
        return done
    if is_bool(ctx.array().dtype):
        return ctx.logic(opcode, *ctx.listed(xs))
    for x, other in (xs, xs[::-1]) if opcode == "and" else ():
        n = _number(other)
        if isinstance(x, Value) and isinstance(n, int) and n > 0 and n & (n + 1) == 0:
            # The low bits.
            return ctx.emit("remainder", x, ctx.full(n + 1, (), x.dtype))
    return uninterpreted(ctx, ctx.listed(xs))


@lowers(*UNINTERPRETED)
def _function(ctx: HloContext, xs: Sequence[Held]) -> Held:
    opcode = ctx.instruction.opcode
    done = folded(ctx, xs, opcode)
    if done is not None:
        return done
    n = _number(xs[-1])
    if opcode.startswith("shift") and isinstance(xs[0], Value) and isinstance(n, int):
        return _shifted(ctx, xs[0], n)
    return uninterpreted(ctx, ctx.listed(xs))


def _shifted(ctx: HloContext, x: Value, bits: int) -> Value:
    """A shift by a known number of bits: a product or a quotient."""
    opcode = ctx.instruction.opcode
    if not 0 <= bits < 63:
        return ctx.full(0, x.shape, x.dtype)
    if opcode == "shift-left":
        return ctx.scale(x, 1 << bits)
    if opcode == "shift-right-logical" and x.dtype[0] == "i":
        _nonnegative(ctx, [x])
    return ctx.emit("floor_divide", x, ctx.full(1 << bits, (), x.dtype))


def uninterpreted(ctx: HloContext, xs: Sequence[Value], more: tuple[str, ...] = ()) -> Value:
    """An elementwise function of which only the name is known, with ``more`` parameters."""
    want = ctx.array()
    labels = " ".join(f"i{k}" for k in range(len(want.dims)))
    call = f"{', '.join(labels for _ in xs)} -> {labels}"
    return ctx.emit(
        "signature_call", *xs, target=ctx.instruction.opcode, signature=call, dtype=want.dtype,
        parameters=(want.dtype, *more),
    )  # fmt: skip


@lowers("bitcast-convert")
def _bits(ctx: HloContext, xs: Sequence[Held]) -> Held:
    x = ctx.value(xs[0])
    if x.shape != ctx.array().dims:
        raise Unsupported("a bitcast to an element type of another width")
    return uninterpreted(ctx, [x], (x.dtype,))


@lowers("compare")
def _compare(ctx: HloContext, xs: Sequence[Held]) -> Held:
    kind = ctx.instruction.attrs.get("direction", "")
    if kind not in COMPARE:
        raise ctx.fail(f"the direction {kind!r}", "one of " + ", ".join(COMPARE))
    a, b = xs
    if (
        isinstance(a, Known)
        and isinstance(b, Known)
        and all(x.number is not None or x.table is not None for x in (a, b))
    ):
        f = COMPARE[kind]
        done = kn.elementwise(lambda u, v: int(f(u, v)), "b8", [a, b])
        if done is not None:
            return done
    n = _number(b)
    if isinstance(a, Value) and n is not None:
        return ctx.compare(kind.lower(), a, n)
    n = _number(a)
    if isinstance(b, Value) and n is not None:
        swapped = {"LT": "gt", "GT": "lt", "LE": "ge", "GE": "le"}
        return ctx.compare(swapped.get(kind, kind.lower()), b, n)
    return ctx.emit("compare", *ctx.listed(xs), kind=kind.lower())


@lowers("select")
def _select(ctx: HloContext, xs: Sequence[Held]) -> Held:
    c, a, b = xs
    if isinstance(c, Known):
        if c.number is not None:
            return a if c.number else b
        if isinstance(a, Known) and isinstance(b, Known):
            done = kn.elementwise(lambda p, u, v: u if p else v, a.dtype, [c, a, b])
            if done is not None:
                return done
    n = a.number if isinstance(a, Known) else None
    if n is not None and n == n and isinstance(b, Value):
        return ctx.masked_fill(b, ctx.value(c), n)
    return ctx.emit("where", *ctx.listed(xs))


@lowers("clamp")
def _clamp(ctx: HloContext, xs: Sequence[Held]) -> Held:
    low, x, high = xs
    if all(isinstance(k, Known) for k in xs):
        ks = [k for k in xs if isinstance(k, Known)]
        done = kn.elementwise(lambda a, v, b: min(max(a, v), b), ks[1].dtype, _spread(ks))
        if done is not None:
            return done
    a, b = _number(low), _number(high)
    if a is not None and b is not None:
        return ctx.emit("clamp", ctx.value(x), min=a, max=b)
    lower = ctx.emit("maximum", ctx.value(x), ctx.value(low))
    return ctx.emit("minimum", lower, ctx.value(high))


def _spread(ks: Sequence[Known]) -> list[Known]:
    """Bounds of a clamp may be scalars."""
    shape = ks[1].shape
    spread = [k if k.shape == shape else kn.broadcast(k, shape, ()) for k in ks]
    return [k for k in spread if k is not None]


@lowers("convert")
def _convert(ctx: HloContext, xs: Sequence[Held]) -> Held:
    (x,), dtype = xs, ctx.array().dtype
    if isinstance(x, Known):
        done = kn.convert(x, dtype)
        if done is not None:
            return done
    v = ctx.value(x)
    if is_float(v.dtype) and is_float(dtype) and v.dtype != dtype:
        ctx.record.casts.append((ctx.instruction.name, v.dtype, dtype))
    return ctx.cast(v, dtype)


@lowers("copy", "optimization-barrier", "opt-barrier", "domain", "copy-start", "copy-done",
        "reduce-precision", "add-dependency")  # fmt: skip
def _same(ctx: HloContext, xs: Sequence[Held]) -> Held:
    """Its first operand: a copy, or a rounding, which is none over the reals."""
    return xs[0]
