"""Attention as one operator, and its gradient.

Axes: b batch, h head, t query, s key, d features of queries and keys, e features of values.
"""

from __future__ import annotations

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Attrs, AttrValue, TensorType, Value, is_bool
from shardproof.ir.sizes import Size
from shardproof.ops import attributes as at
from shardproof.ops.base import Array, ShapeError, Signature
from shardproof.ops.declare import declare
from shardproof.ops.functions import logsumexp
from shardproof.ops.shapes import broadcast_labels, expands, floating, need_shape, promote, text

Types = tuple[TensorType, ...]
Values = tuple[Value, ...]
Arrays = tuple[Array, ...]

_Q, _K, _V = tuple("bhtd"), tuple("bhsd"), tuple("bhse")
_OUT, _LSE, _SCORES = tuple("bhte"), tuple("bht"), tuple("bhts")


def _scores_shape(q: TensorType, k: TensorType, v: TensorType, mask: Types) -> tuple[Size, ...]:
    """The shape [b, h, t, s], once all operands agree on it."""
    for name, t in (("q", q), ("k", k), ("v", v)):
        if t.rank != 4:
            raise ShapeError(f"{name} must have 4 dims, got {text(t.shape)}")
    need_shape("k", k, (*q.shape[:2], k.shape[2], q.shape[3]))
    need_shape("v", v, (*k.shape[:3], v.shape[3]))
    shape = (*q.shape[:3], k.shape[2])
    for m in mask:
        if not expands(m.shape, shape):
            raise ShapeError(f"the mask {text(m.shape)} does not broadcast to {text(shape)}")
    return shape


def _check_attributes(attrs: Attrs) -> None:
    at.flag(attrs, "causal")
    at.number(attrs, "scale")


def _types(inputs: Types, attrs: Attrs) -> Types:
    q, k, v, *mask = inputs
    _check_attributes(attrs)
    shape = _scores_shape(q, k, v, tuple(mask))
    real = floating(promote((q, k, v)))
    return TensorType(real, (*q.shape[:3], v.shape[3])), TensorType(real, shape[:3])


def _extra(attrs: Attrs, mask: Types) -> tuple[AttrValue, ...]:
    # A boolean mask and the same zeros and ones as numbers to add are different functions.
    boolean = tuple(is_bool(m.dtype) for m in mask)
    return at.flag(attrs, "causal"), at.number(attrs, "scale"), *boolean


def _mask_labels(mask: Types, q: TensorType, k: TensorType) -> tuple[tuple[str, ...], ...]:
    shape = (*q.shape[:3], k.shape[2])
    return tuple(broadcast_labels(m.shape, shape, _SCORES) for m in mask)


def _algebra(inputs: Types, attrs: Attrs) -> tuple[Signature, ...]:
    q, k, _, *mask = inputs
    operands = (_Q, _K, _V, *_mask_labels(tuple(mask), q, k))
    # The causal rule compares positions of queries and keys, so it needs both axes whole.
    positions = ("t",) if at.flag(attrs, "causal") else ()
    whole, extra = ("s", "d", *positions), _extra(attrs, tuple(mask))
    return (
        Signature("attention", operands, _OUT, whole, extra, linear=(2,)),
        Signature("attention.lse", operands, _LSE, (*whole, "e"), extra, unused=(2,)),
    )


def _scores(q: Array, k: Array, mask: Arrays, attrs: Attrs) -> Array:
    s = q @ np.swapaxes(k, -1, -2) * float(at.number(attrs, "scale"))
    for m in mask:
        s = np.where(m, s, -np.inf) if m.dtype.kind == "b" else s + m
    if at.flag(attrs, "causal"):
        t, n = s.shape[-2:]
        s = np.where(np.arange(n) <= np.arange(t)[:, None], s, -np.inf)
    return np.asarray(s)


def _attention(arrays: Arrays, attrs: Attrs) -> Arrays:
    q, k, v, *mask = arrays
    s = _scores(q, k, tuple(mask), attrs)
    lse = logsumexp(s, -1, True)
    return np.exp(s - lse) @ v, lse[..., 0]


# ------------------------------------------------------------------------------ definition


def _transposed(b: Builder, x: Value) -> Value:
    return b.emit("permute", x, perm=(0, 1, 3, 2))


def _weights(b: Builder, q: Value, k: Value, mask: Values, attrs: Attrs) -> Value:
    """exp(score), and 0 for the keys that a query does not see."""
    s = b.emit("matmul", q, _transposed(b, k))
    s = b.emit("scale", s, by=at.number(attrs, "scale"))
    hidden = [m for m in mask if m.dtype == "b8"]
    for m in mask:
        if m.dtype != "b8":
            s = b.emit("add", s, m)
    e = b.emit("exp", s)
    for m in hidden:
        e = b.emit("masked_fill", e, b.emit("logic", m, kind="not"), value=0)
    if at.flag(attrs, "causal"):
        e = b.emit("masked_fill", e, _future(b, q.shape[2], k.shape[2]), value=0)
    return e


def _future(b: Builder, queries: Size, keys: Size) -> Value:
    """Whether the query at position t comes before the key at position s."""
    t = b.emit("iota", size=queries, start=0, step=1, dtype="i64")
    s = b.emit("iota", size=keys, start=0, step=1, dtype="i64")
    t, s = b.emit("reshape", t, shape=(queries, 1)), b.emit("reshape", s, shape=(1, keys))
    return b.emit("compare", t, s, kind="lt")


def _definition(b: Builder, operands: Values, attrs: Attrs) -> Values:
    """Numerator over denominator: (sum_s e_s v_s) / (sum_s e_s), and log of the latter."""
    q, k, v, *mask = operands
    e = _weights(b, q, k, tuple(mask), attrs)
    z = b.emit("sum", e, dims=(3,), keepdim=True)
    out = b.emit("div", b.emit("matmul", e, v), z)
    return out, b.emit("reshape", b.emit("log", z), shape=q.shape[:3])


declare(
    "attention", "q k v mask?", "causal scale",
    doc="""Outputs softmax(scale * q k^T + mask) v over the keys, and the log-sum-exp of those
    scores. q is [b, h, t, d], k is [b, h, s, d], v is [b, h, s, e] (frontends repeat shared
    heads); the mask broadcasts to [b, h, t, s] and is added, or, if boolean, says which keys are
    seen. With `causal` query t sees keys s <= t. Defined where each query sees a key.""",
    types=_types,
    algebra=_algebra,
    evaluate=_attention,
    define=_definition,
)  # fmt: skip


# ------------------------------------------------------------------------------ gradient


def _grad_types(inputs: Types, attrs: Attrs) -> Types:
    dout, q, k, v, out, lse, *mask = inputs
    _check_attributes(attrs)
    shape = _scores_shape(q, k, v, tuple(mask))
    need_shape("dout", dout, (*q.shape[:3], v.shape[3]))
    need_shape("out", out, dout.shape)
    need_shape("lse", lse, shape[:3])
    real = floating(promote((q, k, v)))
    return tuple(TensorType(real, t.shape) for t in (q, k, v))


def _grad_algebra(inputs: Types, attrs: Attrs) -> tuple[Signature, ...]:
    _, q, k, _, _, _, *mask = inputs
    operands = (_OUT, _Q, _K, _V, _OUT, _LSE, *_mask_labels(tuple(mask), q, k))
    positions = ("t", "s") if at.flag(attrs, "causal") else ()
    extra = _extra(attrs, tuple(mask))

    def part(
        name: str, output: tuple[str, ...], whole: str, unused: tuple[int, ...] = ()
    ) -> Signature:
        axes = tuple(dict.fromkeys((*whole, *positions)))
        return Signature(f"attention_grad.{name}", operands, output, axes, extra, (0,), unused)

    # With the saved log-sum-exp the weight of one pair of query and key needs no other pair.
    return part("q", _Q, "sde"), part("k", _K, "tde"), part("v", _V, "td", (3, 4))


def _attention_grad(arrays: Arrays, attrs: Attrs) -> Arrays:
    dout, q, k, v, out, lse, *mask = arrays
    p = np.exp(_scores(q, k, tuple(mask), attrs) - lse[..., None])
    dp = dout @ np.swapaxes(v, -1, -2)
    ds = p * (dp - (dout * out).sum(-1, keepdims=True)) * float(at.number(attrs, "scale"))
    return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ dout


def _grad_definition(b: Builder, operands: Values, attrs: Attrs) -> Values:
    """p = e / exp(lse), ds = p * (dout v^T - sum(dout * out)) * scale."""
    dout, q, k, v, out, lse, *mask = operands
    e = _weights(b, q, k, tuple(mask), attrs)
    z = b.emit("exp", b.emit("reshape", lse, shape=(*lse.shape, 1)))
    p = b.emit("div", e, z)
    dp = b.emit("matmul", dout, _transposed(b, v))
    inner = b.emit("sum", b.emit("mul", dout, out), dims=(3,), keepdim=True)
    ds = b.emit("mul", p, b.emit("sub", dp, inner))
    ds = b.emit("scale", ds, by=at.number(attrs, "scale"))
    dq, dk = b.emit("matmul", ds, k), b.emit("matmul", _transposed(b, ds), q)
    return dq, dk, b.emit("matmul", _transposed(b, p), dout)


declare(
    "attention_grad", "dout q k v out lse mask?", "causal scale",
    doc="""Outputs dq, dk, dv of `attention` from its saved outputs: with
    p = exp(scale * q k^T + mask - lse) and ds = scale * p * (dout v^T - sum(dout * out)),
    dq = ds k, dk = ds^T q and dv = p^T dout. `out` and `lse` may come from more keys than k has;
    the formula then gives this block's share. Linear in dout.""",
    types=_grad_types,
    algebra=_grad_algebra,
    evaluate=_attention_grad,
    define=_grad_definition,
)  # fmt: skip
