"""The order in which the graphs of several ranks, or classes of ranks, run, found by walking them
in lock step: a collective happens when every member stands at its call.

Every call must meet calls that fit, and none may be left: what the walk does not complete is not
checked, whatever the reason.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any

from shardproof.certificate.exact import NotChecked
from shardproof.ir.graph import Graph, Node, Program, Value
from shardproof.ops.base import Collective, lookup

Step = tuple[str, tuple[tuple[int, Node], ...]]


def communicates(node: Node) -> bool:
    """Whether a node is a collective."""
    rules = lookup(node.op).algebra(tuple(v.type for v in node.inputs), node.attrs)
    return any(isinstance(r, Collective) for r in rules)


def waits(graph: Graph) -> None:
    """A result of an asynchronous collective may be read by a wait only, and not returned."""
    flying: set[Value] = set()
    for node in graph.nodes:
        if node.op != "wait" and any(v in flying for v in node.inputs):
            raise NotChecked(f"{node.op} reads a result that was not waited for")
        if node.attrs.get("async") is True and "group" in node.attrs:
            flying.update(node.outputs)
    if any(v in flying for v in graph.outputs if v is not None):
        raise NotChecked("a result is returned that was not waited for")


def message_ends(k: int, node: Node) -> tuple[Any, Any]:
    """Who sends and who receives, for a call in the k-th graph."""
    a: Any = node.attrs
    return (k, a["dst"]) if node.op == "send" else (a["src"], k)


def one_group_a_message(graphs: Sequence[Graph]) -> None:
    """A proof about classes of ranks knows the ends of messages, not their groups: all messages of
    one name must be over the same group, and that must hold both ends."""
    groups: dict[Any, frozenset[Any]] = {}
    for k, g in enumerate(graphs):
        for n in g.nodes:
            if n.op not in ("send", "recv"):
                continue
            a: Any = n.attrs
            ends, group = message_ends(k, n), frozenset(a["group"])
            key = (*ends, a.get("tag", 0), a.get("comm", ""))
            if not {k, *ends} <= group or groups.setdefault(key, group) != group:
                raise NotChecked(f"rank {k}: {n.op} over another group than its like")


class Walk:
    """Lock-step execution of the graphs of a program that is not one graph for all ranks."""

    def __init__(self, program: Program) -> None:
        self.graphs = program.graphs
        self.place = [0] * len(self.graphs)
        self.stopped: dict[int, Node] = {}
        self.calls: dict[Any, dict[Any, deque[tuple[int, Node]]]] = defaultdict(
            lambda: defaultdict(deque)
        )
        self.flying: set[Node] = set()
        self.made: dict[Value, Node] = {}
        self.handles: dict[Any, Node] = {}
        for k, g in enumerate(self.graphs):
            if g.rank is not None and g.rank != k:
                raise NotChecked("the graphs are not in the order of the ranks")
            waits(g)

    def steps(self) -> Iterator[Step]:
        """Local nodes and collectives, operands before uses."""
        moved = True
        while moved:
            moved = False
            for k in range(len(self.graphs)):
                for step in self._run(k):
                    moved = True
                    yield step
        left = any(p < len(g.nodes) for p, g in zip(self.place, self.graphs, strict=True))
        if left or self.flying:
            raise NotChecked("a call of a collective that its group does not answer")

    def _run(self, k: int) -> Iterator[Step]:
        nodes = self.graphs[k].nodes
        while self.place[k] < len(nodes):
            if self.stopped.get(k) in self.flying:
                return
            node, a = nodes[self.place[k]], nodes[self.place[k]].attrs
            if any(self.made.get(v) in self.flying for v in node.inputs):
                return
            if node.op == "wait_sent" and self.handles.get((k, a["handle"])) in self.flying:
                return
            self.place[k] += 1
            if not self._meets_others(node):
                yield "local", ((k, node),)
                continue
            met = self._call(k, node)
            if met is not None:
                yield met
            elif node.attrs.get("async") is not True:
                self.stopped[k] = node

    def _meets_others(self, node: Node) -> bool:
        group: Any = node.attrs.get("group")
        if group is None or not communicates(node):
            return False  # a collective without a group is refused where local nodes are checked
        return all(isinstance(g, int) for g in group)

    def _call(self, k: int, node: Node) -> Step | None:
        a: Any = node.attrs
        slots: list[Any]
        mine: Any
        group = a["group"]
        if k not in group or len(set(group)) != len(group):
            raise NotChecked(f"{node.op} with a group that the rank is not in")
        # Process groups over the same ranks are told apart by a name.
        key: Any = (frozenset(group), a.get("comm", ""))
        if node.op in ("send", "recv"):
            ends = message_ends(k, node)
            if not set(ends) <= set(group):
                raise NotChecked(f"{node.op} over a group without one of its ends")
            key = (*key, *ends, a.get("tag", 0))
            slots, mine = ["send", "recv"], node.op
        else:
            slots, mine = list(group), k
        queues = self.calls[key]
        queues[mine].append((k, node))
        self.flying.add(node)
        if a.get("async") is True:
            self.made.update((v, node) for v in node.outputs)
        if "handle" in a:
            self.handles[k, a["handle"]] = node
        if not all(queues[s] for s in slots):
            return None
        members = tuple(queues[s].popleft() for s in slots)
        self.flying.difference_update(n for _, n in members)
        if mine not in ("send", "recv") and len({n.op for _, n in members}) != 1:
            raise NotChecked("a collective whose members call different operators")
        return "message" if node.op in ("send", "recv") else node.op, members
