"""Definitions that no prover would write, in whole certificates: each makes a false proof of a
program, unless the checker refuses it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.problems import Rank, even, sharded

from shardproof.certificate.check import check
from shardproof.certificate.claims import Atom, Cell, Claims, Meaning, Term
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.spec.problem import Problem


def squares() -> Problem:
    """The square of a sum by a program that adds up the squares."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        s = b.emit("sum", v["x"], dims=(0,), keepdim=False)
        return {"y": b.emit("mul", s, s)}

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        q = b.emit("mul", v["x"], v["x"])
        return {"y": b.emit("sum", q, dims=(0,), keepdim=False)}

    inputs: Any = {"x": ("f32", (4,), None)}
    return sharded("squares", even(1, 4), inputs, sequential, ranks, {"y": None})


def vector(t: Term) -> Meaning:
    return Meaning(((4,),), (Cell((0,), (4,), ((t, 1),)),))


def number(k: int) -> Meaning:
    return Meaning((), (Cell((), (), ((Term.of(k, (), (), ()), 1),)),))


ALONG = ((0, 1),)


@pytest.mark.parametrize("fn", ["sum", "prod"])
def test_a_product_does_not_add_up(fn: str) -> None:
    """The sum of x, spelled as a product with an index that it adds up: its square would be the
    sum of the squares."""
    x, total = Term.of(2, ALONG, (0,), ()), Term.of(3, (), (), ())
    atoms = [
        Atom("1", "", (), (), (), (), 0, ()),
        Atom("index", "", (), (), (), (), 1, ()),
        Atom("x", "", (), (), (), (), 1, ()),
        Atom("s", fn, (), (((x, 1),),), (0,), (4,), 0, ()),
        Atom("q", "prod", (), (((total, 2),),), (), (), 0, ()),
        Atom("x2", "prod", (), (((x, 2),),), (0,), (4,), 1, ()),
    ]
    problem = squares()
    (graph,) = problem.distributed.graphs
    sequential = dict(
        zip(problem.sequential.values(), (vector(x), number(3), number(4)), strict=True)
    )
    square = vector(Term.of(5, ALONG, (0,), ()))
    distributed = {graph.nodes[0].output: square, graph.nodes[1].output: number(4)}
    found = check(problem, problem, Claims(atoms, sequential, [distributed]), {})
    assert ("atom 3 is no reduction" if fn == "prod" else "does not follow") in found.problem
