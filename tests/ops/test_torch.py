"""Reference evaluation agrees with PyTorch in float64, and with the shape rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.ops.algebra import same
from tests.ops.samples import Call, calls
from tests.support.double import double_precision  # noqa: F401 - a fixture

import shardproof.ops  # noqa: F401 - registers the operators
from shardproof.ir.graph import TensorType
from shardproof.ops.base import Array, known
from shardproof.ops.creation import storage
from shardproof.ops.shapes import promote

torch = pytest.importorskip("torch")
F = torch.nn.functional
RUNNABLE = sorted(name for name, op in known().items() if op.evaluate is not None)
DTYPES = {
    "f64": "float64", "f32": "float64", "bf16": "float64", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "b8": "bool",
}  # fmt: skip

Oracle = Callable[..., Any]


def _same_name(names: str) -> dict[str, Oracle]:
    return {n: lambda a, *xs, n=n: getattr(torch, n)(*xs) for n in names.split()}


def _functional(names: str) -> dict[str, Oracle]:
    return {n: lambda a, *xs, n=n: getattr(F, n)(*(x.double() for x in xs)) for n in names.split()}


def _gradient(forward: Callable[..., Any]) -> Oracle:
    """The oracle of a gradient operator: PyTorch's own derivative of the forward function."""

    def oracle(a: dict[str, Any], dy: Any, x: Any) -> Any:
        dy, x = torch.broadcast_tensors(dy, x)
        x = x.detach().clone().requires_grad_()
        (out,) = torch.autograd.grad(forward(x, a), x, dy)
        return out

    return oracle


def _f(x: object) -> float | None:
    return None if x is None else float(x)  # type: ignore[arg-type]


def _dims(fn: str) -> Oracle:
    return lambda a, x: getattr(torch, fn)(x, dim=a["dims"], keepdim=a.get("keepdim", False))


def _prod(a: dict[str, Any], x: Any) -> Any:
    for d in sorted(a["dims"], reverse=True):
        x = x.prod(dim=d, keepdim=a.get("keepdim", False))
    return x


def _norm(a: dict[str, Any], x: Any, w: Any = None, b: Any = None) -> Any:
    inner = x.shape[x.dim() - a["naxes"] :]
    y, mean, rstd = torch.native_layer_norm(x, inner, w, b, float(a["eps"]))
    outer = x.shape[: x.dim() - a["naxes"]]
    return y, mean.reshape(outer), rstd.reshape(outer)


def _rms_norm(a: dict[str, Any], x: Any, w: Any = None) -> Any:
    axes = tuple(range(x.dim() - a["naxes"], x.dim()))
    y = F.rms_norm(x, x.shape[x.dim() - a["naxes"] :], w, float(a["eps"]))
    return y, torch.rsqrt((x * x).mean(dim=axes) + float(a["eps"]))


def _sdpa(a: dict[str, Any], q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    scale, t, s = float(a["scale"]), q.shape[2], k.shape[2]
    bias = torch.zeros(t, s, dtype=torch.float64)
    if mask is not None:
        plain = torch.zeros(()).double()
        bias = bias + (plain.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask)
    if a["causal"]:
        bias = bias.masked_fill(torch.ones(t, s).triu(1).bool(), -math.inf)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale)
    return out, torch.logsumexp(q @ k.transpose(-1, -2) * scale + bias, -1)


def _clamp(x: Any, a: dict[str, Any]) -> Any:
    return torch.clamp(x, _f(a.get("min")), _f(a.get("max")))


def _topk(a: dict[str, Any], x: Any) -> Any:
    return tuple(torch.topk(x, a["k"], a["dim"], a["largest"]))


def _compare(a: dict[str, Any], x: Any, y: Any = None) -> Any:
    return getattr(torch, a["kind"])(x, a["value"] if y is None else y)


def _put_along(a: dict[str, Any], x: Any, ids: Any, v: Any) -> Any:
    return x.scatter(-1, ids[..., None], v[..., None])


def _add_rows(a: dict[str, Any], g: Any, ids: Any) -> Any:
    out = torch.zeros(a["rows"], *g.shape[ids.dim() :], dtype=g.dtype)
    return out.index_add(0, ids.reshape(-1), g.reshape(-1, *g.shape[ids.dim() :]))


def _dtype(a: dict[str, Any]) -> Any:
    return getattr(torch, DTYPES[a["dtype"]])


ORACLES: dict[str, Oracle] = {
    **_same_name("add sub mul div maximum minimum atan2 pow remainder fmod floor_divide where"),
    **_same_name("exp exp2 log log2 log10 log1p expm1 abs sign sin cos tan asin acos atan sinh"),
    **_same_name("cosh tanh sigmoid relu erf erfc floor ceil round trunc neg sqrt rsqrt"),
    **_same_name("reciprocal matmul"),
    **_functional("silu softplus logsigmoid mish hardsigmoid hardswish"),
    "gelu": lambda a, x: F.gelu(x.double(), approximate=a["approximate"]),
    "leaky_relu": lambda a, x: F.leaky_relu(x.double(), float(a["slope"])),
    "elu": lambda a, x: F.elu(x.double(), float(a["alpha"])),
    "clamp": lambda a, x: _clamp(x, a),
    "gelu_grad": lambda a, dy, x: torch.ops.aten.gelu_backward(
        *torch.broadcast_tensors(dy, x), approximate=a["approximate"]
    ),
    "silu_grad": _gradient(lambda x, a: F.silu(x)),
    "relu_grad": lambda a, dy, x: torch.ops.aten.threshold_backward(dy, x, float(a["threshold"])),
    "tanh_grad": lambda a, dy, y: torch.ops.aten.tanh_backward(dy, y),
    "sigmoid_grad": lambda a, dy, y: torch.ops.aten.sigmoid_backward(dy, y),
    "leaky_relu_grad": _gradient(lambda x, a: F.leaky_relu(x, float(a["slope"]))),
    "elu_grad": _gradient(lambda x, a: F.elu(x, float(a["alpha"]))),
    "clamp_grad": _gradient(lambda x, a: _clamp(x, a)),
    "softplus_grad": _gradient(lambda x, a: F.softplus(x)),
    "logsigmoid_grad": _gradient(lambda x, a: F.logsigmoid(x)),
    # PyTorch's own kernel rounds 1/6 to single precision, even for doubles.
    "hardsigmoid_grad": _gradient(lambda x, a: torch.clamp(x / 6 + 0.5, 0, 1)),
    "hardswish_grad": _gradient(lambda x, a: F.hardswish(x)),
    "scale": lambda a, x: x * (float(a["by"]) if a["by"].denominator > 1 else int(a["by"])),
    "shift": lambda a, x: x + (float(a["by"]) if a["by"].denominator > 1 else int(a["by"])),
    "power": lambda a, x: x ** float(a["exponent"]),
    "cast": lambda a, x: x.to(_dtype(a)),
    "wait": lambda a, x: x.clone(),
    "sum": _dims("sum"),
    "mean": lambda a, x: _dims("mean")(a, x.double()),
    "max": _dims("amax"),
    "min": _dims("amin"),
    "prod": _prod,
    "logsumexp": _dims("logsumexp"),
    "softmax": lambda a, x: torch.softmax(x, a["dim"]),
    "log_softmax": lambda a, x: torch.log_softmax(x, a["dim"]),
    "softmax_grad": lambda a, dy, y: torch.ops.aten._softmax_backward_data(
        dy, y, a["dim"], torch.float64
    ),
    "log_softmax_grad": lambda a, dy, y: torch.ops.aten._log_softmax_backward_data(
        dy, y, a["dim"], torch.float64
    ),
    "cumsum": lambda a, x: torch.cumsum(x, a["dim"]),
    "sort": lambda a, x: torch.sort(x, stable=True, **a),
    "topk": _topk,
    "argmax": lambda a, x: torch.argmax(x, a["dim"], a["keepdim"]),
    "argmin": lambda a, x: torch.argmin(x, a["dim"], a["keepdim"]),
    "layer_norm": lambda a, x: _norm(a, x)[0],
    "layer_norm_affine": _norm,
    "rms_norm": _rms_norm,
    "attention": _sdpa,
    "reshape": lambda a, x: x.reshape(a["shape"]),
    "permute": lambda a, x: x.permute(a["perm"]),
    "slice": lambda a, x: x.narrow(a["dim"], a["start"], a["stop"] - a["start"]),
    "concat": lambda a, *xs: torch.cat(xs, a["dim"]),
    "expand": lambda a, x: x.expand(a["shape"]),
    "full": lambda a: torch.full(a["shape"], float(a["value"])).to(_dtype(a)),
    "iota": lambda a: a["start"] + a["step"] * torch.arange(a["size"]),
    "compare": _compare,
    "logic": lambda a, *xs: getattr(torch, "logical_" + a["kind"])(*xs),
    "masked_fill": lambda a, x, mask: torch.where(mask, float(a["value"]), x),
    "take_rows": lambda a, table, ids: F.embedding(
        ids, table.reshape(len(table), -1)
    ).reshape(ids.shape + table.shape[1:]),
    "take_along": lambda a, x, ids: x.gather(-1, ids[..., None])[..., 0],
    "add_rows": _add_rows,
    "put_along": _put_along,
}  # fmt: skip

# Their oracle is the derivative of the forward operator, below; undefined has no value.
ELSEWHERE = {"layer_norm_grad", "rms_norm_grad", "attention_grad", "undefined", "signature_call"}


def tensors(call: Call) -> tuple[Any, ...]:
    return tuple(torch.from_numpy(np.array(a)) for a in call.arrays)


def compare(call: Call, expected: Any, got: tuple[Array, ...]) -> None:
    outputs = expected if isinstance(expected, tuple) else (expected,)
    assert len(outputs) == len(got)
    for a, b in zip(got, outputs, strict=True):
        same(a, b.detach().numpy(), f"{call.op} {call.attrs}")


def test_every_operator_has_an_oracle() -> None:
    assert sorted({*ORACLES, *ELSEWHERE}) == RUNNABLE


@pytest.mark.parametrize("op", sorted(ORACLES))
def test_evaluation_agrees_with_torch(op: str) -> None:
    for call in calls(op, 30, seed=7):
        out = ORACLES[op](call.attrs, *tensors(call))
        compare(call, tuple(out) if isinstance(out, tuple | list) else out, call.run())


@pytest.mark.parametrize("op", RUNNABLE)
def test_evaluation_has_the_declared_types(op: str) -> None:
    for call in calls(op, 30, seed=8):
        declared = call.definition.types(call.types, call.attrs)
        for t, array in zip(declared, call.run(), strict=True):
            assert array.shape == t.shape
            assert array.dtype == storage(t.dtype), (op, call.attrs, array.dtype, t)


EXTREMES = np.array(
    [0.0, -0.0, 1e-300, 1e-12, -1e-12, 20.0, -20.0, 40.0, -40.0, 710.0, -710.0, math.inf, -math.inf]
)
EVERYWHERE = (
    "exp expm1 abs sign tanh sigmoid relu erf erfc softplus logsigmoid floor trunc hardsigmoid "
    "atan leaky_relu elu clamp"
)


@pytest.mark.parametrize("op", EVERYWHERE.split())
def test_functions_hold_at_extremes(op: str) -> None:
    (call,) = calls(op, 1)
    call = Call(op, (EXTREMES,), call.attrs)
    compare(call, ORACLES[op](call.attrs, *tensors(call)), call.run())


@pytest.mark.parametrize("op", ["silu", "gelu", "mish", "hardswish"])
def test_gated_functions_hold_at_finite_extremes(op: str) -> None:
    (call,) = calls(op, 1)
    call = Call(op, (EXTREMES[:-2],), call.attrs)
    compare(call, ORACLES[op](call.attrs, *tensors(call)), call.run())


@pytest.mark.parametrize("op", ["silu_grad", "gelu_grad", "softplus_grad", "logsigmoid_grad"])
def test_gradients_hold_at_finite_extremes(op: str) -> None:
    (call,) = calls(op, 1)
    x = np.concatenate([EXTREMES[:-4], [100.0, -100.0]])
    call = Call(op, (np.full(x.shape, 3.0), x), call.attrs)
    compare(call, ORACLES[op](call.attrs, *tensors(call)), call.run())


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "logsumexp"])
def test_softmax_family_with_large_and_infinite_scores(op: str) -> None:
    x = np.array([[1e4, -1e4, 0.0], [-math.inf, 3.0, 2.0], [700.0, 710.0, 720.0]])
    call = Call(op, (x,), {"dims": (1,)} if op == "logsumexp" else {"dim": 1})
    compare(call, ORACLES[op](call.attrs, *tensors(call)), call.run())


def test_logsumexp_of_nothing_visible_is_minus_infinity() -> None:
    call = Call("logsumexp", (np.full((2, 3), -np.inf),), {"dims": (1,)})
    assert np.all(call.run()[0] == -np.inf)
    empty = Call("logsumexp", (np.zeros((2, 0)),), {"dims": (1,)})
    assert np.all(empty.run()[0] == -np.inf)


@pytest.mark.parametrize("descending", [False, True])
def test_equal_elements_keep_their_order(descending: bool) -> None:
    x = np.array([[2.0, 1.0, 2.0, 1.0, 2.0]])
    call = Call("sort", (x,), {"dim": 1, "descending": descending})
    compare(call, tuple(torch.sort(torch.from_numpy(x), dim=1, stable=True, descending=descending)),
            call.run())  # fmt: skip


# ------------------------------------------------------------------------------ gradients


@pytest.mark.parametrize("op", ["layer_norm_affine", "rms_norm"])
def test_norm_gradients_are_derivatives(op: str) -> None:
    for call in calls(op, 15, seed=9):
        x, *weights = tensors(call)
        x.requires_grad_()
        y, *saved = ORACLES[op](call.attrs, x, *weights)
        dy = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        (dx,) = torch.autograd.grad(y, x, dy)
        operands = (dy, x, *saved, *weights[:1])
        arrays = tuple(v.detach().numpy() for v in operands)
        name = "layer_norm_grad" if op == "layer_norm_affine" else "rms_norm_grad"
        grad = Call(name, arrays, {"naxes": call.attrs["naxes"]})
        compare(grad, dx, grad.run())


def test_attention_gradients_are_derivatives() -> None:
    for call in calls("attention", 15, seed=9):
        q, k, v, *mask = tensors(call)
        inputs = tuple(t.requires_grad_() for t in (q, k, v))
        out, lse = ORACLES["attention"](call.attrs, *inputs, *mask)
        dout = torch.linspace(-1, 2, out.numel(), dtype=torch.float64).reshape(out.shape)
        expected = torch.autograd.grad(out, inputs, dout)
        operands = (dout, *inputs, out, lse, *mask)
        grad = Call("attention_grad", tuple(t.detach().numpy() for t in operands), call.attrs)
        compare(grad, expected, grad.run())


# ------------------------------------------------------------------------------ conventions


def test_conventions_at_ties_and_bounds() -> None:
    one = np.ones(2)
    clamp = Call("clamp_grad", (one, np.array([-1.0, 1.0])), {"min": Fraction(-1), "max": None})
    assert clamp.run()[0].tolist() == [0, 1]
    hardtanh = torch.ops.aten.hardtanh_backward(
        *tensors(clamp), min_val=-1.0, max_val=math.inf
    ).tolist()
    assert hardtanh == [0, 1]
    relu = Call("relu_grad", (one, np.array([0.0, 1e-9])), {"threshold": 0})
    assert relu.run()[0].tolist() == [0, 1]
    crossed = Call("clamp", (one,), {"min": Fraction(3), "max": Fraction(2)})
    compare(crossed, torch.clamp(torch.ones(2).double(), 3.0, 2.0), crossed.run())


PROMOTIONS = [
    (("f32", 1), ("f64", 1)), (("f32", 1), ("f64", 0)), (("bf16", 1), ("f16", 1)),
    (("i64", 1), ("bf16", 1)), (("i64", 1), ("f32", 0)), (("u8", 1), ("i8", 1)),
    (("b8", 1), ("i32", 0)), (("i32", 1), ("i64", 0)), (("b8", 1), ("f16", 0)),
]  # fmt: skip
TORCH_NAMES = {
    "f64": "float64", "f32": "float32", "bf16": "bfloat16", "f16": "float16", "i64": "int64",
    "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool",
}  # fmt: skip


@pytest.mark.parametrize(("a", "b"), PROMOTIONS)
def test_element_types_promote_as_in_torch(a: tuple[str, int], b: tuple[str, int]) -> None:
    mine = promote([TensorType(d, (2,) * rank) for d, rank in (a, b)])
    x, y = (torch.zeros((2,) * rank, dtype=getattr(torch, TORCH_NAMES[d])) for d, rank in (a, b))
    assert getattr(torch, TORCH_NAMES[mine]) == (x + y).dtype
