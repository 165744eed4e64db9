"""Pointwise operators spelled with simpler ones, as identities of real functions."""

from __future__ import annotations

from fractions import Fraction

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Attrs, Value
from shardproof.ops import attributes as at
from shardproof.ops.base import Scalar
from shardproof.ops.functions import GELU_CUBIC, INV_SQRT2, INV_SQRT_2PI, SQRT_2_OVER_PI
from shardproof.ops.shapes import floating

Values = tuple[Value, ...]
HALF = Fraction(1, 2)


def constant(b: Builder, value: Scalar, like: Value) -> Value:
    """A scalar tensor of the element type of ``like``."""
    return b.emit("full", value=value, shape=(), dtype=like.dtype)


def real(b: Builder, x: Value) -> Value:
    """x, cast to the float type of its real functions where it is an integer tensor."""
    dtype = floating(x.dtype)
    return x if dtype == x.dtype else b.emit("cast", x, dtype=dtype)


def times(b: Builder, *factors: Value) -> Value:
    """The product of values."""
    out = factors[0]
    for f in factors[1:]:
        out = b.emit("mul", out, f)
    return out


def scaled(b: Builder, x: Value, by: Fraction | int) -> Value:
    """x times a number."""
    return b.emit("scale", x, by=Fraction(by))


def shifted(b: Builder, x: Value, by: Fraction | int) -> Value:
    """x plus a number."""
    return b.emit("shift", x, by=Fraction(by))


def one_minus(b: Builder, x: Value) -> Value:
    """1 - x."""
    return shifted(b, b.emit("neg", x), 1)


def expm1(b: Builder, v: Values, attrs: Attrs) -> Value:
    return shifted(b, b.emit("exp", v[0]), -1)


def log1p(b: Builder, v: Values, attrs: Attrs) -> Value:
    return b.emit("log", shifted(b, v[0], 1))


def tan(b: Builder, v: Values, attrs: Attrs) -> Value:
    return b.emit("div", b.emit("sin", v[0]), b.emit("cos", v[0]))


def tanh(b: Builder, v: Values, attrs: Attrs) -> Value:
    """1 - 2 / (exp(2x) + 1)."""
    denominator = shifted(b, b.emit("exp", scaled(b, v[0], 2)), 1)
    return one_minus(b, scaled(b, b.emit("reciprocal", denominator), 2))


def sigmoid(b: Builder, v: Values, attrs: Attrs) -> Value:
    """1 / (1 + exp(-x))."""
    return b.emit("reciprocal", shifted(b, b.emit("exp", b.emit("neg", v[0])), 1))


def silu(b: Builder, v: Values, attrs: Attrs) -> Value:
    return times(b, v[0], b.emit("sigmoid", v[0]))


def relu(b: Builder, v: Values, attrs: Attrs) -> Value:
    return b.emit("maximum", v[0], constant(b, Fraction(0), v[0]))


def erfc(b: Builder, v: Values, attrs: Attrs) -> Value:
    return one_minus(b, b.emit("erf", v[0]))


def softplus(b: Builder, v: Values, attrs: Attrs) -> Value:
    return b.emit("log", shifted(b, b.emit("exp", v[0]), 1))


def logsigmoid(b: Builder, v: Values, attrs: Attrs) -> Value:
    """-log(1 + exp(-x))."""
    return b.emit("neg", b.emit("softplus", b.emit("neg", v[0])))


def mish(b: Builder, v: Values, attrs: Attrs) -> Value:
    return times(b, v[0], b.emit("tanh", b.emit("softplus", v[0])))


def hardsigmoid(b: Builder, v: Values, attrs: Attrs) -> Value:
    line = shifted(b, scaled(b, v[0], Fraction(1, 6)), HALF)
    return b.emit("clamp", line, min=Fraction(0), max=Fraction(1))


def hardswish(b: Builder, v: Values, attrs: Attrs) -> Value:
    return times(b, v[0], b.emit("hardsigmoid", v[0]))


def _positive_else(b: Builder, x: Value, yes: Value, no: Value) -> Value:
    return b.emit("where", b.emit("compare", x, kind="gt", value=Fraction(0)), yes, no)


def leaky_relu(b: Builder, v: Values, attrs: Attrs) -> Value:
    x = real(b, v[0])
    return _positive_else(b, x, x, scaled(b, x, at.number(attrs, "slope")))


def elu(b: Builder, v: Values, attrs: Attrs) -> Value:
    below = scaled(b, b.emit("expm1", v[0]), at.number(attrs, "alpha"))
    return _positive_else(b, v[0], v[0], below)


def clamp(b: Builder, v: Values, attrs: Attrs) -> Value:
    """min(max(x, lower), upper)."""
    (x,) = v
    lower, upper = at.optional_number(attrs, "min"), at.optional_number(attrs, "max")
    if lower is not None:
        x = b.emit("maximum", x, constant(b, lower, v[0]))
    if upper is not None:
        x = b.emit("minimum", x, constant(b, upper, v[0]))
    return x


def _tanh_argument(b: Builder, x: Value) -> Value:
    cubic = scaled(b, b.emit("power", x, exponent=Fraction(3)), GELU_CUBIC)
    return scaled(b, b.emit("add", x, cubic), SQRT_2_OVER_PI)


def _gelu_weight(b: Builder, x: Value, approximate: str) -> Value:
    """gelu(x) / x: half of 1 + erf(x / sqrt 2), or its tanh form."""
    if approximate == "tanh":
        inner = b.emit("tanh", _tanh_argument(b, x))
    else:
        inner = b.emit("erf", scaled(b, x, INV_SQRT2))
    return scaled(b, shifted(b, inner, 1), HALF)


def gelu(b: Builder, v: Values, attrs: Attrs) -> Value:
    return times(b, v[0], _gelu_weight(b, v[0], str(attrs["approximate"])))


# ------------------------------------------------------------------------------ gradients


def gelu_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    dy, x = v
    approximate = str(attrs["approximate"])
    square = b.emit("mul", x, x)
    if approximate == "tanh":
        t = b.emit("tanh", _tanh_argument(b, x))
        cubic = shifted(b, scaled(b, square, 3 * GELU_CUBIC), 1)
        inner = scaled(b, cubic, SQRT_2_OVER_PI / 2)
        density = times(b, one_minus(b, b.emit("mul", t, t)), inner)
    else:
        density = scaled(b, b.emit("exp", scaled(b, square, -HALF)), INV_SQRT_2PI)
    slope = b.emit("add", _gelu_weight(b, x, approximate), b.emit("mul", x, density))
    return b.emit("mul", dy, slope)


def silu_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    """dy * s * (1 + x * (1 - s)) with s = sigmoid(x)."""
    dy, x = v
    s = b.emit("sigmoid", x)
    return times(b, dy, s, shifted(b, b.emit("mul", x, one_minus(b, s)), 1))


def relu_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    off = b.emit("compare", v[1], kind="le", value=at.number(attrs, "threshold"))
    return b.emit("masked_fill", v[0], off, value=Fraction(0))


def tanh_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    return b.emit("mul", v[0], one_minus(b, b.emit("mul", v[1], v[1])))


def sigmoid_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    return times(b, v[0], v[1], one_minus(b, v[1]))


def leaky_relu_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    return _positive_else(b, v[1], v[0], scaled(b, v[0], at.number(attrs, "slope")))


def elu_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    below = scaled(b, b.emit("mul", v[0], b.emit("exp", v[1])), at.number(attrs, "alpha"))
    return _positive_else(b, v[1], v[0], below)


def clamp_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    dy, x = v
    for kind, name in (("le", "min"), ("ge", "max")):
        bound = at.optional_number(attrs, name)
        if bound is not None:
            off = b.emit("compare", x, kind=kind, value=bound)
            dy = b.emit("masked_fill", dy, off, value=Fraction(0))
    return dy


def softplus_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    return b.emit("mul", v[0], b.emit("sigmoid", v[1]))


def logsigmoid_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    return b.emit("mul", v[0], b.emit("sigmoid", b.emit("neg", v[1])))


def hardswish_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    """0 up to -3, dy from 3 on, dy * (x / 3 + 1 / 2) between them."""
    dy, x = v
    line = shifted(b, scaled(b, x, Fraction(1, 3)), HALF)
    right = b.emit("compare", x, kind="ge", value=Fraction(3))
    bent = b.emit("where", right, dy, b.emit("mul", dy, line))
    left = b.emit("compare", x, kind="le", value=Fraction(-3))
    return b.emit("masked_fill", bent, left, value=Fraction(0))


def hardsigmoid_grad(b: Builder, v: Values, attrs: Attrs) -> Value:
    dy = scaled(b, v[0], Fraction(1, 6))
    return b.emit("clamp_grad", dy, v[1], min=Fraction(-3), max=Fraction(3))
