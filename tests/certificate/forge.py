"""Forged certificates: an altered program with the claims of the right one.

The forger knows everything: it edits every text that mentions the change, gives inserted values a
meaning of the right shape, and leaves no hash or count behind that would give it away. Whether the
altered program is wrong is for a replay to say.
"""

from __future__ import annotations

from typing import Any

from shardproof.certificate.document import MeaningRow, Proof
from shardproof.certificate.write import proof_of, rearrangements
from shardproof.collectives.match import match
from shardproof.infer.run import Inference
from shardproof.ir.graph import Graph, Value
from shardproof.ir.sizes import product
from shardproof.replay.compare import replay_problem
from shardproof.replay.errors import NotReplayable
from shardproof.replay.resize import resize
from shardproof.spec.problem import Problem


def wrong(problem: Problem, seeds: int = 3) -> bool | None:
    """Whether some random input shows that a program does not refine; None: it cannot run."""
    if match(problem.distributed).errors:
        return True
    small = resize(problem)
    ran = False
    for seed in range(seeds):
        try:
            result = replay_problem(small, seed, {})
        except NotReplayable:
            return None
        if result.invalid:
            continue
        ran = True
        if result.fault is not None or result.differs(1e-9):
            return True
    return False if ran else None


def forged(right: Inference, proof: Proof, problem: Problem) -> Proof:
    """The claims of ``right`` about the values of ``problem``, by name."""
    graphs = [problem.sequential, *problem.distributed.graphs]
    originals = [right.problem.sequential, *right.problem.distributed.graphs]
    rows = [proof.sequential, *proof.distributed]
    if len(graphs) != len(originals):
        raise ValueError("another number of graphs")
    tables = [
        _table(g, dict(zip((v.name for v in o.values()), row, strict=True)), proof.meanings)
        for g, o, row in zip(graphs, originals, rows, strict=True)
    ]
    opened = _opened(graphs, originals, proof)
    return Proof(proof.atoms, proof.terms, proof.meanings, tables[0], tables[1:], opened)


def _shape(m: MeaningRow) -> tuple[Any, ...]:
    return tuple(product(f) for f in m.dims) if _plain(m) else ()


def _plain(m: MeaningRow) -> bool:
    return all(isinstance(x, int) for d in m.dims for x in d)


def _table(g: Graph, named: dict[str, int | None], meanings: list[MeaningRow]) -> list[int | None]:
    out: dict[Value, int | None] = {}
    readers: dict[Value, list[Value]] = {}
    for node in g.nodes:
        for v in node.inputs:
            readers.setdefault(v, []).extend(node.outputs)
    producer = g.producers()
    moved = rearrangements(g)
    for v in g.values():
        if (v in moved or v in g.inputs) and named.get(v.name, 0) is None:
            out[v] = None
            continue
        near = [named.get(v.name)]
        if v in producer:
            near += [out.get(x) for x in producer[v].inputs]
        near += [named.get(w.name) for w in readers.get(v, [])]
        near += list(range(len(meanings)))
        fits = [k for k in near if k is not None and _shape(meanings[k]) == v.shape]
        out[v] = fits[0] if fits else 0
    return list(out.values())


def _opened(graphs: list[Graph], originals: list[Graph], proof: Proof) -> list[Any]:
    out = []
    for k, j, rows in proof.opened:
        name = originals[k].nodes[j].outputs[0].name
        for i, node in enumerate(graphs[k].nodes):
            if node.outputs and node.outputs[0].name == name:
                out.append((k, i, rows))
    return out


def proof(inf: Inference) -> Proof:
    return proof_of(inf)


def vanished(inf: Inference, zero: str, last: str) -> Proof:
    """Claims that a value of two elements is zero on every rank, and that the last one is the
    sequential result."""
    out = proof_of(inf)
    out.meanings.append(MeaningRow([(2,)], [((0,), (2,), [])]))
    for graph, row in zip(inf.problem.distributed.graphs, out.distributed, strict=True):
        names = [v.name for v in graph.values()]
        row[names.index(zero)] = len(out.meanings) - 1
        row[names.index(last)] = out.sequential[-1]
    return out
