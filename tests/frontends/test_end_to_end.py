"""Programs captured with the installed PyTorch, printed, imported, and run both ways."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.frontends.support import array, check_function, evaluate, run_imported, same, torch
from tests.frontends.texts import module

from shardproof.frontends.import_fx import ImportResult, import_fx
from shardproof.ir.sizes import symbol

nn, F = torch.nn, torch.nn.functional
DOUBLE = torch.float64
Record = tuple[str, list[Any], list[Any]]


def draw(*shape: int, seed: int = 1) -> Any:
    return torch.randn(shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def captured(model: Any, *inputs: Any) -> list[Record]:
    """Printed forward and backward graph of a model with a scalar result, what each was called
    with, and what it returned."""
    from functorch.compile import aot_module, make_boxed_func

    records: list[Record] = []

    def compiler(gm: Any, _: Any) -> Any:
        text = gm.print_readable(print_output=False, include_stride=True, include_device=True)

        def run(*args: Any) -> Any:
            out = gm(*args)
            records.append((text, list(args), list(out)))
            return out

        return make_boxed_func(run)

    torch.manual_seed(5)
    aot_module(model, fw_compiler=compiler, bw_compiler=compiler)(*inputs).backward()
    return records


def check(record: Record) -> ImportResult:
    text, args, wanted = record
    result = import_fx(text)
    assert result.unknown == {}, result.reasons
    # What was drawn at random is among the outputs, as it is saved for backward.
    drawn = {
        v.name: array(wanted[k])
        for k, (_, v) in enumerate(result.outputs)
        if v is not None and v.name in result.random_inputs
    }
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    outputs = run_imported(result, tensors, **drawn)
    for (name, _), out, want in zip(result.outputs, outputs, wanted, strict=True):
        assert (out is None) == (want is None)
        if out is not None:
            same(out, want, name, 1e-8)
    return result


class Block(nn.Module):  # type: ignore[misc]
    """A GPT-like language model of one layer, with its loss."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(11, 8, padding_idx=3), nn.Embedding(6, 8)
        self.norm, self.last = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.drop = nn.Dropout(dropout)

    def forward(self, ids: Any, labels: Any) -> Any:
        x = self.drop(self.embed(ids) + self.place(torch.arange(ids.shape[1])))
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, 2, c // 2).transpose(1, 2) for y in self.qkv(self.norm(x)).split(c, -1)
        )
        s = q @ k.transpose(-1, -2) / (c // 2) ** 0.5
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        y = (self.drop(s.softmax(-1)) @ v).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        x = x + self.down(F.gelu(self.up(self.last(x)), approximate="tanh"))
        logits = x @ self.embed.weight.t()
        return F.cross_entropy(logits.view(-1, 11), labels.view(-1), ignore_index=4)


class Llama(nn.Module):  # type: ignore[misc]
    """Root-mean-square norm, rotary embedding, shared key heads, fused attention, SwiGLU."""

    def __init__(self, rope: str) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(8, eps=1e-6)
        self.q, self.kv = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
        self.gate, self.down = nn.Linear(8, 24, bias=False), nn.Linear(12, 8, bias=False)
        self.rope = rope

    def rotate(self, x: Any) -> Any:
        t, d = x.shape[-2:]
        f = torch.outer(torch.arange(t, dtype=DOUBLE), torch.arange(1.0, d // 2 + 1, dtype=DOUBLE))
        if self.rope == "complex":
            turn = torch.polar(torch.ones_like(f), f)
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], d // 2, 2))
            return torch.view_as_real(pairs * turn).flatten(3)
        if self.rope == "interleaved":
            a, b = x[..., ::2], x[..., 1::2]
            parts = (a * f.cos() - b * f.sin(), a * f.sin() + b * f.cos())
            return torch.stack(parts, -1).flatten(-2)
        c, s = (torch.cat([g, g], -1) for g in (f.cos(), f.sin()))
        half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1)
        return x * c + half * s

    def forward(self, x: Any) -> Any:
        b, t, _ = x.shape
        h = self.norm(x)
        q = self.rotate(self.q(h).view(b, t, 2, 4).transpose(1, 2))
        k, v = self.kv(h).chunk(2, -1)
        k = self.rotate(k.view(b, t, 1, 4).transpose(1, 2))
        v = v.view(b, t, 1, 4).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + y.transpose(1, 2).reshape(b, t, 8)
        gate, up = self.gate(x).chunk(2, -1)
        return (x + self.down(F.silu(gate) * up)).pow(2).mean()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_language_model(dropout: float) -> None:
    torch.manual_seed(2)
    model = Block(dropout).double()
    ids = torch.tensor([[1, 5, 3, 9], [2, 2, 10, 0]])
    labels = torch.tensor([[5, 4, 9, 1], [2, 10, 4, 7]])
    forward, backward = (check(r) for r in captured(model, ids, labels))
    assert len(forward.random_inputs) == (2 if dropout else 0)
    ops = {n.op for n in backward.graph.nodes}
    assert {"gelu_grad", "softmax_grad", "log_softmax_grad", "layer_norm_grad", "add_rows"} <= ops


@pytest.mark.parametrize("rope", ["halves", "interleaved", "complex"])
def test_llama_layer(rope: str) -> None:
    torch.manual_seed(2)
    for record in captured(Llama(rope).double(), draw(2, 5, 8)):
        check(record)


def test_complex_tensors_are_pairs() -> None:
    def fn(x: Any, turn: Any) -> Any:
        y = (torch.view_as_complex(x) * turn[1:].unsqueeze(0)).conj()
        return torch.view_as_real(y + y * 2.0), y.abs(), y.angle(), y.real, y.imag

    from torch.fx.experimental.proxy_tensor import make_fx

    x = draw(3, 4, 2)
    turn = torch.polar(draw(5).abs(), draw(5, seed=2))
    text = make_fx(fn)(x, turn).print_readable(print_output=False)
    result = import_fx(text)
    assert result.unknown == {}
    assert [str(v.type) for v in result.graph.inputs] == ["f64[3, 4, 2]", "f64[5, 2]"]
    outputs = run_imported(result, [x, turn])
    for out, want in zip(outputs, fn(x, turn), strict=True):
        same(out, want, "complex")


def test_fused_rms_norm_backward() -> None:
    """This one has no kernel on the CPU: the derivative of the forward function is the judge."""
    x, w, dy = draw(3, 4).requires_grad_(), draw(4).requires_grad_(), draw(3, 4, seed=2)
    text = module(
        'x: "f64[3, 4]", w: "f64[4]", dy: "f64[3, 4]"',
        "t = torch.ops.aten._fused_rms_norm.default(x, [4], w, 1e-05)", 'r: "f64[3, 1]" = t[1]',
        "b = torch.ops.aten._fused_rms_norm_backward.default(dy, x, [4], r, w, [True, True])",
        'dx: "f64[3, 4]" = b[0]', 'dw: "f64[4]" = b[1]', returns="dx, dw",
    )  # fmt: skip
    wanted = torch.autograd.grad(F.rms_norm(x, (4,), w, 1e-5), (x, w), dy)
    for out, want in zip(run_imported(import_fx(text), [x, w, dy]), wanted, strict=True):
        same(out, want, "rms norm")


class Mixture(nn.Module):  # type: ignore[misc]
    """Functions that the other models lack."""

    def forward(self, x: Any, w: Any, order: Any) -> Any:
        y = F.group_norm(x.unsqueeze(0), 2)[0]
        y = F.leaky_relu(y) + F.elu(x) * F.hardtanh(x) + F.softplus(x) + F.logsigmoid(x)
        y = y + torch.where(x > 0, x.exp(), x.sin()) + F.pad(x[:, 1:], (1, 0), value=0.5)
        y = y + x.cumsum(0) + x.max(1, keepdim=True)[0] + x.amin(0) + torch.tril(x)
        y = torch.roll(y, 1, 0) + torch.einsum("ij,jk->ik", x, w) + x.clamp(-0.5, 0.5)
        y = F.normalize(y, dim=-1) + y.var(1, keepdim=True) + y.std(0) + y.logsumexp(1)[:, None]
        y = y.index_select(0, order) + y.gather(1, order[:, None])
        return F.mse_loss(y, x) + F.smooth_l1_loss(x, w) + torch.norm(y) + y.abs().mean()


def test_mixture() -> None:
    x, w = draw(4, 4).requires_grad_(), draw(4, 4, seed=2).requires_grad_()
    results = []
    for text, args, wanted in captured(Mixture(), x, w, torch.tensor([1, 0, 3, 2])):
        result = import_fx(text)
        results.append(result)
        if not result.unknown:
            check((text, args, wanted))
    # The gradient of cumsum reverses an axis; flip of a short one is a few slices.
    assert [r.unknown for r in results] == [{}, {}]


def test_joint_graph() -> None:
    def step(x: Any, w: Any, b: Any) -> tuple[Any, ...]:
        leaves = [t.detach().requires_grad_() for t in (x, w, b)]
        loss = F.layer_norm(F.linear(*leaves), (3,)).tanh().square().sum()
        return (loss, *torch.autograd.grad(loss, leaves))

    check_function(step, draw(4, 5), draw(3, 5), draw(3))


def test_optimizer_step() -> None:
    def adamw(p: Any, g: Any, m: Any, v: Any, step: Any) -> tuple[Any, ...]:
        scale = torch.clamp(
            1.0 / (torch.linalg.vector_norm(torch.stack(torch._foreach_norm([g]))) + 1e-6), max=1.0
        )
        (g,) = torch._foreach_mul([g], scale)
        step = step + 1
        (m,) = torch._foreach_lerp([m], [g], 0.1)
        (v,) = torch._foreach_addcmul(torch._foreach_mul([v], 0.999), [g], [g], 0.001)
        root = torch._foreach_add(torch._foreach_sqrt([v / (1 - 0.999**step)]), 1e-8)
        (p,) = torch._foreach_mul([p], 1 - 0.01 * 0.1)
        (p,) = torch._foreach_addcdiv([p], [m / (1 - 0.9**step)], root, -0.01)
        return p, m, v, step

    check_function(adamw, draw(3, 2), draw(3, 2, seed=2), draw(3, 2, seed=3),
                   draw(3, 2, seed=4).abs(), torch.tensor(2.0, dtype=DOUBLE))  # fmt: skip


def test_in_place_code_made_functional() -> None:
    def fill(x: Any, mask: Any) -> Any:
        buffer = torch.empty_like(x)
        buffer.copy_(x)
        buffer[mask] = 0.0
        buffer[:, 1:3] += 2.0
        buffer[0].mul_(3.0)
        return buffer

    functional = torch.func.functionalize(fill, remove="mutations_and_views")
    mask = torch.tensor([True, False, True])
    check_function(functional, draw(3, 4), mask, constants={"_tensor_constant*": 0})


def test_symbolic_sizes() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    def fn(x: Any) -> Any:
        b, t, _ = x.shape
        return x.view(b * t, -1).softmax(-1).reshape(b, t, 8).sum((0, 1), keepdim=True)

    gm = make_fx(fn, tracing_mode="symbolic")(draw(3, 5, 8))
    result = import_fx(gm.print_readable(print_output=False))
    assert result.unknown == {}
    (x,) = result.graph.inputs
    s = [n for n in x.shape if not isinstance(n, int)]
    assert len(s) == 2
    assert result.graph.nodes[0].outputs[0].shape[0] == s[0] * s[1]
    assert all(n == symbol(str(n)) for n in s)


PROGRAM = """
import torch
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.n = torch.nn.Linear(16, 32), torch.nn.LayerNorm(16)
    def forward(self, x):
        with torch.fx.traceback.annotate({"stage": 1}):
            y = self.l(self.n(x))
        return torch.nn.functional.gelu(y).sum()
m = torch.compile(M(), backend="aot_eager")
for rows in (4, 6):
    m(torch.randn(rows, 16)).backward()
"""


def test_what_torch_logs_prints() -> None:
    import os

    out = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=True,
        env={**os.environ, "TORCH_LOGS": "+aot_graphs,aot_joint_graph"},
    ).stderr  # fmt: skip
    for size, k in ((4, 0), (None, 1)):
        for phase in ("Joint", "Forward", "Backward"):
            result = import_fx(out, graph=f"{phase} graph {k}")
            assert result.unknown == {}
            assert result.phase == phase.lower()
            (gelu,) = {n.inputs[-1].shape for n in result.graph.nodes if "gelu" in n.op}
            assert (gelu[0] == size) if size else (not isinstance(gelu[0], int))
    lines = {n.origin.code for n in import_fx(out, graph="Joint graph 0").graph.nodes}
    assert "y = self.l(self.n(x))" in lines or lines == {""}


def test_functional_collectives() -> None:
    dist = torch.distributed
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
    try:
        group = dist.new_group([1, 3])

        ops = torch.ops._c10d_functional

        def fn(x: Any) -> Any:
            y = ops.wait_tensor(ops.all_reduce(x, "sum", group.group_name))
            name = dist.group.WORLD.group_name
            return ops.wait_tensor(ops.all_gather_into_tensor(y, 4, name)) + 1

        text = make_fx(fn)(draw(2, 3)).print_readable(print_output=False)
        names = {dist.group.WORLD.group_name: (0, 1, 2, 3), group.group_name: (1, 3)}
    finally:
        dist.destroy_process_group()
    result = import_fx(text, rank=1, groups=names)
    assert result.unknown == {}
    nodes = {n.op: n for n in result.graph.nodes}
    assert nodes["all_reduce"].attrs["group"] == (1, 3)
    assert nodes["all_gather"].attrs["group"] == (0, 1, 2, 3)
    assert result.graph.outputs[0].shape == (8, 3)  # type: ignore[union-attr]


def test_evaluation_support_is_strict() -> None:
    result = import_fx('class A(M):\n    def forward(self, x: "f32[2]"):\n        return x\n')
    env: Callable[..., Any] = evaluate
    (value,) = result.graph.outputs
    assert env(result.graph, {"x": np.ones(2)})[value].tolist() == [1, 1]
