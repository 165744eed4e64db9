"""The numeric judge: run both sides of a concrete problem and compare what is owed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardproof.ir.graph import Graph, Value, is_bool, is_integer
from shardproof.ops.base import Array
from shardproof.replay.errors import ReplayError
from shardproof.replay.run import Environment, run_graph, run_program
from shardproof.spec.problem import Obligation, Problem

TOLERANCE = 1e-9
Rng = np.random.Generator
Ranges = Mapping[str, tuple[int, int]]
DEFAULT_RANGE = (-2, 6)


@dataclass
class Replay:
    """Values of both sides; ``wrong`` lists the obligations that fail, ``fault`` says why the
    distributed program did not run."""

    sequential: Environment
    ranks: list[Environment]
    wrong: list[str] = field(default_factory=list)
    fault: str = ""

    @property
    def equal(self) -> bool:
        return not self.wrong and not self.fault

    @property
    def defined(self) -> bool:
        """Whether every value is a number: no division by zero, no logarithm of what is not
        positive. Verdicts rest on that assumption."""
        every = (self.sequential, *self.ranks)
        return all(
            bool(np.isfinite(np.asarray(x, dtype=float)).all())
            for env in every
            for x in env.values()
        )


def sample(graph: Graph, rng: Rng, ranges: Ranges | None = None) -> dict[str, Array]:
    """Random inputs of a graph: reals in [-2, 2], integers in their range, booleans."""
    return {v.name: draw(v, rng, (ranges or {}).get(v.name)) for v in graph.inputs}


def draw(v: Value, rng: Rng, between: tuple[int, int] | None = None) -> Array:
    shape: Any = v.shape
    if is_bool(v.dtype):
        return np.asarray(rng.integers(0, 2, size=shape).astype(bool))
    if is_integer(v.dtype):
        low, high = between or DEFAULT_RANGE
        return np.asarray(rng.integers(low, high, size=shape))
    if between is not None:
        return np.asarray(rng.uniform(*between, size=shape))
    # Multiples of 1/4 hit equalities and thresholds now and then, and add up without rounding.
    grid = np.round(rng.normal(size=shape) * 6) / 4
    return np.asarray(grid + rng.integers(0, 2, size=shape) / 64)


def replay(problem: Problem, inputs: Mapping[str, Array], rng: Rng) -> Replay:
    """Run both sides on ``inputs`` of the sequential one."""
    sequential = run_graph(problem.sequential, inputs)
    held = []
    for graph, relation in zip(problem.distributed.graphs, problem.relation, strict=True):
        env = run_graph(relation, {v.name: inputs[v.name] for v in relation.inputs})
        given = {
            n: env[v]
            for n, v in zip(relation.output_names, relation.outputs, strict=True)
            if v is not None
        }
        held.append({v.name: given.get(v.name, draw(v, rng)) for v in graph.inputs})
    try:
        ranks = run_program(problem.distributed, held)
    except ReplayError as e:
        return Replay(sequential, [], fault=str(e))
    out = Replay(sequential, ranks)
    with np.errstate(all="ignore"):
        for ob in problem.obligations:
            out.wrong.extend(_check(problem, ob, out))
    return out


def _check(problem: Problem, ob: Obligation, values: Replay) -> list[str]:
    seq = problem.sequential.output(ob.seq_output)
    assert seq is not None
    wrong = []
    for k, relation in enumerate(ob.expected):
        if relation is None:
            continue
        env = run_graph(relation, {relation.inputs[0].name: values.sequential[seq]})
        (want,) = relation.outputs
        assert want is not None
        total = np.zeros(())
        for r in _partners(problem, k, ob.partial_over):
            v = problem.distributed.graphs[r].output(ob.dist_output)
            assert v is not None
            total = total + values.ranks[r][v]
        if not close(total, env[want]):
            wrong.append(f"{ob.dist_output} of rank {k}")
    return wrong


def _partners(problem: Problem, rank: int, axes: tuple[str, ...]) -> list[int]:
    mesh = problem.distributed.mesh
    mine = mesh.coordinates(rank)
    return [
        r
        for r in range(len(problem.distributed.graphs))
        if all(c == mine[a] for a, c in mesh.coordinates(r).items() if a not in axes)
    ]


def close(a: Array, b: Array) -> bool:
    """Equality up to rounding, relative to the size of the numbers."""
    if a.shape != b.shape:
        return False
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    return bool(np.allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True))
