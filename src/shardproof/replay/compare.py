"""Run both programs on the same random inputs and compare what the obligations compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from shardproof.collectives.match import rank_of
from shardproof.ir.graph import Graph, Value
from shardproof.ops.base import Array
from shardproof.replay.errors import NotReplayable, ReplayFault
from shardproof.replay.inputs import draw_inputs, rank_inputs
from shardproof.replay.instantiate import group_ranks, is_concrete
from shardproof.replay.resize import Resized, keep_sizes
from shardproof.replay.run import Environment, run_graph, run_program
from shardproof.spec.problem import Obligation, Problem

# A tensor smaller than this is compared with it: rounding noise of a value that is zero over the
# reals must not look like a difference. The noise grows with the other values of the program, so
# the floor is the larger of an absolute one and one relative to the largest expected value.
FLOOR = 1e-5
RELATIVE_FLOOR = 1e-4


@dataclass(frozen=True, slots=True)
class Comparison:
    """One obligation on one rank.

    ``error``: largest difference relative to the largest magnitude of the two tensors; infinite
    where the shapes differ or the distributed value is not a number. ``element``: its index.
    ``magnitude``: largest absolute expected element (0 where a gradient vanishes identically, so
    that nothing could be witnessed). ``note``: what else to say. ``checked``: whether the expected
    tensor has a finite element, so that something was compared.
    """

    obligation: Obligation
    rank: int
    error: float
    element: tuple[int, ...] = ()
    expected: float = 0.0
    found: float = 0.0
    magnitude: float = 0.0
    note: str = ""
    checked: bool = True


@dataclass(slots=True)
class ReplayResult:
    """One run. ``fault``: the distributed program went wrong (index out of range) where the
    sequential one did not; ``invalid``: the sequential program did, so the inputs prove nothing.
    """

    seed: int
    comparisons: list[Comparison] = field(default_factory=list)
    fault: ReplayFault | None = None
    invalid: str = ""

    @property
    def worst(self) -> Comparison | None:
        """The comparison with the largest error."""
        return max(self.comparisons, key=lambda c: c.error, default=None)

    @property
    def informative(self) -> bool:
        """Whether every obligation was compared somewhere, or the distributed program stopped."""
        compared = all(c.checked for c in self.comparisons)
        return not self.invalid and (self.fault is not None or compared)

    def differs(self, tolerance: float = 1e-9) -> bool:
        """Whether this run shows that the programs differ."""
        if self.invalid:
            return False
        return self.fault is not None or any(c.error > tolerance for c in self.comparisons)


def replay_problem(
    problem: Problem | Resized,
    seed: int = 0,
    fixed_inputs: Mapping[str, float] | None = None,
) -> ReplayResult:
    """Run both sides of a concrete problem once and compare every obligation.

    Raises:
        NotReplayable: see :mod:`shardproof.replay.errors`.
    """
    resized = problem if isinstance(problem, Resized) else keep_sizes(_concrete(problem))
    question, out = resized.problem, ReplayResult(seed)
    try:
        inputs, sequential = run_sequential(question.sequential, resized.ranges, seed, fixed_inputs)
    except ReplayFault as fault:
        out.invalid = f"sequential program: {fault}"
        return out
    try:
        ranks = run_program(
            question.distributed,
            rank_inputs(question, inputs, seed, fixed_inputs),
            [()] * len(question.distributed.graphs),
        )
    except ReplayFault as fault:
        out.fault = fault
        return out
    largest = _largest(question, sequential)
    for obligation in question.obligations:
        out.comparisons += compare(question, obligation, sequential, ranks, largest)
    return out


def run_sequential(
    graph: Graph, ranges: Mapping[str, int], seed: int, fixed: Mapping[str, float] | None
) -> tuple[dict[str, Array], Environment]:
    """Inputs and what the sequential program makes of them; with values that it looks for among
    its integers, unless it is not defined for these."""
    inputs = draw_inputs(graph, ranges, seed, fixed)
    try:
        return inputs, run_graph(graph, inputs, keep=())
    except ReplayFault:
        inputs = draw_inputs(graph, ranges, seed, fixed, marked=False)
        return inputs, run_graph(graph, inputs, keep=())


def _largest(problem: Problem, sequential: Environment) -> float:
    """The largest finite magnitude of the outputs that are compared."""
    out = 0.0
    for ob in problem.obligations:
        v = problem.sequential.output(ob.seq_output)
        if v is not None:
            x = np.abs(sequential[v].astype(np.float64 if v.dtype[0] != "c" else np.complex128))
            out = max(out, float(np.max(x, where=np.isfinite(x), initial=0.0)))
    return out


def _concrete(problem: Problem) -> Problem:
    if not is_concrete(problem):
        raise NotReplayable("a symbolic problem must be instantiated first")
    return problem


def compare(
    problem: Problem,
    ob: Obligation,
    sequential: Environment,
    ranks: Sequence[Environment],
    largest: float = 0.0,
) -> list[Comparison]:
    """One obligation on every rank that returns it; ``largest`` magnitude of all outputs."""
    floor = max(FLOOR, RELATIVE_FLOOR * largest)
    value = problem.sequential.output(ob.seq_output)
    if value is None:
        return []
    found = distributed_values(problem, ob, ranks)
    out = []
    for k, expected in enumerate(ob.expected):
        rank = rank_of(problem.distributed, k)
        if expected is None:
            continue
        if rank not in found:
            out.append(Comparison(ob, rank, inf, note="this rank does not return it"))
            continue
        env = run_graph(expected, {v.name: sequential[value] for v in expected.inputs})
        (want,) = expected.outputs
        assert isinstance(want, Value)
        out.append(_difference(ob, rank, env[want], found[rank], floor))
    return out


def distributed_values(
    problem: Problem, ob: Obligation, ranks: Sequence[Environment]
) -> dict[int, Array]:
    """What every rank returns under the obligation's name, summed over ``partial_over``."""
    own: dict[int, Array] = {}
    for k, graph in enumerate(problem.distributed.graphs):
        if ob.dist_output in graph.output_names:
            v = graph.output(ob.dist_output)
            if v is not None:
                own[rank_of(problem.distributed, k)] = ranks[k][v]
    if not ob.partial_over:
        return own
    mesh = problem.distributed.mesh
    return {
        rank: np.sum([own[r] for r in group_ranks(mesh, rank, ob.partial_over) if r in own], axis=0)
        for rank in own
    }


def _difference(ob: Obligation, rank: int, want: Array, got: Array, floor: float) -> Comparison:
    if want.shape != got.shape:
        text = f"shape {list(got.shape)}, expected {list(want.shape)}"
        return Comparison(ob, rank, inf, note=text)
    if not want.size:
        return Comparison(ob, rank, 0.0)
    want, got = (x.astype(np.float64) if x.dtype.kind != "c" else x for x in (want, got))
    # Where the sequential value itself is undefined, it says nothing about the other side.
    valid = ~np.isnan(want)
    finite = valid & np.isfinite(want)
    size = float(np.max(np.abs(want), where=finite, initial=0.0))
    other = float(np.max(np.abs(got), where=finite & np.isfinite(got), initial=0.0))
    with np.errstate(all="ignore"):
        error = np.abs(got - want) / max(size, other, floor)
    error = np.where(valid & (got != want) & ~np.isfinite(error), inf, error)
    error = np.where(valid & (got != want), error, 0.0)
    index = tuple(int(k) for k in np.unravel_index(int(np.argmax(error)), error.shape))
    note = "not a number on this rank" if np.isnan(got[index]) and valid[index] else ""
    return Comparison(
        ob,
        rank,
        float(error[index]),
        index,
        _real(want[index]),
        _real(got[index]),
        size,
        note,
        bool(finite.any()),
    )


def _real(x: np.generic) -> float:
    return float(np.real(x))
