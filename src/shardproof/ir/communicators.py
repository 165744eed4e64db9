"""Process groups that have the same members are different communicators: calls on one do not meet
calls on another.

A program names its process groups (``comm``), and the names of one role differ between ranks: the
tensor parallel group of ranks 0 and 1 is not called what that of ranks 2 and 3 is. What decides
which calls meet is only whether two calls *over the same ranks* are on one communicator. So the
names are replaced by the number of the communicator among those over the same ranks, in order of
first use; the first has none. Ranks that do the same then look the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from shardproof.ir.graph import Graph, Node


def communicator(node: Node) -> str:
    """What tells the communicator of a call from others over the same ranks."""
    return str(node.attrs.get("comm", ""))


def members(node: Node) -> frozenset[int | str]:
    """The ranks, or mesh axes, of a call's group."""
    group = node.attrs.get("group", ())
    assert isinstance(group, tuple)
    return frozenset(group)  # type: ignore[arg-type]


MESSAGES = ("send", "recv")


def ends(rank: int, message: Node) -> tuple[int, int]:
    """Who sends and who receives, for a call of a rank."""
    a = message.attrs
    return (rank, a["dst"]) if message.op == "send" else (a["src"], rank)  # type: ignore[return-value]


def number_communicators(graphs: Sequence[Graph]) -> None:
    """Replace the names in the graphs of all ranks (given in rank order) by such numbers."""
    if not any("comm" in n.attrs for g in graphs for n in g.nodes):
        return
    seen: dict[Hashable, list[str]] = {}
    calls = [(rank, n) for rank, g in enumerate(graphs) for n in g.nodes if "group" in n.attrs]
    for rank, node in calls:
        names = seen.setdefault(_between(rank, node), [])
        if communicator(node) not in names:
            names.append(communicator(node))
    for rank, node in calls:
        k = seen[_between(rank, node)].index(communicator(node))
        node.attrs.pop("comm", None)
        if k:
            node.attrs["comm"] = str(k)


def _between(rank: int, node: Node) -> Hashable:
    """Who could meet in this call: the members of a collective, the two ends of a message."""
    return (members(node), ends(rank, node) if node.op in MESSAGES else None)
