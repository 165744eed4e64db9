"""Check a generalisation: a captured instance must come back by substitution."""

from __future__ import annotations

from collections.abc import Iterable

from shardproof.ir.graph import Graph, Node
from shardproof.ir.sizes import Poly, Size
from shardproof.replay.errors import NotReplayable
from shardproof.replay.instantiate import instantiate_problem
from shardproof.spec.problem import Problem


def reproduces(general: Problem, captured: Problem, values: dict[str, int]) -> bool:
    """Whether ``general`` with ``values`` for its symbols is ``captured``: same operators, types,
    attributes and wiring in every graph of every rank."""
    try:
        made = instantiate_problem(general, values)
    except (NotReplayable, ZeroDivisionError):
        return False
    pairs = list(zip(_graphs(made), _graphs(captured), strict=False))
    if len(pairs) != len(list(_graphs(captured))) or len(pairs) != len(list(_graphs(made))):
        return False
    return all(same_graph(a, b) for a, b in pairs)


def find_values(
    general: Problem, captured: Problem, fixed: dict[str, int]
) -> dict[str, int] | None:
    """Numbers of the symbols of ``general`` in another captured instance, read off the shapes of
    its tensors; ``fixed`` gives the extents of mesh axes."""
    values = dict(fixed)
    rows = list(_shapes(general, captured))
    changed = True
    while changed:
        changed = False
        for size, number in rows:
            if isinstance(size, Poly) and len(size.terms) == 1:
                changed |= _solve(size, number, values)
    return values


def _solve(size: Poly, number: int, values: dict[str, int]) -> bool:
    ((mono, coef),) = size.terms.items()
    unknown = [s.name for s in mono if s.name not in values]
    if len(unknown) != 1:
        return False
    known = coef
    for s in mono:
        known *= values.get(s.name, 1)
    if known == 0 or number % known:
        return False
    values[unknown[0]] = number // known
    return True


def _shapes(general: Problem, captured: Problem) -> Iterable[tuple[Size, int]]:
    pairs = [(general.sequential, captured.sequential)]
    pairs.append((general.distributed.graphs[0], captured.distributed.graphs[0]))
    for a, b in pairs:
        for v, w in zip(a.values(), b.values(), strict=False):
            for s, n in zip(v.shape, w.shape, strict=False):
                if isinstance(n, int):
                    yield s, n


def _graphs(p: Problem) -> Iterable[Graph]:
    yield p.sequential
    yield from p.distributed.graphs
    yield from p.relation
    for ob in p.obligations:
        yield from (g for g in ob.expected if g is not None)


def same_graph(a: Graph, b: Graph) -> bool:
    """Whether two graphs are equal but for names and provenance."""
    if len(a.inputs) != len(b.inputs) or len(a.nodes) != len(b.nodes):
        return False
    pair = dict(zip(a.inputs, b.inputs, strict=True))
    if any(v.type != w.type for v, w in pair.items()):
        return False
    for m, n in zip(a.nodes, b.nodes, strict=True):
        if not _same_node(m, n) or any(
            pair.get(v) is not w for v, w in zip(m.inputs, n.inputs, strict=True)
        ):
            return False
        pair.update(zip(m.outputs, n.outputs, strict=True))
    outs = [pair.get(v) if v is not None else None for v in a.outputs]
    return len(outs) == len(b.outputs) and all(x is y for x, y in zip(outs, b.outputs, strict=True))


def _same_node(m: Node, n: Node) -> bool:
    return (
        m.op == n.op
        and m.attrs == n.attrs
        and len(m.inputs) == len(n.inputs)
        and [v.type for v in m.outputs] == [v.type for v in n.outputs]
    )
