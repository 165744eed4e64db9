"""Functions of which only the shape of their dependence is known: fused and custom kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import prod

import numpy as np

from shardproof.ir.graph import Attrs, AttrValue, TensorType, is_bool, is_integer
from shardproof.ir.sizes import Poly, Size, symbols
from shardproof.ops import attributes as at
from shardproof.ops.base import ONE, Array, ShapeError, Signature
from shardproof.ops.declare import declare

Types = tuple[TensorType, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A parsed signature: labels of every operand and of the output, and the whole ones."""

    operands: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    whole: tuple[str, ...]


@lru_cache(maxsize=256)
def parse_signature(text: str) -> Call:
    """Read ``i k!, k! -> i k``: one label a dim, operands between commas, ``!`` at whole axes.
    A label that the output lacks is whole as well.

    Raises:
        ShapeError: the text has another form.
    """
    left, arrow, right = text.partition("->")
    if not arrow or not left.strip() or "," in right:
        raise ShapeError(f"the signature {text!r} is not of the form 'i k!, k! -> i k'")
    marked: dict[str, None] = {}
    operands = tuple(_labels(part, marked) for part in left.split(","))
    output = _labels(right, marked)
    known = dict.fromkeys(x for labels in operands for x in labels if x != ONE)
    new = [x for x in output if x != ONE and x not in known]
    if new:
        raise ShapeError(f"the label {new[0]!r} of the output is on no operand of {text!r}")
    whole = tuple(x for x in known if x in marked or x not in output)
    return Call(operands, output, whole)


def _labels(part: str, marked: dict[str, None]) -> tuple[str, ...]:
    out = []
    for word in part.split():
        name = word.removesuffix("!")
        if not name.isalnum():
            raise ShapeError(f"{word!r} is no label")
        if word != name:
            marked[name] = None
        out.append(name)
    names = [x for x in out if x != ONE]
    if len(set(names)) != len(names):
        raise ShapeError(f"a label occurs twice in {part.strip()!r}")
    return tuple(out)


def _call(attrs: Attrs) -> Call:
    text = attrs.get("signature")
    if not isinstance(text, str) or not isinstance(attrs.get("target"), str):
        raise ShapeError("attributes 'target' and 'signature' must be texts")
    return parse_signature(text)


def _extents(call: Call, inputs: Types) -> dict[str, Size]:
    if len(inputs) != len(call.operands):
        raise ShapeError(f"the signature has {len(call.operands)} operands, got {len(inputs)}")
    sizes: dict[str, Size] = {ONE: 1}
    for k, (labels, t) in enumerate(zip(call.operands, inputs, strict=True)):
        if len(labels) != t.rank:
            raise ShapeError(f"operand {k} has {t.rank} dims, the signature gives {len(labels)}")
        for label, n in zip(labels, t.shape, strict=True):
            if sizes.setdefault(label, n) != n:
                raise ShapeError(f"the axis {label!r} has extents {sizes[label]} and {n}")
    return sizes


def _linear(attrs: Attrs, count: int) -> tuple[int, ...]:
    given = attrs.get("linear", ())
    if not isinstance(given, tuple) or any(x not in range(count) for x in given):
        raise ShapeError(f"attribute 'linear' must be a tuple of operands, got {given!r}")
    return tuple(x for x in given if isinstance(x, int))


def _has_rank(value: AttrValue) -> bool:
    """Whether a parameter depends on the rank: then it is another function on every rank."""
    if isinstance(value, tuple):
        return any(_has_rank(v) for v in value)
    return isinstance(value, Poly) and any(s.extent is not None for s in symbols(value))


def _types(inputs: Types, attrs: Attrs) -> TensorType:
    call = _call(attrs)
    sizes = _extents(call, inputs)
    _linear(attrs, len(inputs))
    if not isinstance(attrs.get("parameters", ()), tuple) or _has_rank(attrs.get("parameters")):
        raise ShapeError("attribute 'parameters' must be a tuple of what is equal on all ranks")
    dtype = inputs[0].dtype if attrs.get("dtype") is None else at.dtype(attrs)
    return TensorType(dtype, tuple(sizes[x] for x in call.output))


def _algebra(inputs: Types, attrs: Attrs) -> Signature:
    call = _call(attrs)
    parameters = attrs.get("parameters", ())
    assert isinstance(parameters, tuple)
    return Signature(
        f"call of {attrs['target']}",
        call.operands,
        call.output,
        call.whole,
        parameters,
        _linear(attrs, len(inputs)),
    )


# ------------------------------------------------------------------------------ replay


def _evaluate(arrays: tuple[Array, ...], attrs: Attrs) -> Array:
    """A stand-in: some function with this signature, the same one for the same call. It mixes
    all elements of the whole axes with weights that differ for each."""
    call = _call(attrs)
    linear = _linear(attrs, len(arrays))
    free = [x for x in call.output if x not in call.whole and x != ONE]
    inner = [x for x in call.output if x in call.whole]
    sizes = {x: n for labels, a in zip(call.operands, arrays, strict=True)
             for x, n in zip(labels, a.shape, strict=True)}  # fmt: skip
    shape = tuple(sizes[x] for x in free)
    width = prod(sizes[x] for x in inner)
    product, score, plain = np.ones((*shape, width)), np.zeros((*shape, width)), False
    for p, (labels, a) in enumerate(zip(call.operands, arrays, strict=True)):
        mixed = _mixed(a, labels, free, width, f"{attrs['target']} {attrs.get('parameters')} {p}")
        if p in linear:
            product = product * mixed
        else:
            score, plain = score + mixed, True
    if plain:
        curve = np.sin(score) + score / 8
        product = product * (curve + 1.5) if linear else curve
    return _typed(_placed(product, call, free, inner, sizes), attrs, arrays)


def _mixed(a: Array, labels: tuple[str, ...], free: list[str], width: int, seed: str) -> Array:
    """Weighted sums over the whole axes of one operand, over the free axes and the output's."""
    rows = [k for x in free for k, label in enumerate(labels) if label == x]
    rest = [k for k in range(a.ndim) if k not in rows]
    lines = np.transpose(a, (*rows, *rest)).astype(np.float64)
    lines = lines.reshape(*lines.shape[: len(rows)], prod(a.shape[k] for k in rest))
    rng = np.random.default_rng(list(sha256(seed.encode()).digest()))
    weights = rng.uniform(0.5, 1.5, size=(lines.shape[-1], width))
    weights *= rng.choice([-1.0, 1.0], size=weights.shape)
    mixed = lines @ weights / max(1.0, lines.shape[-1] ** 0.5)
    extents = iter(mixed.shape[:-1])
    return np.asarray(mixed.reshape(*(next(extents) if x in labels else 1 for x in free), width))


def _placed(
    x: Array, call: Call, free: list[str], inner: list[str], sizes: dict[str, int]
) -> Array:
    """The output's axes in the order of its labels."""
    have = [*free, *inner]
    x = x.reshape([sizes[label] for label in have])
    x = np.transpose(x, [have.index(label) for label in call.output if label != ONE])
    return np.asarray(x.reshape([1 if label == ONE else sizes[label] for label in call.output]))


def _typed(x: Array, attrs: Attrs, arrays: tuple[Array, ...]) -> Array:
    name = attrs.get("dtype")
    integer = is_integer(str(name)) if name else arrays[0].dtype.kind == "i"
    boolean = is_bool(str(name)) if name else arrays[0].dtype.kind == "b"
    if boolean:
        return np.asarray(x > 0)
    return np.floor(np.abs(x) * 16).astype(np.int64) if integer else x


declare(
    "signature_call", "x*", "target signature parameters? linear? dtype?",
    doc="""A function of which only the dependence is known, such as a fused kernel: `target` is
    its name, `signature` has one label a dim, operands between commas, and marks with `!` the
    axes whose full extent takes part (`i k!, k! -> i k`). It acts independently and in the same
    way for each index of the other labels. `parameters` are further arguments; `linear` lists
    operands in which it is linear. Calls with equal operands, names and parameters are equal;
    the parts that differ in the other labels may lie on different ranks. Evaluation takes some
    function with this signature, the same one for the same name and parameters.""",
    types=_types,
    algebra=_algebra,
    evaluate=_evaluate,
)  # fmt: skip
