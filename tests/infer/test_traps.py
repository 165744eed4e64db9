"""False identities must not hold, their right relatives must."""

from __future__ import annotations

import numpy as np
import pytest
import tests.infer.regressions  # noqa: F401 - registers its cases
from tests.infer.traps import CASES, Case, F, G, pair, total
from tests.support.claims import check_claims, inferences
from tests.support.programs import even

from shardproof.infer.run import infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.numeric import replay, sample


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_case(case: Case) -> None:
    problem, rng = case.problem(), np.random.default_rng(7)
    runs = [replay(problem, sample(problem.sequential, rng, case.ranges), rng) for _ in range(4)]
    assert all(r.equal for r in runs) == case.equal, "the case is not what it says"
    found = inferences(problem) + (inferences(problem, deep=True) if case.deep else [])
    for inference in found:
        assert case.equal or not inference.holds
        _, report = check_claims(problem, inference, rng, ranges=case.ranges)
        assert not report.wrong
    if case.proved:
        assert any(inference.holds for inference in found)


# ------------------------------------------------------------------ what numbers cannot judge


def holds(problem: Problem) -> bool:
    return any(i.holds for deep in (False, True) for i in inferences(problem, deep))


def noise(b: Builder) -> Value:
    return b.emit("opaque", target="noise", shape=(4,), dtype=F)


def test_unknown_operators_do_not_cancel() -> None:
    def twice(b: Builder, r: int, x: Value) -> Value:
        return b.emit("add", x, b.emit("sub", noise(b), noise(b)))

    assert not holds(pair({"x": (F, (4,))}, lambda b, x: x, twice))


def test_unknown_operators_differ_between_ranks() -> None:
    def averaged(b: Builder, r: int, x: Value) -> Value:
        n = noise(b)
        return b.emit("add", x, b.emit("sub", b.emit("all_reduce", n, op="avg", **G), n))

    assert not holds(pair({"x": (F, (4,))}, lambda b, x: x, averaged))


def test_undefined_contents_do_not_cancel() -> None:
    def cleared(b: Builder, r: int, x: Value) -> Value:
        u = b.emit("undefined", shape=(4,), dtype=F)
        return b.emit("add", x, b.emit("sub", u, u))

    assert not holds(pair({"x": (F, (4,))}, lambda b, x: x, cleared))


def test_undefined_contents_differ_between_ranks() -> None:
    def averaged(b: Builder, r: int, x: Value) -> Value:
        u = b.emit("undefined", shape=(4,), dtype=F)
        return b.emit("add", x, b.emit("sub", b.emit("all_reduce", u, op="avg", **G), u))

    assert not holds(pair({"x": (F, (4,))}, lambda b, x: x, averaged))


def test_undefined_contents_that_are_cut_away_do_no_harm() -> None:
    def buffered(b: Builder, r: int, x: Value) -> Value:
        u = b.emit("undefined", shape=(2,), dtype=F)
        both = b.emit("concat", x, u, dim=0)
        return b.emit("slice", both, dim=0, start=0, stop=4)

    assert holds(pair({"x": (F, (4,))}, lambda b, x: x, buffered))


@pytest.mark.parametrize(
    ("name", "word"), [("div", "zero"), ("cancel", "zero"), ("exp_log", "positive")]
)
def test_partial_functions_are_assumed_defined(name: str, word: str) -> None:
    def seq(b: Builder, x: Value) -> Value:
        if name == "cancel":
            return b.emit("full", value=1, shape=(4,), dtype=F)
        return b.emit("sub", x, x) if name == "div" else b.emit("scale", x, by=1)

    def dist(b: Builder, r: int, x: Value) -> Value:
        if name == "exp_log":
            return b.emit("exp", b.emit("log", x))
        return b.emit("div", b.emit("sub", x, x) if name == "div" else x, x)

    inference = infer(pair({"x": (F, (4,))}, seq, dist, ranks=1), deep=True)
    assert not inference.holds or any(word in a for a in inference.evaluator.products.assumed)


@pytest.mark.parametrize("side", ["outputs", "relation"])
def test_values_are_told_apart_by_name(side: str) -> None:
    """The second rank returns, or receives, the same values under each other's names."""
    problem = pair(
        {"x": (F, (4,)), "z": (F, (4,))},
        lambda b, x, z: (b.emit("exp", x), b.emit("exp", z)),
        lambda b, r, x, z: (b.emit("exp", x), b.emit("exp", z)),
    )
    assert infer(problem).holds
    graph = problem.distributed.graphs[1] if side == "outputs" else problem.relation[1]
    graph.output_names.reverse()
    assert not infer(problem).holds


def test_an_output_that_no_rank_returns_does_not_hold() -> None:
    problem = pair({"x": (F, (4,))}, lambda b, x: total(b, x, 0), lambda b, r, x: total(b, x, 0))
    assert infer(problem).holds
    problem.obligations[0].expected[:] = [None, None]
    assert not infer(problem).holds


def test_a_right_replica_does_not_excuse_a_wrong_one() -> None:
    def second_wrong(b: Builder, r: int, x: Value) -> Value:
        y = b.emit("all_reduce", total(b, x, 0), op="sum", **G)
        return y if r == 0 else b.emit("scale", y, by=2)

    problem = pair({"x": (F, (4,))}, lambda b, x: total(b, x, 0), second_wrong, {"x": even(0, 2)})
    assert not infer(problem).holds
