"""Steps between ranks in whole certificates: one message or collective has a false claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.certificate.forge import forged
from tests.support.problems import Rank, all_ranks, even, sharded
from tests.support.programs import builder

from shardproof.certificate.check import Checker
from shardproof.certificate.claims import Claims
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
