"""Write a solution back: types, size-like attributes and value literals of every graph."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from shardproof.collectives.errors import node_name
from shardproof.ir.graph import Attrs, AttrValue, Graph, Node, Program, TensorType, Value
from shardproof.ops.base import ShapeError, infer_types
from shardproof.replay.errors import NotReplayable
from shardproof.replay.resize.analysis import Analysis
from shardproof.replay.resize.domains import Reading
from shardproof.replay.resize.scales import Bound
from shardproof.replay.resize.solve import Solution
from shardproof.replay.rewrite import copy_graph, copy_obligation
from shardproof.spec.problem import Problem


@dataclass(slots=True)
class Writer:
    """Rewrites graphs with a solution. ``counts``: whether literals that are 1 / number of summed
    terms follow the new number."""

    analysis: Analysis
    solution: Solution
    counts: bool = True

    def problem(self) -> Problem:
        """The resized problem.

        Raises:
            NotReplayable: a shape rule refuses the result, or computes another shape: a rule of
                this pass is then too weak, and nothing may be concluded from a replay.
        """
        old = self.analysis.problem
        graphs = [self.graph(g) for g in old.distributed.graphs]
        return Problem(
            old.name,
            self.graph(old.sequential),
            Program(old.distributed.mesh, graphs),
            [self.graph(g) for g in old.relation],
            [
                copy_obligation(ob, [None if g is None else self.graph(g) for g in ob.expected])
                for ob in old.obligations
            ],
            old.assumptions,
            old.left_out,
        )

    def graph(self, graph: Graph) -> Graph:
        """One graph at the new sizes, checked by the operators' shape rules."""
        out = copy_graph(graph, self.type_of, self.attrs_of)
        for node in out.nodes:
            _check(node)
        return out

    def type_of(self, v: Value) -> TensorType:
        dims = self.analysis.tensor(v).dims
        return TensorType(v.dtype, tuple(self.solution.size(d) for d in dims))

    def attrs_of(self, node: Node) -> Attrs:
        out = dict(node.attrs)
        shapes = tuple(self.type_of(v).shape for v in node.outputs)
        if "shape" in out and shapes:
            out["shape"] = shapes[0]
        if "shapes" in out:
            out["shapes"] = shapes
        # An axis made from nothing, or by adding rows, is as long as the result's first dim.
        for name in ("size", "rows"):
            if name in out and shapes and shapes[0]:
                out[name] = shapes[0][0]
        if node in self.analysis.bounds:
            out["start"], out["stop"] = self.bounds(node)
        for name in node.attrs:
            self.rewrite_value(node, name, out)
        return out

    def rewrite_value(self, node: Node, name: str, out: dict[str, AttrValue]) -> None:
        a, key = self.analysis, (node, name)
        if key in a.lists:
            sizes = tuple(self.solution.size(d) for d in a.lists[key])
            out[name] = sizes[0] if name == "extent" else sizes
        elif key in a.readings:
            out[name] = self.literal(a.readings[key])
        elif self.counts and node in a.counts and a.counts[node].attr == name:
            count = a.counts[node]
            factor = count.ratio / Fraction(prod(self.solution.size(d) for d in count.dims))
            out[name] = 1 / factor if count.inverse else factor

    def bounds(self, node: Node) -> tuple[int, int]:
        """The new start and stop of a slice."""
        start, stop = self.analysis.bounds[node]
        return self.bound(start), self.bound(stop)

    def bound(self, b: Bound) -> int:
        """The new position of a slice bound."""
        if b.prefix is not None:
            return self.solution.size(b.prefix)
        return self.solution.scaled(b.value, b.dim)

    def literal(self, r: Reading) -> int:
        """The new value of an integer literal."""
        if r.prefix is not None:
            return self.solution.size(r.prefix) * (1 if r.value > 0 else -1)
        if r.dim is None:
            return r.value
        return self.solution.scaled(r.base, r.dim) + r.offset


def _check(node: Node) -> None:
    try:
        types = infer_types(node.op, tuple(v.type for v in node.inputs), node.attrs)
    except ShapeError as e:
        raise NotReplayable(f"resizing failed at {node_name(node)}: {e}") from None
    declared = tuple(v.type for v in node.outputs)
    if [t.shape for t in types] != [t.shape for t in declared]:
        shown = ", ".join(map(str, declared)), ", ".join(map(str, types))
        text = f"{node.op} gives {shown[1]}, expected {shown[0]}"
        raise NotReplayable(f"resizing failed at {node_name(node)}: {text}")
