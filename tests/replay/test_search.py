"""Inputs, comparison and the search for a counterexample."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.replay.programs import embedding, mlp, pair

from shardproof import Partial, Replicate, Shard, seq
from shardproof.examples.grad_accumulation import accumulate
from shardproof.ir.graph import Graph
from shardproof.ir.text import parse_graph
from shardproof.ops.base import infer_types
from shardproof.replay import search as searching
from shardproof.replay.compare import replay_problem
from shardproof.replay.inputs import draw_inputs, rank_inputs
from shardproof.replay.resize import Resized, Wish, resize
from shardproof.replay.search import differing_as_given, find_counterexample, search
from shardproof.spec.problem import Problem

SIZE = {"s": 64, "d": 64, "f": 256}


# ------------------------------------------------------------------------------ inputs


def inputs_graph() -> Graph:
    text = (
        "graph g\n%x = input bf16[4000]\n%m = input b8[4000]\n%i = input i64[4000]\n"
        "%t = input f32[3]\n%y = neg(%x)\nreturn %y\n"
    )
    return parse_graph(text, infer_types).graph


def test_inputs_by_role() -> None:
    g = inputs_graph()
    drawn = draw_inputs(g, {"i": 7}, 0, {"t": 1.0})
    assert drawn["x"].std() == pytest.approx(0.5, rel=0.1)
    assert drawn["m"].dtype == np.bool_
    assert 0.25 < drawn["m"].mean() < 0.35
    assert sorted(set(drawn["i"].tolist())) == list(range(7))
    assert drawn["t"].tolist() == [1, 1, 1]
    assert len(set(drawn["x"].tolist())) == 4000


def test_seeds_differ_and_repeat() -> None:
    g = inputs_graph()
    a, b, c = (draw_inputs(g, {}, s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a["x"], b["x"])
    assert not np.array_equal(a["x"], c["x"])


def test_rank_inputs_come_from_the_relation() -> None:
    problem = mlp(SIZE).resolve()
    drawn = draw_inputs(problem.sequential, {}, 0)
    first, second = rank_inputs(problem, drawn, 0)
    np.testing.assert_array_equal(np.concatenate([first["w"], second["w"]], 1), drawn["w"])
    np.testing.assert_array_equal(np.concatenate([first["v"], second["v"]], 0), drawn["v"])
    np.testing.assert_array_equal(second["x"], drawn["x"])


def test_free_inputs_are_unrelated() -> None:
    body = (
        "%x = input f32[8]\n%u = input f32[8]\n%z = scale(%u) {by=0}\n%y = add(%x, %z)\nreturn %y\n"
    )
    spec = pair(
        "%x = input f32[8]\n%y = scale(%x) {by=1}\nreturn %y\n",
        body,
        {"x": Replicate()},
        free=["u"],
    )
    problem = spec.resolve()
    a, b = rank_inputs(problem, draw_inputs(problem.sequential, {}, 0), 0)
    assert not np.array_equal(a["u"], b["u"])
    assert find_counterexample(problem) is None
    assert find_counterexample(pair(
        "%x = input f32[8]\n%y = scale(%x) {by=1}\nreturn %y\n",
        body.replace("by=0", "by=1/1000000"), {"x": Replicate()}, free=["u"],
    ).resolve()) is not None  # fmt: skip


# ------------------------------------------------------------------------------ comparison


def test_outputs_that_differ_at_the_given_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "%a = scale(%x) {by=2/1}\n%b = neg(%x)\nreturn %a as a, %b as b"
    wrong = body.replace("2/1", "3/1")
    head = "%x = input f32[4]\n"
    problem = pair(head + body, head + wrong, {"x": Replicate()}).resolve()
    assert differing_as_given(problem) == {"a"}
    assert not differing_as_given(pair(head + body, head + body, {"x": Replicate()}).resolve())
    monkeypatch.setattr(searching, "SMALL", 10)
    assert not differing_as_given(problem)


def test_every_rank_is_compared() -> None:
    """One wrong rank among right ones is enough."""

    def rank(k: int) -> str:
        return f"%x = input f32[8]\n%y = scale(%x) {{by={2 if k != 3 else 3}}}\nreturn %y\n"

    found = find_counterexample(pair(
        "%x = input f32[8]\n%y = scale(%x) {by=2}\nreturn %y\n", rank, {"x": Replicate()}, 4
    ).resolve())  # fmt: skip
    assert found is not None
    assert found.ranks == [3]
    assert set(found.distributed_values) == {"0", "1", "2", "3"}
    assert found.relative_error == pytest.approx(1 / 3)
    assert found.distributed_values["3"] == pytest.approx(1.5 * found.sequential_value)


def test_partial_sums_over_the_mesh_axis() -> None:
    body = "%x = input f32[8, 4]\n%y = sum(%x) {dims=(0,)}\nreturn %y\n"
    for placement, fine in ((Partial(), True), (Replicate(), False)):
        spec = pair(body, body.replace("8, 4", "4, 4"), {"x": Shard(0)}, outputs={"y": placement})
        assert (find_counterexample(spec.resolve()) is None) == fine


def test_shuffled_shards_differ() -> None:
    body = "%x = input f32[8]\n%y = exp(%x)\nreturn %y\n"
    part = body.replace("[8]", "[4]")

    def swapped(rank: int) -> object:
        return seq("x")[4:8] if rank == 0 else seq("x")[0:4]

    assert find_counterexample(pair(body, part, {"x": Shard(0)}, outputs={"y": Shard(0)}).resolve()) is None  # fmt: skip # noqa: E501
    assert find_counterexample(pair(body, part, {"x": swapped}, outputs={"y": Shard(0)}).resolve()) is not None  # fmt: skip # noqa: E501


def test_undefined_memory_that_reaches_an_output_differs() -> None:
    body = "%x = input f32[8]\n%y = scale(%x) {by=2}\nreturn %y\n"
    junk = (
        '%x = input f32[8]\n%e = undefined() {shape=(8,), dtype="f32"}\n%y = add(%x, %e)\n'
        "return %y\n"
    )
    problem = pair(body, junk, {"x": Replicate()}).resolve()
    assert replay_problem(problem).comparisons[0].note == "not a number on this rank"
    found = find_counterexample(problem)
    assert found is not None
    assert found.relative_error == math.inf
    assert all(math.isnan(v) for v in found.distributed_values.values())


def test_undefined_on_the_sequential_side_proves_nothing() -> None:
    """log of negative numbers: both sides are undefined at the same elements."""
    body = "%x = input f32[64]\n%y = log(%x)\nreturn %y\n"
    assert find_counterexample(pair(body, body, {"x": Replicate()}).resolve()) is None


def test_faults_are_differences_on_the_distributed_side_only() -> None:
    found = search(embedding(98304, 2, shift=1, rows=4096).resolve())
    assert "outside" in found.fault
    assert found.counterexample is not None
    assert found.counterexample.relative_error == math.inf
    body = """\
%t = input f32[4, 2]
%i = input i64[64]
%j = shift(%i) {by=2}
%y = take_rows(%t, %j)
return %y
"""
    both = search(pair(body, body.replace("by=2", "by=3"), {"*": Replicate()}).resolve())
    assert both.counterexample is None
    assert all("sequential program" in note for note in both.notes)


def test_values_that_vanish_are_no_witness() -> None:
    """A bias on all keys cancels in softmax: its gradient is rounding noise on both sides."""
    body = """\
%s = input f32[64, 64]
%b = input f32[64, 1]
%dy = input f32[64, 64]
%t = add(%s, %b)
%p = softmax(%t) {dim=1}
%g = softmax_grad(%dy, %p) {dim=1}
%y = sum(%g) {dims=(1,), keepdim=true}
return %y
"""
    twice = body.replace("%y = sum", "%z = sum").replace("return", "%y = scale(%z) {by=2}\nreturn")
    result = replay_problem(resize(pair(body, twice, {"*": Replicate()}).resolve()))
    assert not result.differs(1e-9)
    assert result.comparisons[0].magnitude < 1e-12


# ------------------------------------------------------------------------------ search


def test_gradient_accumulation_is_refuted() -> None:
    found = find_counterexample(accumulate().resolve())
    assert found is not None
    assert found.output == "add_1"
    assert found.ranks == [0]
    assert found.sizes == {"8": "6", "4": "3"}


def test_gradient_accumulation_mended_is_not() -> None:
    """One side counts by a literal, the other by its operator."""
    sequential = """\
%x = input f32[8]
%s = sum(%x) {dims=(0,)}
%y = scale(%s) {by=1/8}
return %y
"""
    steps = """\
%a = input f32[4]
%b = input f32[4]
%m = mean(%a) {dims=(0,)}
%n = mean(%b) {dims=(0,)}
%t = add(%m, %n)
%y = scale(%t) {by=1/2}
return %y
"""
    inputs = {"a": seq("x")[0:4], "b": seq("x")[4:8]}
    assert find_counterexample(pair(sequential, steps, inputs, 1).resolve()) is None
    wrong = steps.replace("by=1/2", "by=1")
    assert find_counterexample(pair(sequential, wrong, inputs, 1).resolve()) is not None


def test_trimmed_instances_are_confirmed_with_exact_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A difference that trimming made up is discarded: here trimming gives another problem."""
    right, wrong = mlp(SIZE).resolve(), mlp(SIZE, drop="bias").resolve()

    def trimmed(problem: Problem, wish: Wish, *, exact: bool = False) -> Resized:
        out = resize(right if exact else wrong, wish, exact=exact)
        out.report.exact = exact
        return out

    monkeypatch.setattr("shardproof.replay.search.resize", trimmed)
    out = search(right)
    assert out.counterexample is None
    assert any("offsets" in note for note in out.notes)


def test_offsets_of_a_whole_and_of_its_parts() -> None:
    """Rows 701 to 1469 in one piece against the same rows in two."""
    sequential = """\
%x = input f32[1537, 4]
%s = slice(%x) {dim=0, start=701, stop=1469}
%y = exp(%s)
return %y
"""
    parts = """\
%x = input f32[1537, 4]
%a = slice(%x) {dim=0, start=0, stop=769}
%b = slice(%x) {dim=0, start=769, stop=1537}
%c = slice(%a) {dim=0, start=701, stop=769}
%d = slice(%b) {dim=0, start=0, stop=700}
%s = concat(%c, %d) {dim=0}
%y = exp(%s)
return %y
"""
    out = search(pair(sequential, parts, {"*": Replicate()}).resolve())
    assert out.counterexample is None
    wrong = parts.replace("start=701, stop=769", "start=700, stop=768")
    assert find_counterexample(pair(sequential, wrong, {"*": Replicate()}).resolve()) is not None


def test_found_instances_can_be_refused() -> None:
    problem = mlp(SIZE, drop="all_reduce").resolve()
    asked = []

    def refuse(instance: object) -> bool:
        asked.append(instance)
        return False

    out = search(problem, accept=refuse)
    assert out.counterexample is None
    assert len(asked) == 3
    assert search(problem, accept=lambda instance: True).counterexample is not None


def test_a_count_that_may_be_a_constant_is_no_witness() -> None:
    """Dividing before the sum is right too, but only the factor after it is read as a count."""

    def rank(_: int) -> str:
        return """\
%x = input f32[512]
%t = scale(%x) {by=1/1024}
%s = sum(%t) {dims=(0,)}
%y = all_reduce(%s) {op="sum", group=(0, 1), group_size=2}
return %y
"""

    sequential = (
        "%x = input f32[1024]\n%s = sum(%x) {dims=(0,)}\n%y = scale(%s) {by=1/1024}\nreturn %y\n"
    )
    out = search(pair(sequential, rank, {"x": Shard(0)}).resolve())
    assert out.counterexample is None
    assert any("literal count" in note for note in out.notes)
