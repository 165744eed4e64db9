"""Layer norm and root-mean-square norm over trailing axes, and their gradients.

Saved statistics do not have the normalised axes: their shape is that of x without the last
``naxes`` dims.
"""

from __future__ import annotations

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Attrs, AttrValue, TensorType, Value
from shardproof.ir.sizes import Size
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, ShapeError, Signature
from shardproof.ops.declare import declare
from shardproof.ops.shapes import floating, labels, need_shape

Types = tuple[TensorType, ...]
Values = tuple[Value, ...]
Arrays = tuple[Array, ...]


def _outer(x: TensorType, attrs: Attrs) -> tuple[Size, ...]:
    return x.shape[: x.rank - at.axis_count(attrs, x.rank)]


def _norm_types(inputs: Types, attrs: Attrs, statistics: int) -> Types:
    """Types of the normalised x and its statistics; weights have the normalised shape."""
    x, *weights = inputs
    outer = _outer(x, attrs)
    if at.number(attrs, "eps") < 0:
        raise ShapeError("attribute 'eps' must not be negative")
    for name, w in zip(("w", "b"), weights, strict=False):
        need_shape(name, w, x.shape[len(outer) :])
    real = floating(x.dtype)
    return TensorType(real, x.shape), *(TensorType(real, outer),) * statistics


def _norm_algebra(fn: str, inputs: Types, attrs: Attrs, statistics: tuple[str, ...]) -> tuple[
    Signature, ...
]:  # fmt: skip
    rank = inputs[0].rank
    names = labels(rank)
    outer, whole = names[: rank - at.axis_count(attrs, rank)], names[-at.integer(attrs, "naxes") :]
    operands = (names, *(whole for _ in inputs[1:]))
    extra: tuple[AttrValue, ...] = (at.number(attrs, "eps"),)
    # With a weight and no bias the result is linear in the weight.
    linear = (1,) if len(inputs) == 2 else ()
    weights = tuple(range(1, len(inputs)))
    return (
        Signature(fn, operands, names, whole, extra, linear),
        *(
            Signature(f"{fn}.{s}", operands, outer, whole, extra, unused=weights)
            for s in statistics
        ),
    )


def _trailing(ndim: int, attrs: Attrs) -> tuple[int, ...]:
    return tuple(range(ndim - at.integer(attrs, "naxes"), ndim))


def _statistics(x: Array, attrs: Attrs, centred: bool) -> Arrays:
    """Mean (zero if not centred) and reciprocal deviation, with the normalised dims kept."""
    axes = _trailing(x.ndim, attrs)
    mean = x.mean(axis=axes, keepdims=True) * centred
    variance = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
    return mean, np.asarray(1 / np.sqrt(variance + float(at.number(attrs, "eps"))))


def _norm(arrays: Arrays, attrs: Attrs, centred: bool) -> Arrays:
    """The normalised x times the weight plus the bias, mean and reciprocal deviation."""
    x, *weights = arrays
    axes = _trailing(x.ndim, attrs)
    mean, rstd = _statistics(x.astype(np.float64), attrs, centred)
    y = (x - mean) * rstd
    if weights:
        y = y * weights[0]
    if len(weights) > 1:
        y = y + weights[1]
    return y, mean.squeeze(axes), rstd.squeeze(axes)


def _row_mean(b: Builder, x: Value, attrs: Attrs) -> Value:
    return b.emit("mean", x, dims=_trailing(x.type.rank, attrs), keepdim=True)


def _norm_definition(b: Builder, v: Values, attrs: Attrs, centred: bool) -> Values:
    """y, [mean,] rstd as products of x, weight, bias and row means."""
    x, *weights = v
    mean = _row_mean(b, x, attrs) if centred else None
    centre = b.emit("sub", x, mean) if mean is not None else x
    variance = _row_mean(b, b.emit("mul", centre, centre), attrs)
    rstd = b.emit("rsqrt", b.emit("shift", variance, by=at.number(attrs, "eps")))
    y = b.emit("mul", centre, rstd)
    if weights:
        y = b.emit("mul", y, weights[0])
    if len(weights) > 1:
        y = b.emit("add", y, weights[1])
    outer = _outer(x.type, attrs)
    kept = (rstd,) if mean is None else (mean, rstd)
    return y, *(b.emit("reshape", s, shape=outer) for s in kept)


declare(
    "layer_norm", "x", "naxes eps",
    doc="""x normalised over its last `naxes` dims: (x - mean) / sqrt(variance + eps), with the
    variance divided by the number of elements.""",
    types=lambda inputs, attrs: _norm_types(inputs, attrs, 0),
    algebra=lambda inputs, attrs: _norm_algebra("layer_norm", inputs, attrs, ()),
    evaluate=lambda arrays, attrs: _norm(arrays, attrs, True)[0],
    define=lambda b, v, attrs: _norm_definition(b, v, attrs, True)[0],
)  # fmt: skip

declare(
    "layer_norm_affine", "x w? b?", "naxes eps",
    doc="""Outputs y, mean, rstd: x normalised over its last `naxes` dims, times w, plus b (both
    of the normalised shape, either left out from the right); the mean; and
    1 / sqrt(variance + eps). The statistics do not have the normalised dims.""",
    types=lambda inputs, attrs: _norm_types(inputs, attrs, 2),
    algebra=lambda inputs, attrs: _norm_algebra("layer_norm", inputs, attrs, ("mean", "rstd")),
    evaluate=lambda arrays, attrs: _norm(arrays, attrs, True),
    define=lambda b, v, attrs: _norm_definition(b, v, attrs, True),
)  # fmt: skip

declare(
    "rms_norm", "x w?", "naxes eps",
    doc="""Outputs y, rstd: x / sqrt(mean(x * x) + eps) over its last `naxes` dims, times w (of
    the normalised shape); and that reciprocal root, without the normalised dims.""",
    types=lambda inputs, attrs: _norm_types(inputs, attrs, 1),
    algebra=lambda inputs, attrs: _norm_algebra("rms_norm", inputs, attrs, ("rstd",)),
    evaluate=lambda arrays, attrs: _norm(arrays, attrs, False)[::2],
    define=lambda b, v, attrs: _norm_definition(b, v, attrs, False),
)  # fmt: skip


# ------------------------------------------------------------------------------ gradients


def _grad_types(inputs: Types, attrs: Attrs, statistics: int) -> TensorType:
    dy, x = inputs[:2]
    outer = _outer(x, attrs)
    need_shape("dy", dy, x.shape)
    for s in inputs[2 : 2 + statistics]:
        need_shape("a saved statistic", s, outer)
    for w in inputs[2 + statistics :]:
        need_shape("w", w, x.shape[len(outer) :])
    return TensorType(floating(x.dtype), x.shape)


def _grad_algebra(fn: str, inputs: Types, attrs: Attrs, statistics: int) -> Signature:
    rank = inputs[1].rank
    names = labels(rank)
    outer, whole = names[: rank - at.axis_count(attrs, rank)], names[-at.integer(attrs, "naxes") :]
    weights = tuple(range(2 + statistics, len(inputs)))
    operands = (names, names, *(outer,) * statistics, *(whole for _ in weights))
    return Signature(fn, operands, names, whole, linear=(0, *weights))


def _grad(arrays: Arrays, attrs: Attrs, centred: bool) -> Array:
    dy, x, *rest = arrays
    axes = _trailing(x.ndim, attrs)
    columns = (...,) + (None,) * len(axes)
    mean = rest.pop(0)[columns] if centred else np.zeros(())
    r = rest.pop(0)[columns]
    h = dy * rest[0] if rest else dy
    normal = (x - mean) * r
    out = h - normal * (h * normal).mean(axis=axes, keepdims=True)
    if centred:
        out = out - h.mean(axis=axes, keepdims=True)
    return np.asarray(r * out)


def _grad_definition(b: Builder, v: Values, attrs: Attrs, centred: bool) -> Value:
    """r * (h - mean(h) - n * mean(h * n)), with h = dy * w and n the normalised x; the middle
    term is absent for the root-mean-square norm."""
    dy, x, *rest = v
    rows = (*_outer(x.type, attrs), *(1,) * at.integer(attrs, "naxes"))
    stats = [b.emit("reshape", s, shape=rows) for s in rest[: 1 + centred]]
    weights = rest[1 + centred :]
    r = stats[-1]
    h = b.emit("mul", dy, weights[0]) if weights else dy
    normal = b.emit("mul", b.emit("sub", x, stats[0]) if centred else x, r)
    spread = b.emit("mul", normal, _row_mean(b, b.emit("mul", h, normal), attrs))
    out = b.emit("sub", h, spread)
    if centred:
        out = b.emit("sub", out, _row_mean(b, h, attrs))
    return b.emit("mul", out, r)


declare(
    "layer_norm_grad", "dy x mean rstd w?", "naxes",
    doc="""Gradient of `layer_norm_affine` with respect to x, from the saved statistics (without
    the normalised dims): rstd * (h - mean(h) - n * mean(h * n)), where h = dy * w and
    n = (x - mean) * rstd. Gradients of w and b are sums of products that frontends spell out.""",
    types=lambda inputs, attrs: _grad_types(inputs, attrs, 2),
    algebra=lambda inputs, attrs: _grad_algebra("layer_norm_grad", inputs, attrs, 2),
    evaluate=lambda arrays, attrs: _grad(arrays, attrs, True),
    define=lambda b, v, attrs: _grad_definition(b, v, attrs, True),
)  # fmt: skip

declare(
    "rms_norm_grad", "dy x rstd w?", "naxes",
    doc="""Gradient of `rms_norm` with respect to x, from the saved rstd (without the normalised
    dims): rstd * (h - n * mean(h * n)), where h = dy * w and n = x * rstd.""",
    types=lambda inputs, attrs: _grad_types(inputs, attrs, 1),
    algebra=lambda inputs, attrs: _grad_algebra("rms_norm_grad", inputs, attrs, 1),
    evaluate=lambda arrays, attrs: _grad(arrays, attrs, False),
    define=lambda b, v, attrs: _grad_definition(b, v, attrs, False),
)  # fmt: skip
