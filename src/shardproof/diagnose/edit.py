"""Change a distributed program at one place on every rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from shardproof.ir.graph import Graph, Mesh, Node, Program, TensorType, Value
from shardproof.ops.base import ShapeError, infer_types
from shardproof.replay.instantiate import group_ranks
from shardproof.replay.rewrite import copy_graph
from shardproof.spec.problem import Problem

AttrsOfRank = Callable[[int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Insert:
    """A new operator on the first result of node ``at`` (an input's position is negative: -1 is
    the first input), whose result takes the place of that result everywhere behind it."""

    at: int
    op: str
    attrs: AttrsOfRank


@dataclass(frozen=True, slots=True)
class Remove:
    """Node ``at`` is left out; its operand ``keep`` takes the place of its result."""

    at: int
    keep: int = 0


@dataclass(frozen=True, slots=True)
class Rewire:
    """Other operands of node ``at``: the first results of earlier nodes (or inputs), by place."""

    at: int
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Combine:
    """``op`` of the result of node ``at`` and that of an earlier node (or input) ``other``, which
    takes the place of the first."""

    at: int
    op: str
    other: int


@dataclass(frozen=True, slots=True)
class Set:
    """Other attributes of node ``at``."""

    at: int
    attrs: AttrsOfRank


@dataclass(frozen=True, slots=True)
class Result:
    """A new operator on what is returned under ``name``, on every rank that returns it: it needs no
    position that the ranks have in common."""

    name: str
    op: str
    attrs: AttrsOfRank
    at: int = -1


Edit = Insert | Remove | Set | Rewire | Combine | Result


def content(edits: Sequence[Edit], ranks: int) -> tuple[object, ...]:
    """Equal for edits that do the same on every rank, in whatever order they are listed."""
    return tuple(sorted(repr(_content(e, ranks)) for e in edits))


def _content(e: Edit, ranks: int) -> tuple[object, ...]:
    attrs: AttrsOfRank | None = getattr(e, "attrs", None)
    rest = [getattr(e, f.name) for f in fields(e) if f.name != "attrs"]
    done = [sorted(attrs(r).items()) for r in range(ranks)] if attrs is not None else []
    return type(e).__name__, rest, done


def apply(problem: Problem, edits: Sequence[Edit], op: str) -> Problem | None:
    """The problem with the edits made on every rank that runs ``op`` at their place (any operator
    if empty); None where the result is not well-shaped."""
    graphs = []
    for rank, old in enumerate(problem.distributed.graphs):
        g = copy_graph(old, lambda v: v.type, lambda n: dict(n.attrs))
        try:
            # From the back, so that earlier positions stay what they are.
            for e in sorted(edits, key=lambda e: -e.at):
                if e.at >= len(g.nodes):
                    return None
                if op and e.at >= 0 and g.nodes[e.at].op != op:
                    continue
                _one(g, e, rank)
            _retype(g)
        except ShapeError:
            return None
        graphs.append(g)
    p = problem.distributed
    program = Program(p.mesh, graphs, p.spmd, p.inner)
    return replace(problem, distributed=program)


def _one(g: Graph, e: Edit, rank: int) -> None:
    if isinstance(e, Result):
        _returned(g, e, rank)
        return
    if isinstance(e, Set):
        g.nodes[e.at].attrs.update(e.attrs(rank))
        return
    if isinstance(e, Remove):
        node = g.nodes.pop(e.at)
        _replace(g, node.outputs[0], node.inputs[e.keep], e.at)
        return
    if isinstance(e, Rewire):
        g.nodes[e.at].inputs = tuple(value_at(g, k) for k in e.operands)
        return
    old = value_at(g, e.at)
    attrs = e.attrs(rank) if isinstance(e, Insert) else {}
    operands = (old,) if isinstance(e, Insert) else (old, value_at(g, e.other))
    new = Value(f"{old.name}.fix", infer_types(e.op, tuple(v.type for v in operands), attrs)[0])
    _replace(g, old, new, e.at + 1)
    origin = g.nodes[e.at].origin if e.at >= 0 else g.nodes[0].origin
    g.nodes.insert(max(e.at + 1, 0), Node(e.op, operands, attrs, (new,), origin, new.name))


def _returned(g: Graph, e: Result, rank: int) -> None:
    place = g.output_names.index(e.name) if e.name in g.output_names else None
    old = g.outputs[place] if place is not None else None
    if place is None or old is None:
        return
    attrs = e.attrs(rank)
    new = Value(f"{old.name}.fix", infer_types(e.op, (old.type,), attrs)[0])
    maker = next((n for n in g.nodes if old in n.outputs), g.nodes[-1])
    g.nodes.append(Node(e.op, (old,), attrs, (new,), maker.origin, new.name))
    g.outputs[place] = new


def value_at(g: Graph, position: int) -> Value:
    """The first result of a node, or an input (negative positions).

    Raises:
        ShapeError: this rank's program has none there; it may be another than the one edited.
    """
    found: Sequence[Value] = g.inputs
    index = -1 - position
    if position >= 0:
        found, index = (g.nodes[position].outputs if position < len(g.nodes) else ()), 0
    if index >= len(found):
        raise ShapeError(f"no value at {position}")
    return found[index]


def _replace(g: Graph, old: Value, new: Value, start: int) -> None:
    for n in g.nodes[max(start, 0) :]:
        if old in n.inputs:
            n.inputs = tuple(new if v is old else v for v in n.inputs)
    g.outputs = [new if v is old else v for v in g.outputs]


def _retype(g: Graph) -> None:
    """Check every node: an edit must not change the type of a later value, nor read one that is
    not there yet, or not any more."""
    made = set(g.inputs)
    for n in g.nodes:
        if not made.issuperset(n.inputs):
            raise ShapeError(f"{n.op} reads a value that nothing has made")
        made.update(n.outputs)
        types = infer_types(n.op, tuple(v.type for v in n.inputs), n.attrs)
        if tuple(types) != tuple(v.type for v in n.outputs):
            raise ShapeError(f"{n.op} has another type after the edit")
    if not made.issuperset(v for v in g.outputs if v is not None):
        raise ShapeError("an output that nothing has made")


def group_attrs(mesh: Mesh, axis: str, spmd: bool) -> AttrsOfRank:
    """The attributes ``group`` and ``group_size`` of a collective along a mesh axis."""
    size = mesh.extent(axis)

    def attrs(rank: int) -> dict[str, Any]:
        group: Any = (axis,) if spmd else group_ranks(mesh, rank, (axis,))
        return {"group": group, "group_size": size}

    return attrs


__all__ = [
    "AttrsOfRank", "Combine", "Edit", "Insert", "Remove", "Result", "Rewire", "Set", "TensorType",
    "apply", "group_attrs", "value_at",
]  # fmt: skip
