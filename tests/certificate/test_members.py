"""Which ranks a folded graph stands for, and whether it is theirs: near misses."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.problems import Rank, even, sharded
from tests.support.programs import builder

from shardproof.certificate.exact import NotChecked
from shardproof.certificate.fold import (
    Layout,
    Members,
    _count,
    _same_attrs,
    _symbolic,
    check_fold,
    same_graph,
)
from shardproof.infer.prepare import fold_problem
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.ir.sizes import symbol
from shardproof.spec.problem import Problem

MESH = Mesh.of(dp=2, tp=2)
INNER = Mesh.of(tp=2)
CLASSES = Members(MESH, Program(Mesh.of(dp=2), [], inner=INNER))
ALL = Members(MESH, Program(MESH, [], spmd=True))
T = INNER.index("tp")


def test_which_ranks_a_class_holds() -> None:
    assert CLASSES.ranks == [[0, 1], [2, 3]]
    assert CLASSES.where == {0: (0, 0), 1: (0, 1), 2: (1, 0), 3: (1, 1)}
    assert ALL.ranks == [[0, 1, 2, 3]]
    turned = Members(MESH, Program(Mesh.of(tp=2), [], inner=Mesh.of(dp=2)))
    assert turned.ranks == [[0, 2], [1, 3]]
    apart = Members(MESH, Program(MESH, []))
    assert apart.ranks == [[0], [1], [2], [3]]
    for n in (symbol("N"),):
        with pytest.raises(NotChecked, match="no concrete ranks"):
            _count(Mesh((("r", n),)))


def test_the_ranks_of_a_group() -> None:
    assert CLASSES.group(1, ("tp",)) == (0, 1)
    assert CLASSES.group(1, ("dp",)) == (1, 3)
    assert CLASSES.group(2, ("dp", "tp")) == (0, 1, 2, 3)
    assert CLASSES.group(2, ("tp", "dp")) == (0, 2, 1, 3)
    assert CLASSES.group(1, (0, 1)) == (1, 3)
    assert CLASSES.group(2, (1, 0)) == (2, 0)
    for group in ((2,), (-1,), (0, "tp"), (0, None)):
        with pytest.raises(NotChecked, match="no axes and no classes"):
            CLASSES.group(0, group)


TP, BOTH = {"group": ("tp",)}, {"group": (0, 1)}


@pytest.mark.parametrize(
    ("op", "mine", "theirs", "rank"),
    [
        ("all_reduce", {**TP, "op": "sum"}, {"group": (2, 3), "op": "sum"}, 3),
        ("all_reduce", {**BOTH, "op": "sum"}, {"group": (1, 3), "op": "sum"}, 3),
        ("broadcast", {**TP, "src": 1}, {"group": (2, 3), "src": 3}, 2),
        ("broadcast", {**TP, "src": 0}, {"group": (2, 3), "src": 2}, 2),
        ("broadcast", {**BOTH, "src": 1}, {"group": (1, 3), "src": 3}, 1),
        ("broadcast", {"group": (1, 0), "src": 1}, {"group": (3, 1), "src": 3}, 1),
        ("send", {**BOTH, "dst": 1}, {"group": (0, 1, 2, 3), "dst": 3}, 1),
        ("recv", {**BOTH, "src": 0}, {"group": (1, 3), "src": 1}, 3),
        (
            "send",
            {**TP, "dst": 1, "group_size": 2},
            {"group": (0, 2), "dst": 2, "group_size": 4},
            0,
        ),
        ("slice", {"start": 3 * T}, {"start": 3}, 1),
        ("slice", {"start": (1, (T,))}, {"start": (1, (0,))}, 2),
    ],
)
def test_attributes_of_a_rank(op: str, mine: Any, theirs: Any, rank: int) -> None:
    def compare(theirs: Any) -> None:
        a, b = (SimpleNamespace(op=op, attrs=x) for x in (mine, theirs))
        _same_attrs(a, b, CLASSES, rank, CLASSES.values(rank))  # type: ignore[arg-type]

    compare(theirs)
    for name, value in theirs.items():
        if op in ("send", "recv") and name in ("group", "group_size"):
            continue
        other = (*value, 9) if isinstance(value, tuple) else 9
        for wrong in ({**theirs, name: other}, {k: v for k, v in theirs.items() if k != name}):
            with pytest.raises(NotChecked, match=r"other attributes|another peer|joins the ranks"):
                compare(wrong)


@pytest.mark.parametrize("src", [-1, 2, 5, "tp", None])
def test_a_peer_that_is_not_in_the_group(src: Any) -> None:
    for target in (2, 3, -1, 1):
        a = SimpleNamespace(op="broadcast", attrs={**TP, "src": src})
        b = SimpleNamespace(op="broadcast", attrs={"group": (2, 3), "src": target})
        with pytest.raises(NotChecked):
            _same_attrs(a, b, CLASSES, 2, CLASSES.values(2))  # type: ignore[arg-type]


def test_where_a_rank_may_occur() -> None:
    assert _symbolic(T)
    assert _symbolic((1, (2, T)))
    assert not _symbolic((1, (2, 3)))
    assert not _symbolic(3)


# ------------------------------------------------------------------ graphs

Build = Callable[[Builder, Value], Value]


def graph(build: Build) -> Graph:
    b = builder("g")
    return b.returns(build(b, b.input("x", "f32", (4,))))


def reduced(*group: Any) -> Build:
    return lambda b, x: b.emit("all_reduce", x, op="sum", group=group, group_size=2)


def sliced(start: Any) -> Build:
    return lambda b, x: b.emit("slice", x, dim=0, start=start, stop=start + 2)


@pytest.mark.parametrize(
    ("folded", "one", "rank", "same"),
    [
        (reduced(0, 1), reduced(0, 2), 0, True),
        (reduced(0, 1), reduced(1, 3), 3, True),
        (reduced(0, 1), reduced(0, 1), 0, False),  # classes are no ranks
        (reduced("tp"), reduced(0, 1), 1, True),
        (reduced("tp"), reduced("tp"), 1, False),
        (sliced(T * 2), sliced(2), 1, True),
        (sliced(T * 2), sliced(2), 0, False),
        (sliced(T * 2), sliced(T * 2), 1, False),
        (sliced(1), sliced(1), 0, True),
        (sliced(1), sliced(2), 0, False),
        (lambda b, x: b.emit("add", x, x), lambda b, x: b.emit("add", x, x), 0, True),
        (lambda b, x: b.emit("exp", b.emit("tanh", x)), lambda b, x: b.emit("exp", x), 0, False),
    ],
)
def test_the_graph_of_a_rank(folded: Build, one: Build, rank: int, same: bool) -> None:
    pair = Layout(graph(folded)), graph(one)
    if same:
        same_graph(*pair, CLASSES, rank)
        return
    with pytest.raises(NotChecked):
        same_graph(*pair, CLASSES, rank)


@pytest.mark.parametrize("grouped", [True, False])
def test_one_is_not_true(grouped: bool) -> None:
    def build(b: Builder, x: Value) -> Value:
        y = b.emit("sum", x, dims=(0,), keepdim=True)
        return b.emit("all_reduce", y, op="sum", group=(0, 1), group_size=2) if grouped else y

    folded, one = graph(build), graph(build)
    for k, n in enumerate(one.nodes):
        if n.op == "all_reduce":
            n.attrs["group"] = (0, 2)
            folded.nodes[k].attrs["group"] = (0, 1)
    same_graph(Layout(folded), one, CLASSES, 0)
    one.nodes[0].attrs["keepdim"] = 1
    with pytest.raises(NotChecked, match="other attributes"):
        same_graph(Layout(folded), one, CLASSES, 0)


def test_values_beside_each_other() -> None:
    """A node with two operands and one with one, or the other way round."""

    def run(first: int) -> Graph:
        b = builder("g")
        x = b.input("x", "f32", (4,))
        for n in (first, 3 - first):
            b.emit("concat", *[x] * n, dim=0) if n == 2 else b.emit("concat", x, dim=0)
        return b.returns(x)

    with pytest.raises(NotChecked):
        same_graph(Layout(run(1)), run(2), CLASSES, 0)
    same_graph(Layout(run(1)), run(1), CLASSES, 0)
    g, h = run(1), run(1)
    for k, n in enumerate(h.nodes):  # the same types and wiring, cut otherwise
        n.outputs[0].type = g.nodes[k].outputs[0].type
    h.nodes[0].inputs, h.nodes[1].inputs = h.nodes[1].inputs, h.nodes[0].inputs
    with pytest.raises(NotChecked, match="other operators"):
        same_graph(Layout(g), h, CLASSES, 0)


# ------------------------------------------------------------------ whole problems


def halves() -> Problem:
    def run(b: Builder, v: dict[str, Value], rank: Rank | None = None) -> dict[str, Value]:
        return {"y": b.emit("scale", v["x"], by=2)}

    return sharded("halves", even(2, 2), {"x": ("f32", (4,), 0)}, run, run, {"y": 0})


def part(lo: int, hi: int) -> Graph:
    b = builder("part")
    y = b.input("y", "f32", (4,))
    return b.returns(b.emit("slice", y, dim=0, start=lo, stop=hi), names=("y",))


def test_relations_and_expected_outputs_are_those_of_the_ranks() -> None:
    original = halves()
    folded = fold_problem(original)
    check_fold(original, folded)
    own = original.relation[1]
    b = builder("relation")
    x = b.emit("slice", b.input("x", "f32", (4,)), dim=0, start=1, stop=3)
    original.relation[1] = b.returns(x, names=("x",))
    with pytest.raises(NotChecked, match="rank 1"):
        check_fold(original, folded)
    original.relation[1] = own
    (ob,) = original.obligations
    expected = list(ob.expected)
    for wrong in (part(1, 3), None):
        ob.expected = [expected[0], wrong]
        with pytest.raises(NotChecked, match=r"rank 1|some ranks of a class only"):
            check_fold(original, folded)
    ob.expected = [None, None]
    with pytest.raises(NotChecked, match="some ranks of a class only"):
        check_fold(original, folded)
    folded.obligations[0].expected = [None]
    check_fold(original, folded)
