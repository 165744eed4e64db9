"""Names of process groups: only what tells two over the same ranks apart is kept."""

from __future__ import annotations

from tests.support.programs import builder

from shardproof.ir.communicators import number_communicators
from shardproof.ir.graph import Graph


def graph(rank: int, *calls: tuple[tuple[int, ...], str]) -> Graph:
    b = builder(f"rank {rank}")
    x = b.input("x", "f32", (4,))
    for group, name in calls:
        x = b.emit("all_reduce", x, op="sum", group=group, group_size=len(group), comm=name)
    g = b.returns(x)
    g.rank = rank
    return g


def numbered(*ranks: list[tuple[tuple[int, ...], str]]) -> list[list[str]]:
    graphs = [graph(k, *calls) for k, calls in enumerate(ranks)]
    number_communicators(graphs)
    once = [[str(n.attrs.get("comm", "")) for n in g.nodes] for g in graphs]
    number_communicators(graphs)
    assert once == [[n.attrs.get("comm", "") for n in g.nodes] for g in graphs]
    return once


def test_one_process_group_over_some_ranks_has_no_name() -> None:
    a, b, world = (0, 1), (2, 3), (0, 1, 2, 3)
    first, second = [(a, "1"), (world, "0")], [(b, "2"), (world, "0")]
    assert numbered(first, first, second, second) == [["", ""]] * 4


def test_roles_have_the_same_number_on_all_ranks() -> None:
    a, b = (0, 1), (2, 3)
    first, second = [(a, "1"), (a, "5")], [(b, "2"), (b, "6")]
    assert numbered(first, first, second, second) == [["", "1"]] * 4


def test_ranks_that_use_other_process_groups_differ() -> None:
    a = (0, 1)
    assert numbered([(a, "1"), (a, "2")], [(a, "2"), (a, "1")]) == [["", "1"], ["1", ""]]
    assert numbered([(a, "1")], [(a, "2")]) == [[""], ["1"]]
