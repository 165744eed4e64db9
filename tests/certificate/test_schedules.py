"""In which order the graphs of several ranks run, and which calls meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.certificate.test_refusals import message, nothing, program, reduce, walk
from tests.support.programs import builder

from shardproof.certificate.exact import NotChecked
from shardproof.certificate.schedule import (
    Walk,
    communicates,
    message_ends,
    one_group_a_message,
    waits,
)
from shardproof.ir.builder import Builder
from shardproof.ir.check import check_graph
from shardproof.ops.base import infer_types

Run = Callable[[Builder], None]


def calls(*groups: tuple[int, ...], wait: bool = True, **how: Any) -> Run:
    """Sums over one group after the other; asynchronous ones are waited for at the end."""

    def run(b: Builder) -> None:
        x = b.input("x", "f32", (4,))
        made = [
            b.emit("all_reduce", x, op="sum", group=g, group_size=len(g), **how) for g in groups
        ]
        for y in made if how.get("async") and wait else []:
            b.emit("exp", b.emit("wait", y))

    return run


RING = [((0, 1), (0, 2)), ((1, 2), (0, 1)), ((0, 2), (1, 2))]


def steps(*ranks: Run) -> list[Any]:
    return list(Walk(program(*ranks)).steps())


def test_a_ring_of_calls_that_wait_for_each_other() -> None:
    """Every call is answered by one that comes later: nothing runs."""
    with pytest.raises(NotChecked, match="does not answer"):
        steps(*(calls(*g) for g in RING))
    found = steps(*(calls(*g, **{"async": True}) for g in RING))
    assert [kind for kind, _ in found].count("all_reduce") == 3
    with pytest.raises(NotChecked, match="does not answer"):
        steps(*(calls(*g, **{"async": False}) for g in RING))


def test_calls_meet_in_order() -> None:
    found = steps(calls((0, 1), (0, 1)), calls((0, 1), (0, 1)))
    assert [kind for kind, _ in found] == ["all_reduce"] * 2
    first, second = (members for _, members in found)
    assert [(k, n.outputs[0].name) for k, n in first] == [(0, "all_reduce"), (1, "all_reduce")]
    assert first[0][1] is not second[0][1]
    turned = steps(calls((1, 0)), calls((1, 0)))
    assert [k for k, _ in turned[0][1]] == [1, 0]  # in group order


def test_what_is_read_is_there() -> None:
    """A result is read after the call that makes it has met its like."""
    found = steps(calls((0, 1), **{"async": True}), calls((0, 1), **{"async": True}))
    order = [kind for kind, _ in found]
    assert order[0] == "all_reduce"
    assert order[1:] == ["local"] * 4
    late = steps(calls((0, 1), **{"async": True}), calls((0, 1)))
    assert [kind for kind, _ in late] == ["all_reduce", "local", "local"]


def test_a_call_that_stops_its_rank() -> None:
    def after(b: Builder) -> None:
        reduce(0, 1)(b)
        b.emit("exp", b.graph.inputs[0])

    found = steps(after, calls((0, 1)))
    assert [kind for kind, _ in found] == ["all_reduce", "local"]
    with pytest.raises(NotChecked, match="does not answer"):
        steps(after, nothing)


@pytest.mark.parametrize(
    ("text", "run"),
    [
        ("that the rank is not in", walk(reduce(0, 1, 0), reduce(0, 1))),
        ("that the rank is not in", walk(reduce(1), reduce(1))),
        ("does not answer", walk(message(0, 1, to=1, tag=1), message(0, 1))),
        ("does not answer", walk(message(0, 1, to=1), message(0, 1), nothing, reduce(3, 2))),
        ("without one of its ends", walk(message(0, 1, to=2), nothing, nothing)),
        ("without one of its ends", walk(nothing, message(0, 1, by=2), nothing)),
    ],
)
def test_calls_that_do_not_fit(text: str, run: Any) -> None:
    with pytest.raises(NotChecked, match=text):
        run()


def test_messages_with_and_without_a_tag() -> None:
    def untagged(p: Any) -> Any:
        for g in p.graphs:
            for n in g.nodes:
                n.attrs.pop("tag")
        return p

    p = program(message(0, 1, to=1), message(0, 1))
    untagged(p).graphs[0].nodes[0].attrs["tag"] = 0  # none is 0
    ((kind, members),) = Walk(p).steps()
    assert kind == "message"
    assert [n.op for _, n in members] == ["send", "recv"]
    one_group_a_message(p.graphs)
    q = program(message(0, 1, to=1), message(0, 1, 2), nothing)
    untagged(q).graphs[0].nodes[0].attrs["tag"] = 0
    with pytest.raises(NotChecked, match="over another group than its like"):
        one_group_a_message(q.graphs)


def test_a_call_without_a_group() -> None:
    for k, run in ((0, reduce(0, 1)), (0, message(0, 1, to=1))):
        p = program(run, nothing)
        del p.graphs[k].nodes[0].attrs["group"]
        (flaw, *_) = check_graph(p.graphs[k], infer_types)
        assert "'group'" in flaw.message  # the checker looks at the types of every node first
    p = program(nothing, nothing)
    b = builder("rank0")
    b.emit("exp", b.input("x", "f32", (4,)))
    b.graph.rank = 0
    p.graphs[0] = b.graph
    assert [kind for kind, _ in Walk(p).steps()] == ["local"]


def test_calls_over_axes_are_local() -> None:
    """Inside a class of ranks, which one graph describes."""
    p = program(calls(("dp",)), calls(("dp",)))  # type: ignore[arg-type]
    for g in p.graphs:
        for n in g.nodes:
            n.attrs["group_size"] = 2
    assert [kind for kind, _ in Walk(p).steps()] == ["local"] * 2
    mixed = program(calls((0, "dp")), calls((0, "dp")))  # type: ignore[arg-type]
    assert [kind for kind, _ in Walk(mixed).steps()] == ["local"] * 2


def test_what_communicates() -> None:
    p = program(reduce(0, 1), message(0, 1, by=0), message(0, 1, to=1))
    assert all(communicates(g.nodes[0]) for g in p.graphs)
    assert message_ends(1, p.graphs[1].nodes[0]) == (0, 1)
    assert message_ends(0, p.graphs[2].nodes[0]) == (0, 1)
    b = builder("g")
    b.emit("exp", b.input("x", "f32", (4,)))
    assert not communicates(b.graph.nodes[0])


def test_a_graph_waits_for_what_it_reads() -> None:
    asynchronous = program(calls((0, 1), **{"async": True})).graphs[0]
    waits(asynchronous)
    for wait in (True, False):
        made = program(calls((0, 1), wait=wait, **{"async": True})).graphs[0]
        made.outputs = [made.nodes[0].outputs[0]]
        with pytest.raises(NotChecked, match="is returned that was not waited for"):
            waits(made)
        made.outputs = [None]
        waits(made)
    p = program(calls((0, 1), **{"async": True}), calls((0, 1), **{"async": True}))
    p.graphs[1].outputs = [p.graphs[1].nodes[0].outputs[0]]
    with pytest.raises(NotChecked, match="was not waited for"):
        Walk(p)
    plain = program(calls((0, 1))).graphs[0]
    plain.outputs = [plain.nodes[0].outputs[0]]
    waits(plain)


def test_graphs_are_those_of_the_ranks() -> None:
    p = program(nothing, nothing)
    for g in p.graphs:
        g.rank = None
    assert list(Walk(p).steps()) == []
    p.graphs[0].rank = 1
    with pytest.raises(NotChecked, match="order of the ranks"):
        Walk(p)


@pytest.mark.parametrize(
    "ranks",
    [
        (message(0, 1, to=1), message(0, 1, 2), nothing),
        (message(0, 2, to=1), message(0, 2), nothing),
        (message(0, 1, to=2), nothing, nothing),
        (nothing, message(1, 2), nothing),
        (message(1, 2, to=1), nothing, nothing),
    ],
)
def test_messages_over_several_groups(ranks: Any) -> None:
    with pytest.raises(NotChecked, match="over another group than its like"):
        one_group_a_message(program(*ranks).graphs)


def test_messages_over_one_group() -> None:
    one_group_a_message(program(message(0, 1, to=1), message(0, 1), reduce(2)).graphs)
    wide = program(message(0, 1, 2, to=1), message(0, 1, 2), nothing)
    one_group_a_message(wide.graphs)
    several = program(message(0, 1, to=1, tag=1), message(0, 1, 2, tag=2), nothing)
    one_group_a_message(several.graphs)  # of other names
