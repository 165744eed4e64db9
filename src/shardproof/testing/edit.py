"""Edits of one graph that keep it well-shaped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from shardproof.ir.graph import AttrValue, Graph, Node, Value
from shardproof.ops.base import ShapeError, infer_types


@dataclass(eq=False, slots=True)
class Edit:
    """A change of one graph.

    ``replaced``: what stands in the place of a node; the outputs of the node are made by it, or
    are ``rewired`` (every use of a value becomes a use of another). ``order``: the nodes in
    another order.
    """

    replaced: dict[Node, tuple[Node, ...]] = field(default_factory=dict)
    rewired: dict[Value, Value] = field(default_factory=dict)
    order: list[Node] | None = None


def apply(graph: Graph, edit: Edit) -> Graph:
    """The graph after an edit; untouched nodes and values are shared with ``graph``."""

    def use(v: Value) -> Value:
        while v in edit.rewired:
            v = edit.rewired[v]
        return v

    nodes = []
    for old in edit.order or graph.nodes:
        for n in edit.replaced.get(old, (old,)):
            inputs = tuple(use(v) for v in n.inputs)
            nodes.append(n if inputs == n.inputs else replace(n, inputs=inputs))
    outputs = [None if v is None else use(v) for v in graph.outputs]
    return Graph(
        graph.name, list(graph.inputs), nodes, outputs, list(graph.output_names), graph.rank
    )


class Chain:
    """Nodes that take the place of ``node``: some with values of their own, then one that makes
    the values which ``node`` made."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.nodes: list[Node] = []

    def emit(self, op: str, /, *inputs: Value, **attrs: AttrValue) -> Value:
        """Append a node with one new value.

        Raises:
            ShapeError: the operator refuses these operands.
        """
        (kind,) = infer_types(op, tuple(v.type for v in inputs), attrs)
        out = Value(f"{self._source}#mutant{len(self.nodes)}", kind)
        self.nodes.append(self._node(op, inputs, attrs, (out,)))
        return out

    def finish(self, op: str, /, *inputs: Value, **attrs: AttrValue) -> Edit:
        """Append the node that makes the values of the old one.

        Raises:
            ShapeError: it would make values of other types.
        """
        outs = self.node.outputs
        types = infer_types(op, tuple(v.type for v in inputs), attrs)
        if types != tuple(v.type for v in outs):
            raise ShapeError(f"{op} makes values of other types")
        self.nodes.append(self._node(op, inputs, attrs, outs))
        return Edit({self.node: tuple(self.nodes)})

    def reshaped(self, v: Value) -> Edit:
        """Make the value of the old node from ``v``, which has as many elements."""
        want = self.node.output.type
        if v.type != want:
            return self.finish("reshape", v, shape=want.shape)
        last = self.nodes[-1]
        self.nodes[-1] = replace(last, outputs=self.node.outputs)
        return Edit({self.node: tuple(self.nodes)})

    @property
    def _source(self) -> str:
        return self.node.source or self.node.outputs[0].name

    def _node(
        self,
        op: str,
        inputs: tuple[Value, ...],
        attrs: dict[str, AttrValue],
        outputs: tuple[Value, ...],
    ) -> Node:
        return Node(op, inputs, attrs, outputs, self.node.origin, self._source)


def with_attrs(node: Node, **attrs: AttrValue) -> Edit:
    """``node`` with other attributes.

    Raises:
        ShapeError: then it would not make values of the same types.
    """
    return Chain(node).finish(node.op, *node.inputs, **{**node.attrs, **attrs})


def with_inputs(node: Node, inputs: tuple[Value, ...]) -> Edit:
    """``node`` with other operands of the same types."""
    return Edit({node: (replace(node, inputs=inputs),)})


def removed(node: Node, instead: Value) -> Edit:
    """The graph without ``node``, a value in the place of its only output.

    Raises:
        ShapeError: the types differ.
    """
    if instead.type != node.output.type:
        raise ShapeError("the operand has another type")
    return Edit({node: ()}, {node.output: instead})


def live_nodes(graph: Graph, outputs: Iterable[Value]) -> list[Node]:
    """The nodes that ``outputs`` depend on within this graph, in order."""
    needed = set(outputs)
    found = []
    for node in reversed(graph.nodes):
        if any(v in needed for v in node.outputs) or not node.outputs:
            needed.update(node.inputs)
            found.append(node)
    return found[::-1]
