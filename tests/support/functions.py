"""Scalar and whole-axis functions by the names that definitions use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from shardproof.ir.graph import AttrValue
from shardproof.ir.sizes import Poly, Size, Symbol, substitute
from shardproof.ops.base import Array, lookup

COMPARE = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def pointwise(
    fn: str, attrs: tuple[Any, ...], operands: Sequence[Array], numbers: Mapping[Symbol, Size]
) -> Array:
    """A scalar function of the operands."""
    values = [_plain(a, numbers) for a in attrs]
    if fn == "lin":
        return np.asarray(operands[0])
    if fn == "power":
        return np.asarray(operands[0] ** float(values[0]))
    if fn == "ge":
        return np.asarray(operands[0] >= values[0], dtype=float)
    if fn == "eq":
        return np.asarray(operands[0] == operands[1], dtype=float)
    if fn.startswith("compare_"):
        other = values[0] if values else operands[1]
        return np.asarray(COMPARE[fn.removeprefix("compare_")](operands[0], other), dtype=float)
    if fn == "masked_fill":
        return np.where(operands[1] != 0, values[0], operands[0])
    if fn == "trunc":
        return np.trunc(operands[0])
    if fn.startswith("to_"):
        (out,) = _evaluate("cast", (operands[0].astype(np.int64),), {"dtype": fn[3:]})
        return np.asarray(out, dtype=float)
    op = lookup(fn)
    names = [w.rstrip("?") for w in op.attributes.split() if w != "*"]
    given: dict[str, AttrValue] = dict(zip(names, attrs, strict=False))
    return np.asarray(_evaluate(fn, tuple(operands), given)[0], dtype=float)


def _evaluate(fn: str, operands: tuple[Array, ...], attrs: dict[str, AttrValue]) -> Any:
    evaluate = lookup(fn).evaluate
    assert evaluate is not None
    return evaluate(operands, attrs)


def _plain(a: Any, numbers: Mapping[Symbol, Size]) -> Any:
    if isinstance(a, Poly):
        return substitute(a, numbers)
    return a if a is None or isinstance(a, str | bool) else float(a)


# ------------------------------------------------------------------ rows [points, whole axis]

Rows = Sequence[Array]


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _logsumexp(x: Array) -> Array:
    return np.asarray(np.log(np.exp(x).sum(axis=1)))


def _rstd(x: Array, eps: float, centred: bool) -> Array:
    middle = x.mean(axis=1, keepdims=True) if centred else 0.0
    return np.asarray(1 / np.sqrt(((x - middle) ** 2).mean(axis=1) + eps))


def _norm(v: Rows, a: tuple[Any, ...], centred: bool) -> Array:
    x, *weights = v
    middle = x.mean(axis=1, keepdims=True) if centred else 0.0
    y = (x - middle) * _rstd(x, float(a[0]), centred)[:, None]
    if weights:
        y = y * weights[0]
    return y + weights[1] if len(weights) > 1 else np.asarray(y)


def _norm_grad(v: Rows, centred: bool) -> Array:
    dy, x, *rest = v
    mean = rest.pop(0) if centred else np.zeros_like(x)
    r = rest.pop(0)
    h = dy * rest[0] if rest else dy
    normal = (x - mean) * r
    out = h - normal * (h * normal).mean(axis=1, keepdims=True)
    return np.asarray(r * (out - h.mean(axis=1, keepdims=True) if centred else out))


def _sorted(x: Array, descending: bool) -> tuple[Array, Array]:
    order = np.argsort(-x if descending else x, axis=1, kind="stable")
    return np.take_along_axis(x, order, axis=1), order.astype(float)


WHOLE_AXIS: dict[str, Callable[[Rows, tuple[Any, ...]], Array]] = {
    "softmax": lambda v, a: _softmax(v[0]),
    "log_softmax": lambda v, a: v[0] - _logsumexp(v[0])[:, None],
    "softmax_grad": lambda v, a: v[1] * (v[0] - (v[0] * v[1]).sum(axis=1, keepdims=True)),
    "log_softmax_grad": lambda v, a: v[0] - np.exp(v[1]) * v[0].sum(axis=1, keepdims=True),
    "logsumexp": lambda v, a: _logsumexp(v[0]),
    "cumsum": lambda v, a: np.cumsum(v[0], axis=1),
    "sort.values": lambda v, a: _sorted(v[0], bool(a[0]))[0],
    "sort.indices": lambda v, a: _sorted(v[0], bool(a[0]))[1],
    "argmax": lambda v, a: v[0].argmax(axis=1).astype(float),
    "argmin": lambda v, a: v[0].argmin(axis=1).astype(float),
    "prod operator": lambda v, a: v[0].prod(axis=1),
    "layer_norm": lambda v, a: _norm(v, a, True),
    "layer_norm.mean": lambda v, a: v[0].mean(axis=1),
    "layer_norm.rstd": lambda v, a: _rstd(v[0], float(a[0]), True),
    "rms_norm": lambda v, a: _norm(v, a, False),
    "rms_norm.rstd": lambda v, a: _rstd(v[0], float(a[0]), False),
    "layer_norm_grad": lambda v, a: _norm_grad(v, True),
    "rms_norm_grad": lambda v, a: _norm_grad(v, False),
}
