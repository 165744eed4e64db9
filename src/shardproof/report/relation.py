"""Output relations and conditions as text."""

from __future__ import annotations

from shardproof.collectives.match import is_collective
from shardproof.ir.graph import Graph
from shardproof.ir.sizes import Poly, Size, at_least, symbols
from shardproof.spec.problem import Obligation, Problem

SHOWN = 4
OF_ITSELF = (
    "no collective and nothing sharded: every rank does the whole work, so that this may compare "
    "the program with itself"
)


def expression(ob: Obligation, problem: Problem) -> str:
    """How a sequential output is rebuilt, e.g. ``concat(rank0.logits, rank1.logits; dim=2)``."""
    out = ob.dist_output
    graphs = [g for g in ob.expected if g is not None]
    n = problem.distributed.mesh.size
    if ob.partial_over:
        axes = ", ".join(ob.partial_over)
        return f"sum over {axes} of rank.{out}"
    if all(not g.nodes for g in graphs):
        return f"{out} of every rank" if n != 1 else out
    dim = _slice_dim(graphs)
    if dim is not None and problem.distributed.spmd:
        return f"concat(rank.{out} over all ranks; dim={dim})"
    if dim is not None and len({_start(g) for g in graphs}) == len(graphs):
        parts = [f"rank{r}.{out}" for r in range(len(graphs))]
        if len(parts) > SHOWN:
            parts = [*parts[:2], "...", parts[-1]]
        return f"concat({', '.join(parts)}; dim={dim})"
    return f"{out} by {ob.placement}"


def proof_notes(problem: Problem) -> list[str]:
    """What a reader of a proof must know to take it for what it is."""
    program = problem.distributed
    related = [*problem.relation, *(g for ob in problem.obligations for g in ob.expected)]
    alone = (
        program.mesh.size != 1
        and not any(is_collective(n) for g in program.graphs for n in g.nodes)
        and not any(g is None or g.nodes for g in related)
        and not any(ob.partial_over for ob in problem.obligations)
    )
    return [*([OF_ITSELF] if alone else []), *problem.notes]


def _slice_dim(graphs: list[Graph]) -> int | None:
    dims = set()
    for g in graphs:
        if len(g.nodes) != 1 or g.nodes[0].op != "slice":
            return None
        dims.add(g.nodes[0].attrs["dim"])
    dim = dims.pop() if len(dims) == 1 else None
    return dim if isinstance(dim, int) else None


def _start(g: Graph) -> object:
    return g.nodes[0].attrs["start"]


def condition_lines(problem: Problem) -> list[str]:
    """What the symbols of a symbolic problem stand for."""
    found = set()
    for g in [problem.sequential, *problem.distributed.graphs]:
        for v in g.values():
            for s in v.shape:
                found |= {x.name for x in symbols(s) if x.extent is None}
    for _, n in problem.distributed.mesh.axes:
        found |= {x.name for x in symbols(n) if x.extent is None}
    if not found:
        return []
    lines = [f"for all integers {', '.join(_runs(found))} >= 1"]
    needed = [(f"{n} >= 1", v) for v, n in possibly_empty(problem)]
    first = dict(reversed(needed))
    return lines + [f"where {text} (an extent of %{first[text]})" for text in dict(needed)]


def possibly_empty(problem: Problem) -> list[tuple[str, Size]]:
    """Values with an extent that is zero for some sizes or ranks. Reductions of nothing have
    other values than the lemmas say, so that this is asked of the sizes."""
    out: list[tuple[str, Size]] = []
    for g in [problem.sequential, *problem.distributed.graphs]:
        for v in g.values():
            out += [(v.name, n) for n in v.shape if isinstance(n, Poly) and not at_least(n, 1)]
    return out


def of_ranks(n: Size) -> bool:
    """Whether a size depends on the rank."""
    return any(s.extent is not None for s in symbols(n))


def _runs(names: set[str]) -> list[str]:
    """Names in order, numbered ones as ranges (``u1..u9``)."""
    numbered = sorted(int(n[1:]) for n in names if n[:1] == "u" and n[1:].isdigit())
    out = sorted(n for n in names if not (n[:1] == "u" and n[1:].isdigit()))
    start = 0
    for k in range(len(numbered)):
        if k + 1 == len(numbered) or numbered[k + 1] != numbered[k] + 1:
            first, last = numbered[start], numbered[k]
            out.append(f"u{first}" if first == last else f"u{first}..u{last}")
            start = k + 1
    return out
