"""Random inputs of a concrete problem: drawn for the sequential side, computed for every rank."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from shardproof.ir.graph import Graph, Value, is_bool, is_integer
from shardproof.ops.base import Array
from shardproof.replay.run import numpy_dtype, run_graph
from shardproof.spec.problem import Problem

# Range of an integer input that indexes nothing the analysis knows.
DEFAULT_RANGE = 4
MASK_SHARE = 0.3


def draw_inputs(
    graph: Graph,
    ranges: Mapping[str, int],
    seed: int,
    fixed_inputs: Mapping[str, float] | None = None,
) -> dict[str, Array]:
    """Values for the inputs of the sequential graph, by name.

    Floats are normal with standard deviation 0.5, booleans true with probability 0.3, integers
    uniform in ``[0, ranges[name])``; ``fixed_inputs`` gives the inputs that hold one constant.
    Each input has its own generator, so one input more or less changes no other.
    """
    fixed = fixed_inputs or {}
    return {
        v.name: _draw(v, ranges.get(v.name, DEFAULT_RANGE), seed, k, fixed.get(v.name))
        for k, v in enumerate(graph.inputs)
    }


def _draw(v: Value, valid: int, seed: int, k: int, constant: float | None) -> Array:
    shape = tuple(int(n) for n in v.shape if isinstance(n, int))
    if constant is not None:
        return np.full(shape, constant, dtype=numpy_dtype(v.dtype))
    rng = np.random.default_rng((seed, k))
    if is_bool(v.dtype):
        return np.asarray(rng.random(shape) < MASK_SHARE)
    if is_integer(v.dtype):
        return rng.integers(0, max(valid, 1), shape, dtype=np.int64)
    return np.asarray(rng.standard_normal(shape) * 0.5)


def rank_inputs(
    problem: Problem,
    sequential: Mapping[str, Array],
    seed: int,
    fixed_inputs: Mapping[str, float] | None = None,
) -> list[dict[str, Array]]:
    """Inputs of every rank: the relation graphs run on the sequential inputs.

    A distributed input that no relation defines may hold anything; it is drawn for each rank
    independently.
    """
    out = []
    for k, (relation, graph) in enumerate(
        zip(problem.relation, problem.distributed.graphs, strict=True)
    ):
        env = run_graph(relation, sequential, keep=())
        pairs = zip(relation.output_names, relation.outputs, strict=True)
        values = {name: env[v] for name, v in pairs if v is not None}
        free = Graph("free", [v for v in graph.inputs if v.name not in values])
        values.update(draw_inputs(free, {}, seed + 7919 * (k + 1), fixed_inputs))
        out.append(values)
    return out
