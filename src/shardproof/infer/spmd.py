"""Fold the graphs of isomorphic ranks into one graph whose attributes are affine in the rank.

Rank coordinates become symbols (``@tp``), one a mesh axis. The fold is exact: every attribute of
every rank is reproduced by substituting that rank's coordinates, which is checked here, and each
collective's group is a set of mesh axes. Programs whose ranks differ otherwise do not fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shardproof.ir.graph import AttrValue, Graph, Mesh, Node, Program, TensorType, Value
from shardproof.ir.sizes import Size, Undecided
from shardproof.ops.base import ShapeError, infer_types, lookup


class NotUniform(Exception):
    """The ranks are not one program with rank-affine attributes; the text says where."""


class Classes:
    """Ranks by class: ``ranks[c][k]`` is the global rank at place ``k`` of class ``c``."""

    def __init__(self, mesh: Mesh, inner: Sequence[str]) -> None:
        self.outer = Mesh(tuple((a, n) for a, n in mesh.axes if a not in inner))
        self.inner = Mesh(tuple((a, n) for a, n in mesh.axes if a in inner))
        n = mesh.size
        assert isinstance(n, int)
        self.place: dict[int, tuple[int, int]] = {}
        self.ranks: list[list[int]] = [[] for _ in range(_count(self.outer))]
        for r in range(n):
            c = mesh.coordinates(r)
            k = self.outer.rank(c)
            self.place[r] = (k, len(self.ranks[k]))
            self.ranks[k].append(r)

    def inside(self, mine: int, group: Any) -> tuple[int, ...] | None:
        """Places of a group inside one class; None if it reaches out."""
        places = [self.place.get(r) for r in group]
        if any(p is None or p[0] != mine for p in places):
            return None
        return tuple(p[1] for p in places if p is not None)

    def like(self, k: int, rank: Any) -> int:
        """The class of ``rank``, which must have place ``k`` in it."""
        found = self.place.get(rank)
        if found is None or found[1] != k:
            raise NotUniform("a collective between ranks that are not alike")
        return found[0]


def _count(mesh: Mesh) -> int:
    n = mesh.size
    assert isinstance(n, int)
    return n


class Fold:
    """Folds lists of graphs (one a rank, in rank order) over one mesh."""

    def __init__(self, mesh: Mesh, classes: Classes | None = None, mine: int = 0) -> None:
        self.mesh = mesh
        self.classes, self.mine = classes, mine
        n = mesh.size
        if not isinstance(n, int):
            raise NotUniform("the mesh is symbolic")
        self.coords = [mesh.coordinates(r) for r in range(n)]
        self.axes = [a for a, k in mesh.axes if k != 1]
        self._groups: dict[Any, tuple[Any, ...]] = {}

    def program(self, program: Program) -> Program:
        return Program(self.mesh, [self.graph(program.graphs)], spmd=True)

    def graph(self, graphs: Sequence[Graph]) -> Graph:
        """One graph for all ranks.

        Raises:
            NotUniform: some node, type or wiring differs between ranks.
        """
        first = graphs[0]
        layout = _layout(first)
        differ: set[int] = set()
        for other in graphs[1:]:
            differ |= _difference(layout, _layout(other))
        made: dict[Value, Value] = {v: Value(v.name, v.type) for v in first.values()}
        out = Graph(first.name, [made[v] for v in first.inputs])
        for k, n in enumerate(first.nodes):
            attrs = n.attrs
            if k in differ or "group" in attrs:
                attrs = self._attrs([g.nodes[k] for g in graphs])
            if k in differ:
                _accepts(n, attrs)
            ins, outs = tuple([made[v] for v in n.inputs]), tuple([made[v] for v in n.outputs])
            out.nodes.append(Node(n.op, ins, attrs, outs, n.origin, n.source))
        out.outputs = [made[v] if v is not None else None for v in first.outputs]
        out.output_names = list(first.output_names)
        return out

    def _attrs(self, nodes: Sequence[Node]) -> dict[str, Any]:
        n0 = nodes[0]
        if n0.op in ("send", "recv"):
            return self._message(nodes)
        if any(n.attrs.keys() != n0.attrs.keys() for n in nodes):
            raise NotUniform(f"{n0.source or n0.op} has other attributes on another rank")
        if "group" not in n0.attrs and all(n.attrs == n0.attrs for n in nodes):
            return dict(n0.attrs)
        out: dict[str, Any] = {}
        for name, value in n0.attrs.items():
            col = [n.attrs.get(name) for n in nodes]
            if name == "group":
                out[name] = self.group(col)
            elif name == "src" and "group" in n0.attrs:
                out[name] = self._position(nodes)
            elif all(x == value for x in col):
                out[name] = value
            else:
                out[name] = self.fit(col, f"{n0.source or n0.op}.{name}")
        return out

    def _message(self, nodes: Sequence[Node]) -> dict[str, Any]:
        """A message between two ranks is one between their classes if like talks to like."""
        if self.classes is None:
            raise NotUniform("messages between two ranks")
        out = dict(nodes[0].attrs)
        peer = "dst" if nodes[0].op == "send" else "src"
        ends = {self.classes.like(k, n.attrs[peer]) for k, n in enumerate(nodes)}
        rest = [{a: x for a, x in n.attrs.items() if a not in (peer, "group")} for n in nodes]
        if len(ends) != 1 or any(r != rest[0] for r in rest):
            raise NotUniform("messages between ranks that are not alike")
        end = ends.pop()
        group = tuple(sorted({self.mine, end}))
        return {**out, peer: end, "group": group, "group_size": len(group)}

    def group(self, col: Sequence[Any]) -> tuple[Any, ...]:
        """The mesh axes along which every rank's group runs, or the classes that it joins."""
        key = tuple(col)
        if key not in self._groups:
            self._groups[key] = self._axes_of(col)
        return self._groups[key]

    def _axes_of(self, col: Sequence[Any]) -> tuple[Any, ...]:
        if self.classes is not None:
            inside = [self.classes.inside(self.mine, group) for group in col]
            if any(g is None for g in inside):
                return self._classes_of(col)
            col = inside
        varying = [
            a
            for a in self.axes
            if any(self.coords[r][a] != self.coords[col[0][0]][a] for r in col[0])
        ]
        for r, group in enumerate(col):
            mine = self.coords[r]
            want = tuple(
                q
                for q, c in enumerate(self.coords)
                if all(c[a] == mine[a] for a in self.axes if a not in varying)
            )
            if tuple(group) != want:
                raise NotUniform(f"group {group} of rank {r} is not a set of mesh axes")
        return tuple(varying)

    def _classes_of(self, col: Sequence[Any]) -> tuple[int, ...]:
        assert self.classes is not None
        found = {tuple(self.classes.like(k, r) for r in group) for k, group in enumerate(col)}
        if len(found) != 1:
            raise NotUniform("a group that joins ranks of several classes unevenly")
        return found.pop()

    def _position(self, nodes: Sequence[Node]) -> int:
        """The source rank of a broadcast as its position in the group, or as its class where the
        group joins classes."""
        found = set()
        group0 = self.group([n.attrs["group"] for n in nodes])
        if group0 and isinstance(group0[0], int) and self.classes is not None:
            found = {self.classes.like(k, n.attrs["src"]) for k, n in enumerate(nodes)}
            if len(found) != 1:
                raise NotUniform("a broadcast from different classes")
            return found.pop()
        for n in nodes:
            group, src = n.attrs["group"], n.attrs["src"]
            if not isinstance(group, tuple) or src not in group:
                raise NotUniform("a broadcast from outside its group")
            found.add(group.index(src))
        if len(found) != 1:
            raise NotUniform("a broadcast from different positions")
        return found.pop()

    def fit(self, col: Sequence[Any], what: str) -> Any:
        """``a + sum_axis b_axis * @axis`` through the ranks' values."""
        if isinstance(col[0], tuple):
            if any(not isinstance(x, tuple) or len(x) != len(col[0]) for x in col):
                raise NotUniform(f"{what} differs in length between ranks")
            return tuple(
                x[0] if all(y == x[0] for y in x) else self.fit(x, what)
                for x in zip(*col, strict=True)
            )
        numbers = [self._integer(x, what) for x in col]
        origin = next(r for r, c in enumerate(self.coords) if not any(c.values()))
        out: Size = numbers[origin]
        slopes = {}
        for a in self.axes:
            unit = next(
                r for r, c in enumerate(self.coords) if all(k == (x == a) for x, k in c.items())
            )
            slopes[a] = numbers[unit] - numbers[origin]
            out = out + slopes[a] * self.mesh.index(a)
        for r, c in enumerate(self.coords):
            if numbers[r] != numbers[origin] + sum(slopes[a] * c[a] for a in self.axes):
                raise NotUniform(f"{what} is not affine in the rank")
        return out

    @staticmethod
    def _integer(x: Any, what: str) -> int:
        if isinstance(x, bool) or x is None:
            raise NotUniform(f"{what} differs between ranks")
        if isinstance(x, int):
            return x
        if isinstance(x, Fraction) and x.denominator == 1:
            return x.numerator
        raise NotUniform(f"{what} differs between ranks")


@dataclass(frozen=True, slots=True)
class _Layout:
    """A graph as flat lists, so that two are compared at the speed of lists: operators, result
    types, wiring as numbers of values, attributes."""

    names: list[str]
    ops: list[str]
    types: list[TensorType]
    arity: list[tuple[int, int]]
    wiring: list[int]
    returned: list[int]
    output_names: list[str]
    attrs: list[dict[str, AttrValue]]


def _layout(g: Graph) -> _Layout:
    number = {v: k for k, v in enumerate(g.values())}
    return _Layout(
        [v.name for v in g.inputs],
        [n.op for n in g.nodes],
        [v.type for v in number],
        [(len(n.inputs), len(n.outputs)) for n in g.nodes],
        [number[v] for n in g.nodes for v in n.inputs],
        [-1 if v is None else number[v] for v in g.outputs],
        g.output_names,
        [n.attrs for n in g.nodes],
    )


def _difference(a: _Layout, b: _Layout) -> set[int]:
    """Positions of nodes whose attributes differ.

    Raises:
        NotUniform: the graphs differ in more than attributes.
    """
    if a.names != b.names:
        raise NotUniform("the ranks have different inputs")
    if a.ops != b.ops or a.arity != b.arity:
        raise NotUniform("the ranks have different operators")
    if a.types != b.types:
        raise NotUniform("the ranks have values of different types")
    if a.wiring != b.wiring:
        raise NotUniform("the ranks' operators read different operands")
    if a.returned != b.returned or a.output_names != b.output_names:
        raise NotUniform("the ranks return different values")
    if a.attrs == b.attrs:
        return set()
    return {k for k, (x, y) in enumerate(zip(a.attrs, b.attrs, strict=True)) if x != y}


def _accepts(node: Node, attrs: dict[str, Any]) -> None:
    """Refuse an attribute that may not depend on the rank (a dim, a factor, an exponent)."""
    try:
        operands = tuple(v.type for v in node.inputs)
        types = infer_types(node.op, operands, attrs)
        lookup(node.op).algebra(operands, attrs)
    except (ShapeError, Undecided) as e:
        raise NotUniform(f"{node.source or node.op}: {e}") from None
    if types != tuple(v.type for v in node.outputs):
        raise NotUniform(f"{node.source or node.op} has a type that depends on the rank")
