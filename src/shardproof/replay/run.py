"""Run graphs with NumPy: float64 for every float dtype, int64 for integers, bool for b8.

All ranks of a program run in lock-step along the schedule of
:func:`shardproof.collectives.match.match`, so a program with a protocol violation does not run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from shardproof.collectives.match import CollectiveStep, Step, match, rank_of
from shardproof.collectives.semantics import execute
from shardproof.ir.graph import Graph, Node, Program, Value, is_bool, is_integer
from shardproof.ops.base import Array, Opaque, lookup
from shardproof.replay.errors import NotReplayable, ReplayFault

Environment = dict[Value, Array]


def numpy_dtype(dtype: str) -> type[np.generic]:
    """The NumPy scalar type that stands for an IR dtype in replay."""
    if is_bool(dtype):
        return np.bool_
    if is_integer(dtype):
        return np.int64
    return np.complex128 if dtype[0] == "c" else np.float64


def run_graph(
    graph: Graph, inputs: Mapping[str, Array], keep: Iterable[Value] | None = None
) -> Environment:
    """All values of one graph; ``inputs`` by input name, extra names are ignored.

    Args:
        keep: values to retain besides the outputs; the others are dropped after their last use.
            None retains everything.

    Raises:
        NotReplayable: see :mod:`shardproof.replay.errors`.
        ReplayFault: an index out of range.
    """
    program = Program.sequential(graph)
    kept = None if keep is None else [list(keep)]
    return run_program(program, [inputs], kept)[0]


def run_program(
    program: Program,
    inputs_per_rank: Sequence[Mapping[str, Array]],
    keep: Sequence[Iterable[Value]] | None = None,
) -> list[Environment]:
    """All values of every rank's graph, in the order of ``program.graphs``.

    Args:
        inputs_per_rank: by input name, one mapping a graph.
        keep: as for :func:`run_graph`, one entry a graph.
    """
    if program.spmd:
        raise NotReplayable("a graph written for all ranks must be instantiated first")
    schedule = match(program)
    if schedule.errors:
        raise NotReplayable(str(schedule.errors[0]))
    envs = {
        rank_of(program, k): _bind(graph, inputs_per_rank[k], rank_of(program, k))
        for k, graph in enumerate(program.graphs)
    }
    uses = None if keep is None else _use_counts(program, keep)
    with np.errstate(all="ignore"):
        for step in schedule.steps:
            _advance(step, envs)
            if uses is not None:
                _drop_dead(step, envs, uses)
    return [envs[rank_of(program, k)] for k in range(len(program.graphs))]


def _bind(graph: Graph, inputs: Mapping[str, Array], rank: int) -> Environment:
    env: Environment = {}
    for v in graph.inputs:
        if v.name not in inputs:
            raise NotReplayable(f"input {v.name!r} of rank {rank} is not defined")
        x = np.asarray(inputs[v.name], dtype=numpy_dtype(v.dtype))
        if x.shape != v.shape:
            raise NotReplayable(f"input {v.name!r} of rank {rank}: {x.shape} is not {v.shape}")
        env[v] = x
    return env


def _advance(step: Step, envs: dict[int, Environment]) -> None:
    if isinstance(step, CollectiveStep):
        nodes = [n for _, n in step.members]
        operands = [envs[r][n.inputs[0]] if n.inputs else None for r, n in step.members]
        for (rank, node), y in zip(step.members, execute(step.kind, nodes, operands), strict=True):
            _store(envs[rank], rank, node, [y] if node.outputs else [])
    else:
        env, node = envs[step.rank], step.node
        _store(env, step.rank, node, evaluate(node, [env[v] for v in node.inputs], step.rank))


def evaluate(node: Node, operands: Sequence[Array], rank: int = 0) -> Sequence[Array]:
    """The outputs of one node that does not communicate."""
    if not node.outputs:
        return ()
    try:
        op = lookup(node.op)
    except KeyError:
        raise NotReplayable(f"{node.op} is not declared") from None
    if op.evaluate is None:
        raise NotReplayable(_no_meaning(node))
    try:
        return op.evaluate(tuple(operands), node.attrs)
    except IndexError as e:
        raise ReplayFault(rank, node, str(e)) from None


def _no_meaning(node: Node) -> str:
    algebra = lookup(node.op).algebra(tuple(v.type for v in node.inputs), node.attrs)
    name = node.attrs.get("target", node.op)
    why = algebra[0].reason if algebra and isinstance(algebra[0], Opaque) else "no evaluation"
    return f"operator {name} has no numeric meaning ({why})"


def _store(env: Environment, rank: int, node: Node, results: Sequence[Array]) -> None:
    for v, y in zip(node.outputs, results, strict=True):
        if y.shape != v.shape:
            text = f"{node.op} {v.name} on rank {rank}: computed {y.shape}, declared {v.shape}"
            raise NotReplayable(text)
        env[v] = y


def _use_counts(program: Program, keep: Sequence[Iterable[Value]]) -> Counter[Value]:
    uses: Counter[Value] = Counter()
    for graph, kept in zip(program.graphs, keep, strict=True):
        uses.update(v for n in graph.nodes for v in n.inputs)
        uses.update(v for v in graph.outputs if v is not None)
        uses.update(kept)
    return uses


def _drop_dead(step: Step, envs: dict[int, Environment], uses: Counter[Value]) -> None:
    members = step.members if isinstance(step, CollectiveStep) else ((step.rank, step.node),)
    for rank, node in members:
        for v in node.inputs:
            uses[v] -= 1
        for v in (*node.inputs, *node.outputs):
            if uses[v] == 0:
                envs[rank].pop(v, None)
