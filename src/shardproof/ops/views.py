"""Operators that rearrange elements."""

from __future__ import annotations

import numpy as np

from shardproof.ir.graph import Attrs, TensorType
from shardproof.ir.sizes import Size, le, product
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, Concat, Expand, Permute, Reshape, ShapeError, Slice
from shardproof.ops.creation import concrete_shape
from shardproof.ops.declare import declare
from shardproof.ops.shapes import expands, promote, text


def _reshape_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), shape = inputs, at.sizes(attrs, "shape")
    if x.numel != product(shape):
        raise ShapeError(
            f"{text(x.shape)} has {x.numel} elements, {text(shape)} has {product(shape)}"
        )
    return TensorType(x.dtype, shape)


declare(
    "reshape", "x", "shape",
    doc="""The elements of x in row-major order in another shape with as many elements. All sizes
    are given; none is left to be inferred.""",
    types=_reshape_types,
    algebra=lambda inputs, attrs: Reshape(at.sizes(attrs, "shape")),
    evaluate=lambda arrays, attrs: arrays[0].reshape(concrete_shape(at.sizes(attrs, "shape"))),
)  # fmt: skip


def _perm(attrs: Attrs) -> tuple[int, ...]:
    perm = attrs.get("perm")
    if not isinstance(perm, tuple):
        raise ShapeError(f"attribute 'perm' must be a tuple of dims, got {perm!r}")
    return tuple(p for p in perm if isinstance(p, int))


def _permute_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), perm = inputs, _perm(attrs)
    if sorted(perm) != list(range(x.rank)):
        raise ShapeError(f"perm {attrs['perm']} does not permute the dims of {text(x.shape)}")
    return TensorType(x.dtype, tuple(x.shape[p] for p in perm))


declare(
    "permute", "x", "perm",
    doc="""x with its dims in another order: dim k of the result is dim `perm[k]` of x.""",
    types=_permute_types,
    algebra=lambda inputs, attrs: Permute(_perm(attrs)),
    evaluate=lambda arrays, attrs: np.transpose(arrays[0], _perm(attrs)),
)  # fmt: skip


def _slice_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,) = inputs
    dim = at.dim(attrs, x.rank)
    start, stop, n = at.size(attrs, "start"), at.size(attrs, "stop"), x.shape[dim]
    if not (le(0, start) and le(start, stop) and le(stop, n)):
        raise ShapeError(f"expected 0 <= start <= stop <= {n}, got start={start}, stop={stop}")
    return TensorType(x.dtype, (*x.shape[:dim], stop - start, *x.shape[dim + 1 :]))


def _slice(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    (x,), dim = arrays, at.integer(attrs, "dim")
    part = slice(at.integer(attrs, "start"), at.integer(attrs, "stop"))
    return np.asarray(x[(slice(None),) * dim + (part,)])


declare(
    "slice", "x", "dim start stop",
    doc="""The elements of x with index in [start, stop) along `dim`, with
    0 <= start <= stop <= the size of that dim.""",
    types=_slice_types,
    algebra=lambda inputs, attrs: Slice(
        at.integer(attrs, "dim"), at.size(attrs, "start"), at.size(attrs, "stop")
    ),
    evaluate=_slice,
)  # fmt: skip


def _concat_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    dim = at.dim(attrs, inputs[0].rank)
    first = inputs[0].shape
    total: Size = 0
    for t in inputs:
        rest = t.shape[:dim] + t.shape[dim + 1 :]
        if t.rank != len(first) or rest != first[:dim] + first[dim + 1 :]:
            raise ShapeError(
                f"operands differ outside dim {dim}: {text(first)} and {text(t.shape)}"
            )
        total = total + t.shape[dim]
    return TensorType(promote(inputs), (*first[:dim], total, *first[dim + 1 :]))


declare(
    "concat", "x*", "dim",
    doc="""The operands one after another along `dim`; their other sizes agree.""",
    types=_concat_types,
    algebra=lambda inputs, attrs: Concat(at.integer(attrs, "dim")),
    evaluate=lambda arrays, attrs: np.concatenate(arrays, axis=at.integer(attrs, "dim")),
)  # fmt: skip


def _expand_types(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), shape = inputs, at.sizes(attrs, "shape")
    if not expands(x.shape, shape):
        raise ShapeError(f"{text(x.shape)} does not expand to {text(shape)}")
    return TensorType(x.dtype, shape)


declare(
    "expand", "x", "shape",
    doc="""x broadcast to `shape` by NumPy's rule: new leading dims, and extent 1 repeated.""",
    types=_expand_types,
    algebra=lambda inputs, attrs: Expand(at.sizes(attrs, "shape")),
    evaluate=lambda arrays, attrs: np.broadcast_to(
        arrays[0], concrete_shape(at.sizes(attrs, "shape"))
    ),
)  # fmt: skip
