"""What the user says about a dump: constants, numbers, kernels."""

from __future__ import annotations

import numpy as np
from tests.frontends.small import A, X, imported, ops, output

from shardproof.frontends.aten import Functionalized, LowerContext
from shardproof.ir.graph import Value

# ------------------------------------------------------------------------------ constants


CONSTANT = ['c: "i64[3]" = self._tensor_constant0', f'y: "i64[3]" = {A}add.Tensor(c, 1)']


def test_an_unknown_constant_is_an_input() -> None:
    result = imported(*CONSTANT)
    assert result.constant_inputs == ["_tensor_constant0"]
    assert str(result.graph.input("_tensor_constant0").type) == "i64[3]"
    assert [a.kind for a in result.assumptions] == ["constant"]


def test_facts_about_constants_and_inputs() -> None:
    result = imported(*CONSTANT, constants={"_tensor_constant0": 5})
    assert (output(result, x=np.zeros((4, 2))) == 6).all()
    assert result.constant_inputs == []
    tangent = imported(f'y: "f32[4, 2]" = {A}add.Tensor(x, t)', inputs=f'{X}, t: "f32[4, 2]"',
                       constants={"t*": 0})  # fmt: skip
    assert [v.name for v in tangent.graph.inputs] == ["x", "t"]
    assert tangent.graph.nodes[0].op == "full"


def test_an_attribute_that_is_read_twice_is_one_value() -> None:
    lines = ["a = self.w", f'p: "f32[3]" = {A}clone.default(a)',
             "b = self.w", f'q: "f32[3]" = {A}clone.default(b)',
             f'y: "f32[3]" = {A}add.Tensor(p, q)']  # fmt: skip
    result = imported(*lines)
    assert result.constant_inputs == ["w"]


def test_numbers_read_from_tensors() -> None:
    lines = [f'i: "Sym(u0)" = {A}_local_scalar_dense.default(n)',
             f'y: "f32[u0]" = {A}slice.Tensor(z, 0, 0, i)',
             f'k: "Sym(4)" = {A}sym_size.int(x, 0)',
             f'w: "f32[4]" = {A}full.default([k], 1.0)',
             f'j: "Sym(8)" = {A}sym_numel.default(x)']  # fmt: skip
    result = imported(*lines[2:4], returns="w")
    assert result.graph.nodes[0].attrs["shape"] == (4,)
    result = imported(*lines[:1], *lines[2:], inputs=f'{X}, n: "i64[]"', returns="w")
    assert any(a.kind == "condition" for a in result.assumptions)


# ------------------------------------------------------------------------------ kernels


def add_in_place(ctx: LowerContext, t: Value, other: Value, times: int = 1) -> Value:
    return ctx.add(t, ctx.scale(other, times))


def pair(ctx: LowerContext, a: Value, b: Value) -> Functionalized:
    return Functionalized(ctx.emit("neg", a), (ctx.scale(b, 2),))


V1 = "torch.ops.higher_order.auto_functionalized"
KERNELS = {"my.add_": add_in_place, "my.pair": pair}


def test_auto_functionalized() -> None:
    lines = [
        f"f = {V1}(torch.ops.my.add_.default, t = x, other = x, times = 3);  x = None",
        'y: "f32[4, 2]" = f[1];  f = None',
    ]
    result = imported(*lines, kernels=KERNELS)
    assert (output(result, x=np.ones((4, 2))) == 4).all()
    assert [a.kind for a in result.assumptions] == ["kernel"]
    assert imported(*lines).unknown == {"my.add_": 1}


def test_auto_functionalized_with_a_result() -> None:
    lines = [
        f"f = {V1}(torch.ops.my.pair.default, a = x, b = x)",
        'r: "f32[4, 2]" = f[0]', 'm: "f32[4, 2]" = f[1]',
        f'y: "f32[4, 2]" = {A}add.Tensor(r, m)',
    ]  # fmt: skip
    assert (output(imported(*lines, kernels=KERNELS), x=np.ones((4, 2))) == 1).all()


V2 = "f = torch.ops.higher_order.auto_functionalized_v2(torch.ops.my.add_.default, "


def test_auto_functionalized_v2() -> None:
    lines = [V2 + "other = x, times = 2, _t_base_index = 0, _all_bases = [x])",
             'y: "f32[4, 2]" = f[1]']  # fmt: skip
    assert (output(imported(*lines, kernels=KERNELS), x=np.ones((4, 2))) == 3).all()


def test_auto_functionalized_v2_of_a_slice() -> None:
    lines = [
        f'o: "f32[1, 2]" = {A}slice.Tensor(x, 0, 0, 1)',
        V2 + "other = o, _t_base_index = 0, _t_slice_dim = 0, _t_slice_start = 1, "
        "_t_slice_end = 2, _all_bases = [x])",
        'y: "f32[4, 2]" = f[1]',
    ]
    got = output(imported(*lines, kernels=KERNELS), x=np.ones((4, 2)))
    assert got.tolist() == [[1, 1], [2, 2], [1, 1], [1, 1]]


def test_a_strided_view_of_a_base_is_opaque() -> None:
    lines = [V2 + "other = x, _t_base_index = 0, _t_size = (2, 2), _t_stride = (1, 1), "
             "_all_bases = [x])", 'y: "f32[4, 2]" = f[1]']  # fmt: skip
    result = imported(*lines, kernels=KERNELS)
    assert "strided view" in result.reasons["my.add_"]


def test_a_kernel_overrides_a_declaration() -> None:
    line = f'y: "f32[4, 2]" = {A}relu.default(x)'
    result = imported(line, kernels={"aten.relu": lambda ctx, x: ctx.emit("exp", x)})
    assert ops(result) == ["exp"]
