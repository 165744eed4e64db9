"""A change at one call of a source line, made at every call of it: a layer is written once, and
what is wrong in it is wrong in all its copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from shardproof.diagnose.candidates import Candidate
from shardproof.diagnose.edit import Insert, Remove, Set
from shardproof.ir.graph import Graph, Node, Value


def everywhere(graph: Graph, blamed: Node | None, change: Candidate) -> Iterator[Candidate]:
    """The change at one call of the line in each module, then at all calls of it, as far as these
    are other changes. A change of an input is one of what ``blamed`` reads there."""
    edit = change.edits[0]
    if len(change.edits) != 1 or not isinstance(edit, Insert | Remove | Set):
        return
    node = graph.nodes[edit.at] if edit.at >= 0 else blamed
    if node is None or not node.origin.file:
        return
    before = 1
    for alike in _alike(graph, node):
        places = alike if edit.at >= 0 else _read(graph, node, -1 - edit.at, alike)
        places = list(dict.fromkeys(places))
        if edit.at not in places or len(places) <= before:
            continue
        before = len(places)
        text = f"{change.text}, in each of its {before} calls"
        yield replace(change, text=text, edits=tuple(replace(edit, at=k) for k in places))


def _alike(graph: Graph, node: Node) -> Iterator[list[int]]:
    """Nodes of the same line, operator and phase: in every module the one of the same number, then
    in every call, as a module may call a function of its own several times."""
    line = _line(node)
    modules: dict[int, int] = {}
    calls: dict[int, int] = {}
    seen: Counter[str] = Counter()
    in_call = 0
    for k, n in enumerate(graph.nodes):
        if not _inside(n, node):
            in_call = 0
        if _line(n) == line:
            modules[k], calls[k] = seen[n.origin.module], in_call
            seen[n.origin.module] += 1
            in_call += 1
    mine = next(k for k in modules if graph.nodes[k] is node)
    for numbers in (modules, calls):
        yield [k for k, i in numbers.items() if i == numbers[mine]]


def _inside(n: Node, node: Node) -> bool:
    """Whether the line of ``node`` makes or calls ``n``: one call of it is a run of such nodes."""
    o = node.origin
    if n.origin.phase != o.phase:
        return False
    return (n.origin.file, n.origin.line) == (o.file, o.line) or (
        f"{o.file}:{o.line}" in n.origin.callers
    )


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
