"""Labels that a program leaves out (`ignore_index`), where a count of the others is the cause."""

from __future__ import annotations

from shardproof.infer.run import Inference
from shardproof.ir.graph import Graph
from shardproof.ir.sizes import at_least
from shardproof.replay.inputs import sought


def ignored(inf: Inference, leaves: set[int]) -> list[str]:
    """A note for each integer input among ``leaves`` that may have a value which the sequential
    program looks for: what it counts then differs from rank to rank."""
    out = []
    graph = inf.problem.sequential
    for name, values in sought(graph).items():
        atom = _atom(inf, graph, name)
        left = [v for v in dict.fromkeys(values) if atom in leaves and _possible(inf, atom, v)]
        if left:
            out.append(
                f"some of %{name} may be {' or '.join(map(str, left))}, which the program leaves "
                "out; the ranks then count different numbers of the others. If none is, say so: "
                f"below={_bound(inf, atom)} (of its Input, or below={{{name!r}: ...}} of printed "
                "graphs)"
            )
    return out


def _atom(inf: Inference, graph: Graph, name: str) -> int:
    terms = [t for c in inf.sequential[graph.input(name)].cells for t, _ in c.lin]
    return terms[0].atom if len(terms) == 1 else -1


def _possible(inf: Inference, atom: int, value: int) -> bool:
    known = inf.evaluator.known.range(atom)
    return known is None or not (at_least(value, known[1]) or at_least(known[0], value + 1))


def _bound(inf: Inference, atom: int) -> str:
    """The rows of the table that the labels which are not left out index."""
    spans = inf.evaluator.known.spans.get(atom, ())
    return str(spans[-1][1]) if spans and spans[-1][1] is not None else "N"
