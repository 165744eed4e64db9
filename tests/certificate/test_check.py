"""Steps between ranks in whole certificates: one message or collective has a false claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.certificate.forge import forged, vanished
from tests.support.problems import Rank, all_ranks, even, mlp, sharded
from tests.support.programs import builder

from shardproof.certificate.check import Checker
from shardproof.certificate.claims import Claims
from shardproof.certificate.document import MeaningRow
from shardproof.certificate.exact import NotChecked
from shardproof.certificate.reading import check_proof
from shardproof.certificate.write import proof_of
from shardproof.infer.run import infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, TensorType, Value
from shardproof.spec.problem import Obligation, Problem


def of_x(run: Callable[[Builder, Value], Value], name: str = "y") -> Graph:
    b = builder("g")
    return b.returns(run(b, b.input("x", "f32", (4,))), names=(name,))


def piped(sent: int, received: Any = ("f32", (4,)), to: int = 1) -> Problem:
    """Rank 0 makes two tensors and sends one; rank 1 goes on with it."""
    sequential = of_x(lambda b, x: b.emit("sigmoid", b.emit("exp", x)))
    b = builder("rank0")
    x = b.input("x", "f32", (4,))
    made = (b.emit("exp", x), b.emit("tanh", x))
    b.emit_all("send", made[sent], dst=to, group=(0, 1), group_size=2, tag=0)
    first = b.returns(x, names=("x",))
    b = builder("rank1")
    dtype, shape = received
    got = b.emit("recv", src=0, shape=shape, dtype=dtype, group=(0, 1), group_size=2, tag=0)
    second = b.returns(b.emit("sigmoid", got), names=("y",))
    first.rank, second.rank = 0, 1
    whole = of_x(lambda b, x: x, "x")
    b = builder("relation")
    b.input("x", "f32", (4,))
    nothing = b.returns()
    b = builder("expected")
    expected = b.returns(b.input("y", "f32", (4,)))
    ob = Obligation("y", "y", [None, expected], "")
    program = Program(Mesh.of(pp=2), [first, second])
    return Problem("piped", sequential, program, [whole, nothing], [ob])


def test_what_is_received_is_what_was_sent() -> None:
    right = infer(piped(0), symbolic_ranks=False)
    assert right.holds
    proof = proof_of(right)
    for sent in (0, 1):
        problem = piped(sent)
        found = check_proof(problem, problem, forged(right, proof, problem), {}, [])
        assert found.agrees == (sent == 0)
        if sent:
            assert "graph 0, send (send)" in found.problem
            assert "does not follow" in found.problem


@pytest.mark.parametrize("received", [("f64", (4,)), ("i64", (4,)), ("f32", (2, 2))])
def test_a_message_of_another_type(received: Any) -> None:
    right = infer(piped(0), symbolic_ranks=False)
    problem = piped(0, received)
    found = check_proof(problem, problem, forged(right, proof_of(right), problem), {}, [])
    assert not found.agrees
    if received[1] == (4,):
        assert "of another type than is received" in found.problem


def reduced(fault: str = "", cut: Any = None) -> Problem:
    """A sum over the ranks beside another tensor of the same shape."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("sum", v["x"], dims=(0,), keepdim=True)}

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        s = b.emit("sum", v["x"], dims=(0,), keepdim=True)
        t = b.emit("exp", s)
        return {
            "y": rank.reduce(b, t if fault == "other" else s, "max" if fault == "max" else "sum")
        }

    cut = cut or even(2, 2)
    return sharded("sum", cut, {"x": ("f32", (cut.total,), 0)}, sequential, ranks, {"y": None})


@pytest.mark.parametrize("cut", [even(2, 2), all_ranks()])
@pytest.mark.parametrize("fault", ["", "other", "max"])
def test_what_a_collective_gives_is_compared(fault: str, cut: Any) -> None:
    right = infer(reduced("", cut), symbolic_ranks=False)
    assert right.holds
    problem = reduced(fault, cut)
    found = check_proof(problem, problem, forged(right, proof_of(right), problem), {}, [])
    assert found.agrees == (not fault)


def test_a_relation_reads_tensors_as_they_are() -> None:
    problem = reduced()
    proof = proof_of(infer(problem, symbolic_ranks=False))
    relation = problem.relation[0]
    relation.inputs[0].type = TensorType("f32", (5,))
    found = check_proof(problem, problem, proof, {}, []).problem
    assert "reads x with another shape" in found


def asynchronous(waited: bool) -> Graph:
    b = builder("g")
    x = b.input("x", "f32", (4,))
    attrs: Any = {"op": "sum", "group": ("tp",), "group_size": 2, "async": True}
    y = b.emit("all_reduce", x, **attrs)
    return b.returns(b.emit("wait", y) if waited else y, names=("y",))


@pytest.mark.parametrize("waited", [True, False])
def test_one_graph_for_all_ranks_waits_for_its_results(waited: bool) -> None:
    whole = of_x(lambda b, x: x)
    program = Program(Mesh.of(tp=2), [asynchronous(waited)], spmd=True)
    expected = of_x(lambda b, x: x)
    ob = Obligation("y", "y", [expected], "")
    problem = Problem("async", whole, program, [of_x(lambda b, x: x, "x")], [ob])
    checker = Checker(problem, problem, Claims([], {}, [{}]), {})
    checker.inputs = lambda k: None  # type: ignore[method-assign]
    checker.run = lambda *_: None  # type: ignore[method-assign]
    if waited:
        checker.distributed()
        return
    with pytest.raises(NotChecked, match="was not waited for"):
        checker.distributed()


# ------------------------------------------------------------------ what the whole looks at


def test_the_folded_problem_is_that_of_the_ranks() -> None:
    """A right proof about one graph for all ranks, which is not theirs."""
    for fault in ("", "not reduced", "averaged"):
        right = infer(mlp(even(2, 2), 3, 4))
        original = mlp(even(2, 2), 3, 4, fault)
        original.sequential = right.problem.sequential
        assert right.problem.distributed.spmd
        found = check_proof(original, right.problem, proof_of(right), {}, [])
        assert found.agrees == (not fault)


def test_graphs_of_the_relation_are_typed() -> None:
    problem = reduced()
    proof = proof_of(infer(problem, symbolic_ranks=False))
    problem.relation[0].nodes[0].attrs["stop"] = 3
    found = check_proof(problem, problem, proof, {}, []).problem
    assert "graph relation" in found


def scaled() -> Problem:
    """Twice x, by a program that multiplies with an input."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("scale", v["x"], by=2)}

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        return {"y": b.emit("mul", v["x"], v["c"])}

    inputs: Any = {"x": ("f32", (4,), 0), "c": ("f32", (2,), None)}
    return sharded("scaled", even(2, 2), inputs, sequential, ranks, {"y": 0})


def test_an_input_holds_the_constant_that_is_said() -> None:
    problem = scaled()
    right = infer(problem, fixed={"c": 2.0}, symbolic_ranks=False)
    assert right.holds
    proof = proof_of(right)
    for c, agrees in ((2.0, True), (3.0, False), (0.0, False)):
        found = check_proof(problem, problem, proof, {"c": c}, [])
        assert found.agrees == agrees
    assert not check_proof(problem, problem, proof, {}, []).agrees


def vanishing(value: float) -> Problem:
    """The input and nothing times a number."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("shift", v["x"], by=0)}

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        e = b.emit("full", value=value, shape=(2,), dtype="f32")
        return {"y": b.emit("add", v["x"], b.emit("scale", e, by=0))}

    inputs: Any = {"x": ("f32", (2,), None)}
    return sharded("vanishing", even(2, 1), inputs, sequential, ranks, {"y": None})


@pytest.mark.parametrize("value", [3, float("inf"), float("-inf")])
def test_an_infinity_does_not_vanish(value: Any) -> None:
    problem = vanishing(value)
    inf = infer(problem, symbolic_ranks=False)
    proof = vanished(inf, "scale", "add")
    found = check_proof(problem, problem, proof, {}, [])
    assert found.agrees == (value == 3)
    if value != 3:
        assert "an infinity that vanishes" in found.problem


@pytest.mark.parametrize(
    ("problem", "value"),
    [(piped(0), "recv"), (reduced(), "all_reduce"), (reduced("", all_ranks()), "all_reduce")],
)
def test_no_function_is_claimed_of_what_ranks_give(problem: Problem, value: str) -> None:
    """It would be taken for checked."""
    inf = infer(problem, symbolic_ranks=problem.distributed.spmd)
    assert inf.holds
    proof = proof_of(inf)
    assert check_proof(problem, inf.problem, proof, {}, []).agrees
    for graph, row in zip(inf.problem.distributed.graphs, proof.distributed, strict=True):
        for k, v in enumerate(graph.values()):
            mine = row[k]
            if v.name == value and mine is not None:
                old = proof.meanings[mine]
                proof.meanings.append(MeaningRow(old.dims, old.cells, mine, [(None, None, 1, 0)]))
                row[k] = len(proof.meanings) - 1
    assert "integer view" in check_proof(problem, inf.problem, proof, {}, []).problem
