"""What a certificate proves, read off the graphs that were checked and nothing else in the file.

A text in the file about its own relation (``x: Shard(0)``) could say anything; the relation graphs
are what the proof is about.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.errors import shorten
from shardproof.ir.graph import Graph, Value
from shardproof.spec.problem import Obligation, Problem

MAX_LINES = 200
MAX_TEXT = 160


def relation_lines(problem: Problem) -> list[str]:
    """What each distributed input is, by the relation graphs."""
    graphs = [[(n, g, v, None) for n, v in zip(g.output_names, g.outputs, strict=True)]
              for g in problem.relation]  # fmt: skip
    lines = _grouped(graphs)
    known = {part[0] for parts in graphs for part in parts}
    unknown = {v.name for g in problem.distributed.graphs for v in g.inputs} - known
    return _limited([*lines, *(f"{n}: anything" for n in sorted(unknown))])


def obligation_lines(problem: Problem) -> list[str]:
    """What each output was shown to be."""
    plain = [ob for ob in problem.obligations if not ob.partial_over]
    graphs = [[p for ob in plain for p in _part(ob, k)] for k in range(len(problem.relation))]
    lines = []
    for ob in problem.obligations:
        if ob.partial_over:
            axes = ", ".join(map(shorten, ob.partial_over))
            parts = [_part(ob, k) for k in range(len(ob.expected))]
            lines += [f"{line} (summed over {axes})" for line in _grouped(parts)]
    return _limited([*_grouped(graphs), *lines])


def not_stated(problem: Problem) -> list[str]:
    """Outputs of the sequential graph of which nothing was shown."""
    stated = {ob.seq_output for ob in problem.obligations}
    return [n for n in problem.sequential.output_names if n not in stated]


Parts = Sequence[tuple[str, Graph, Value | None, str | None]]
"""Names, graphs, their values, and what the input of a graph is, whatever it is called there."""


def _part(ob: Obligation, k: int) -> Parts:
    g = ob.expected[k]
    return [] if g is None else [(ob.dist_output, g, g.outputs[0], ob.seq_output)]


def _grouped(ranks: Sequence[Parts]) -> list[str]:
    """One line a name and expression; what has its sequential name on every rank in one line."""
    found: dict[str, dict[str, list[int]]] = {}
    for k, parts in enumerate(ranks):
        for name, g, v, read in parts:
            if v is not None:
                found.setdefault(name, {}).setdefault(_expression(g, v, read), []).append(k)
    everywhere = len(ranks)
    same = [n for n, texts in found.items() if list(texts.items()) == [(n, [*range(everywhere)])]]
    lines = [f"{', '.join(same)}: the same on every rank"] if same else []
    for name, texts in found.items():
        if name not in same:
            lines += [f"{name}{_where(ks, everywhere)} = {t}" for t, ks in texts.items()]
    return lines


def _where(ranks: Sequence[int], everywhere: int) -> str:
    if len(ranks) == everywhere:
        return " on every rank" if everywhere > 1 else ""
    return f" on rank{'s' if len(ranks) > 1 else ''} " + ", ".join(map(str, ranks))


def _expression(g: Graph, v: Value, read: str | None) -> str:
    """A value of a graph of rearrangements as an expression of the graph's inputs."""
    texts: dict[Value, str] = {x: read or x.name for x in g.inputs}
    for node in g.nodes:
        args = [texts[x] for x in node.inputs]
        args += [f"{k}={_attr(x)}" for k, x in node.attrs.items()]
        for o in node.outputs:
            texts[o] = shorten(f"{node.op}({', '.join(args)})", MAX_TEXT)
    return texts[v]


def _attr(x: object) -> str:
    return f"({', '.join(map(_attr, x))})" if isinstance(x, tuple) else str(x)


def _limited(lines: list[str]) -> list[str]:
    left = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], *([f"{left} more"] if left > 0 else [])]
