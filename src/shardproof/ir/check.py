"""Well-formedness of graphs and programs, checked between the stages of a run.

A well-formed graph defines every value once, before its uses; its types are those of the shape
rule; its attributes are of the kinds that the text form knows; and its collectives name groups
that exist and contain the rank that calls them. The check reports everything that it finds, so
that a faulty frontend is mended in one round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

from shardproof.ir.builder import ShapeRule
from shardproof.ir.graph import DTYPES, AttrValue, Graph, Mesh, Node, Program, TensorType, Value
from shardproof.ir.sizes import Poly, product


@dataclass(frozen=True, slots=True)
class Flaw:
    """One way in which a graph is not well formed; ``where`` names the graph and the value."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


def check_graph(
    graph: Graph,
    infer: ShapeRule | None = None,
    mesh: Mesh | None = None,
    typed: Collection[Node] = (),
) -> list[Flaw]:
    """All flaws of one graph; types are compared with ``infer`` when it is given, but for the
    nodes ``typed``."""
    return list(_Check(graph, infer, mesh, typed).flaws())


def check_program(program: Program, infer: ShapeRule | None = None) -> list[Flaw]:
    """All flaws of a distributed program: its ranks, and each of its graphs."""
    flaws = list(_rank_flaws(program))
    for graph in program.graphs:
        flaws += check_graph(graph, infer, program.mesh)
    return flaws


def _rank_flaws(program: Program) -> Iterator[Flaw]:
    where = f"mesh {program.mesh}"
    ranks = [g.rank for g in program.graphs]
    if program.spmd:
        if len(ranks) != 1 or ranks[0] is not None:
            yield Flaw(where, "an SPMD program is one graph without a rank")
        return
    if not program.mesh.axes and ranks in ([None], [0]):
        return
    size = program.mesh.size
    if ranks != list(range(size if isinstance(size, int) else 0)):
        yield Flaw(where, f"the graphs are those of ranks {ranks}, the mesh has {size} rank(s)")


class _Check:
    def __init__(
        self,
        graph: Graph,
        infer: ShapeRule | None,
        mesh: Mesh | None,
        typed: Collection[Node] = (),
    ) -> None:
        self.graph = graph
        self.typed = typed
        self.infer = infer
        self.mesh = mesh
        self.label = graph.name + (f" (rank {graph.rank})" if graph.rank is not None else "")

    def flaw(self, value: Value | Node | None, message: str) -> Flaw:
        if isinstance(value, Node):
            name = f"%{value.outputs[0].name}" if value.outputs else value.op
        else:
            name = f"%{value.name}" if value is not None else ""
        return Flaw(f"{self.label}: {name}" if name else self.label, message)

    def flaws(self) -> Iterator[Flaw]:
        yield from self.name_flaws()
        defined: set[Value] = set()
        for v in self.graph.inputs:
            yield from self.type_flaws(v, defined)
            defined.add(v)
        for node in self.graph.nodes:
            for v in node.inputs:
                if v not in defined:
                    yield self.flaw(node, f"uses %{v.name} before it is defined")
            if node not in self.typed:
                if node.attrs:
                    yield from self.attr_flaws(node)
                    yield from self.group_flaws(node)
                yield from self.rule_flaws(node)
            for v in node.outputs:
                if v in defined or not _plain(v):
                    yield from self.type_flaws(v, defined)
                defined.add(v)
        yield from self.output_flaws(defined)

    def name_flaws(self) -> Iterator[Flaw]:
        names = [v.name for v in self.graph.values()]
        for name, count in Counter(names).items() if len(set(names)) != len(names) else ():
            if count > 1:
                yield Flaw(f"{self.label}: %{name}", f"is the name of {count} values")

    def type_flaws(self, v: Value, defined: set[Value]) -> Iterator[Flaw]:
        if v in defined:
            yield self.flaw(v, "is defined twice")
        if v.dtype not in DTYPES:
            yield self.flaw(v, f"has the unknown element type {v.dtype!r}")
        for size in v.shape:
            if isinstance(size, bool) or not isinstance(size, int | Poly):
                yield self.flaw(v, f"has the size {size!r}, which is no integer or polynomial")
            elif isinstance(size, int) and size < 0:
                yield self.flaw(v, f"has the negative size {size}")

    def rule_flaws(self, node: Node) -> Iterator[Flaw]:
        if self.infer is None:
            return
        try:
            found = self.infer(node.op, tuple([v.type for v in node.inputs]), node.attrs)
        except (ValueError, KeyError, TypeError) as error:
            yield self.flaw(node, f"the shape rule of {node.op} refuses it: {error}")
            return
        given = tuple([v.type for v in node.outputs])
        if given != tuple(found):
            yield self.flaw(node, f"has type {_types(given)}, but {node.op} gives {_types(found)}")

    def attr_flaws(self, node: Node) -> Iterator[Flaw]:
        for key, value in node.attrs.items():
            if not _known_kind(value):
                yield self.flaw(
                    node, f"the attribute {key} is of the unknown kind {type(value).__name__}"
                )

    def group_flaws(self, node: Node) -> Iterator[Flaw]:
        group = node.attrs.get("group")
        if group is None:
            return
        if not isinstance(group, tuple) or not group:
            yield self.flaw(node, f"the group {group!r} is no tuple of ranks or axes")
            return
        if all(isinstance(g, str) for g in group):
            yield from self.axis_flaws(node, [str(g) for g in group])
        elif all(isinstance(g, int) and not isinstance(g, bool) for g in group):
            yield from self.member_flaws(node, [g for g in group if isinstance(g, int)])
        else:
            yield self.flaw(node, f"the group {group!r} mixes ranks and axes")

    def axis_flaws(self, node: Node, axes: list[str]) -> Iterator[Flaw]:
        known = dict(self.mesh.axes) if self.mesh is not None else None
        if known is None:
            return
        missing = [a for a in axes if a not in known]
        if missing:
            yield self.flaw(node, f"the group names {missing[0]!r}, which is no mesh axis")
            return
        size = product(known[a] for a in axes)
        if node.attrs.get("group_size", size) != size:
            yield self.flaw(node, f"group_size is {node.attrs['group_size']}, the group has {size}")

    def member_flaws(self, node: Node, members: list[int]) -> Iterator[Flaw]:
        if len(set(members)) != len(members):
            yield self.flaw(node, f"the group {members} names a rank twice")
        if self.graph.rank is not None and self.graph.rank not in members:
            yield self.flaw(
                node, f"the group {members} does not contain the calling rank {self.graph.rank}"
            )
        world = self.mesh.size if self.mesh is not None and self.mesh.axes else None
        if isinstance(world, int) and not all(0 <= m < world for m in members):
            yield self.flaw(node, f"the group {members} names a rank outside the mesh of {world}")
        if node.attrs.get("group_size", len(members)) != len(members):
            yield self.flaw(
                node, f"group_size is {node.attrs['group_size']}, the group has {len(members)}"
            )

    def output_flaws(self, defined: set[Value]) -> Iterator[Flaw]:
        if len(self.graph.output_names) != len(self.graph.outputs):
            yield self.flaw(
                None,
                f"{len(self.graph.outputs)} outputs, but {len(self.graph.output_names)} names",
            )
        for v in self.graph.outputs:
            if v is not None and v not in defined:
                yield self.flaw(v, "is returned but never defined")


def _plain(v: Value) -> bool:
    """Whether a type is one of numbers, which has no flaw."""
    return v.dtype in DTYPES and all(type(n) is int and n >= 0 for n in v.shape)


def _known_kind(value: AttrValue) -> bool:
    if isinstance(value, tuple):
        return all(map(_known_kind, value))
    return value is None or isinstance(value, (int, str, float, Poly, Fraction))


def _types(types: tuple[TensorType, ...]) -> str:
    return ", ".join(map(str, types)) or "nothing"
