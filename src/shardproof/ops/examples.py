"""One call of every operator with symbolic sizes, for reference pages and tests."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from shardproof.ir.graph import AttrValue, TensorType
from shardproof.ir.sizes import Size, symbol
from shardproof.ops.base import OpDef

B, S, H, V, N = (symbol(name) for name in "BSHVN")
ROWS: tuple[Size, ...] = (B, S)


@dataclass(frozen=True)
class Example:
    """Operand types and attributes."""

    inputs: tuple[TensorType, ...]
    attrs: dict[str, AttrValue]


def _f(*shape: Size) -> TensorType:
    return TensorType("f32", shape)


def _i(*shape: Size) -> TensorType:
    return TensorType("i64", shape)


def _b(*shape: Size) -> TensorType:
    return TensorType("b8", shape)


_EPS = Fraction(1, 10**5)
_HALF = Fraction(1, 2)
_NORM: dict[str, AttrValue] = {"naxes": 1, "eps": _EPS}
_GROUP: dict[str, AttrValue] = {"group": ("tp",), "group_size": N}
_Q, _K, _E = _f(B, 8, S, 64), _f(B, 8, 2 * S, 64), _f(B, 8, 2 * S, 32)
_OUT = _f(B, 8, S, 32)
_ATTENTION: dict[str, AttrValue] = {"causal": False, "scale": Fraction(1, 8)}

_TABLE: dict[str, tuple[tuple[TensorType, ...], dict[str, AttrValue]]] = {
    "cast": ((_i(*ROWS),), {"dtype": "f32"}),
    "scale": ((_f(*ROWS),), {"by": _HALF}),
    "shift": ((_i(*ROWS),), {"by": -V}),
    "power": ((_f(*ROWS),), {"exponent": Fraction(2)}),
    "gelu": ((_f(*ROWS),), {"approximate": "none"}),
    "gelu_grad": ((_f(*ROWS), _f(*ROWS)), {"approximate": "none"}),
    "leaky_relu": ((_f(*ROWS),), {"slope": _HALF}),
    "leaky_relu_grad": ((_f(*ROWS), _f(*ROWS)), {"slope": _HALF}),
    "elu": ((_f(*ROWS),), {"alpha": Fraction(1)}),
    "elu_grad": ((_f(*ROWS), _f(*ROWS)), {"alpha": Fraction(1)}),
    "relu_grad": ((_f(*ROWS), _f(*ROWS)), {"threshold": Fraction(0)}),
    "clamp": ((_f(*ROWS),), {"min": Fraction(-1), "max": Fraction(1)}),
    "clamp_grad": ((_f(*ROWS), _f(*ROWS)), {"min": Fraction(-1), "max": Fraction(1)}),
    "matmul": ((_f(B, S, H), _f(H, 4 * H)), {}),
    "softmax": ((_f(B, V),), {"dim": 1}),
    "log_softmax": ((_f(B, V),), {"dim": 1}),
    "softmax_grad": ((_f(B, V), _f(B, V)), {"dim": 1}),
    "log_softmax_grad": ((_f(B, V), _f(B, V)), {"dim": 1}),
    "cumsum": ((_f(*ROWS),), {"dim": 1}),
    "sort": ((_f(*ROWS),), {"dim": 1}),
    "topk": ((_f(B, V + 2),), {"k": 2, "dim": 1, "largest": True}),
    "argmax": ((_f(*ROWS),), {"dim": 1}),
    "argmin": ((_f(*ROWS),), {"dim": 1}),
    "layer_norm": ((_f(B, S, H),), _NORM),
    "layer_norm_affine": ((_f(B, S, H), _f(H), _f(H)), _NORM),
    "rms_norm": ((_f(B, S, H), _f(H)), _NORM),
    "layer_norm_grad": ((_f(B, S, H), _f(B, S, H), _f(B, S), _f(B, S), _f(H)), {"naxes": 1}),
    "rms_norm_grad": ((_f(B, S, H), _f(B, S, H), _f(B, S), _f(H)), {"naxes": 1}),
    "attention": ((_Q, _K, _E, _f(S, 2 * S)), _ATTENTION),
    "attention_grad": ((_OUT, _Q, _K, _E, _OUT, _f(B, 8, S)), _ATTENTION),
    "reshape": ((_f(B, S, H),), {"shape": (B * S, H)}),
    "permute": ((_f(B, S, H),), {"perm": (1, 0, 2)}),
    "slice": ((_f(B, 4 * S),), {"dim": 1, "start": S, "stop": 2 * S}),
    "concat": ((_f(B, S), _f(B, H)), {"dim": 1}),
    "expand": ((_f(B, 1, H),), {"shape": (B, S, H)}),
    "full": ((), {"value": Fraction(0), "shape": ROWS, "dtype": "f32"}),
    "iota": ((), {"size": S, "start": 0, "step": 1, "dtype": "i64"}),
    "undefined": ((), {"shape": ROWS, "dtype": "f32"}),
    "compare": ((_i(*ROWS),), {"kind": "lt", "value": V}),
    "logic": ((_b(*ROWS), _b(*ROWS)), {"kind": "and"}),
    "where": ((_b(*ROWS), _f(*ROWS), _f(*ROWS)), {}),
    "masked_fill": ((_f(B, S, H), _b(B, S, 1)), {"value": Fraction(0)}),
    "take_rows": ((_f(V, H), _i(B, S)), {}),
    "take_along": ((_f(B, S, V), _i(B, S)), {}),
    "add_rows": ((_f(B, S, H), _i(B, S)), {"rows": V}),
    "put_along": ((_f(B, S, V), _i(B, S), _f(B, S)), {}),
    "all_reduce": ((_f(*ROWS),), {"op": "sum", **_GROUP}),
    "all_gather": ((_f(*ROWS),), {"dim": 1, **_GROUP}),
    "reduce_scatter": ((_f(B, N * S),), {"op": "sum", "dim": 1, **_GROUP}),
    "all_to_all": ((_f(S, N * H),), {"split_dim": 1, "concat_dim": 0, **_GROUP}),
    "broadcast": ((_f(*ROWS),), {"src": 0, **_GROUP}),
    "send": ((_f(*ROWS),), {"dst": 1, "tag": 0, "group": (0, 1), "group_size": 2}),
    "wait_sent": ((), {"handle": "isend"}),
    "recv": ((), {"src": 0, "tag": 0, "group": (0, 1), "group_size": 2, "shape": ROWS,
                  "dtype": "f32"}),
    "signature_call": ((_f(B, S, H), _f(H)), {"target": "my_norm",
                                              "signature": "b s h!, h! -> b s h"}),
    "opaque": ((_f(*ROWS),), {"target": "my_kernel", "shape": ROWS, "dtype": "f32"}),
}  # fmt: skip


def example(op: OpDef) -> Example:
    """A call of ``op``: a row of the table, or float operands of one shape.

    Raises:
        KeyError: the operator needs attributes and has no row; declared outside this package.
    """
    if op.name in _TABLE:
        return Example(*_TABLE[op.name])
    names, required = op.operands.split(), [a for a in op.attributes.split() if a[-1] not in "?*"]
    if required == ["dims"]:
        return Example((_f(*ROWS),), {"dims": (1,)})
    if required or "*" in names:
        raise KeyError(op.name)
    return Example(tuple(_f(*ROWS) for _ in names), {})
