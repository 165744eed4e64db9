"""A change at one call of a source line, made at every call of it: a layer is written once, and
what is wrong in it is wrong in all its copies."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from shardproof.diagnose.candidates import Candidate
from shardproof.diagnose.edit import Insert, Remove, Set
from shardproof.ir.graph import Graph, Node, Value


def everywhere(graph: Graph, blamed: Node | None, change: Candidate) -> Candidate | None:
    """The change at every call of the line, None where that is the same change. A change of an
    input is one of what ``blamed`` reads there."""
    if len(change.edits) != 1:
        return None
    edit = change.edits[0]
    if not isinstance(edit, Insert | Remove | Set):
        return None
    node = graph.nodes[edit.at] if edit.at >= 0 else blamed
    alike = _alike(graph, node) if node is not None and node.origin.file else []
    if node is None or len(alike) < 2:
        return None
    places = alike if edit.at >= 0 else _read(graph, node, -1 - edit.at, alike)
    places = list(dict.fromkeys(places))
    if edit.at not in places or len(places) < 2:
        return None
    text = f"{change.text}, in each of its {len(places)} calls"
    return replace(change, text=text, edits=tuple(replace(edit, at=k) for k in places))


def _alike(graph: Graph, node: Node) -> list[int]:
    """Nodes of the same line, operator and phase, in every module the one of the same number."""
    line = _line(node)
    seen: Counter[str] = Counter()
    numbers: dict[int, int] = {}
    for k, n in enumerate(graph.nodes):
        if _line(n) == line:
            numbers[k] = seen[n.origin.module]
            seen[n.origin.module] += 1
    mine = next(i for k, i in numbers.items() if graph.nodes[k] is node)
    return [k for k, i in numbers.items() if i == mine]


def _line(n: Node) -> tuple[object, ...]:
    o = n.origin
    return n.op, o.file, o.line, o.phase, tuple(v.type for v in n.outputs)


def _read(graph: Graph, node: Node, k: int, alike: list[int]) -> list[int]:
    """The inputs that nodes read where ``node`` reads the k-th input, as positions of edits."""
    place: dict[Value, int] = {v: -1 - i for i, v in enumerate(graph.inputs)}
    index = next((i for i, v in enumerate(node.inputs) if v is graph.inputs[k]), None)
    if index is None:
        return []
    read = [graph.nodes[j].inputs[index] for j in alike]
    return [place[v] for v in read if v in place]
