"""Operators that read a whole axis: softmax and its kin, scans, sorting."""

from __future__ import annotations

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Attrs, AttrValue, TensorType, Value
from shardproof.ir.sizes import Size, le
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, ShapeError, Signature
from shardproof.ops.declare import declare
from shardproof.ops.functions import logsumexp, softmax
from shardproof.ops.shapes import floating, labels, promote, reduced, reduced_labels, same_shape

Types = tuple[TensorType, ...]
Values = tuple[Value, ...]


def _along(
    fn: str, inputs: Types, attrs: Attrs, extra: tuple[AttrValue, ...] = (), linear: bool = False
) -> Signature:
    """All operands and the output have one shape; the axis ``dim`` is whole."""
    names = labels(inputs[0].rank)
    whole = (names[at.dim(attrs, len(names))],)
    return Signature(fn, (names,) * len(inputs), names, whole, extra, linear=(0,) if linear else ())


def _real_along(inputs: Types, attrs: Attrs) -> TensorType:
    shape = same_shape(*zip(("operand 0", "operand 1"), inputs, strict=False))
    at.dim(attrs, len(shape))
    return TensorType(floating(promote(inputs)), shape)


def _total(b: Builder, x: Value, attrs: Attrs) -> Value:
    return b.emit("sum", x, dims=(at.integer(attrs, "dim"),), keepdim=True)


def _softmax_definition(b: Builder, v: Values, attrs: Attrs) -> Value:
    """exp(x) / sum exp(x). The maximum that programs subtract first cancels over the reals."""
    e = b.emit("exp", v[0])
    return b.emit("div", e, _total(b, e, attrs))


def _log_softmax_definition(b: Builder, v: Values, attrs: Attrs) -> Value:
    """x - log sum exp(x)."""
    return b.emit("sub", v[0], b.emit("log", _total(b, b.emit("exp", v[0]), attrs)))


def _softmax_grad_definition(b: Builder, v: Values, attrs: Attrs) -> Value:
    """y * (dy - sum(dy * y))."""
    dy, y = v
    return b.emit("mul", y, b.emit("sub", dy, _total(b, b.emit("mul", dy, y), attrs)))


def _log_softmax_grad_definition(b: Builder, v: Values, attrs: Attrs) -> Value:
    """dy - exp(y) * sum(dy)."""
    dy, y = v
    return b.emit("sub", dy, b.emit("mul", b.emit("exp", y), _total(b, dy, attrs)))


def _softmax(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    return softmax(arrays[0].astype(np.float64), at.integer(attrs, "dim"))


def _log_softmax(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    x = arrays[0].astype(np.float64)
    return np.asarray(x - logsumexp(x, at.integer(attrs, "dim"), True))


def _softmax_grad(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    dy, y = arrays
    return np.asarray(y * (dy - (dy * y).sum(axis=at.integer(attrs, "dim"), keepdims=True)))


def _log_softmax_grad(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    dy, y = arrays
    return np.asarray(dy - np.exp(y) * dy.sum(axis=at.integer(attrs, "dim"), keepdims=True))


for _name, _operands, _fn, _define, _doc in (
    ("softmax", "x", _softmax, _softmax_definition, "exp(x) / sum exp(x) along `dim`."),
    ("log_softmax", "x", _log_softmax, _log_softmax_definition,
     "x - log(sum exp(x)) along `dim`."),
    ("softmax_grad", "dy y", _softmax_grad, _softmax_grad_definition,
     "Gradient of `softmax` along `dim` for the output y: y * (dy - sum(dy * y))."),
    ("log_softmax_grad", "dy y", _log_softmax_grad, _log_softmax_grad_definition,
     "Gradient of `log_softmax` along `dim` for the output y: dy - exp(y) * sum(dy)."),
):  # fmt: skip
    declare(
        _name, _operands, "dim",
        doc=_doc,
        types=_real_along,
        algebra=lambda inputs, attrs, fn=_name: _along(fn, inputs, attrs, (), "grad" in fn),  # type: ignore[misc]
        evaluate=_fn,
        define=_define,
    )  # fmt: skip


# ------------------------------------------------------------------------------ log-sum-exp


def _lse_types(inputs: Types, attrs: Attrs) -> TensorType:
    (x,) = inputs
    shape = reduced(x.shape, at.dims(attrs, x.rank), at.flag(attrs, "keepdim"))
    return TensorType(floating(x.dtype), shape)


def _lse_algebra(inputs: Types, attrs: Attrs) -> Signature:
    names = labels(inputs[0].rank)
    dims = at.dims(attrs, len(names))
    out = reduced_labels(names, dims, at.flag(attrs, "keepdim"))
    return Signature("logsumexp", (names,), out, tuple(names[d] for d in dims))


def _lse_definition(b: Builder, v: Values, attrs: Attrs) -> Value:
    e = b.emit("exp", v[0])
    keepdim = at.flag(attrs, "keepdim")
    dims = at.dims(attrs, v[0].type.rank)
    return b.emit("log", b.emit("sum", e, dims=dims, keepdim=keepdim))


declare(
    "logsumexp", "x", "dims keepdim?",
    doc="""log(sum exp(x)) over `dims` (a tuple), which are kept with extent 1 if `keepdim`.""",
    types=_lse_types,
    algebra=_lse_algebra,
    evaluate=lambda arrays, attrs: logsumexp(
        arrays[0].astype(np.float64), at.dims(attrs, arrays[0].ndim), at.flag(attrs, "keepdim")
    ),
    define=_lse_definition,
)  # fmt: skip


# ------------------------------------------------------------------------------ scan, order


def _cumsum_types(inputs: Types, attrs: Attrs) -> TensorType:
    (x,) = inputs
    at.dim(attrs, x.rank)
    return TensorType("i64" if x.dtype == "b8" else x.dtype, x.shape)


declare(
    "cumsum", "x", "dim",
    doc="""Running sums along `dim`: element i is the sum of elements 0 to i. Linear in x.""",
    types=_cumsum_types,
    algebra=lambda inputs, attrs: _along("cumsum", inputs, attrs, (), linear=True),
    evaluate=lambda arrays, attrs: np.cumsum(arrays[0], axis=at.integer(attrs, "dim")),
)  # fmt: skip


def _order(x: Array, dim: int, descending: bool) -> Array:
    """Sorting positions; equal elements keep their order."""
    if not descending:
        return np.argsort(x, axis=dim, kind="stable")
    # Sorting the reversed axis upwards and reversing again keeps equal elements in order.
    n = x.shape[dim]
    back = np.argsort(np.flip(x, dim), axis=dim, kind="stable")
    return np.asarray(n - 1 - np.flip(back, dim))


def _sort(arrays: tuple[Array, ...], attrs: Attrs) -> tuple[Array, ...]:
    (x,), dim = arrays, at.integer(attrs, "dim")
    order = _order(x, dim, at.flag(attrs, "descending"))
    return np.take_along_axis(x, order, axis=dim), order


def _sort_types(inputs: Types, attrs: Attrs) -> Types:
    (x,) = inputs
    at.dim(attrs, x.rank)
    at.flag(attrs, "descending")
    return x, TensorType("i64", x.shape)


declare(
    "sort", "x", "dim descending?",
    doc="""Outputs x sorted along `dim`, upwards unless `descending`, and the index in x of each
    element. Equal elements keep their order.""",
    types=_sort_types,
    algebra=lambda inputs, attrs: (
        _along("sort.values", inputs, attrs, (at.flag(attrs, "descending"),)),
        _along("sort.indices", inputs, attrs, (at.flag(attrs, "descending"),)),
    ),
    evaluate=_sort,
)  # fmt: skip


def _topk_types(inputs: Types, attrs: Attrs) -> Types:
    (x,) = inputs
    dim, k = at.dim(attrs, x.rank), at.extent(attrs, "k")
    at.flag(attrs, "largest")
    if not le(k, x.shape[dim]):
        raise ShapeError(f"k = {k} exceeds the extent {x.shape[dim]} of dim {dim}")
    shape: tuple[Size, ...] = (*x.shape[:dim], k, *x.shape[dim + 1 :])
    return TensorType(x.dtype, shape), TensorType("i64", shape)


def _topk_algebra(inputs: Types, attrs: Attrs) -> tuple[Signature, ...]:
    names = labels(inputs[0].rank)
    dim = at.dim(attrs, len(names))
    out = (*names[:dim], "top", *names[dim + 1 :])
    extra = (at.size(attrs, "k"), at.flag(attrs, "largest"))
    return tuple(
        Signature(f"topk.{part}", (names,), out, (names[dim], "top"), extra)
        for part in ("values", "indices")
    )


def _topk(arrays: tuple[Array, ...], attrs: Attrs) -> tuple[Array, ...]:
    (x,), dim = arrays, at.integer(attrs, "dim")
    order = _order(x, dim, at.flag(attrs, "largest"))
    order = np.take(order, np.arange(at.integer(attrs, "k")), axis=dim)
    return np.take_along_axis(x, order, axis=dim), order


def _topk_definition(b: Builder, v: Values, attrs: Attrs) -> Values:
    """The first k elements of the sorted axis."""
    dim, k = at.integer(attrs, "dim"), at.size(attrs, "k")
    both = b.emit_all("sort", v[0], dim=dim, descending=at.flag(attrs, "largest"))
    return tuple(b.emit("slice", x, dim=dim, start=0, stop=k) for x in both)


declare(
    "topk", "x", "k dim largest",
    doc="""Outputs the `k` largest (or smallest) elements of x along `dim`, best first, and their
    indices in x. Which of several equal elements is taken is a convention: here the first.""",
    types=_topk_types,
    algebra=_topk_algebra,
    evaluate=_topk,
    define=_topk_definition,
)  # fmt: skip
