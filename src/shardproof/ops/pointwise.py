"""Elementwise functions, one table row an operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from shardproof.ir.graph import Attrs, AttrValue, TensorType, is_bool
from shardproof.ops import attributes as at
from shardproof.ops import definitions as de
from shardproof.ops import functions as fu
from shardproof.ops.base import Array, Pointwise, ShapeError
from shardproof.ops.declare import Define, declare
from shardproof.ops.shapes import broadcast, floating, promote

Fn = Callable[..., Array]


@dataclass(frozen=True)
class Row:
    """``fn`` takes the operands as arrays, then the attributes as plain numbers or words.

    ``keeps``: integers stay integers. ``linear``, ``commutative`` as in
    :class:`~shardproof.ops.base.Pointwise`.
    """

    name: str
    fn: Fn
    doc: str
    define: Define | None = None
    operands: str = "x"
    attributes: str = ""
    keeps: bool = False
    linear: tuple[int, ...] = ()
    commutative: bool = False


def _clamp(x: Array, low: float | None, high: float | None) -> Array:
    out = x if low is None else np.maximum(x, _like(x, low))
    return out if high is None else np.minimum(out, _like(x, high))


def _like(x: Array, bound: float) -> float | int:
    return int(bound) if x.dtype.kind == "i" else bound


def _clamp_grad(dy: Array, x: Array, low: float | None, high: float | None) -> Array:
    inside = np.ones(x.shape, dtype=bool)
    if low is not None:
        inside &= x > low
    if high is not None:
        inside &= x < high
    return np.where(inside, dy, 0.0)


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def _hardswish_grad(dy: Array, x: Array) -> Array:
    return np.where(x <= -3, 0.0, np.where(x < 3, dy * (x / 3 + 0.5), dy))


def _silu_grad(dy: Array, x: Array) -> Array:
    s = fu.sigmoid(x)
    return np.asarray(dy * s * (1 + x * fu.sigmoid(-x)))


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind == "i" and b.dtype.kind == "i" and bool((b < 0).any()):
        raise ValueError("pow: an integer to a negative power is no integer")
    return np.asarray(np.power(a, b))


UNARY = (
    Row("exp", np.exp, "The exponential function."),
    Row("exp2", np.exp2, "2 to the power of x."),
    Row("log", np.log, "The natural logarithm, for x > 0."),
    Row("log2", np.log2, "The logarithm to base 2, for x > 0."),
    Row("log10", np.log10, "The logarithm to base 10, for x > 0."),
    Row("log1p", np.log1p, "log(1 + x), for x > -1.", de.log1p),
    Row("expm1", np.expm1, "exp(x) - 1.", de.expm1),
    Row("abs", np.abs, "The absolute value.", keeps=True),
    Row("sign", np.sign, "-1, 0 or 1 as x is negative, zero or positive.", keeps=True),
    Row("sin", np.sin, "The sine."),
    Row("cos", np.cos, "The cosine."),
    Row("tan", np.tan, "The tangent, where cos(x) is not zero.", de.tan),
    Row("asin", np.arcsin, "The arc sine, for x in [-1, 1]."),
    Row("acos", np.arccos, "The arc cosine, for x in [-1, 1]."),
    Row("atan", np.arctan, "The arc tangent."),
    Row("sinh", np.sinh, "The hyperbolic sine."),
    Row("cosh", np.cosh, "The hyperbolic cosine."),
    Row("tanh", np.tanh, "The hyperbolic tangent, 1 - 2 / (exp(2x) + 1).", de.tanh),
    Row("sigmoid", fu.sigmoid, "1 / (1 + exp(-x)).", de.sigmoid),
    Row("silu", fu.silu, "x * sigmoid(x), also called swish.", de.silu),
    Row("relu", lambda x: np.maximum(x, x.dtype.type(0)), "The larger of x and 0.", de.relu,
        keeps=True),
    Row("erf", fu.erf, "The error function; nothing more is known of it."),
    Row("erfc", fu.erfc, "1 - erf(x).", de.erfc),
    Row("floor", np.floor, "The largest integer <= x.", keeps=True),
    Row("ceil", np.ceil, "The smallest integer >= x.", keeps=True),
    Row("round", np.rint, "The nearest integer, the even one when two are equally near.",
        keeps=True),
    Row("trunc", np.trunc, "x rounded towards zero.", keeps=True),
    Row("softplus", fu.softplus, "log(1 + exp(x)).", de.softplus),
    Row("logsigmoid", lambda x: -fu.softplus(-x), "log(sigmoid(x)).", de.logsigmoid),
    Row("mish", fu.mish, "x * tanh(softplus(x)).", de.mish),
    Row("hardsigmoid", fu.hardsigmoid, "x / 6 + 1 / 2 cut to [0, 1].", de.hardsigmoid),
    Row("hardswish", lambda x: x * fu.hardsigmoid(x), "x * hardsigmoid(x).", de.hardswish),
    Row("gelu", fu.gelu, """x * (1 + erf(x / sqrt 2)) / 2 where `approximate` is "none", and its
        hyperbolic tangent form where it is "tanh": two different functions. The constants are
        the doubles that PyTorch computes with.""", de.gelu, attributes="approximate"),
    Row("leaky_relu", lambda x, slope: np.where(x > 0, x, slope * x),
        "x where x > 0, else `slope` * x.", de.leaky_relu, attributes="slope"),
    Row("elu", _elu, "x where x > 0, else `alpha` * (exp(x) - 1).", de.elu, attributes="alpha"),
    Row("clamp", _clamp, """x cut to [`min`, `max`]; either bound may be absent or None. Where
        they cross, the result is `max`.""", de.clamp, attributes="min? max?", keeps=True),
)  # fmt: skip

BINARY = (
    Row("maximum", np.maximum, "The larger of a and b.", keeps=True, commutative=True),
    Row("minimum", np.minimum, "The smaller of a and b.", keeps=True, commutative=True),
    Row("atan2", np.arctan2, "The angle of the point with coordinates (b, a)."),
    Row(
        "pow",
        _pow,
        """a to the power of b. Fractional b need a >= 0, negative b need a nonzero
        and not both operands integers.""",
        keeps=True,
    ),
    Row("remainder", np.remainder, "a - b * floor(a / b), for b nonzero.", keeps=True),
    Row("fmod", np.fmod, "a - b * trunc(a / b), for b nonzero.", keeps=True),
    Row("floor_divide", np.floor_divide, "floor(a / b), for b nonzero.", keeps=True),
)

GRADIENTS = (
    Row("gelu_grad", lambda dy, x, a: dy * fu.gelu_slope(x, a),
        "dy times the derivative of gelu at x.", de.gelu_grad, attributes="approximate"),
    Row("silu_grad", _silu_grad, "dy times the derivative of silu at x.", de.silu_grad),
    Row("relu_grad", lambda dy, x, t: np.where(x > t, dy, 0.0),
        "dy where x > `threshold`, else 0; x may be the input or the output of the relu.",
        de.relu_grad, attributes="threshold"),
    Row("tanh_grad", lambda dy, y: dy * (1 - y * y),
        "dy * (1 - x * x), where x is the output of tanh.", de.tanh_grad),
    Row("sigmoid_grad", lambda dy, y: dy * y * (1 - y),
        "dy * x * (1 - x), where x is the output of sigmoid.", de.sigmoid_grad),
    Row("leaky_relu_grad", lambda dy, x, s: np.where(x > 0, dy, s * dy),
        "dy where x > 0, else `slope` * dy.", de.leaky_relu_grad, attributes="slope"),
    Row("elu_grad", lambda dy, x, a: np.where(x > 0, dy, a * dy * np.exp(x)),
        "dy where x > 0, else `alpha` * exp(x) * dy, where x is the input of elu.",
        de.elu_grad, attributes="alpha"),
    Row("clamp_grad", _clamp_grad, """dy where `min` < x < `max`, else 0; either bound may be
        absent or None. At a bound the derivative is a convention; this is hardtanh's.""",
        de.clamp_grad, attributes="min? max?"),
    Row("softplus_grad", lambda dy, x: dy * fu.sigmoid(x), "dy * sigmoid(x).", de.softplus_grad),
    Row("logsigmoid_grad", lambda dy, x: dy * fu.sigmoid(-x), "dy * sigmoid(-x).",
        de.logsigmoid_grad),
    Row("hardsigmoid_grad", lambda dy, x: _clamp_grad(dy / 6, x, -3, 3),
        "dy / 6 where -3 < x < 3, else 0.", de.hardsigmoid_grad),
    Row("hardswish_grad", _hardswish_grad,
        "dy times the derivative of hardswish at x, which is 0 at -3 and 1 at 3.",
        de.hardswish_grad),
)  # fmt: skip


def _extras(row: Row, attrs: Attrs) -> tuple[AttrValue, ...]:
    """Attribute values in declared order: exact numbers, or the word for ``approximate``."""
    out: list[AttrValue] = []
    for word in row.attributes.split():
        name = word.rstrip("?")
        if name == "approximate":
            out.append(at.choice(attrs, name, ("none", "tanh")))
        elif word.endswith("?"):
            out.append(at.optional_number(attrs, name))
        else:
            out.append(at.number(attrs, name))
    return tuple(out)


def _plain(value: AttrValue) -> object:
    return value if value is None or isinstance(value, str) else float(value)  # type: ignore[arg-type]


def _types(row: Row, inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    extras = _extras(row, attrs)
    dtype = promote(inputs)
    if not row.keeps:
        dtype = floating(dtype)
    elif is_bool(dtype) and not row.commutative:
        raise ShapeError("operands are boolean; cast them to integers or floats")
    elif (
        row.name == "clamp" and dtype[0] in "iu" and any(e not in (None, _whole(e)) for e in extras)
    ):
        raise ShapeError(f"bounds of the integer tensor {inputs[0]} must be whole")
    return TensorType(dtype, broadcast(*(t.shape for t in inputs)))


def _whole(value: AttrValue) -> int | None:
    return None if value is None else int(value)  # type: ignore[arg-type]


def _evaluate(row: Row, arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    extras = [_plain(e) for e in _extras(row, attrs)]
    if not row.keeps:
        return row.fn(*(a.astype(np.float64) for a in arrays), *extras)
    kind = np.result_type(*arrays)
    return np.asarray(row.fn(*arrays, *extras)).astype(kind)


def _declare(row: Row, suffix: str) -> None:
    declare(
        row.name,
        row.operands,
        row.attributes,
        doc=row.doc + suffix,
        types=lambda inputs, attrs: _types(row, inputs, attrs),
        algebra=lambda inputs, attrs: Pointwise(
            row.name, _extras(row, attrs), row.linear, row.commutative
        ),
        evaluate=lambda arrays, attrs: _evaluate(row, arrays, attrs),
        define=row.define,
    )


for _row in UNARY:
    _declare(_row, " Elementwise.")
for _row in BINARY:
    _declare(replace(_row, operands="a b"), " Elementwise with broadcasting.")
for _row in GRADIENTS:
    _declare(replace(_row, operands="dy x", linear=(0,)), " Elementwise; linear in dy.")
