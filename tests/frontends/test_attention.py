"""The fused attention operators of other devices mean what the one of the CPU means."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.frontends.support import run_imported, same, tensors, torch
from tests.frontends.texts import module

from shardproof.frontends.import_fx import ImportResult, import_fx

F = torch.nn.functional
Q, KV = "f64[2, 4, 3, 5]", "f64[2, 2, 6, 5]"
INPUTS = f'q: "{Q}", k: "{KV}", v: "{KV}"'
A = "torch.ops.aten._scaled_dot_product_"


def values(*extra: Any) -> list[Any]:
    g = torch.Generator().manual_seed(3)
    shapes = [(2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5), *extra]
    return [torch.randn(s, dtype=torch.float64, generator=g) for s in shapes]


def imported(*lines: str, inputs: str = INPUTS, returns: str = "y, lse", **o: Any) -> ImportResult:
    result = import_fx(module(inputs, *lines, returns=returns), **o)
    assert result.unknown == {}, result.reasons
    return result


FORWARD = [
    ("flash_attention.default(q, k, v, 0.0, False, scale = 0.3)", False, None, 0.3),
    ("flash_attention.default(q, k, v)", False, None, None),
    ("efficient_attention.default(q, k, v, None, True, 0.0, True)", True, None, None),
    ("efficient_attention.default(q, k, v, m, True)", False, (2, 4, 3, 6), None),
    ("cudnn_attention.default(q, k, v, None, True, 0.0, False, scale = 0.3)", False, None, 0.3),
]


@pytest.mark.parametrize(("call", "causal", "mask", "scale"), FORWARD, ids=lambda x: str(x)[:30])
def test_forward(call: str, causal: bool, mask: Any, scale: Any) -> None:
    q, k, v, *m = values(*([mask] if mask else []))
    inputs = INPUTS + (', m: "f64[2, 4, 3, 6]"' if mask else "")
    result = imported(f"t = {A}{call}", f'y: "{Q}" = t[0]', 'lse: "f64[2, 4, 3]" = t[1]',
                      inputs=inputs)  # fmt: skip
    y, lse = run_imported(result, [q, k, v, *m])
    want = F.scaled_dot_product_attention(
        q, k, v, m[0] if m else None, is_causal=causal, scale=scale, enable_gqa=True
    )
    same(y, want, call)
    s = q @ k.repeat_interleave(2, 1).transpose(-1, -2) * (scale or 1 / math.sqrt(5))
    s = s + m[0] if m else s
    if causal:
        s = s.masked_fill(~torch.ones(3, 6, dtype=torch.bool).tril(), float("-inf"))
    same(lse, s.logsumexp(-1), call)


def gradients(q: Any, k: Any, v: Any, dy: Any, causal: bool) -> tuple[Any, ...]:
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    y = F.scaled_dot_product_attention(*leaves, is_causal=causal, enable_gqa=True)
    return torch.autograd.grad(y, leaves, dy)  # type: ignore[no-any-return]


BACKWARD = [
    "flash_attention_backward.default(dy, q, k, v, y, lse, None, None, 3, 6, 0.0, {0}, None, None)",
    "efficient_attention_backward.default(dy, q, k, v, None, y, lse, None, None, 0.0, (), {0})",
    "flash_attention_for_cpu_backward.default(dy, q, k, v, y, lse, 0.0, {0})",
]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("call", BACKWARD, ids=lambda x: x[:20])
def test_backward(call: str, causal: bool) -> None:
    q, k, v, dy = values((2, 4, 3, 5))
    k, v = k[:, :, :3], v[:, :, :3]
    short = KV.replace("6, 5", "3, 5")
    lines = [
        f"t = {A}flash_attention.default(q, k, v, 0.0, {causal})",
        f'y: "{Q}" = t[0]',
        'lse: "f64[2, 4, 3]" = t[1]',
        f"b = {A}{call.format(causal)}",
        f'dq: "{Q}" = b[0]',
        f'dk: "{short}" = b[1]',
        f'dv: "{short}" = b[2]',
    ]
    inputs = f'q: "{Q}", k: "{short}", v: "{short}", dy: "{Q}"'
    result = imported(*lines, inputs=inputs, returns="dq, dk, dv")
    got = run_imported(result, [q, k, v, dy])
    for out, want in zip(got, gradients(q, k, v, dy, causal), strict=True):
        same(out, want, call)


def test_causal_between_different_lengths() -> None:
    line = f"t = {A}flash_attention.default(q, k, v, 0.0, True)"
    result = import_fx(module(INPUTS, line, f'y: "{Q}" = t[0]', returns="y"))
    assert "different lengths" in next(iter(result.reasons.values()))


TIME_FIRST = 'q: "f64[2, 3, 4, 5]", k: "f64[2, 3, 2, 5]", v: "f64[2, 3, 2, 5]"'
FORWARD_TIME_FIRST = [
    "_flash_attention_forward.default(q, k, v, None, None, 3, 3, 0.0, True, False)",
    "_efficient_attention_forward.default(q, k, v, None, None, None, 3, 3, 0.0, 1)",
    "_efficient_attention_forward.default(q, k, v, None, None, None, 3, 3, 0.0, 2)",
]


@pytest.mark.parametrize("call", FORWARD_TIME_FIRST)
def test_time_before_heads(call: str) -> None:
    q, k, v = values()
    k, v = k[:, :, :3], v[:, :, :3]
    lines = [f"t = torch.ops.aten.{call}", 'y: "f64[2, 3, 4, 5]" = t[0]']
    result = imported(*lines, inputs=TIME_FIRST, returns="y")
    (y,) = run_imported(result, [x.transpose(1, 2) for x in (q, k, v)])
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    same(y, want.transpose(1, 2), call)


def test_packed_sequences_are_opaque() -> None:
    line = (
        "t = torch.ops.aten._flash_attention_forward.default(q, k, v, k, k, 3, 3, 0.0, True, False)"
    )
    text = module(TIME_FIRST, line, 'y: "f64[2, 3, 4, 5]" = t[0]', returns="y")
    assert "packed" in import_fx(text).reasons["aten._flash_attention_forward"]


def test_math_form() -> None:
    q, k, v = values()
    line = f"t = {A}attention_math.default(q, k, v, None, 0.0, True, enable_gqa = True)"
    result = imported(line, f'y: "{Q}" = t[0]', returns="y")
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    same(run_imported(result, [q, k, v])[0], want, "math")


@pytest.mark.parametrize(
    "call",
    ["flash_attention.default(q, k, v, 0.1)", "attention_math.default(q, k, v, None, 0.1)"],
)
def test_dropout_inside_the_kernel(call: str) -> None:
    text = module(INPUTS, f"t = {A}{call}", f'y: "{Q}" = t[0]', returns="y")
    result = import_fx(text)
    assert "dropout inside" in next(iter(result.reasons.values()))
    assert import_fx(text, dropout="off").unknown == {}


def test_five_dims_and_boolean_masks() -> None:
    g = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(2, 3, 2, 4, 5, dtype=torch.float64, generator=g) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    t = '"f64[2, 3, 2, 4, 5]"'
    line = "torch.ops.aten.scaled_dot_product_attention.default(q, k, v, m)"
    result = imported(f"y: {t} = {line}", inputs=f'q: {t}, k: {t}, v: {t}, m: "b8[4, 4]"',
                      returns="y")  # fmt: skip
    want = F.scaled_dot_product_attention(q, k, v, mask)
    same(run_imported(result, tensors([q, k, v, mask]))[0], want, "five dims")
