"""Scalar functions over NumPy arrays that NumPy lacks or spells unstably."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from shardproof.ops.base import Array

# PyTorch's kernels use these doubles; over the reals the operators mean them, not the irrational
# numbers they are near to, so that a decomposed gelu equals the fused one.
INV_SQRT2 = Fraction(0.7071067811865476)
SQRT_2_OVER_PI = Fraction(0.7978845608028654)
INV_SQRT_2PI = Fraction(0.3989422804014327)
GELU_CUBIC = Fraction(44715, 10**6)


def _lifted(fn: Callable[[float], float]) -> Callable[[Array], Array]:
    ufunc = np.frompyfunc(fn, 1, 1)
    return lambda x: np.asarray(ufunc(x), dtype=np.float64)


erf = _lifted(math.erf)
erfc = _lifted(math.erfc)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), accurate at both ends."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))


def silu(x: Array) -> Array:
    """x * sigmoid(x)."""
    return np.asarray(x * sigmoid(x))


def softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return np.asarray(np.logaddexp(0.0, x))


def mish(x: Array) -> Array:
    """x * tanh(softplus(x))."""
    return np.asarray(x * np.tanh(softplus(x)))


def hardsigmoid(x: Array) -> Array:
    """The line x / 6 + 1 / 2 cut to [0, 1]."""
    return np.clip(x / 6 + 0.5, 0.0, 1.0)


def _tanh_argument(x: Array) -> Array:
    return np.asarray(float(SQRT_2_OVER_PI) * (x + float(GELU_CUBIC) * x**3))


def gelu(x: Array, approximate: str) -> Array:
    """The gelu by the error function or by the hyperbolic tangent."""
    if approximate == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(_tanh_argument(x))))
    return np.asarray(0.5 * x * erfc(-x * float(INV_SQRT2)))


def gelu_slope(x: Array, approximate: str) -> Array:
    """The derivative of :func:`gelu`."""
    if approximate == "tanh":
        t = np.tanh(_tanh_argument(x))
        inner = float(SQRT_2_OVER_PI) * (1 + 3 * float(GELU_CUBIC) * x**2)
        return np.asarray(0.5 * (1 + t) + 0.5 * x * (1 - t**2) * inner)
    density = float(INV_SQRT_2PI) * np.exp(-0.5 * x**2)
    return np.asarray(0.5 * erfc(-x * float(INV_SQRT2)) + x * density)


def softmax(x: Array, axis: int | tuple[int, ...]) -> Array:
    """exp(x) / sum exp(x), shifted by the maximum."""
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return np.asarray(e / e.sum(axis=axis, keepdims=True))


def logsumexp(x: Array, axis: int | tuple[int, ...], keepdims: bool) -> Array:
    """log sum exp(x), shifted by the maximum; minus infinity where all x are."""
    top = x.max(axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, 0.0)
    total = np.exp(x - shift).sum(axis=axis, keepdims=True)
    out = np.log(total) + shift
    return np.asarray(out if keepdims else out.squeeze(axis=axis))
