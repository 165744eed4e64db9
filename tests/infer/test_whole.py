"""Functions of whole axes whose operands are in pieces along them: rotary embeddings before a
fused attention."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Shard, Spec
from shardproof.infer.run import infer
from shardproof.verify import verify

SEQUENTIAL = """graph sequential
%q = input f32[2, 4, 3, 8]
%k = input f32[2, 4, 3, 8]
%v = input f32[2, 4, 3, 8]
%a = slice(%q) {dim=3, start=0, stop=4}
%b = slice(%q) {dim=3, start=4, stop=8}
%n = neg(%b)
%r = concat(%n, %a) {dim=3}
%o, %l = attention(%r, %k, %v) {causal=true, scale=1/2}
return %o as o
"""
RANKS = SEQUENTIAL.replace("[2, 4,", "[2, 2,").replace("sequential", "ranks\nmesh tp=2")


def spec(ranks: str, sequential: str = SEQUENTIAL) -> Spec:
    return Spec.from_graphs(
        sequential=sequential, distributed=ranks, mesh=Mesh(tp=2),
        inputs={"*": Shard(1)}, outputs={"o": Shard(1)},
    )  # fmt: skip


def test_heads_of_a_rotated_query() -> None:
    verdict = spec(RANKS).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    # Without opening the fused operator.
    assert infer(spec(RANKS).resolve()).holds


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("concat(%n, %a)", "concat(%a, %n)"),
        ("concat(%n, %a)", "concat(%b, %a)"),
        ("concat(%n, %a)", "concat(%n, %n)"),
        ("attention(%r, %k, %v)", "attention(%q, %k, %v)"),
        ("attention(%r, %k, %v)", "attention(%k, %r, %v)"),
    ],
)
def test_other_pieces_are_another_function(right: str, wrong: str) -> None:
    assert right in RANKS
    assert spec(RANKS.replace(right, wrong)).check().status == "refuted"


def test_pieces_that_are_cut_elsewhere_are_another_function() -> None:
    other = RANKS.replace("stop=4", "stop=2").replace("start=4", "start=2")
    assert spec(other).check().status == "refuted"


def test_pieces_that_come_from_other_places() -> None:
    """A rank that joins the halves after another cut has the same function."""
    halves = """%a1 = slice(%q) {dim=3, start=0, stop=2}
%a2 = slice(%q) {dim=3, start=2, stop=4}
%r = concat(%n, %a1, %a2) {dim=3}"""
    assert spec(RANKS.replace("%r = concat(%n, %a) {dim=3}", halves)).check().status == "refines"


SOFTMAX = """graph sequential
%x = input f32[4, 6]
%y = input f32[4, 3]
%z = concat(%x, %y) {dim=1}
%s = softmax(%z) {dim=1}
return %s as o
"""


def test_an_axis_joined_of_two_tensors() -> None:
    ranks = SOFTMAX.replace("[4,", "[2,").replace("sequential", "ranks\nmesh tp=2")
    problem = Spec.from_graphs(
        sequential=SOFTMAX, distributed=ranks, mesh=Mesh(tp=2),
        inputs={"*": Shard(0)}, outputs={"o": Shard(0)},
    ).resolve()  # fmt: skip
    assert infer(problem).holds
    assert verify(problem).certificate == "certificate checked"
