"""Where mutations apply: the same node on every rank, and what a mutation of it looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from shardproof.ir.graph import AttrValue, Graph, Node, Value
from shardproof.ops.base import ShapeError
from shardproof.spec.problem import Problem
from shardproof.testing.edit import Edit, live_nodes, with_attrs


@dataclass(frozen=True, slots=True)
class Site:
    """One node of a distributed program: ``nodes[k]`` is that of the graph ``first + k``."""

    problem: Problem
    nodes: tuple[Node, ...]
    first: int = 0

    @property
    def node(self) -> Node:
        """The node of the first rank."""
        return self.nodes[0]

    @property
    def ranks(self) -> range:
        """The graphs that have the node."""
        return range(self.first, self.first + len(self.nodes))

    def graph(self, k: int) -> Graph:
        return self.problem.distributed.graphs[k]

    def own(self) -> Graph:
        """The graph of the first node."""
        return self.graph(self.first)

    def ranked(self) -> Iterator[tuple[int, Node]]:
        """Every node with the number of its graph."""
        return zip(self.ranks, self.nodes, strict=True)


@dataclass(frozen=True, slots=True)
class Variant:
    """One mutation of one site.

    ``text`` says what is done; ``edits`` does it, one a node; ``communicates``: to do it on one
    rank only is a matter of the protocol; ``more`` are further operands of the mutated nodes.
    """

    text: str
    edits: tuple[Edit, ...]
    communicates: bool = False
    more: tuple[Value, ...] = field(default=())


def variant(
    site: Site, text: str, edit: Callable[[int, Node], Edit], *, communicates: bool = False
) -> Iterator[Variant]:
    """The mutation ``edit(rank, node)`` on every rank, or nothing where it is not well-shaped."""
    try:
        edits = tuple(edit(k, n) for k, n in site.ranked())
    except (ShapeError, ValueError, KeyError):
        return
    yield Variant(text, edits, communicates)


def attributes(**changes: AttrValue) -> Callable[[int, Node], Edit]:
    """The edit that sets attributes of a node, on every rank alike."""
    return lambda _, node: with_attrs(node, **changes)


def sites(problem: Problem) -> list[Site]:
    """The nodes that an obligation depends on, aligned over the ranks.

    Graphs of one shape are aligned by position. Where they differ, as in a ring or a pipeline,
    every site is a node of one graph.
    """
    graphs = problem.distributed.graphs
    shape = [n.op for n in graphs[0].nodes]
    live = [set(live_nodes(g, _wanted(problem, g))) for g in graphs]
    if any([n.op for n in g.nodes] != shape for g in graphs):
        return [
            Site(problem, (n,), k) for k, g in enumerate(graphs) for n in g.nodes if n in live[k]
        ]
    columns = zip(*(g.nodes for g in graphs), strict=True)
    return [
        Site(problem, nodes)
        for nodes in columns
        if any(n in needed for n, needed in zip(nodes, live, strict=True))
    ]


def _wanted(problem: Problem, graph: Graph) -> list[Value]:
    names = {ob.dist_output for ob in problem.obligations}
    pairs = zip(graph.output_names, graph.outputs, strict=True)
    return [v for name, v in pairs if name in names and v is not None]


def captured_name(node: Node) -> str:
    """The node's name in the captured graph."""
    return node.source or (node.outputs[0].name if node.outputs else node.op)


def names_of(graph: Graph, nodes: Sequence[Node], more: Sequence[Value] = ()) -> set[str]:
    """Captured names of nodes, of their operands and of their outputs.

    A value that the frontend made inside one captured operator has no name of its own in the
    captured graph; there the captured operator's name stands for it.
    """
    made = graph.producers()
    values = [v for n in nodes for v in (*n.inputs, *n.outputs)] + list(more)
    names = {captured_name(n) for n in nodes} | {v.name for v in values}
    return names | {made[v].source for v in values if v in made and made[v].source}
