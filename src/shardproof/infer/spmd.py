"""Fold the graphs of isomorphic ranks into one graph whose attributes are affine in the rank.

Rank coordinates become symbols (``@tp``), one a mesh axis. The fold is exact: every attribute of
every rank is reproduced by substituting that rank's coordinates, which is checked here, and each
collective's group is a set of mesh axes. Programs whose ranks differ otherwise do not fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from shardproof.ir.graph import Graph, Mesh, Node, Program, TensorType, Value
from shardproof.ir.sizes import Size


class NotUniform(Exception):
    """The ranks are not one program with rank-affine attributes; the text says where."""


class Fold:
    """Folds lists of graphs (one a rank, in rank order) over one mesh."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        n = mesh.size
        if not isinstance(n, int):
            raise NotUniform("the mesh is symbolic")
        self.coords = [mesh.coordinates(r) for r in range(n)]
        self.axes = [a for a, k in mesh.axes if k != 1]
        self._groups: dict[Any, tuple[str, ...]] = {}

    def program(self, program: Program) -> Program:
        return Program(self.mesh, [self.graph(program.graphs)], spmd=True)

    def graph(self, graphs: Sequence[Graph]) -> Graph:
        """One graph for all ranks.

        Raises:
            NotUniform: some node, type or wiring differs between ranks.
        """
        first = graphs[0]
        if any(len(g.nodes) != len(first.nodes) for g in graphs):
            raise NotUniform("the ranks have different numbers of operators")
        if any(len(g.inputs) != len(first.inputs) for g in graphs):
            raise NotUniform("the ranks have different numbers of inputs")
        number: list[dict[Value, int]] = [{} for _ in graphs]
        made: list[Value] = []
        out = Graph(first.name)
        for col in zip(*(g.inputs for g in graphs), strict=True):
            if any(v.name != col[0].name for v in col):
                raise NotUniform(f"input {col[0].name} has another name on another rank")
            out.inputs.append(self._value(col, number, made))
        for nodes in zip(*(g.nodes for g in graphs), strict=True):
            out.nodes.append(self._node(nodes, number, made))
        for outs in zip(*(g.outputs for g in graphs), strict=True):
            out.outputs.append(self._output(outs, number, made))
        out.output_names = list(first.output_names)
        return out

    def _output(
        self, outs: Sequence[Value | None], number: list[dict[Value, int]], made: list[Value]
    ) -> Value | None:
        known = [v for v in outs if v is not None]
        if not known:
            return None
        if len(known) != len(outs):
            raise NotUniform("an output is missing on some ranks")
        k = number[0][known[0]]
        if any(number[r][v] != k for r, v in enumerate(known)):
            raise NotUniform("the ranks return different values")
        return made[k]

    def _value(
        self, col: Sequence[Value], number: list[dict[Value, int]], made: list[Value]
    ) -> Value:
        t = col[0].type
        if any(v.type != t for v in col):
            raise NotUniform(f"{col[0].name} has another type on another rank")
        for r, v in enumerate(col):
            number[r][v] = len(made)
        v = Value(col[0].name, TensorType(t.dtype, t.shape))
        made.append(v)
        return v

    def _node(
        self, nodes: Sequence[Node], number: list[dict[Value, int]], made: list[Value]
    ) -> Node:
        n0 = nodes[0]
        ins = tuple(number[0][v] for v in n0.inputs)
        for r, n in enumerate(nodes):
            if n.op != n0.op or len(n.inputs) != len(ins) or len(n.outputs) != len(n0.outputs):
                raise NotUniform(f"{n0.source or n0.op} is another operator on rank {r}")
            if tuple(number[r][v] for v in n.inputs) != ins:
                raise NotUniform(f"{n0.source or n0.op} reads other operands on rank {r}")
        attrs = self._attrs(nodes)
        outs = tuple(
            self._value([n.outputs[k] for n in nodes], number, made)
            for k in range(len(n0.outputs))
        )
        return Node(n0.op, tuple(made[k] for k in ins), attrs, outs, n0.origin, n0.source)

    def _attrs(self, nodes: Sequence[Node]) -> dict[str, Any]:
        n0 = nodes[0]
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

    def group(self, col: Sequence[Any]) -> tuple[str, ...]:
        """The mesh axes along which every rank's group runs."""
        key = tuple(col)
        if key not in self._groups:
            self._groups[key] = self._axes_of(col)
        return self._groups[key]

    def _axes_of(self, col: Sequence[Any]) -> tuple[str, ...]:
        varying = [
            a for a in self.axes if any(self.coords[r][a] != self.coords[col[0][0]][a] for r in col[0])
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

    def _position(self, nodes: Sequence[Node]) -> int:
        """The source rank of a broadcast as its position in the group."""
        found = set()
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
