"""Shape rules: symbolic sizes, refusals that say why, and lookups out of range."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import shardproof.ops  # noqa: F401 - registers the operators
from shardproof.ir.graph import AttrValue, TensorType
from shardproof.ir.sizes import Poly, Size, Symbol, rank_symbol, substitute, symbol, symbols
from shardproof.ops.base import ShapeError, infer_types, known
from shardproof.ops.examples import example

B, S, N = symbol("B"), symbol("S"), symbol("N")


def out(op: str, /, *inputs: TensorType, **attrs: AttrValue) -> tuple[TensorType, ...]:
    return infer_types(op, inputs, attrs)


def f(*shape: Size) -> TensorType:
    return TensorType("f32", shape)


def i(*shape: Size) -> TensorType:
    return TensorType("i64", shape)


GROUP: dict[str, AttrValue] = {"group": ("tp",), "group_size": N}
FOUR: dict[str, AttrValue] = {"group": (0, 1, 2), "group_size": 3}

SYMBOLIC = [
    (out("add", f(B, 1, S), f(S)), f(B, 1, S)),
    (out("add", f(B, 1), f(1, S)), f(B, S)),
    (out("matmul", f(N, B, S), f(S, 4 * S)), f(N, B, 4 * S)),
    (out("matmul", f(S), f(N, S, B)), f(N, B)),
    (out("matmul", f(S), f(S)), f()),
    (out("reshape", f(B, S, 4 * N), shape=(B * S, N, 4)), f(B * S, N, 4)),
    (out("slice", f(B, 4 * N), dim=1, start=N, stop=3 * N), f(B, 2 * N)),
    (out("concat", f(B, S), f(B, 2 * S + 1), dim=1), f(B, 3 * S + 1)),
    (out("sum", f(B, S, N), dims=(0, 2)), f(S)),
    (out("sum", f(B, S, N), dims=(2,), keepdim=True), f(B, S, 1)),
    (out("topk", f(B, S + 1), k=1, dim=1, largest=True)[0], f(B, 1)),
    (out("all_gather", f(B, S), dim=1, **GROUP), f(B, N * S)),
    (out("reduce_scatter", f(B, N * S), op="sum", dim=1, **GROUP), f(B, S)),
    (out("all_to_all", f(B, N * S), split_dim=1, concat_dim=0, **GROUP), f(B * N, S)),
    (out("all_gather", f(B), dim=0, sizes=(B, 2 * B, B), **FOUR), f(4 * B)),
    (out("reduce_scatter", f(6), op="avg", dim=0, sizes=(1, 2, 3), extent=2, **FOUR), f(2)),
    (out("all_to_all", f(6, B), split_dim=0, concat_dim=0, send_sizes=(1, 2, 3),
         recv_sizes=(2, 2, 0), **FOUR), f(4, B)),
    (out("all_to_all", f(6, 2), split_dim=0, concat_dim=1, send_sizes=(1, 2, 3),
         recv_sizes=(2, 5, 1), extent=2, **FOUR), f(2, 8)),
    (out("take_rows", f(N, S), i(B)), f(B, S)),
    (out("add_rows", f(B, S), i(B), rows=N), f(N, S)),
    (out("mean", i(B), dims=(0,)), f()),
    (out("cast", i(B), dtype="bf16"), TensorType("bf16", (B,))),
]  # fmt: skip


@pytest.mark.parametrize(("got", "expected"), SYMBOLIC)
def test_symbolic_shapes(got: tuple[TensorType, ...] | TensorType, expected: TensorType) -> None:
    assert (got[0] if isinstance(got, tuple) else got) == expected


def test_shard_of_a_symbolic_rank() -> None:
    r = rank_symbol("@tp", N)
    (t,) = out("slice", f(4 * N, S), dim=0, start=4 * r, stop=4 * r + 4)
    assert t == f(4, S)


def test_statistics_of_a_norm_lack_the_normalised_dims() -> None:
    y, mean, rstd = out("layer_norm_affine", f(B, S, N, 4), f(N, 4), naxes=2, eps=1e-5)
    assert (y, mean, rstd) == (f(B, S, N, 4), f(B, S), f(B, S))


@pytest.mark.parametrize("op", sorted(known()))
def test_symbolic_shapes_become_the_concrete_ones(op: str) -> None:
    """The shape rule commutes with putting numbers for the symbols."""
    call = example(known()[op])
    found = {x for t in call.inputs for n in t.shape for x in symbols(n)}
    found |= {x for value in call.attrs.values() for n in _sizes(value) for x in symbols(n)}
    number: dict[Symbol, Size] = {x: k for k, x in enumerate(sorted(found), start=2)}

    def concrete(t: TensorType) -> TensorType:
        return TensorType(t.dtype, tuple(substitute(n, number) for n in t.shape))

    def attribute(value: AttrValue) -> AttrValue:
        if isinstance(value, tuple):
            return tuple(attribute(v) for v in value)
        return substitute(value, number) if _sizes(value) else value  # type: ignore[arg-type]

    attrs = {k: attribute(v) for k, v in call.attrs.items()}
    symbolic = infer_types(op, call.inputs, call.attrs)
    assert infer_types(op, tuple(map(concrete, call.inputs)), attrs) == tuple(
        map(concrete, symbolic)
    )


def _sizes(value: AttrValue) -> list[Size]:
    if isinstance(value, tuple):
        return [n for v in value for n in _sizes(v)]
    return [value] if isinstance(value, Poly) else []


REFUSED = [
    ("add", (f(B), f(S)), {}, "not shown to be equal"),
    ("add", (TensorType("b8", (2,)), TensorType("b8", (2,))), {}, "use logic"),
    ("add", (f(2),), {}, "expected operands"),
    ("exp", (f(2), f(2)), {}, "expected operands"),
    ("matmul", (f(B, S), f(B, S)), {}, "inner sizes"),
    ("matmul", (f(), f(2)), {}, "at least one dim"),
    ("reshape", (f(B, S),), {"shape": (B, B)}, "elements"),
    ("reshape", (f(2, 3),), {"shape": (-1,)}, ">= 0"),
    ("permute", (f(2, 3),), {"perm": (0, 0)}, "does not permute"),
    ("slice", (f(B),), {"dim": 0, "start": 0, "stop": S}, "not decided"),
    ("slice", (f(4),), {"dim": 0, "start": 0, "stop": 5}, "start <= stop"),
    ("slice", (f(4),), {"dim": -1, "start": 0, "stop": 1}, "a dim in"),
    ("concat", (f(B, 2), f(S, 2)), {"dim": 1}, "differ outside"),
    ("expand", (f(B),), {"shape": (S,)}, "does not expand"),
    ("expand", (f(3),), {"shape": (1,)}, "does not expand"),
    ("sum", (f(2, 2),), {"dims": (0, 0)}, "distinct dims"),
    ("sum", (f(2, 2),), {"dims": (0,), "keep_dim": True}, "unknown attribute"),
    ("sum", (f(2, 2),), {}, "missing"),
    ("max", (f(0, 2),), {"dims": (0,)}, "no elements"),
    ("topk", (f(B),), {"k": 2, "dim": 0, "largest": True}, "not decided"),
    ("softmax_grad", (f(2), f(3)), {"dim": 0}, "must have the shape"),
    ("layer_norm_affine", (f(2, 3), f(2)), {"naxes": 1, "eps": 0}, "w must have shape"),
    ("layer_norm", (f(2, 3),), {"naxes": 1, "eps": -1}, "negative"),
    ("layer_norm_grad", (f(2, 3), f(2, 3), f(2, 1), f(2)), {"naxes": 1}, "saved statistic"),
    ("attention", (f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 6, 4)),
     {"causal": False, "scale": 1}, "v must have shape"),
    ("attention", (f(1, 2, 3, 4), f(1, 2, 5, 4), f(1, 2, 5, 4), f(5, 3)),
     {"causal": False, "scale": 1}, "mask"),
    ("where", (f(2), f(2), f(2)), {}, "must be boolean"),
    ("masked_fill", (TensorType("b8", (2,)), f(2)), {"value": 0}, "the mask must be boolean"),
    ("masked_fill", (i(2), TensorType("b8", (2,))), {"value": Fraction(1, 2)}, "is no i64"),
    ("compare", (f(2),), {"kind": "lt"}, "second operand"),
    ("compare", (f(2), f(2)), {"kind": "lt", "value": 1}, "second operand"),
    ("compare", (f(2),), {"kind": "<", "value": 1}, "one of"),
    ("logic", (f(2),), {"kind": "not"}, "must be boolean"),
    ("take_rows", (f(2, 2), f(2)), {}, "integer tensor"),
    ("take_along", (f(2, 3), i(3)), {}, "ids must have shape"),
    ("scale", (f(2),), {"by": math.inf}, "finite"),
    ("scale", (f(2),), {"by": "N"}, "a number"),
    ("full", (), {"value": Fraction(1, 2), "shape": (), "dtype": "i64"}, "is no i64"),
    ("full", (), {"value": math.nan, "shape": (), "dtype": "f32"}, "a number"),
    ("full", (), {"value": 0, "shape": (), "dtype": "float"}, "element type"),
    ("all_reduce", (f(2),), {"op": "xor", **FOUR}, "one of sum"),
    ("all_reduce", (f(2),), {"op": "sum", "group": (0, 1), "group_size": 3}, "members"),
    ("reduce_scatter", (f(B),), {"op": "sum", "dim": 0, **FOUR}, "not decided"),
    ("reduce_scatter", (f(4),), {"op": "sum", "dim": 0, **FOUR}, "equal parts"),
    ("all_gather", (f(4),), {"dim": 0, "sizes": (1, 2, 3), **FOUR}, "not among"),
    ("all_gather", (f(4),), {"dim": 0, "sizes": (1, 4), **FOUR}, "2 entries"),
    ("no_such_operator", (), {}, "unknown operator"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "inputs", "attrs", "reason"), REFUSED)
def test_refusals_name_operator_and_reason(
    op: str, inputs: tuple[TensorType, ...], attrs: dict[str, AttrValue], reason: str
) -> None:
    with pytest.raises(ShapeError) as caught:
        infer_types(op, inputs, attrs)
    assert op in str(caught.value)
    assert reason in str(caught.value)


def test_attributes_of_collectives() -> None:
    assert out("all_reduce", f(2), op="sum", **{"async": True}, **FOUR) == (f(2),)
    assert out("send", f(2), dst=1, tag=0, **FOUR) == ()
    with pytest.raises(ShapeError, match="unknown attribute 'async_op'"):
        out("all_reduce", f(2), op="sum", async_op=True, **FOUR)


def test_constants_that_a_type_lacks() -> None:
    for dtype, value in (("b8", symbol("N")), ("b8", 2), ("u8", 300), ("u8", -1), ("i8", 128)):
        with pytest.raises(ShapeError, match=r"no boolean|does not fit"):
            out("full", value=value, shape=(B,), dtype=dtype)
    with pytest.raises(ShapeError, match="no boolean"):
        out("masked_fill", TensorType("b8", (B,)), TensorType("b8", (B,)), value=Fraction(2))
    with pytest.raises(ShapeError, match="no booleans"):
        out("iota", size=B, start=0, step=1, dtype="b8")


def test_opaque_outputs() -> None:
    assert out("opaque", f(2), target="k", shape=(B,), dtype="f32") == (f(B),)
    two = out("opaque", target="k", shapes=((B,), ()), dtypes=("f32", "i64"))
    assert two == (f(B), i())
    with pytest.raises(ShapeError, match="2 shapes and 1 dtypes"):
        out("opaque", target="k", shapes=((B,), ()), dtypes=("f32",))


def test_nothing_is_known_of_opaque_outputs() -> None:
    """Not even that two of them are equal: attributes that nobody declared may differ."""
    attrs: dict[str, AttrValue] = {"target": "k", "shapes": ((2,), (2,)), "dtypes": ("f32", "f32")}
    outputs = [*known()["opaque"].algebra((), attrs), *known()["opaque"].algebra((), attrs)]
    assert len(set(outputs)) == 4


LOOKUPS = [
    ("take_rows", (np.zeros((4, 2)), np.array([1, 4])), {}, "4 is outside [0, 4)"),
    ("take_rows", (np.zeros((4, 2)), np.array([-1])), {}, "-1 is outside [0, 4)"),
    ("take_along", (np.zeros((2, 3)), np.array([0, 3])), {}, "3 is outside [0, 3)"),
    ("add_rows", (np.zeros((2, 3)), np.array([0, 7])), {"rows": 5}, "7 is outside [0, 5)"),
    ("put_along", (np.zeros((2, 3)), np.array([0, -3]), np.zeros(2)), {}, "-3 is outside [0, 3)"),
]


@pytest.mark.parametrize(("op", "arrays", "attrs", "reason"), LOOKUPS)
def test_lookups_out_of_range_raise(
    op: str, arrays: tuple[np.ndarray, ...], attrs: dict[str, AttrValue], reason: str
) -> None:
    evaluate = known()[op].evaluate
    assert evaluate is not None
    with pytest.raises(IndexError) as caught:
        evaluate(arrays, attrs)
    assert str(caught.value) == f"{op}: index {reason}"


def test_undefined_poisons_what_it_reaches() -> None:
    evaluate = known()["undefined"].evaluate
    assert evaluate is not None
    assert np.isnan(evaluate((), {"shape": (2,), "dtype": "bf16"})[0]).all()
    assert (evaluate((), {"shape": (2,), "dtype": "i64"})[0] < 0).all()
