"""Elementwise operators and reductions: one case a line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.frontends.aten_cases import DOUBLE, Case, bits, f, ints, pos, unit

from shardproof.frontends.aten import registered

torch = pytest.importorskip("torch")

UNARY_DOMAIN = {
    "log": pos, "log2": pos, "log10": pos, "log1p": pos, "sqrt": pos, "rsqrt": pos,
    "reciprocal": pos, "asin": unit, "acos": unit,
}  # fmt: skip
UNARY = (
    "neg abs sign sgn floor ceil round trunc fix exp exp2 log log2 log10 log1p expm1 sqrt "
    "rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid silu mish erf erfc "
    "hardswish hardsigmoid relu relu6 square deg2rad gelu leaky_relu elu softplus log_sigmoid "
    "hardtanh isinf isnan isfinite logical_not alias detach clone lift_fresh_copy contiguous "
    "positive t squeeze zero zeros_like ones_like mT sum mean amax amin max min prod argmax "
    "argmin any all var var_mean std std_mean tril triu detach_copy alias_copy lift lift_fresh "
    "adjoint _neg_view numpy_T resolve_conj resolve_neg t_copy"
).split()
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


def division_cases() -> Iterator[Case]:
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


def composite_cases() -> Iterator[Case]:
    for dim in (0, -1):
        yield Case("aten.glu.default", (f(4, 6), dim), {})
        shape = (2, 6) if dim == 0 else (4, 3)
        yield Case("aten.glu_backward.default", (f(*shape), f(4, 6), dim), {})
    yield Case("aten.frac.default", (f(5),), {})
    for name in ("hypot", "logaddexp"):
        yield Case(f"aten.{name}.default", (f(5), f(5)), {})
    yield Case("aten.logit.default", (torch.sigmoid(f(5)),), {})
    yield Case("aten.logit.default", (torch.sigmoid(f(5)), 0.4), {})
    yield Case("aten.nan_to_num.default", (f(5),), {})
    yield Case("aten.celu.default", (f(5), 1.5), {})
    yield Case("aten.count_nonzero.default", (ints(2, 3, 4),), {})
    yield Case("aten.count_nonzero.dim_IntList", (bits(3, 4), [1]), {})
    yield Case("aten.aminmax.default", (f(3, 4),), {"dim": 1})
    yield Case("aten.unfold.default", (f(2, 6, 3), 1, 2, 2), {})


def comparison_cases() -> Iterator[Case]:
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
    yield Case("aten.softplus.default", (f(6), 2.0, 0.25), {})
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
    yield Case("aten.softplus_backward.default", (f(6), f(6), 2.0, 0.25), {})
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


FAMILIES = {
    "unary": unary_cases,
    "binary": binary_cases,
    "division": division_cases,
    "comparison": comparison_cases,
    "composite": composite_cases,
    "selection": selection_cases,
    "reduction": reduction_cases,
}
