"""Reductions that are no sums: extrema, products, positions of extrema."""

from __future__ import annotations

import numpy as np

from shardproof.ir.graph import Attrs, TensorType, is_bool
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, Extremum, ShapeError, Signature
from shardproof.ops.declare import declare
from shardproof.ops.shapes import labels, reduced, reduced_labels, text


def _extremum_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,) = inputs
    dims = at.dims(attrs, x.rank)
    if any(x.shape[d] == 0 for d in dims):
        raise ShapeError(f"{text(x.shape)} has no elements along dims {dims}")
    return TensorType(x.dtype, reduced(x.shape, dims, at.flag(attrs, "keepdim")))


def _extremum(kind: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> Extremum:
    return Extremum(kind, at.dims(attrs, inputs[0].rank), at.flag(attrs, "keepdim"))


def _reduce(kind: str, x: Array, attrs: Attrs) -> Array:
    axes, keep = at.dims(attrs, x.ndim), at.flag(attrs, "keepdim")
    if kind == "prod":
        return np.asarray(x.prod(axis=axes, keepdims=keep))
    return np.asarray((x.max if kind == "max" else x.min)(axis=axes, keepdims=keep))


for _kind, _word, _boolean in (("max", "largest", "any"), ("min", "smallest", "all")):
    declare(
        _kind, "x", "dims keepdim?",
        doc=f"""The {_word} element over `dims` (a tuple), which are kept with extent 1 if
        `keepdim`; there is at least one element. Over booleans it is "{_boolean}".""",
        types=_extremum_types,
        algebra=lambda inputs, attrs, kind=_kind: _extremum(kind, inputs, attrs),  # type: ignore[misc]
        evaluate=lambda arrays, attrs, kind=_kind: _reduce(kind, arrays[0], attrs),  # type: ignore[misc]
    )  # fmt: skip


def _prod_algebra(inputs: tuple[TensorType, ...], attrs: Attrs) -> Signature:
    names = labels(inputs[0].rank)
    dims = at.dims(attrs, len(names))
    out = reduced_labels(names, dims, at.flag(attrs, "keepdim"))
    return Signature("prod", (names,), out, tuple(names[d] for d in dims))


declare(
    "prod", "x", "dims keepdim?",
    doc="""The product over `dims` (a tuple), which are kept with extent 1 if `keepdim`.""",
    types=lambda inputs, attrs: TensorType(
        "i64" if is_bool(inputs[0].dtype) else inputs[0].dtype,
        reduced(inputs[0].shape, at.dims(attrs, inputs[0].rank), at.flag(attrs, "keepdim")),
    ),
    algebra=_prod_algebra,
    evaluate=lambda arrays, attrs: _reduce("prod", arrays[0], attrs),
)  # fmt: skip


def _position_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,) = inputs
    dim = at.dim(attrs, x.rank)
    if x.shape[dim] == 0:
        raise ShapeError(f"{text(x.shape)} has no elements along dim {dim}")
    return TensorType("i64", reduced(x.shape, (dim,), at.flag(attrs, "keepdim")))


def _position_algebra(kind: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> Signature:
    names = labels(inputs[0].rank)
    dim = at.dim(attrs, len(names))
    out = reduced_labels(names, (dim,), at.flag(attrs, "keepdim"))
    return Signature(kind, (names,), out, (names[dim],))


def _position(kind: str, x: Array, attrs: Attrs) -> Array:
    fn = np.argmax if kind == "argmax" else np.argmin
    return np.asarray(fn(x, axis=at.integer(attrs, "dim"), keepdims=at.flag(attrs, "keepdim")))


for _kind, _word in (("argmax", "largest"), ("argmin", "smallest")):
    declare(
        _kind, "x", "dim keepdim?",
        doc=f"""The index along `dim` of the {_word} element, the first one where several are
        equal. The dim is kept with extent 1 if `keepdim`.""",
        types=_position_types,
        algebra=lambda inputs, attrs, kind=_kind: _position_algebra(kind, inputs, attrs),  # type: ignore[misc]
        evaluate=lambda arrays, attrs, kind=_kind: _position(kind, arrays[0], attrs),  # type: ignore[misc]
    )  # fmt: skip
