"""Random inputs of a concrete problem: drawn for the sequential side, computed for every rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from shardproof.ir.graph import Graph, Value, is_bool, is_integer
from shardproof.ops import base as alg
from shardproof.ops.base import Array
from shardproof.replay.run import numpy_dtype, run_graph
from shardproof.spec.problem import Problem

VIEWS = alg.Identity | alg.Reshape | alg.Permute | alg.Slice | alg.Expand

# Range of an integer input that indexes nothing the analysis knows.
DEFAULT_RANGE = 4
MASK_SHARE = 0.3
MARKED_FROM = 3


def draw_inputs(
    graph: Graph,
    ranges: Mapping[str, int],
    seed: int,
    fixed_inputs: Mapping[str, float] | None = None,
    *,
    marked: bool = True,
) -> dict[str, Array]:
    """Values for the inputs of the sequential graph, by name.

    Floats are normal with standard deviation 0.5, booleans true with probability 0.3, integers
    uniform in ``[0, ranges[name])``; ``fixed_inputs`` gives the inputs that hold one constant.
    Each input has its own generator, so one input more or less changes no other. With ``marked``
    an odd number of integers are values that the program looks for (labels that it ignores), so
    that two ranks never have as many of them.
    """
    fixed = fixed_inputs or {}
    special = sought(graph) if marked else {}
    out = {}
    for k, v in enumerate(graph.inputs):
        x = _draw(v, ranges.get(v.name, DEFAULT_RANGE), seed, k, fixed.get(v.name))
        if v.name in special and v.name not in fixed:
            _mark(x, special[v.name], np.random.default_rng((seed, k, 1)))
        out[v.name] = x
    return out


def sought(graph: Graph) -> dict[str, list[int]]:
    """The numbers that integer inputs are compared with for equality, by name of the input."""
    name = {v: v.name for v in graph.inputs if is_integer(v.dtype)}
    out: dict[str, list[int]] = {}
    for node in graph.nodes:
        if len(node.inputs) != 1 or node.inputs[0] not in name:
            continue
        rule = alg.lookup(node.op).algebra((node.inputs[0].type,), node.attrs)[0]
        if isinstance(rule, VIEWS) and is_integer(node.outputs[0].dtype):
            name[node.outputs[0]] = name[node.inputs[0]]
        elif isinstance(rule, alg.Compare) and rule.kind in ("eq", "ne") and _whole(rule.value):
            out.setdefault(name[node.inputs[0]], []).append(int(rule.value))  # type: ignore[arg-type]
    return out


def _whole(x: object) -> bool:
    return isinstance(x, Fraction) and x.denominator == 1


def _mark(x: Array, values: Sequence[int], rng: np.random.Generator) -> None:
    """Write an odd number of ``values`` into at most a quarter of ``x``, never two in a row, so
    that a part of it of some length keeps others."""
    most = max(x.size // 4, 1)
    if x.size < MARKED_FROM:
        return
    count = int(rng.integers(0, (most + 1) // 2)) * 2 + 1
    places = rng.choice(np.arange(0, x.size, 2), size=count, replace=False)
    x.reshape(-1)[places] = rng.choice(values, size=count)


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
