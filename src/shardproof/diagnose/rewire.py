"""Changes of what an operator reads, near the place of a finding.

Values of one type may stand for each other: a stale view for the reduced bucket, the local count
for the global one, the first micro-batch for the second. Which of them is right is not guessed
here; all are proposed, nearest first, and the search proves one or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from shardproof.diagnose.edit import Combine, Edit, Remove, Rewire, value_at
from shardproof.ir.graph import Graph, Node, Value, is_float

# Operators near the finding that are looked at, and values tried for one operand.
MAX_NODES = 10
MAX_VALUES = 14
MAX_PARTS = 4

Proposal = tuple[str, tuple[Edit, ...], str]  # text, edits, operator at their place


def proposals(graph: Graph, near: list[Value]) -> Iterator[Proposal]:
    """Changes at the nodes that make ``near``, in their order."""
    position = {n.outputs[0]: k for k, n in enumerate(graph.nodes) if n.outputs}
    inputs = {v: -1 - k for k, v in enumerate(graph.inputs)}
    places = [position[v] for v in near if v in position][:MAX_NODES]
    for k in places:
        yield from _parts_in_order(graph.nodes[k], k, {**position, **inputs})
    for k in places:
        yield from _one_operand(graph.nodes[k], k)
    for k in places:
        yield from _other_operands(graph, k, {**position, **inputs})
    for k in places:
        yield from _added(graph, k)


def _parts_in_order(node: Node, k: int, at: dict[Value, int]) -> Iterator[Proposal]:
    """The parts of a concatenation in another order."""
    if node.op != "concat" or len(node.inputs) > MAX_PARTS:
        return
    if not all(v in at for v in node.inputs):
        return
    for order in permutations(node.inputs):
        if order != node.inputs:
            names = ", ".join(f"%{v.name}" for v in order)
            yield (
                f"join {names} in this order{where(node)}",
                (Rewire(k, tuple(at[v] for v in order)),),
                node.op,
            )


def _one_operand(node: Node, k: int) -> Iterator[Proposal]:
    """The operator left out, for each operand of the type of its result."""
    if "group" in node.attrs:
        return
    for i, v in enumerate(node.inputs):
        if v.type == node.outputs[0].type:
            text = f"leave out {node.op}, keep %{v.name}{where(node)}"
            yield text, (Remove(k, i),), node.op


def _other_operands(graph: Graph, k: int, at: dict[Value, int]) -> Iterator[Proposal]:
    """Another value of the same type for one operand."""
    node = graph.nodes[k]
    if not all(v in at for v in node.inputs):
        return
    for i, old in enumerate(node.inputs):
        for other in _alike(graph, k, old):
            operands = [at[v] for v in node.inputs]
            operands[i] = other
            name = value_at(graph, other).name
            text = f"use %{name} for %{old.name} in %{node.outputs[0].name}{where(node)}"
            yield text, (Rewire(k, tuple(operands)),), node.op


def _added(graph: Graph, k: int) -> Iterator[Proposal]:
    """Another value of the same type added to, or multiplied with, the result."""
    node = graph.nodes[k]
    if not is_float(node.outputs[0].dtype):
        return
    for other in _alike(graph, k, node.outputs[0]):
        for op, words in (("add", "add %{} to"), ("mul", "multiply %{} with")):
            name = value_at(graph, other).name
            text = f"{words.format(name)} %{node.outputs[0].name}{where(node)}"
            yield text, (Combine(k, op, other),), node.op


def _alike(graph: Graph, k: int, like: Value) -> list[int]:
    """Positions of values before node ``k`` of the type of ``like``, nearest first."""
    before = [j for j in range(k - 1, -1, -1) if graph.nodes[j].outputs]
    before += [-1 - j for j in range(len(graph.inputs))]
    found = [j for j in before if _same(value_at(graph, j), like)]
    return found[:MAX_VALUES]


def _same(v: Value, like: Value) -> bool:
    return v is not like and v.type == like.type


def where(node: Node | None) -> str:
    """The line of an operator, for a text. One that autograd runs has that of the forward pass,
    where nothing is to be changed."""
    if node is None or not node.origin.file:
        return ""
    phase = "in the backward pass of" if node.origin.phase == "backward" else "at"
    return f" ({phase} {node.origin.file}:{node.origin.line})"
