"""A fix as a change of the user's source, where the statement is at hand and plain enough.

What is checked of a fix is the captured graph; how a line is to be written is a guess, and what is
made here is called a suggestion. Nothing is suggested where the value at the place of the edit is
not plainly that of the whole statement, nor in the backward pass, which has no lines of its own.
Sources are those that the capture has read; no file that a graph only names is opened.
"""

from __future__ import annotations

import ast
import difflib
import linecache
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shardproof.diagnose.edit import Edit, Insert, Remove
from shardproof.ir.graph import Graph, Node
from shardproof.ops import base as alg

VIEWS = (alg.Identity, alg.Reshape, alg.Permute)
REDUCTIONS = {"sum": "", "avg": "AVG", "max": "MAX", "min": "MIN"}


@dataclass(frozen=True, slots=True)
class Source:
    """A statement on one line, in a file that the capture has read."""

    shown: str
    lines: list[str]
    tree: ast.Module
    statement: ast.stmt

    @property
    def indent(self) -> str:
        line = self.lines[self.statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]


def suggestion(graph: Graph, edits: Sequence[Edit]) -> list[str]:
    """The lines of a unified diff; none where nothing can be suggested."""
    nodes = [graph.nodes[e.at] for e in edits if 0 <= e.at < len(graph.nodes)]
    places = {(n.origin.file, n.origin.line, n.origin.phase) for n in nodes}
    if len(nodes) != len(edits) or len(places) != 1 or len({type(e) for e in edits}) != 1:
        return []
    source = _source(nodes[0]) if nodes[0].origin.phase == "forward" else None
    if source is None:
        return []
    edit = edits[0]
    new: list[str] | None = None
    if isinstance(edit, Remove):
        new = [] if _is_call(source.statement, nodes[0].op) else None
    elif isinstance(edit, Insert) and all(_is_result(graph, n) for n in nodes):
        new = _changed(source, edit)
    return [] if new is None else _diff(source, new)


def _source(node: Node) -> Source | None:
    o = node.origin
    for path in (o.file, os.path.abspath(o.file)):
        entry: Any = linecache.cache.get(path)
        if entry is None or len(entry) != 4:
            continue
        lines = list(entry[2])
        if not 0 < o.line <= len(lines) or lines[o.line - 1].strip() != o.code:
            return None
        tree = ast.parse("".join(lines))
        found = [s for s in ast.walk(tree) if isinstance(s, ast.stmt) and s.lineno == o.line]
        if len(found) == 1 and found[0].end_lineno == o.line:
            return Source(o.file, lines, tree, found[0])
    return None


def _is_call(statement: ast.stmt, name: str) -> bool:
    """Whether a statement is nothing but a call of this name."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    return (called.attr if isinstance(called, ast.Attribute) else "") == name


def _is_result(graph: Graph, node: Node) -> bool:
    """Whether nothing on the same line reads a value but views of it, one after another: then it is
    what the line computes."""
    while True:
        readers = [
            n
            for n in graph.nodes
            if node.outputs[0] in n.inputs
            and (n.origin.file, n.origin.line, n.origin.module, n.origin.phase)
            == (node.origin.file, node.origin.line, node.origin.module, node.origin.phase)
        ]
        if not readers:
            return True
        if len(readers) > 1 or not _is_view(readers[0]):
            return False
        node = readers[0]


def _is_view(node: Node) -> bool:
    rules = alg.lookup(node.op).algebra(tuple(v.type for v in node.inputs), node.attrs)
    return len(rules) == 1 and isinstance(rules[0], VIEWS)


def _changed(source: Source, edit: Insert) -> list[str] | None:
    """The lines that take the place of the statement."""
    s, indent = source.statement, source.indent
    line = source.lines[s.lineno - 1].rstrip("\n")
    names = {n.id for n in ast.walk(source.tree) if isinstance(n, ast.Name)}
    if isinstance(s, ast.Return) and s.value is not None:
        name = next(x for x in ("out", "result", "returned") if x not in names)
        before, after = f"{indent}{name} = {ast.unparse(s.value)}", [f"{indent}return {name}"]
    elif isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name):
        name, before, after = s.targets[0].id, line, []
    else:
        return None
    made = _made(source, edit, name)
    return None if made is None else [before, indent + made, *after]


def _made(source: Source, edit: Insert, name: str) -> str | None:
    attrs = edit.attrs(0)
    if edit.op == "scale" and isinstance(attrs.get("by"), Fraction | int):
        by = Fraction(attrs["by"])
        factor = f"/ {by.denominator}" if by.numerator == 1 else f"* {by.numerator}"
        return f"{name} = {name} {factor}" if 1 in (by.numerator, by.denominator) else None
    if edit.op != "all_reduce" or attrs.get("op") not in REDUCTIONS:
        return None
    module = _distributed(source.tree)
    op = REDUCTIONS[attrs["op"]]
    more = f", op={module}.ReduceOp.{op}" if op else ""
    return f"{module}.all_reduce({name}{more}, group={_group(source)})"


def _distributed(tree: ast.Module) -> str:
    """The name that a file has for torch.distributed."""
    for n in ast.walk(tree):
        for a in n.names if isinstance(n, ast.Import) else ():
            if a.name == "torch.distributed" and a.asname:
                return a.asname
    return "torch.distributed"


def _group(source: Source) -> str:
    """What the class or function around calls its group, where that is one name."""
    line = source.statement.lineno
    kinds = (ast.ClassDef, ast.FunctionDef)
    for part in source.tree.body:
        if isinstance(part, kinds) and part.lineno <= line <= (part.end_lineno or 0):
            found = {
                ast.unparse(n)
                for n in ast.walk(part)
                if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "self"
                and n.attr.lower().endswith(("group", "pg"))
            }  # fmt: skip
            return found.pop() if len(found) == 1 else "..."
    return "..."


def _diff(source: Source, new: list[str]) -> list[str]:
    k = source.statement.lineno
    after = [*source.lines[: k - 1], *(f"{x}\n" for x in new), *source.lines[k:]]
    lines = difflib.unified_diff(source.lines, after, source.shown, source.shown, n=2)
    return [line.rstrip("\n") for line in lines]
