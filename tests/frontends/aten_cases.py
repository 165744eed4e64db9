"""Arguments for every lowered ATen operator: one case a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from shardproof.frontends.aten import registered

torch = pytest.importorskip("torch")


@dataclass(frozen=True)
class Case:
    """One call. ``tolerance`` is looser where PyTorch itself works in less than float64."""

    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tolerance: float = 1e-9


_generator = torch.Generator().manual_seed(20240917)
DOUBLE = torch.float64


def f(*shape: int) -> Any:
    """Normal floats."""
    return torch.randn(shape, dtype=DOUBLE, generator=_generator)


def pos(*shape: int) -> Any:
    """Floats in [0.5, 1.5)."""
    return torch.rand(shape, dtype=DOUBLE, generator=_generator) + 0.5


def unit(*shape: int) -> Any:
    """Floats in (-0.9, 0.9)."""
    return (torch.rand(shape, dtype=DOUBLE, generator=_generator) - 0.5) * 1.8


def ints(high: int, *shape: int, low: int = 0) -> Any:
    """Integers in [low, high)."""
    return torch.randint(low, high, shape, generator=_generator)


def bits(*shape: int) -> Any:
    """Booleans."""
    return torch.randint(0, 2, shape, generator=_generator) > 0


def eye(*shape: int) -> Any:
    return torch.arange(*shape)


UNARY_DOMAIN = {
    "log": pos, "log2": pos, "log10": pos, "log1p": pos, "sqrt": pos, "rsqrt": pos,
    "reciprocal": pos, "asin": unit, "acos": unit,
}  # fmt: skip
UNARY = (
    (
        "neg abs sign sgn floor ceil round trunc fix exp exp2 log log2 log10 log1p expm1 sqrt rsqrt "
        "reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid silu mish erf erfc hardswish "
        "hardsigmoid relu relu6 square deg2rad gelu leaky_relu elu softplus log_sigmoid hardtanh "
        "isinf isnan isfinite logical_not alias detach clone lift_fresh_copy contiguous positive "
        "t squeeze zero zeros_like ones_like mT sum mean amax amin max min prod argmax argmin any "
        "all var var_mean std std_mean tril triu detach_copy alias_copy lift lift_fresh adjoint "
        "numpy_T resolve_conj resolve_neg t_copy softmax_placeholder"
    )
    .replace(" softmax_placeholder", "")
    .split()
)
COMPARISONS = "lt le gt ge eq ne less less_equal greater greater_equal not_equal".split()


def unary_cases() -> Iterator[Case]:
    for name in UNARY:
        make = UNARY_DOMAIN.get(name, f)
        yield Case(f"aten.{name}.default", (make(3, 4),), {})
    for name in "neg abs sign floor ceil round trunc relu square sum prod max min exp sqrt".split():
        yield Case(f"aten.{name}.default", (ints(5, 2, 3),), {}, 1e-6)
    for name in "sum any all logical_not bitwise_not".split():
        yield Case(f"aten.{name}.default", (bits(2, 3),), {})
    yield Case("aten.bitwise_not.default", (ints(5, 2, 3),), {})
    for name in "t numpy_T sum mean prod var squeeze".split():
        if name != "var":
            yield Case(f"aten.{name}.default", (f(4),), {})
    skip = "amax amin sum var clone squeeze".split()
    for name in registered():
        short = name.split(".")[1]
        if name.startswith("prims.") and short in UNARY and short not in skip:
            yield Case(name, (UNARY_DOMAIN.get(short, f)(3, 4),), {})


def binary_cases() -> Iterator[Case]:
    for name in "add sub mul div maximum minimum atan2 fmax fmin".split():
        overload = "Tensor" if name in ("add", "sub", "mul", "div") else "default"
        yield Case(f"aten.{name}.{overload}", (f(3, 4), pos(4)), {})
        yield Case(f"aten.{name}.{overload}", (f(3, 1), pos(2, 1, 4)), {})
    for name in "add sub mul div fmax fmin pow".split():
        yield Case(f"prims.{name}.default", (pos(3, 4), pos(3, 4)), {})
    for name in "add sub".split():
        yield Case(f"aten.{name}.Tensor", (f(3), f(3)), {"alpha": 2})
        yield Case(f"aten.{name}.Tensor", (f(3), 1.5), {"alpha": 2})
        yield Case(f"aten.{name}.Scalar", (f(3), 1.5, 2), {})
        yield Case(f"aten.{name}.Tensor", (ints(5, 3), 3), {})
    yield Case("aten.add.Tensor", (bits(3), bits(3)), {})
    yield Case("aten.add.Tensor", (ints(5, 3), bits(3)), {})
    yield Case("aten.mul.Tensor", (bits(3), bits(3)), {})
    yield Case("aten.mul.Tensor", (bits(3), ints(5, 3)), {})
    yield Case("aten.mul.Tensor", (bits(3), 7), {})
    yield Case("aten.mul.Tensor", (bits(3), f(3)), {})
    for name in "mul div".split():
        yield Case(f"aten.{name}.Scalar", (f(3), 1.5), {})
        yield Case(f"aten.{name}.Tensor", (f(3), 4), {})
    yield Case("aten.true_divide.Tensor", (f(3), pos(3)), {})
    yield Case("aten.div.Tensor", (ints(9, 3), ints(9, 3, low=1)), {}, 1e-6)
    for mode in (None, "floor", "trunc"):
        yield Case("aten.div.Tensor_mode", (f(5), pos(5)), {"rounding_mode": mode})
        yield Case("aten.div.Scalar_mode", (f(5), 0.3), {"rounding_mode": mode})
    yield Case("aten.div.Tensor_mode", (ints(9, 4, low=-9), ints(4, 4, low=1)),
               {"rounding_mode": "trunc"})  # fmt: skip
    yield Case("aten.floor_divide.default", (ints(9, 4, low=-9), ints(4, 4, low=1)), {})
    yield Case("aten.floor_divide.Scalar", (ints(9, 4, low=-9), 2), {})
    for name in "remainder fmod".split():
        yield Case(f"aten.{name}.Tensor", (f(5), pos(5)), {})
        yield Case(f"aten.{name}.Scalar", (ints(9, 4, low=-9), 4), {})
    yield Case("aten.remainder.Scalar_Tensor", (3, pos(4)), {})
    for other in (f(3), 2.5):
        overload = "Scalar" if isinstance(other, float) else "Tensor"
        yield Case(f"aten.rsub.{overload}", (f(3), other), {})
        yield Case(f"aten.rsub.{overload}", (f(3), other), {"alpha": 3})
    for e in (0, 1, 2, 3, -1, 0.5, -0.5, 2.0, 1.7):
        yield Case("aten.pow.Tensor_Scalar", (pos(3), e), {})
    yield Case("aten.pow.Tensor_Scalar", (ints(4, 3), 2), {})
    yield Case("aten.pow.Tensor_Tensor", (pos(3), f(3)), {})
    yield Case("aten.pow.Scalar", (2.0, f(3)), {})
    yield Case("aten.max.other", (f(3), f(3)), {})
    yield Case("aten.min.other", (f(3), f(3)), {})
    for name in "addcmul addcdiv".split():
        yield Case(f"aten.{name}.default", (f(3), f(3), pos(3)), {})
        yield Case(f"aten.{name}.default", (f(3), f(3), pos(3)), {"value": 0.5})
    yield Case("aten.lerp.Scalar", (f(3), f(3), 0.3), {})
    yield Case("aten.lerp.Tensor", (f(3), f(3), f(3)), {})
    for name in COMPARISONS:
        yield Case(f"aten.{name}.Scalar", (ints(5, 4), 2), {})
        yield Case(f"aten.{name}.Scalar", (f(4), 0.25), {})
        yield Case(f"aten.{name}.Tensor", (ints(5, 3, 4), ints(5, 4)), {})
        if f"prims.{name}.default" in registered():
            yield Case(f"prims.{name}.default", (ints(5, 4), ints(5, 4)), {})
    for kind in ("and", "or", "xor"):
        yield Case(f"aten.logical_{kind}.default", (bits(4), bits(4)), {})
        yield Case(f"aten.logical_{kind}.default", (ints(2, 4), f(4)), {})
        for form in (f"bitwise_{kind}", f"__{kind}__"):
            yield Case(f"aten.{form}.Tensor", (bits(4), bits(4)), {})
            yield Case(f"aten.{form}.Scalar", (bits(4), True), {})


def selection_cases() -> Iterator[Case]:
    c = bits(3, 4)
    yield Case("aten.where.self", (c, f(3, 4), f(4)), {})
    yield Case("aten.where.ScalarSelf", (c, 1.5, f(3, 4)), {})
    yield Case("aten.where.ScalarOther", (c, f(3, 4), 1.5), {})
    yield Case("aten.where.Scalar", (c, 1, 2), {})
    yield Case("prims.where.default", (c, f(3, 4), f(3, 4)), {})
    yield Case("aten.masked_fill.Scalar", (f(3, 4), c, -2.5), {})
    yield Case("aten.masked_fill.Scalar", (f(3, 4), c, float("-inf")), {})
    yield Case("aten.masked_fill.Scalar", (ints(5, 2, 3, 4), c, 0), {})
    yield Case("aten.masked_fill.Tensor", (f(3, 4), c, f()), {})
    for name, args in {
        "clamp": (-0.5, 0.5), "clip": (-0.5, 0.5), "clamp_min": (0.1,), "clamp_max": (0.1,),
    }.items():  # fmt: skip
        yield Case(f"aten.{name}.default", (f(6), *args), {})
        if name != "clip":
            yield Case(f"aten.{name}.Tensor", (f(6), *(f(6) for _ in args)), {})
    yield Case("aten.clip.Tensor", (f(6), f(6)), {})
    yield Case("aten.clamp.default", (ints(9, 4), 2), {})
    yield Case("aten.clamp.default", (f(5), None, 0.3), {})
    for fn in ("none", "tanh"):
        yield Case("aten.gelu.default", (f(6),), {"approximate": fn})
        yield Case("aten.gelu_backward.default", (f(6), f(6)), {"approximate": fn})
    yield Case("aten.leaky_relu.default", (f(6), 0.2), {})
    yield Case("aten.elu.default", (f(6), 1.5, 1.2), {})
    yield Case("aten.softplus.default", (f(6), 2.0), {})
    yield Case("aten.hardtanh.default", (f(6), -0.3, 0.4), {})
    for name in "silu tanh sigmoid hardsigmoid hardswish".split():
        x = f(6) if name not in ("tanh", "sigmoid") else unit(6)
        # PyTorch keeps the constant 1/6 of hardsigmoid as a float32.
        loose = 1e-7 if name == "hardsigmoid" else 1e-9
        yield Case(f"aten.{name}_backward.default", (f(6), x), {}, loose)
    yield Case("aten.threshold_backward.default", (f(6), f(6), 0), {})
    yield Case("aten.leaky_relu_backward.default", (f(6), f(6), 0.1, False), {})
    yield Case("aten.leaky_relu_backward.default", (f(6), f(6), 0.1, True), {})
    yield Case("aten.hardtanh_backward.default", (f(6), f(6), -0.5, 0.5), {})
    yield Case("aten.elu_backward.default", (f(6), 1.5, 1.0, 1, False, f(6)), {})
    yield Case("aten.elu_backward.default", (f(6), 1.5, 1.2, 1, False, f(6)), {})
    yield Case("aten.softplus_backward.default", (f(6), f(6), 2.0, 20), {})
    x = f(6)
    yield Case("aten.log_sigmoid_backward.default", (f(6), x, torch.exp(-x.abs())), {})
    yield Case("aten.native_dropout_backward.default", (f(6), bits(6), 1 / 0.9), {})


def reduction_cases() -> Iterator[Case]:
    x = f(2, 3, 4)
    for name in "amax amin".split():
        yield Case(f"aten.{name}.default", (x, [0, 2]), {})
        yield Case(f"aten.{name}.default", (x, [-1], True), {})
    for dims in ([0], [-1], [0, 2], []):
        for keep in (False, True):
            yield Case("aten.sum.dim_IntList", (x, dims, keep), {})
            yield Case("aten.mean.dim", (x, dims, keep), {})
            yield Case("aten.logsumexp.default", (x, dims or [1], keep), {})
            yield Case("aten.linalg_vector_norm.default", (x, 2, dims or None, keep), {})
    yield Case("aten.sum.dim_IntList", (bits(3, 4), [1]), {})
    yield Case("aten.sum.dim_IntList", (ints(4, 3, 4), [1]), {"dtype": DOUBLE})
    for order in (1, 2, float("inf"), float("-inf"), 0, 3):
        yield Case("aten.linalg_vector_norm.default", (x, order), {})
    yield Case("aten.norm.Scalar", (x,), {})
    yield Case("aten.norm.ScalarOpt_dim", (x, 2, [1]), {})
    for name in "max min".split():
        yield Case(f"aten.{name}.dim", (x, 1), {})
        yield Case(f"aten.{name}.dim", (x, -1, True), {})
    for name in "argmax argmin".split():
        yield Case(f"aten.{name}.default", (x, 1, True), {})
        yield Case(f"aten.{name}.default", (x,), {"keepdim": True})
    yield Case("aten.prod.dim_int", (x, 1, True), {})
    for name in "any all".split():
        yield Case(f"aten.{name}.dim", (bits(3, 4), 1), {})
        yield Case(f"aten.{name}.dims", (ints(2, 3, 4), [0]), {})
    for name in "var var_mean std std_mean".split():
        yield Case(f"aten.{name}.correction", (x, [1]), {"correction": 0, "keepdim": True})
        yield Case(f"aten.{name}.correction", (x, [1]), {"correction": 1})
        yield Case(f"aten.{name}.correction", (x,), {})
        yield Case(f"aten.{name}.dim", (x, [0, 2], False, True), {})
        yield Case(f"aten.{name}.default", (x, False), {})
    yield Case("prims.var.default", (x, [1]), {"correction": 1})
    yield Case("prims.sum.default", (x, [1]), {})
    yield Case("prims.amax.default", (x, [1]), {})
    yield Case("prims.amin.default", (x, [1]), {})
    for name in "cumsum".split():
        yield Case(f"aten.{name}.default", (x, 1), {})
        yield Case(f"aten.{name}.default", (bits(3, 4), -1), {})
    yield Case("aten.sort.default", (x, 1, True), {})
    yield Case("aten.sort.stable", (x,), {"stable": True, "dim": 0})
    yield Case("aten.topk.default", (x, 2), {})
    yield Case("aten.topk.default", (x, 2, 1, False), {})


def view_cases() -> Iterator[Case]:
    x = f(2, 3, 4)
    for name in "view _unsafe_view reshape view_copy _reshape_copy".split():
        yield Case(f"aten.{name}.default", (x, [6, 4]), {})
        yield Case(f"aten.{name}.default", (x, [2, -1]), {})
    yield Case("aten._reshape_alias.default", (x, [6, 4], [4, 1]), {})
    yield Case("prims.reshape.default", (x, [6, 4]), {})
    yield Case("aten.view_as.default", (x, f(6, 4)), {})
    yield Case("aten.reshape_as.default", (x, f(6, 4)), {})
    yield Case("aten.view.dtype", (x, DOUBLE), {})
    yield Case("aten.flatten.using_ints", (x, 1), {})
    yield Case("aten.unflatten.int", (x, 2, [2, 2]), {})
    for name in "unsqueeze unsqueeze_copy".split():
        yield Case(f"aten.{name}.default", (x, -1), {})
        yield Case(f"aten.{name}.default", (x, 1), {})
    y = f(1, 3, 1)
    yield Case("aten.squeeze.default", (y,), {})
    yield Case("aten.squeeze.dim", (y, 0), {})
    yield Case("aten.squeeze.dim", (y, 1), {})
    yield Case("aten.squeeze.dims", (y, [0, 2]), {})
    yield Case("aten.squeeze_copy.dim", (y, 0), {})
    yield Case("prims.squeeze.default", (y, [0, 2]), {})
    yield Case("prims.broadcast_in_dim.default", (f(3, 1), [2, 3, 4], [1, 2]), {})
    for name in "expand expand_copy".split():
        yield Case(f"aten.{name}.default", (f(3, 1), [2, -1, 4]), {})
    yield Case("aten.broadcast_to.default", (f(3, 1), [2, 3, 4]), {})
    yield Case("aten.expand_as.default", (f(3, 1), f(2, 3, 4)), {})
    for name in "permute permute_copy".split():
        yield Case(f"aten.{name}.default", (x, [2, 0, -2]), {})
    yield Case("prims.transpose.default", (x, [2, 0, 1]), {})
    for name in "transpose transpose_copy".split():
        yield Case(f"aten.{name}.int", (x, 0, -1), {})
    yield Case("aten.swapaxes.default", (x, 0, 1), {})
    yield Case("aten.swapdims.default", (x, 0, 1), {})
    yield Case("aten.movedim.int", (x, 0, 2), {})
    yield Case("aten.moveaxis.int", (x, 2, 0), {})
    yield Case("aten.movedim.intlist", (x, [0, 1], [2, 0]), {})
    for name in "slice slice_copy".split():
        for bounds in ((0,), (1, 1, 3), (2, -2), (2, None, -1), (0, 1, 9), (1, 2, 1), (2, 0, 4, 2),
                       (2, 1, 9223372036854775807, 2)):  # fmt: skip
            yield Case(f"aten.{name}.Tensor", (x, *bounds), {})
    for name in "narrow narrow_copy".split():
        yield Case(f"aten.{name}.default", (x, 1, 1, 2), {})
        yield Case(f"aten.{name}.default", (x, 1, -2, 2), {})
    for name in "select select_copy".split():
        yield Case(f"aten.{name}.int", (x, 1, -1), {})
    yield Case("aten.split_with_sizes.default", (x, [1, 3], -1), {})
    yield Case("aten.split_with_sizes_copy.default", (x, [1, 3], -1), {})
    yield Case("aten.split.sizes", (x, [1, 3], -1), {})
    for name in "split split_copy".split():
        yield Case(f"aten.{name}.Tensor", (x, 3, -1), {})
    yield Case("aten.chunk.default", (f(7), 3), {})
    for name in "unbind unbind_copy".split():
        yield Case(f"aten.{name}.int", (x, 1), {})
    for name in "cat concat concatenate".split():
        yield Case(f"aten.{name}.default", ([f(2, 3), f(1, 3)],), {})
    yield Case("aten.cat.default", ([f(0), f(1, 3), f(1, 2)], -1), {})
    yield Case("prims.cat.default", ([f(2, 3), f(1, 3)], 0), {})
    yield Case("aten.stack.default", ([f(2, 3), f(2, 3)], -1), {})
    for name in "repeat tile".split():
        yield Case(f"aten.{name}.default", (f(2, 3), [2, 1, 2]), {})
    yield Case("aten.tile.default", (f(2, 3), [2]), {})
    yield Case("aten.repeat_interleave.self_int", (f(2, 3), 2, 0), {})
    yield Case("aten.repeat_interleave.self_int", (f(2, 3), 2), {})
    yield Case("aten.roll.default", (x, [1, -1], [0, 2]), {})
    yield Case("aten.roll.default", (x, [5]), {})
    yield Case("aten.flip.default", (x, [1]), {})
    yield Case("prims.rev.default", (x, [1]), {})
    yield Case("aten.constant_pad_nd.default", (x, [1, 2, 0, 1], 1.5), {})
    yield Case("aten.constant_pad_nd.default", (x, [-1, 2]), {})
    yield Case("aten.pad.default", (x, [1, 2]), {"value": 3.0})
    for name in "tril triu".split():
        yield Case(f"aten.{name}.default", (f(2, 3, 4), 1), {})
        yield Case(f"aten.{name}.default", (bits(4, 4), -1), {})
    yield Case("aten.as_strided.default", (x, [6, 4], [4, 1]), {})


def copy_cases() -> Iterator[Case]:
    x = f(3, 4)
    yield Case("aten._to_copy.default", (x,), {"dtype": torch.float32}, 1e-6)
    yield Case("aten._to_copy.default", (x,), {"dtype": torch.int64})
    yield Case("aten._to_copy.default", (ints(3, 4),), {"dtype": torch.bool})
    yield Case("aten._to_copy.default", (bits(4),), {"dtype": DOUBLE})
    yield Case("aten.to.dtype", (x, torch.float32), {}, 1e-6)
    yield Case("prims.convert_element_type.default", (x, torch.float32), {}, 1e-6)
    yield Case("aten.type_as.default", (ints(3, 4), x), {})
    yield Case("aten.to.other", (ints(3, 4), x), {})
    yield Case("aten.copy.default", (x, f(4)), {})
    yield Case("prims.clone.default", (x,), {})
    yield Case("aten.slice_scatter.default", (x, f(3, 2), 1, 1, 3), {})
    yield Case("aten.slice_scatter.default", (x, f(3, 4)), {})
    yield Case("aten.select_scatter.default", (x, f(3), 1, -1), {})
    yield Case("aten.slice_backward.default", (f(3, 2), [3, 4], 1, 1, 3, 1), {})
    yield Case("aten.slice_backward.default", (f(3, 2), [3, 4], 1, 1, 4, 2), {})
    yield Case("aten.select_backward.default", (f(3), [3, 4], 1, 2), {})
    yield Case("aten.fill.Scalar", (x, 2.5), {})
    yield Case("aten.fill.Tensor", (x, f()), {})


def matmul_cases() -> Iterator[Case]:
    yield Case("aten.mm.default", (f(3, 4), f(4, 2)), {})
    yield Case("aten.bmm.default", (f(2, 3, 4), f(2, 4, 2)), {})
    yield Case("aten.mv.default", (f(3, 4), f(4)), {})
    yield Case("aten.dot.default", (f(4), f(4)), {})
    yield Case("aten.vdot.default", (f(4), f(4)), {})
    yield Case("aten.inner.default", (f(4), f(4)), {})
    yield Case("aten._int_mm.default", (ints(5, 24, 32).to(torch.int8),
                                        ints(5, 32, 24).to(torch.int8)), {})  # fmt: skip
    for a, b in (((3, 4), (4, 2)), ((4,), (4, 2)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2))):
        yield Case("aten.matmul.default", (f(*a), f(*b)), {})
    for scale in ({}, {"beta": 0.5, "alpha": 2}, {"beta": 0}):
        yield Case("aten.addmm.default", (f(2), f(3, 4), f(4, 2)), scale)
        yield Case("aten.baddbmm.default", (f(2, 3, 2), f(2, 3, 4), f(2, 4, 2)), scale)
        yield Case("aten.addmv.default", (f(3), f(3, 4), f(4)), scale)
        yield Case("aten.addbmm.default", (f(3, 2), f(2, 3, 4), f(2, 4, 2)), scale)
        yield Case("aten.addr.default", (f(3, 2), f(3), f(2)), scale)
    yield Case("aten._addmm_activation.default", (f(2), f(3, 4), f(4, 2)), {})
    yield Case("aten.outer.default", (f(3), f(2)), {})
    yield Case("aten.ger.default", (f(3), f(2)), {})
    yield Case("aten.linear.default", (f(2, 3, 4), f(5, 4), f(5)), {})
    yield Case("aten.linear.default", (f(4), f(5, 4)), {})
    for equation, shapes in {
        "bhtd,bhsd->bhts": [(2, 3, 4, 5), (2, 3, 6, 5)], "ij,kj->ki": [(2, 3), (4, 3)],
        "i,j->ij": [(2,), (3,)], "ij->ji": [(2, 3)], "ij->i": [(2, 3)], "ijk,jl": [(2, 3, 4), (3, 5)],
        "bi,bi->b": [(2, 3), (2, 3)],
    }.items():  # fmt: skip
        yield Case("aten.einsum.default", (equation, [f(*s) for s in shapes]), {})


def creation_cases() -> Iterator[Case]:
    x = f(3)
    d = {"dtype": DOUBLE}
    yield Case("aten.full.default", ([2, 3], 1.5), d)
    yield Case("aten.full.default", ([2, 3], 7), {})
    yield Case("prims.full.default", ([2], 1.5), {"dtype": DOUBLE, "device": torch.device("cpu"),
                                                  "requires_grad": False})  # fmt: skip
    yield Case("aten.full_like.default", (x, 2), {})
    yield Case("aten.new_full.default", (x, [2], 2), {})
    for name in "zeros ones".split():
        yield Case(f"aten.{name}.default", ([2, 3],), {})
        yield Case(f"aten.{name}_like.default", (x,), {"dtype": torch.int64})
        yield Case(f"aten.new_{name}.default", (x, [2]), {})
    yield Case("aten.scalar_tensor.default", (2.5,), d)
    yield Case("aten.arange.default", (5,), {})
    yield Case("aten.arange.start", (2, 7), {})
    yield Case("aten.arange.start_step", (1, 10, 3), {})
    yield Case("aten.arange.start_step", (10, 1, -3), {})
    yield Case("aten.arange.start_step", (0, 1, 0.3), d)
    yield Case("aten.arange.default", (5,), d)
    yield Case("prims.iota.default", (5,), {"start": 1, "step": 2, "dtype": torch.int64,
               "device": torch.device("cpu"), "requires_grad": False})  # fmt: skip
    yield Case("aten.linspace.default", (0, 1, 5), d)
    yield Case("aten.eye.default", (3,), d)
    yield Case("aten.eye.m", (3, 2), d)


def lookup_cases() -> Iterator[Case]:
    table, ids = f(5, 3), ints(5, 2, 4)
    yield Case("aten.embedding.default", (table, ids), {})
    yield Case("aten.embedding_dense_backward.default", (f(2, 4, 3), ids, 5, -1, False), {})
    yield Case("aten.embedding_dense_backward.default", (f(2, 4, 3), ids, 5, 2, False), {})
    yield Case("aten.index_select.default", (f(3, 5), 1, ints(5, 4)), {})
    for name in "index _unsafe_index".split():
        yield Case(f"aten.{name}.Tensor", (table, [ids]), {})
        yield Case(f"aten.{name}.Tensor", (f(2, 5, 3), [None, ids]), {})
    yield Case("aten.gather.default", (f(3, 5), 1, ints(5, 3, 1)), {})
    yield Case("aten.gather.default", (f(3, 5), 1, ints(5, 3, 3)), {})
    yield Case("aten.gather.default", (f(5, 3), 0, ints(5, 2, 3)), {})
    yield Case("aten.gather.default", (f(4, 5), -1, ints(5, 3, 2)), {})
    yield Case("aten.take_along_dim.default", (f(3, 5), ints(5, 3, 2), 1), {})
    yield Case("aten.one_hot.default", (ids, 5), {})
    mask = bits(3, 4)
    for name in "index_put _unsafe_index_put".split():
        yield Case(f"aten.{name}.default", (f(3, 4), [mask], torch.tensor(0.0, dtype=DOUBLE)), {})
        yield Case(f"aten.{name}.default", (f(3, 4, 2), [mask], f(2)), {})
        yield Case(f"aten.{name}.default", (f(3, 4, 2), [mask], f()), {})
    yield Case("aten.index_put.default", (f(2, 3, 4), [None, bits(3)], f()), {})
    yield Case("aten.index_put.default", (f(3, 4), [mask], f(), True), {})
    yield Case("aten.index_put.default", (f(5, 3), [ints(5, 4)], f(4, 3), True), {})
    yield Case("aten.index_put.default", (f(2, 5, 3), [None, ints(5, 4)], f(2, 4, 3), True), {})
    yield Case("aten.index_add.default", (f(5, 3), 0, ints(5, 4), f(4, 3)), {"alpha": 2})
    yield Case("aten.index_add.default", (f(3, 5), 1, ints(5, 4), f(3, 4)), {})
    yield Case("aten.scatter.src", (f(3, 5), 1, ints(5, 3, 1), f(3, 1)), {})
    yield Case("aten.scatter.src", (f(3, 5), 1, ints(5, 3, 1), f(3, 2)), {})
    yield Case("aten.scatter.value", (f(3, 5), 1, ints(5, 3, 1), 2.5), {})
    yield Case("aten.scatter.value", (f(5, 3), 0, ints(5, 2, 3), 1), {})
    yield Case("aten.scatter_add.default", (f(3, 5), 1, ints(5, 3, 4), f(3, 4)), {})
    yield Case("aten.scatter_add.default", (f(5, 3), 0, ints(5, 2, 3), f(2, 3)), {})


def normalisation_cases() -> Iterator[Case]:
    x, w, b = f(2, 3, 4), f(4), f(4)
    for args in ((w, b), (w, None), (None, None)):
        yield Case("aten.native_layer_norm.default", (x, [4], *args, 1e-5), {})
        yield Case("aten.layer_norm.default", (x, [4], *args), {})
    yield Case("aten.native_layer_norm.default", (x, [3, 4], f(3, 4), f(3, 4), 1e-3), {})
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, [4], w, b, 1e-5)
    for mask in ([True, True, True], [False, True, True], [True, False, False]):
        yield Case("aten.native_layer_norm_backward.default",
                   (f(2, 3, 4), x, [4], mean, rstd, w, b, mask), {})  # fmt: skip
    yield Case("aten.rms_norm.default", (x, [4], w, 1e-5), {})
    yield Case("aten.rms_norm.default", (x, [4]), {})
    for weight in (w, None):
        yield Case("aten._fused_rms_norm.default", (x, [4], weight, 1e-5), {})
    yield Case("aten.native_group_norm.default", (f(2, 6, 5), f(6), f(6), 2, 6, 5, 3, 1e-5), {})


def loss_cases() -> Iterator[Case]:
    x = f(3, 4)
    for name in "softmax log_softmax".split():
        yield Case(f"aten._{name}.default", (x, -1, False), {})
        yield Case(f"aten.{name}.int", (x, 0), {})
        y = getattr(torch, name)(x, 1)
        yield Case(f"aten._{name}_backward_data.default", (f(3, 4), y, 1, DOUBLE), {})
    yield Case("aten._safe_softmax.default", (x, -1), {})
    yield Case("aten._softmax.default", (f(), 0, False), {})
    target = torch.tensor([1, 3, 0])
    logp = torch.log_softmax(f(3, 4), 1)
    for weight in (None, pos(4)):
        for reduction in (0, 1, 2):
            for ignore in (-100, 3):
                args = (logp, target, weight, reduction, ignore)
                yield Case("aten.nll_loss_forward.default", args, {})
                _, total = torch.ops.aten.nll_loss_forward(*args)
                g = f(3) if reduction == 0 else f()
                yield Case("aten.nll_loss_backward.default", (g, *args, total), {})
    wide, labels = f(2, 4, 3, 2), ints(4, 2, 3, 2)
    for reduction in (0, 1):
        yield Case("aten.nll_loss2d_forward.default", (wide, labels, None, reduction, 2), {})
        _, total = torch.ops.aten.nll_loss2d_forward(wide, labels, None, reduction, 2)
        g = f(2, 3, 2) if reduction == 0 else f()
        yield Case("aten.nll_loss2d_backward.default",
                   (g, wide, labels, None, reduction, 2, total), {})  # fmt: skip
    for reduction in (0, 1, 2):
        yield Case("aten.mse_loss.default", (x, f(3, 4), reduction), {})
        yield Case("aten.l1_loss.default", (x, f(3, 4), reduction), {})
        g = f(3, 4) if reduction == 0 else f()
        yield Case("aten.mse_loss_backward.default", (g, x, f(3, 4), reduction), {})


def attention_cases() -> Iterator[Case]:
    q, k, v = f(2, 3, 4, 5), f(2, 3, 6, 5), f(2, 3, 6, 5)
    cpu = "aten._scaled_dot_product_flash_attention_for_cpu"
    for causal, kwargs in ((False, {}), (True, {}), (False, {"scale": 0.3})):
        args = (q, k, v, 0.0, causal)
        yield Case(f"{cpu}.default", args, kwargs)
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*args, **kwargs)
        yield Case(f"{cpu}_backward.default",
                   (f(2, 3, 4, 5), q, k, v, out, lse, 0.0, causal), kwargs, 1e-8)  # fmt: skip
    yield Case(f"{cpu}.default", (q, k, v), {"attn_mask": f(4, 6)})
    yield Case("aten.scaled_dot_product_attention.default", (q, k, v, None, 0.0, True), {})
    yield Case("aten.scaled_dot_product_attention.default", (q, k, v, f(2, 1, 4, 6)), {})
    seen = torch.ones(4, 6, dtype=torch.bool).tril()
    yield Case("aten.scaled_dot_product_attention.default", (q, k, v, seen), {})
    yield Case("aten.scaled_dot_product_attention.default", (f(4, 5), f(6, 5), f(6, 3)), {})
    yield Case("aten.scaled_dot_product_attention.default", (q[0], k[0], v[0]), {})
    yield Case("aten.scaled_dot_product_attention.default",
               (f(2, 6, 4, 5), k, v), {"enable_gqa": True})  # fmt: skip


def foreach_cases() -> Iterator[Case]:
    def xs() -> Any:
        return [f(3), f(2, 2)]

    def ps() -> Any:
        return [pos(3), pos(2, 2)]

    for name in "add sub mul div".split():
        yield Case(f"aten._foreach_{name}.Scalar", (xs(), 1.5), {})
        yield Case(f"aten._foreach_{name}.List", (xs(), ps()), {})
        yield Case(f"aten._foreach_{name}.ScalarList", (xs(), [1.5, 2.5]), {})
        if name != "sub":
            yield Case(f"aten._foreach_{name}.Tensor", (xs(), pos()), {})
    yield Case("aten._foreach_add.List", (xs(), xs()), {"alpha": 2})
    for name in "addcmul addcdiv".split():
        yield Case(f"aten._foreach_{name}.Scalar", (xs(), xs(), ps(), 0.5), {})
        yield Case(f"aten._foreach_{name}.ScalarList", (xs(), xs(), ps(), [0.5, 2.0]), {})
    yield Case("aten._foreach_lerp.Scalar", (xs(), xs(), 0.3), {})
    yield Case("aten._foreach_lerp.List", (xs(), xs(), xs()), {})
    yield Case("aten._foreach_lerp.ScalarList", (xs(), xs(), [0.3, 0.4]), {})
    words = "neg abs sqrt rsqrt reciprocal exp log sign floor ceil round trunc sigmoid tanh"
    for name in words.split():
        yield Case(f"aten._foreach_{name}.default", (ps(),), {})
    for name in "maximum minimum clamp_min clamp_max".split():
        yield Case(f"aten._foreach_{name}.Scalar", (xs(), 0.2), {})
        yield Case(f"aten._foreach_{name}.List", (xs(), xs()), {})
        yield Case(f"aten._foreach_{name}.ScalarList", (xs(), [0.2, 0.3]), {})
    yield Case("aten._foreach_pow.Scalar", (ps(), 2), {})
    yield Case("aten._foreach_pow.ScalarList", (ps(), [2.0, 3.0]), {})
    yield Case("aten._foreach_pow.List", (ps(), xs()), {})
    yield Case("aten._foreach_norm.Scalar", (xs(),), {})
    yield Case("aten._foreach_zero.default", (xs(),), {})
    yield Case("aten._foreach_copy.default", (xs(), xs()), {})


FAMILIES = {
    "unary": unary_cases, "binary": binary_cases, "selection": selection_cases,
    "reduction": reduction_cases, "view": view_cases, "copy": copy_cases,
    "matmul": matmul_cases, "creation": creation_cases, "lookup": lookup_cases,
    "normalisation": normalisation_cases, "loss": loss_cases, "attention": attention_cases,
    "foreach": foreach_cases,
}  # fmt: skip
