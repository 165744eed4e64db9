"""In-place and scratch-buffer idioms, dropout, symbolic sizes: exact meanings."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.frontends.small import A, X, imported, ops, output

from shardproof.errors import InputError
from shardproof.ir.sizes import symbol

# ------------------------------------------------------------------------------ buffers


def test_a_scratch_buffer_is_not_read() -> None:
    result = imported(
        f'e: "f32[3, 4, 5]" = {A}empty.memory_format([3, 4, 5], dtype = torch.float32, '
        "device = device(type='cuda', index=0), pin_memory = False)",
        f'y: "f32[3, 4, 5]" = {A}baddbmm.default(e, a, b, beta = 0.0, alpha = 0.25)',
        inputs='a: "f32[3, 4, 2]", b: "f32[3, 2, 5]"',
    )
    assert ops(result) == ["undefined", "matmul", "scale"]
    assert result.graph.nodes[2].attrs == {"by": Fraction(1, 4)}
    assert [n.output.name for n in result.graph.nodes] == ["e", "y#1", "y"]


@pytest.mark.parametrize(
    "call",
    ["empty.memory_format([4, 2])", "empty_like.default(x)", "new_empty.default(x, [4, 2])",
     "new_empty_strided.default(x, [4, 2], [2, 1])", "empty_strided.default([4, 2], [2, 1])",
     "empty_permuted.default([4, 2], [0, 1])"],
)  # fmt: skip
def test_empty_is_undefined(call: str) -> None:
    result = imported(f'e: "f32[4, 2]" = {A}{call}', f'y: "f32[4, 2]" = {A}copy.default(e, x)')
    assert ops(result) == ["undefined"]
    assert result.graph.outputs == result.graph.inputs


def test_copy_casts_and_broadcasts() -> None:
    y = f'y: "f32[4, 2]" = {A}copy.default(x, b)'
    result = imported(y, inputs=f'{X}, b: "bf16[2]"')
    assert ops(result) == ["cast", "expand"]
    assert result.casts == [("y", "bf16", "f32")]


def test_identities_leave_no_node() -> None:
    result = imported(
        f'a: "f32[4, 2]" = {A}detach.default(x);  x = None',
        f'b: "f32[4, 2]" = {A}clone.default(a, memory_format = torch.contiguous_format);  a = None',
        f'c: "f32[4, 2]" = {A}view.default(b, [4, 2]);  b = None',
        f'd: "f32[4, 2]" = {A}slice.Tensor(c, 0, 0, 9223372036854775807);  c = None',
        f'y: "f32[4, 2]" = {A}_to_copy.default(d, dtype = torch.float32, layout = torch.strided)',
    )
    assert ops(result) == []
    assert set(result.names) == {"x", "a", "b", "c", "d", "y"}
    assert len(set(result.names.values())) == 1


def test_casts_between_kinds() -> None:
    lines = [
        f'a: "i64[4, 2]" = {A}_to_copy.default(x, dtype = torch.int64)',
        f'b: "b8[4, 2]" = {A}_to_copy.default(x, dtype = torch.bool)',
        f'c: "f32[4, 2]" = {A}_to_copy.default(b, dtype = torch.float32)',
        f'd: "bf16[4, 2]" = {A}_to_copy.default(x, dtype = torch.bfloat16)',
    ]
    result = imported(*lines, returns="a, b, c, d")
    assert ops(result) == ["cast", "compare", "cast", "cast"]
    assert result.casts == [("d", "f32", "bf16")]


def test_masked_assignment() -> None:
    lines = [
        "_tensor_constant0 = self._tensor_constant0",
        f'c: "f32[]" = {A}lift_fresh_copy.default(_tensor_constant0)',
        f'y: "f32[4, 2]" = {A}index_put.default(x, [m], c)',
    ]
    result = imported(*lines, inputs=f'{X}, m: "b8[4]"', constants={"_tensor_constant*": 0})
    assert ops(result) == ["full", "reshape", "masked_fill"]
    assert result.graph.nodes[-1].attrs == {"value": 0}
    x = np.arange(8.0).reshape(4, 2)
    got = output(result, x=x, m=np.array([True, False, True, False]))
    assert (got == np.where([[True], [False], [True], [False]], 0, x)).all()


def test_assignment_of_one_element_a_row() -> None:
    lines = [
        f'i: "i64[4]" = {A}arange.start(0, 4, dtype = torch.int64)',
        f'g: "f32[4]" = {A}index.Tensor(x, [i, ids])',
        f'y: "f32[4, 2]" = {A}index_put.default(x, [i, ids], g)',
    ]
    result = imported(*lines, inputs=f'{X}, ids: "i64[4]"')
    assert ops(result) == ["iota", "take_along", "put_along"]
    partial = imported(lines[0].replace("(0, 4", "(1, 5"), *lines[1:], inputs=f'{X}, ids: "i64[4]"')
    assert partial.unknown == {"aten.index_put": 1}
    assert "take_rows" in ops(partial)


def test_rows_of_higher_rank() -> None:
    lines = [
        f'a: "i64[2]" = {A}arange.default(2)',
        f'b: "i64[2, 1]" = {A}unsqueeze.default(a, 1)',
        f'c: "i64[3]" = {A}arange.default(3)',
        f'y: "f32[2, 3]" = {A}index.Tensor(x, [b, c, ids])',
    ]
    result = imported(*lines, inputs='x: "f32[2, 3, 5]", ids: "i64[2, 3]"')
    assert ops(result)[-1] == "take_along"
    x, ids = np.arange(30.0).reshape(2, 3, 5), np.array([[0, 1, 2], [3, 4, 0]])
    want = np.take_along_axis(x, ids[..., None], -1)[..., 0]
    assert (output(result, x=x, ids=ids) == want).all()
    swapped = lines[-1].replace("[b, c, ids]", "[c, b, ids]")
    other = imported(*lines[:-1], swapped, inputs='x: "f32[3, 3, 5]", ids: "i64[2, 3]"')
    assert ops(other).count("take_along") == 2
    x = np.arange(45.0).reshape(3, 3, 5)
    assert (output(other, x=x, ids=ids) == x[np.arange(3), np.arange(2)[:, None], ids]).all()


def test_aranges_along_axes_of_their_own_rearrange() -> None:
    lines = [
        f'i: "i64[2]" = {A}arange.default(2)',
        f'j: "i64[3]" = {A}arange.default(3)',
        f'k: "i64[3]" = {A}add.Tensor(j, 0)',
        f'a: "i64[2, 1, 1]" = {A}view.default(i, [2, 1, 1])',
        f'b: "i64[3, 1]" = {A}view.default(k, [3, 1])',
        f'c: "i64[3, 1]" = {A}view.default(j, [3, 1])',
        f'd: "i64[1, 2]" = {A}view.default(i, [1, 2])',
        f'y: "f32[2, 3, 1]" = {A}index.Tensor(x, [a, b])',
        f'z: "f32[3, 2]" = {A}index.Tensor(x, [d, c])',
    ]
    x = np.arange(6.0).reshape(2, 3)
    for name, want in (("y", x[:, :, None]), ("z", x.T)):
        result = imported(*lines, inputs='x: "f32[2, 3]"', returns=name)
        assert not set(ops(result)) & {"take_rows", "take_along"}
        assert (output(result, x=x) == want).all()
    # An index that starts elsewhere is a lookup.
    moved = [line.replace("(j, 0)", "(j, 1)") for line in lines[:-1]]
    assert "take_rows" in ops(imported(*moved, inputs='x: "f32[2, 4]"'))


@pytest.mark.parametrize("indices", ["[m, None, m]", "[None, m, None, m]"])
def test_index_tensors_that_are_apart_are_left(indices: str) -> None:
    line = f'y: "f32[2, 3]" = {A}index.Tensor(x, {indices})'
    assert imported(line, inputs='x: "f32[2, 2, 2, 2]", m: "i64[2]"').unknown


@pytest.mark.parametrize(
    ("line", "reason"),
    [(f'y: "f32[u0, 2]" = {A}index.Tensor(x, [m])', "depends on the data"),
     (f'y: "f32[4, 2]" = {A}index_copy.default(x, 0, i, x)', "index_copy"),
     (f'y: "f32[4, 2]" = {A}masked_scatter.default(x, m2, x)', "depends on the mask"),
     (f'y: "f32[4, 2]" = {A}as_strided.default(x, [4, 2], [2, 1])', "strides"),
     (f'y: "f32[2, 2]" = {A}slice.Tensor(x, 0, 1, 4, 2)', None),
     (f'y: "f32[1, 2]" = {A}slice.Tensor(x, 0, 0, 3, 3)', "slice with step 3"),
     (f'y: "i64[4]" = {A}bitwise_and.Scalar(i, 3)', "of integers"),
     (f'y: "f32[4, 2]" = {A}no_such_operator.default(x)', None),
     (f'y: "f32[4, 2]" = {A}_fused_adamw.default(x)', "foreach"),
     (f'y: "f32[4, 2]" = {A}_unsafe_masked_index.default(x, m2, [i], 0)', None)],
)  # fmt: skip
def test_what_has_no_meaning_is_opaque(line: str, reason: str | None) -> None:
    result = imported(line, inputs=f'{X}, m: "b8[4]", m2: "b8[4, 2]", i: "i64[4]"')
    if "Tensor(x, 0, 1, 4, 2)" in line:
        assert result.unknown == {}
        return
    (name,) = result.unknown
    assert result.unknown[name] == 1
    node = result.graph.nodes[-1]
    assert node.op == "opaque"
    assert name in str(node.attrs["target"])
    assert node.output.name == "y"
    assert (reason is None) == (name not in result.reasons)
    if reason is not None:
        assert reason in result.reasons[name]


def test_opaque_with_several_outputs() -> None:
    lines = ["t = torch.ops.my.op.default(x, [x, 3], k = x)", 'a: "f32[3]" = t[0]',
             'b: "i64[s0]" = t[2]', 'y: "f32[3]" = torch.ops.aten.neg.default(a)']  # fmt: skip
    result = imported(*lines, returns="y, b")
    opaque, _ = result.graph.nodes
    assert len(opaque.inputs) == 3
    assert [v.name for v in opaque.outputs] == ["a", "b"]
    assert opaque.outputs[1].shape == (symbol("s0"),)


def test_an_operator_without_result() -> None:
    lines = ["t = torch.ops.my.effect.default(x)", "u = torch.ops.aten.neg.default(t)",
             f"_assert_scalar = {A}_assert_scalar.default(x, 'message')"]  # fmt: skip
    result = imported(*lines, returns="x, u")
    assert result.graph.outputs[1] is None
    assert result.unknown == {"my.effect": 1, "aten.neg": 1}


# ------------------------------------------------------------------------------ random


DROPOUT = [f"t = {A}native_dropout.default(x, 0.1, True)", 'y: "f32[4, 2]" = t[0]',
           'm: "b8[4, 2]" = t[1]',
           f'g: "f32[4, 2]" = {A}native_dropout_backward.default(y, m, {1 / 0.9})']  # fmt: skip


def test_dropout_is_a_mask_and_an_exact_scale() -> None:
    result = imported(*DROPOUT, returns="y, g")
    assert result.random_inputs == ["dropout_mask_0"]
    assert [n.attrs["by"] for n in result.graph.nodes if n.op == "scale"] == [Fraction(10, 9)] * 2
    assert result.names["m"].name == "dropout_mask_0"
    assert [a.kind for a in result.assumptions] == ["random"]


def test_the_scale_of_a_backward_graph_alone() -> None:
    line = DROPOUT[3].replace("(y, m,", "(x, m,")
    result = imported(line, inputs=f'{X}, m: "b8[4, 2]"', returns="g")
    assert result.graph.nodes[-1].attrs["by"] == Fraction(10, 9)
    assert "read as 10/9" in result.assumptions[-1].text


def test_dropout_off_is_the_identity() -> None:
    result = imported(*DROPOUT, returns="y, g", dropout="off")
    assert ops(result) == ["full"]
    assert result.graph.outputs == [result.graph.inputs[0]] * 2


def test_dropout_that_keeps_or_drops_all() -> None:
    for text in ("0.1, False", "0.0, True"):
        result = imported(DROPOUT[0].replace("0.1, True", text), DROPOUT[1])
        assert ops(result) == []
    result = imported(DROPOUT[0].replace("0.1, True", "1.0, True"), DROPOUT[1])
    assert (output(result, x=np.ones((4, 2))) == 0).all()


def test_dropout_spelled_out() -> None:
    lines = [
        f'r: "f32[4, 2]" = {A}rand_like.default(x, dtype = torch.float32)',
        f'm: "b8[4, 2]" = {A}gt.Scalar(r, 0.1)',
        f'b: "f32[4, 2]" = {A}bernoulli.p(x, 0.9)',
        f'a: "f32[4, 2]" = {A}mul.Tensor(m, x)',
        f'y: "f32[4, 2]" = {A}mul.Tensor(a, b)',
    ]
    result = imported(*lines)
    assert result.random_inputs == ["random_0", "dropout_mask_0"]
    assert result.unknown == {}


@pytest.mark.parametrize(
    ("call", "kind"),
    [("rand.default([4, 2])", "f32"), ("randn.default([4, 2])", "f32"),
     ("randn_like.default(x)", "f32"), ("uniform.default(x, 0.0, 1.0)", "f32"),
     ("exponential.default(x, 1.0)", "f32"), ("normal_functional.default(x)", "f32"),
     ("randint.default(7, [4, 2])", "i64"), ("randint.low(1, 7, [4, 2])", "i64"),
     ("randint_like.default(x, 7)", "f32"), ("randint_like.low_dtype(x, 1, 7)", "f32"),
     ("bernoulli.default(x)", "f32"), ("bernoulli.Tensor(x, x)", "f32"),
     ("dropout.default(x, 0.5, True)", "f32"), ("multinomial.default(x, 2)", "i64")],
)  # fmt: skip
def test_random_values_are_inputs(call: str, kind: str) -> None:
    result = imported(f'y: "{kind}[4, 2]" = {A}{call}')
    assert len(result.random_inputs) == 1
    assert result.unknown == {}
    (line,) = imported(f'p: "i64[4]" = {A}randperm.default(4)', returns="p").random_inputs
    assert line == "random_0"


# ------------------------------------------------------------------------------ provenance


def test_origin_source_and_names() -> None:
    lines = [
        "# File: m.py:7 in forward, code: torch.addmm(b, x, w)",
        f'addmm: "f32[4, 3]" = {A}addmm.default(b, x, w)',
    ]
    result = imported(*lines, inputs=f'{X}, b: "f32[3]", w: "f32[2, 3]"', returns="addmm")
    assert [(n.output.name, n.source) for n in result.graph.nodes] == [
        ("addmm#1", "addmm"), ("addmm", "addmm"),
    ]  # fmt: skip
    assert {str(n.origin) for n in result.graph.nodes} == {"m.py:7 in forward"}
    assert result.graph.nodes[0].origin.code == "torch.addmm(b, x, w)"
    assert result.graph.rank == 0


def test_symbolic_sizes() -> None:
    lines = [
        'k: "Sym(4*s0)" = s * 4',
        f'v: "f32[4*s0]" = {A}view.default(x, [k])',
        f'y: "f32[s0, 4]" = {A}view.default(v, [-1, 4])',
    ]
    result = imported(*lines, inputs='s: "Sym(s0)", x: "f32[s0, 4]"')
    assert result.graph.outputs[0].shape == (symbol("s0"), 4)  # type: ignore[union-attr]
    assert [v.name for v in result.graph.inputs] == ["x"]


def test_undecided_sizes_are_opaque() -> None:
    lines = [f'a: "f32[(s0//2)]" = {A}slice.Tensor(x, 0, 0, n)',
             f'y: "f32[(s0//2)]" = {A}neg.default(a)']  # fmt: skip
    result = imported(*lines, inputs='n: "Sym((s0//2))", x: "f32[s0]"')
    assert result.unknown == {"aten.slice.Tensor": 1}
    assert "slice bound" in result.reasons["aten.slice.Tensor"]
    (assumption,) = result.assumptions
    assert assumption.text.startswith("the size n_s0_div_2_")


def test_log_sigmoid_forward() -> None:
    lines = [f"t = {A}log_sigmoid_forward.default(x)", 'y: "f32[4, 2]" = t[0]']
    got = output(imported(*lines), x=np.zeros((4, 2)))
    assert np.allclose(got, -np.log(2))


def test_an_overwritten_input_is_an_output() -> None:
    lines = [f'a: "f32[4, 2]" = {A}mul.Tensor(x, 2)',
             f'copy_: "f32[4, 2]" = {A}copy_.default(x, a)',
             f'y: "f32[4, 2]" = {A}neg.default(x)']  # fmt: skip
    result = imported(*lines)
    assert [n for n, _ in result.outputs] == ["y", "x_updated"]
    assert result.outputs[1][1] is result.names["a"]
    assert [n.op for n in result.graph.nodes] == ["scale", "neg"]
    assert result.graph.nodes[1].inputs == result.graph.nodes[0].outputs


@pytest.mark.parametrize(
    "call",
    ["copy_.default(a, x)", "add_.Tensor(x, x)", "index_put_.default(x, [x], x)",
     "_foreach_mul_.Scalar([x], 2)"],
)  # fmt: skip
def test_other_mutations_are_refused(call: str) -> None:
    a = f'a: "f32[4, 2]" = {A}mul.Tensor(x, 2)'
    with pytest.raises(InputError, match="changes its argument in place"):
        imported(a, f"b = {A}{call}", returns="x")


def test_a_returned_workspace_is_opaque() -> None:
    kv = '"f32[2, 2, 4, 8]"'
    lines = [f"t = {A}_scaled_dot_product_flash_attention.default(q, k, v)", f"y: {kv} = t[0]",
             'seed: "i64[]" = t[6]', "n: \"Sym(4)\" = t[4]"]  # fmt: skip
    result = imported(*lines, inputs=f"q: {kv}, k: {kv}, v: {kv}", returns="y, seed, n")
    assert result.unknown == {}
    assert [n.op for n in result.graph.nodes] == ["attention", "opaque"]
    assert [None if v is None else v.name for _, v in result.outputs] == ["y", "seed", None]


def test_constants_among_the_outputs() -> None:
    result = imported("c = self._tensor_constant0", returns="x, c, None, 3",
                      constants={"_tensor_constant0": 1})  # fmt: skip
    assert [n for n, _ in result.outputs] == ["x", "c", "none2", "none3"]
    assert [v is None for _, v in result.outputs] == [False, False, True, True]
