"""Proposed fixes are proved ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from shardproof.examples import grad_accumulation, layernorm_gradient
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.ops.base import infer_types
from shardproof.report.diagnostic import Verdict
from shardproof.spec.problem import Obligation, Problem
from shardproof.verify import verify

S, D, F, N = 4, 6, 5, 3
Reduce = Callable[[Builder, Value], Value]


def _builder(name: str) -> Builder:
    return Builder(Graph(name), infer_types)


def _all_reduce(b: Builder, v: Value, op: str = "sum") -> Value:
    return b.emit("all_reduce", v, op=op, group=tuple(range(N)), group_size=N)


def mlp(
    reduce: Reduce,
    *,
    offset: Callable[[int], int] = lambda r: r * F,
    eps: Fraction = Fraction(1, 1000),
) -> Problem:
    """``y = x + rms_norm(exp(x w1) w2)`` with the columns of ``w1`` cut over the ranks; ``w2`` is
    there as a whole and each rank takes its rows."""
    b = _builder("sequential")
    x = b.input("x", "f32", (S, D))
    w1, w2 = b.input("w1", "f32", (D, N * F)), b.input("w2", "f32", (N * F, D))
    o = b.emit("matmul", b.emit("exp", b.emit("matmul", x, w1)), w2)
    y = b.emit("add", x, b.emit_all("rms_norm", o, naxes=1, eps=Fraction(1, 1000))[0])
    sequential = b.returns(y, names=("y",))
    graphs: list[Graph] = []
    relation: list[Graph] = []
    expected: list[Graph | None] = []
    for r in range(N):
        b = _builder(f"rank{r}")
        x = b.input("x", "f32", (S, D))
        w1, w2 = b.input("w1", "f32", (D, F)), b.input("w2", "f32", (N * F, D))
        mine = b.emit("slice", w2, dim=0, start=offset(r), stop=offset(r) + F, name="mine")
        p = b.emit("matmul", b.emit("exp", b.emit("matmul", x, w1)), mine, name="p")
        n = b.emit_all("rms_norm", reduce(b, p), naxes=1, eps=eps)[0]
        graphs.append(b.returns(b.emit("add", x, n), names=("y",)))
        b = _builder("relation")
        x = b.input("x", "f32", (S, D))
        w1, w2 = b.input("w1", "f32", (D, N * F)), b.input("w2", "f32", (N * F, D))
        part = b.emit("slice", w1, dim=1, start=r * F, stop=r * F + F)
        relation.append(b.returns(x, part, w2, names=("x", "w1", "w2")))
        b = _builder("expected")
        expected.append(b.returns(b.input("y", "f32", (S, D))))
    program = Program(Mesh.of(tp=N), graphs)
    return Problem("mlp", sequential, program, relation, [Obligation("y", "y", expected, "R")])


def _fix(v: Verdict) -> str:
    assert v.status == "refuted"
    (fix,) = {f.fix for f in v.findings if f.fix}
    assert all(f.fix_verified for f in v.findings if f.fix)
    return fix


def test_the_right_program_needs_no_fix() -> None:
    assert verify(mlp(_all_reduce)).status == "refines"


def test_a_missing_reduction_is_inserted() -> None:
    fix = _fix(verify(mlp(lambda b, v: v)))
    assert fix.startswith("all_reduce %")
    assert "(sum) over tp" in fix


def test_a_doubled_reduction_is_left_out() -> None:
    fix = _fix(verify(mlp(lambda b, v: _all_reduce(b, _all_reduce(b, v)))))
    assert fix.startswith(("leave out all_reduce", "multiply", "reduce"))


def test_the_wrong_operation_is_changed() -> None:
    assert "with sum" in _fix(verify(mlp(lambda b, v: _all_reduce(b, v, "max"))))


def test_an_attribute_is_taken_from_the_sequential_program() -> None:
    fix = _fix(verify(mlp(_all_reduce, eps=Fraction(1, 10))))
    assert "eps=1/1000" in fix


def test_every_rank_takes_its_own_slice() -> None:
    fix = _fix(verify(mlp(_all_reduce, offset=lambda r: 0)))
    assert "take this rank's 5 along tp" in fix


def test_no_fix_is_invented() -> None:
    """Squaring the partial sums cannot be mended by one of the known changes."""
    verdict = verify(mlp(lambda b, v: b.emit("tanh", _all_reduce(b, b.emit("mul", v, v)))))
    assert verdict.status == "refuted"
    assert not any(f.fix for f in verdict.findings)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (grad_accumulation.accumulate, "multiply %mean, %mean_1 by 1/2"),
        (layernorm_gradient.one_forgotten, "(sum) over tp"),
    ],
)
def test_captured_bugs(spec: Callable[[], object], text: str) -> None:
    assert text in _fix(spec().check())  # type: ignore[attr-defined]


def test_one_change_is_not_shown_twice_in_other_words() -> None:
    (finding,) = grad_accumulation.accumulate().check().findings
    assert not any(f.startswith("multiply %mean by 1/2") for f in finding.other_fixes)
