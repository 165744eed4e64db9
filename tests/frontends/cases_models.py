"""Lookup, normalisation, losses, attention and lists: one case a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.frontends.aten_cases import DOUBLE, Case, bits, f, ints, pos

torch = pytest.importorskip("torch")


def lookup_cases() -> Iterator[Case]:
    table, ids = f(5, 3), ints(5, 2, 4)
    yield Case("aten.embedding.default", (table, ids), {})
    yield Case("aten.embedding_dense_backward.default", (f(2, 4, 3), ids, 5, -1, False), {})
    yield Case("aten.embedding_dense_backward.default", (f(2, 4, 3), ids, 5, 2, False), {})
    yield Case("aten.index_select.default", (f(3, 5), 1, ints(5, 4)), {})
    for name in "index _unsafe_index".split():
        yield Case(f"aten.{name}.Tensor", (table, [ids]), {})
        yield Case(f"aten.{name}.Tensor", (f(2, 5, 3), [None, ids]), {})
    yield Case("aten.index.Tensor", (table, [ids, ints(3, 4)]), {})
    yield Case("aten.index.Tensor", (f(5, 4, 3, 2), [None, ints(4, 2, 1), ints(3, 6)]), {})
    yield Case("aten.index.Tensor", (f(5, 4, 3), [ints(5, 6), ints(4, 2, 1), ints(3, 6)]), {})
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
    x, w = f(2, 6, 5), f(6)
    _, mean, rstd = torch.ops.aten.native_group_norm(x, w, f(6), 2, 6, 5, 3, 1e-5)
    yield Case(
        "aten.native_group_norm_backward.default",
        (f(2, 6, 5), x, mean, rstd, w, 2, 6, 5, 3, [True, True, True]),
        {},
    )


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
        # Without a batch dim the total weight is given even where nothing is reduced.
        for reduction in (0, 1):
            one = (logp[0], target[0], weight, reduction, -100)
            yield Case("aten.nll_loss_forward.default", one, {})
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
        for name in ("smooth_l1_loss", "huber_loss"):
            g = f(3, 4) if reduction == 0 else f()
            yield Case(f"aten.{name}.default", (x, f(3, 4), reduction, 0.7), {})
            yield Case(f"aten.{name}_backward.default", (g, x, f(3, 4), reduction, 0.7), {})
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
    "lookup": lookup_cases,
    "normalisation": normalisation_cases,
    "loss": loss_cases,
    "attention": attention_cases,
    "foreach": foreach_cases,
}
