"""Mutants of a problem: the distributed program, or the input relation, with one thing changed.

Every mutant is well-formed by the check of the IR, and the same for the same seed. Whether one
is wrong is for a replay to say (:mod:`shardproof.testing.judge`): many mutations change nothing
that an output depends on.

Only nodes that some obligation depends on are mutated, and only in problems that are concrete;
instantiate a symbolic problem first. Where the graphs of the ranks differ, one rank is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from shardproof.ir.check import check_graph, check_program
from shardproof.ir.graph import Program
from shardproof.ops.base import infer_types
from shardproof.spec.problem import Problem
from shardproof.testing import arithmetic, communication, dataflow
from shardproof.testing.edit import apply
from shardproof.testing.shards import swap_parts, swaps
from shardproof.testing.sites import Site, Variant, captured_name, names_of, sites

Finder = Callable[[Site], Iterator[Variant]]

PROTOCOL = "collective on one rank only"
SHARDS = "swap two ranks' shards"
FINDERS: dict[str, Finder] = {
    "drop a collective": communication.drop,
    "duplicate a reduction": communication.duplicate,
    "change a group": communication.group,
    "change a reduction's op": communication.operation,
    "change a collective's dim": communication.gather_dim,
    "change a local dim": arithmetic.local_dim,
    "scale by N or 1/N": arithmetic.scaled,
    "shift a slice": arithmetic.shifted_slice,
    "wrong softmax axis": arithmetic.softmax_axis,
    "bias before the reduction": arithmetic.early_bias,
    "mask bound off by one": arithmetic.mask_bound,
    "change a constant": arithmetic.constant,
    "swap operands": arithmetic.swapped_operands,
    "wrong input": arithmetic.other_input,
    "swap reduction and activation": dataflow.activation_order,
    "stale value": dataflow.stale,
    "drop a micro-batch": dataflow.dropped_addend,
    "wrong rank offset": dataflow.rank_offset,
    "sum for mean": dataflow.sum_for_mean,
    "wrong split sizes": dataflow.split_sizes,
    "wrong peer": dataflow.wrong_peer,
    PROTOCOL: communication.swapped_order,
}
KINDS = (*FINDERS, SHARDS)


@dataclass(frozen=True, eq=False, slots=True)
class Mutant:
    """A problem with one thing changed.

    Attributes:
        kind: one of :data:`KINDS`.
        description: what was changed, where, and on which ranks.
        nodes: captured names of the mutated nodes (for a swap of shards, the input).
        names: ``nodes`` and the names of their operands and outputs.
        ranks: the ranks on which it was changed.
    """

    problem: Problem
    kind: str
    description: str
    nodes: tuple[str, ...]
    names: frozenset[str]
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mutant that was not made yet."""

    kind: str
    make: Callable[[], Mutant]


def mutants(
    problem: Problem, *, seed: int = 0, count: int | None = None, kinds: tuple[str, ...] = KINDS
) -> Iterator[Mutant]:
    """Up to ``count`` mutants, taken from the kinds in turn so that rare kinds are represented."""
    rng = Random(f"{seed}/{problem.name}")
    queues: dict[str, list[Candidate]] = {kind: [] for kind in kinds}
    for c in candidates(problem, rng):
        if c.kind in queues:
            queues[c.kind].append(c)
    for queue in queues.values():
        rng.shuffle(queue)
    made = 0
    while any(queues.values()):
        for queue in queues.values():
            if made == count:
                return
            mutant = _next(queue)
            if mutant is not None:
                made += 1
                yield mutant


def _next(queue: list[Candidate]) -> Mutant | None:
    """The next well-formed mutant."""
    while queue:
        mutant = queue.pop().make()
        if well_formed(mutant.problem):
            return mutant
    return None


def well_formed(problem: Problem) -> bool:
    """Whether the check of the IR finds no flaw in the distributed program or the relation."""
    flaws = check_program(problem.distributed, infer_types)
    for graph in problem.relation:
        flaws += check_graph(graph, infer_types)
    return not flaws


def candidates(problem: Problem, rng: Random) -> Iterator[Candidate]:
    """Every mutation of every site: on all ranks, and on one rank that ``rng`` picks."""
    count = len(problem.distributed.graphs)
    for site in sites(problem):
        ranks = tuple(site.ranks)
        for kind, find in FINDERS.items():
            for v in find(site):
                if kind != PROTOCOL and len(ranks) == count:
                    yield _candidate(kind, site, v, ranks)
                if count > 1:
                    one = PROTOCOL if v.communicates else kind
                    yield _candidate(one, site, v, (rng.choice(ranks),))
    for name, i, j in swaps(problem):
        yield Candidate(SHARDS, lambda name=name, i=i, j=j: _swapped(problem, name, i, j))  # type: ignore[misc]


def _candidate(kind: str, site: Site, v: Variant, ranks: tuple[int, ...]) -> Candidate:
    return Candidate(kind, lambda: _mutant(kind, site, v, ranks))


def _mutant(kind: str, site: Site, v: Variant, ranks: tuple[int, ...]) -> Mutant:
    problem = site.problem
    old = problem.distributed
    edits = dict(zip(site.ranks, v.edits, strict=True))
    nodes = dict(site.ranked())
    graphs = [apply(g, edits[k]) if k in ranks else g for k, g in enumerate(old.graphs)]
    everywhere = len(ranks) == len(graphs)
    where = "on all ranks" if everywhere else f"on rank {ranks[0]}"
    name = captured_name(nodes[ranks[0]])
    names: set[str] = set()
    for k in ranks:
        names |= names_of(old.graphs[k], [nodes[k]], v.more)
    return Mutant(
        replace(problem, distributed=Program(old.mesh, graphs)),
        kind,
        f"{name}: {v.text}, {where}",
        tuple(dict.fromkeys(captured_name(nodes[k]) for k in ranks)),
        frozenset(names),
        ranks,
    )


def _swapped(problem: Problem, name: str, i: int, j: int) -> Mutant:
    return Mutant(
        swap_parts(problem, name, i, j),
        SHARDS,
        f"%{name}: parts of ranks {i} and {j} swapped",
        (name,),
        frozenset({name}),
        (i, j),
    )
