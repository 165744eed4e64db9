"""What single instructions mean, without JAX."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.frontends.hlo.support import ADD, evaluated, imported, module, outputs

from shardproof.frontends.hlo.known import read_number

X = np.arange(6.0).reshape(2, 3) + 1


def one(line: str, *before: str) -> Any:
    """One instruction on ``x``, a matrix of two rows and three columns."""
    return evaluated(module("x = f32[2,3] parameter(0)", *before, line), X)


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("y = f32[3,2] transpose(x), dimensions={1,0}", X.T),
        ("y = f32[3,2]{0,1} bitcast(x)", X.T),
        ("y = f32[6] bitcast(x)", X.ravel()),
        ("y = f32[2,4,3] broadcast(x), dimensions={0,2}", np.repeat(X[:, None], 4, 1)),
        ("y = f32[3,2,1] broadcast(x), dimensions={1,0}", X.T[:, :, None]),
        ("y = f32[2,2] slice(x), slice={[0:2], [0:3:2]}", X[:, ::2]),
        ("y = f32[2,3] reverse(x), dimensions={0,1}", X[::-1, ::-1]),
        ("y = f32[2,3] cosine(x)", np.cos(X)),
        ("y = f32[2,3] negate(x)", -X),
        ("y = f32[2,3] reduce-precision(x), exponent_bits=8, mantissa_bits=7", X),
        ("y = s32[2,3] convert(x)", X.astype(int)),
        ("y = f32[2,3] power(x, x)", X**X),
        ("y = f32[2,3] copy(x)", X),
        ("y = f32[2,3] all-reduce(x), replica_groups={}, to_apply=add", X),
    ],
)
def test_unary(line: str, want: Any) -> None:
    text = module("x = f32[2,3] parameter(0)", line, before=ADD)
    np.testing.assert_allclose(evaluated(text, X), want)


def test_constants() -> None:
    got = one("y = f32[2,3] add(x, c)", "c = f32[2,3] constant({{1,2,3},{4,5,6}})")
    np.testing.assert_allclose(got, 2 * X)
    got = one("y = f32[2,3] multiply(x, b)", "c = f32[] constant(0.1)",
              "b = f32[2,3] broadcast(c), dimensions={}")  # fmt: skip
    np.testing.assert_allclose(got, X / 10)
    got = one("y = pred[2] compare(a, b), direction=LT", "a = s32[2] constant({1, 5})",
              "b = s32[2] constant({2, -5})")  # fmt: skip
    assert got.tolist() == [True, False]


def test_elided_constants_are_inputs() -> None:
    text = module(
        "x = f32[9] parameter(0)", "a = f32[9] constant({...})", "b = f32[9] constant({...})",
        "c = f32[9] add(a, b)", "y = f32[9] add(x, c)",
    )  # fmt: skip
    (result,) = imported(text)
    assert result.constants == ["constant_f32_9_elided0", "constant_f32_9_elided1"]


def test_long_constants_are_named_by_their_contents() -> None:
    numbers = ",".join(str((7 * k) % 101) for k in range(101))
    text = module("x = f32[101] parameter(0)", f"a = f32[101] constant({{{numbers}}})",
                  "y = f32[101] add(x, a)")  # fmt: skip
    (result,) = imported(text)
    again = imported(text)[0].constants
    assert result.constants == again
    assert len(again) == 1


def test_starts_of_reductions() -> None:
    text = module(
        "x = f32[2,3] parameter(0)", "s = f32[] constant(10)",
        "y = f32[2] reduce(x, s), dimensions={1}, to_apply=add", before=ADD,
    )  # fmt: skip
    np.testing.assert_allclose(evaluated(text, X), X.sum(1) + 10)


def test_calls_and_conditionals() -> None:
    before = """double {
  p = f32[2,3] parameter(0)
  ROOT q = f32[2,3] add(p, p)
}

same {
  ROOT p = f32[2,3] parameter(0)
}
"""
    for index, want in ((0, 2 * X), (1, X), (7, X)):
        text = module(
            "x = f32[2,3] parameter(0)", f"i = s32[] constant({index})",
            "y = f32[2,3] conditional(i, x, x), branch_computations={%double, %same}",
            before=before,
        )  # fmt: skip
        np.testing.assert_allclose(evaluated(text, X), want)
    text = module("x = f32[2,3] parameter(0)", "p = pred[] constant(false)",
                  "y = f32[2,3] conditional(p, x, x), true_computation=%double, "
                  "false_computation=%same", before=before)  # fmt: skip
    np.testing.assert_allclose(evaluated(text, X), X)


LOOP = """cond {
  s = (s32[], f32[2,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] BOUND
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  s = (s32[], f32[2,3]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[2,3] get-tuple-element(s), index=1
  k = s32[] constant(1)
  j = s32[] add(i, k)
  w = f32[2,3] add(v, v)
  ROOT t = (s32[], f32[2,3]) tuple(j, w)
}
"""


def loop(bound: str) -> str:
    return module(
        "x = f32[2,3] parameter(0)", "z = s32[] constant(0)",
        "s = (s32[], f32[2,3]) tuple(z, x)",
        "w = (s32[], f32[2,3]) while(s), condition=cond, body=body",
        "y = f32[2,3] get-tuple-element(w), index=1",
        before=LOOP.replace("BOUND", bound),
    )  # fmt: skip


def test_counted_loops_are_unrolled() -> None:
    np.testing.assert_allclose(evaluated(loop("constant(3)"), X), 8 * X)
    np.testing.assert_allclose(evaluated(loop("constant(0)"), X), X)


def test_other_loops_are_opaque() -> None:
    text = loop("get-tuple-element(q), index=0").replace("  n = s32[] get", "  n = s32[] get")
    text = text.replace("n = s32[] get-tuple-element(q), index=0", "n = s32[] custom-call()")
    (result,) = imported(text)
    assert result.unknown["while"] == 1
    assert "not known" in result.reasons["while"]


def test_unknown_operators_are_opaque_and_counted() -> None:
    text = module("x = f32[2,3] parameter(0)", "y = f32[4,4] quux(x, x), flavour={up}",
                  "z = (f32[4,4], f32[2,3]) tuple(y, x)")  # fmt: skip
    (result,) = imported(text)
    assert result.unknown == {"quux": 1}
    assert [n.op for n in result.graph.nodes] == ["opaque"]
    assert result.graph.output_names == ["out0", "out1"]


def test_kernels_get_numbers_and_tensors() -> None:
    seen: list[Any] = []

    def kernel(ctx: Any, x: Any, eps: Any) -> Any:
        """Twice x."""
        seen.append(eps)
        return ctx.scale(x, 2)

    text = module("x = f32[2,3] parameter(0)", "e = f32[] constant(0.25)",
                  'y = f32[2,3] custom-call(x, e), custom_call_target="Twice"')  # fmt: skip
    results = imported(text, kernels={"Twice": kernel})
    np.testing.assert_allclose(outputs(results, [[X]])[0][0], 2 * X)
    assert [float(e) for e in seen] == [0.25]
    assert any("Twice" in a.text for a in results[0].assumptions)


def test_rank_arithmetic_becomes_attributes() -> None:
    text = module(
        "x = f32[8,3] parameter(0)", "r = u32[] partition-id()", "n = u32[] constant(2)",
        "o = u32[] multiply(r, n)", "s = s32[] convert(o)", "z = s32[] constant(0)",
        "y = f32[2,3] dynamic-slice(x, s, z), dynamic_slice_sizes={2,3}",
        header=", num_partitions=4",
    )  # fmt: skip
    whole = np.arange(24.0).reshape(8, 3)
    results = imported(text, 4)
    found = outputs(results, [[whole]] * 4)
    for r in range(4):
        np.testing.assert_allclose(found[r][0], whole[2 * r : 2 * r + 2])
        (node,) = results[r].graph.nodes
        assert (node.op, node.attrs["start"]) == ("slice", 2 * r)


SCATTER = "y = f32[1,3] reduce-scatter(x), replica_groups=[1,2]<=[2]"


def test_tables_indexed_by_the_rank() -> None:
    text = module(
        "r = u32[] partition-id()", "t = s32[4] constant({7, 5, 3, 1})",
        "v = s32[1] dynamic-slice(t, r), dynamic_slice_sizes={1}",
        "y = s32[] reshape(v)", header=", num_partitions=4",
    )  # fmt: skip
    assert [int(v) for v in evaluated(text, ranks=4)] == [7, 5, 3, 1]


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("y = f32[4,3] all-gather(x), replica_groups={{0,1}}, dimensions={0}", (4, 3)),
        ("y = f32[2,3] all-to-all(x), replica_groups={{0,1}}, dimensions={0}", (2, 3)),
        ("y = f32[2,3] collective-permute(x), source_target_pairs={{0,1},{1,0}}", (2, 3)),
        (f"{SCATTER}, dimensions={{0}}, to_apply=add", (1, 3)),
        ("y = f32[2,3] all-reduce(x), replica_groups=mesh['a'=2] {'a'}, to_apply=add", (2, 3)),
        ("y = f32[2,3] collective-broadcast(x), replica_groups={{0,1}}", (2, 3)),
    ],
)  # fmt: skip
def test_collectives(line: str, shape: tuple[int, ...]) -> None:
    text = module("x = f32[2,3] parameter(0)", line, before=ADD, header=", replica_count=2")
    assert [out.shape for out in evaluated(text, X, ranks=2)] == [shape] * 2


def test_asynchronous_forms() -> None:
    text = module(
        "x = f32[2,3] parameter(0)",
        "s = f32[2,3] all-reduce-start(x), replica_groups={{0,1}}, to_apply=add",
        "d = f32[2,3] all-reduce-done(s)",
        "g = (f32[2,3], f32[4,3]) all-gather-start(d), replica_groups={{0,1}}, dimensions={0}",
        "y = f32[4,3] all-gather-done(g)",
        before=ADD, header=", replica_count=2",
    )  # fmt: skip
    for out in evaluated(text, X, ranks=2):
        np.testing.assert_allclose(out, np.concatenate([2 * X, 2 * X]))


def test_missing_senders_give_zeros() -> None:
    text = module(
        "x = f32[2,3] parameter(0)",
        "y = f32[2,3] collective-permute(x), source_target_pairs={{0,1}}",
        header=", replica_count=2",
    )  # fmt: skip
    first, second = evaluated(text, X, ranks=2)
    assert not first.any()
    np.testing.assert_allclose(second, X)


def test_names_of_inputs() -> None:
    text = module('a.1 = f32[] parameter(0), metadata={op_name="w"}', "a.2 = f32[] parameter(1)",
                  "c = f32[] add(a.1, a.2)")  # fmt: skip
    assert [v.name for v in imported(text)[0].graph.inputs] == ["p0", "p1"]
    text = module("w.1 = f32[] parameter(0)", "v.2 = f32[] parameter(1)", "c = f32[] add(w.1, v.2)")
    assert [v.name for v in imported(text)[0].graph.inputs] == ["w", "v"]


@pytest.mark.parametrize(
    ("text", "dtype", "want"),
    [
        ("0.333333343", "f32", "1/3"),
        ("0.0208333340", "f32", "1/48"),
        ("0.797884583", "f32", "0.797884583"),
        ("1e-05", "f32", "1/100000"),
        ("0.3333", "f16", "1/3"),
        ("-1.5", "bf16", "-3/2"),
        ("0.333333343", "f64", "0.333333343"),
    ],
)
def test_rounded_constants(text: str, dtype: str, want: str) -> None:
    got = read_number(text, dtype)
    assert float(got) == float(Fraction(want))
