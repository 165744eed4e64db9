"""Linear and monomial operators: sums, differences, products, quotients and powers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shardproof.ir.graph import Attrs, TensorType, is_bool
from shardproof.ir.sizes import Poly
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, Linear, Monomial, ShapeError
from shardproof.ops.declare import declare
from shardproof.ops.numbers import as_float
from shardproof.ops.shapes import broadcast, floating, integral, promote

HALF = Fraction(1, 2)


def _sum_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    dtype = promote(inputs)
    if is_bool(dtype):
        # A boolean sum would be a disjunction, and the declared algebra is that of numbers.
        raise ShapeError("operands are all boolean; use logic, or cast them to integers")
    return TensorType(dtype, broadcast(*(t.shape for t in inputs)))


def _product_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    return TensorType(promote(inputs), broadcast(*(t.shape for t in inputs)))


def _quotient_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    out = _product_types(inputs, attrs)
    return TensorType(floating(out.dtype), out.shape)


def _with_number(t: TensorType, number: Fraction | Poly) -> TensorType:
    """Type of an integer or float tensor combined with a number: an integer tensor stays one
    with a whole number only."""
    whole = isinstance(number, Poly) or number.denominator == 1
    if not integral(t.dtype):
        return t
    if not whole:
        return TensorType("f32", t.shape)
    return TensorType("i64" if is_bool(t.dtype) else t.dtype, t.shape)


def _operand(x: Array, number: Fraction | Poly) -> tuple[Array, int | float]:
    """The array and number to combine, in the kind that the result has."""
    value = as_float(number)
    if x.dtype.kind == "f" or not value.is_integer():
        return x.astype(np.float64), value
    return x.astype(np.int64), int(number) if isinstance(number, Fraction) else int(value)


def _scale(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    x, by = _operand(arrays[0], _by(attrs))
    return np.asarray(x * by)


def _by(attrs: Attrs) -> Fraction | Poly:
    by = attrs.get("by")
    return by if isinstance(by, Poly) else at.number(attrs, "by")


def _shift(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    x, by = _operand(arrays[0], _by(attrs))
    return np.asarray(x + by)


declare(
    "neg", "x",
    doc="""Minus x, elementwise.""",
    types=_sum_types,
    algebra=lambda inputs, attrs: Linear((Fraction(-1),)),
    evaluate=lambda arrays, attrs: np.negative(arrays[0]),
)  # fmt: skip

declare(
    "add", "a b",
    doc="""a + b, elementwise with broadcasting. At least one operand is not boolean.""",
    types=_sum_types,
    algebra=lambda inputs, attrs: Linear((Fraction(1), Fraction(1))),
    evaluate=lambda arrays, attrs: np.add(*arrays),
)  # fmt: skip

declare(
    "sub", "a b",
    doc="""a - b, elementwise with broadcasting. At least one operand is not boolean.""",
    types=_sum_types,
    algebra=lambda inputs, attrs: Linear((Fraction(1), Fraction(-1))),
    evaluate=lambda arrays, attrs: np.subtract(*arrays),
)  # fmt: skip

declare(
    "scale", "x", "by",
    doc="""x times the number or symbolic size `by`, which is finite and exact. An integer tensor
    stays one when `by` is whole; booleans are read as 0 and 1.""",
    types=lambda inputs, attrs: _with_number(inputs[0], _by(attrs)),
    algebra=lambda inputs, attrs: Linear((_by(attrs),)),
    evaluate=_scale,
)  # fmt: skip

declare(
    "shift", "x", "by",
    doc="""x plus the number or symbolic size `by`. An integer tensor stays one when `by` is
    whole; booleans are read as 0 and 1.""",
    types=lambda inputs, attrs: _with_number(inputs[0], _by(attrs)),
    algebra=lambda inputs, attrs: Linear((Fraction(1),), _by(attrs)),
    evaluate=_shift,
)  # fmt: skip

declare(
    "mul", "a b",
    doc="""a * b, elementwise with broadcasting. The product of two booleans is boolean.""",
    types=_product_types,
    algebra=lambda inputs, attrs: Monomial((Fraction(1), Fraction(1))),
    evaluate=lambda arrays, attrs: np.multiply(*arrays),
)  # fmt: skip

declare(
    "div", "a b",
    doc="""a / b over the reals, elementwise with broadcasting, also for integers (the result is
    then a float). Defined where b is not zero.""",
    types=_quotient_types,
    algebra=lambda inputs, attrs: Monomial((Fraction(1), Fraction(-1))),
    evaluate=lambda arrays, attrs: np.true_divide(*arrays),
)  # fmt: skip


def _whole_power(exponent: Fraction) -> bool:
    return exponent.denominator == 1 and exponent >= 0


def _power_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,) = inputs
    if integral(x.dtype) and _whole_power(at.number(attrs, "exponent")):
        return TensorType("i64" if is_bool(x.dtype) else x.dtype, x.shape)
    return TensorType(floating(x.dtype), x.shape)


def _power(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    (x,), exponent = arrays, at.number(attrs, "exponent")
    if x.dtype.kind != "f" and _whole_power(exponent):
        return np.asarray(np.power(x.astype(np.int64), int(exponent)))
    return np.asarray(np.power(x.astype(np.float64), float(exponent)))


declare(
    "power", "x", "exponent",
    doc="""x to the power of the number `exponent`, elementwise. A negative exponent needs x
    nonzero, a fractional one needs x >= 0. Integers stay integers for a whole exponent >= 0.""",
    types=_power_types,
    algebra=lambda inputs, attrs: Monomial((at.number(attrs, "exponent"),)),
    evaluate=_power,
)  # fmt: skip

for _name, _exponent, _fn, _doc in (
    ("sqrt", HALF, np.sqrt, "The square root of x, elementwise, for x >= 0."),
    ("rsqrt", -HALF, lambda x: 1 / np.sqrt(x), "1 / sqrt(x), elementwise, for x > 0."),
    ("reciprocal", Fraction(-1), lambda x: 1 / x, "1 / x, elementwise, for x nonzero."),
):
    declare(
        _name, "x",
        doc=_doc,
        types=lambda inputs, attrs: TensorType(floating(inputs[0].dtype), inputs[0].shape),
        algebra=lambda inputs, attrs, e=_exponent: Monomial((e,)),  # type: ignore[misc]
        evaluate=lambda arrays, attrs, fn=_fn: fn(arrays[0].astype(np.float64)),  # type: ignore[misc]
    )  # fmt: skip
