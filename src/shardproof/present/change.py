"""A proposed change as a diff of the captured graph."""

from __future__ import annotations

import difflib

from shardproof.diagnose.candidates import Candidate
from shardproof.diagnose.edit import apply
from shardproof.ir.graph import Graph
from shardproof.ir.printer import format_node
from shardproof.spec.problem import Problem

CONTEXT = 2
MAX_LINES = 40


def diff_lines(problem: Problem, change: Candidate, k: int) -> list[str]:
    """The k-th graph before and after as unified diff lines without headers; hunks start with
    ``@@`` and the place in the user's program."""
    edited = apply(problem, change.edits, change.op)
    if edited is None:
        return []
    old, new = problem.distributed.graphs[k], edited.distributed.graphs[k]
    before, after = _lines(old), _lines(new)
    out: list[str] = []
    for group in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_grouped_opcodes(
        CONTEXT
    ):
        out.append(f"@@ {_place(old, group[0][1], group[-1][2])}".rstrip())
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [f"  {x}" for x in before[i1:i2]]
                continue
            out += [f"- {x}" for x in before[i1:i2]]
            out += [f"+ {x}" for x in after[j1:j2]]
    return out if len(out) <= MAX_LINES else [*out[:MAX_LINES], "..."]


def _lines(graph: Graph) -> list[str]:
    nodes = [format_node(n) for n in graph.nodes]
    return [*(f"%{v.name}: {v.type} = input" for v in graph.inputs), *nodes, _returned(graph)]


def _returned(graph: Graph) -> str:
    names = zip(graph.output_names, graph.outputs, strict=True)
    return "return " + ", ".join(f"{n}=%{v.name}" for n, v in names if v is not None)


def _place(graph: Graph, first: int, last: int) -> str:
    """The source line of the first operator of a hunk that has one."""
    start = len(graph.inputs)
    for n in graph.nodes[max(first - start, 0) : max(last - start, 0)]:
        if n.origin.file:
            return str(n.origin)
    return ""
