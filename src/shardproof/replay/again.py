"""A counterexample once more: the run that showed it, and the values of both programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardproof.collectives.match import rank_of
from shardproof.ops.base import Array
from shardproof.replay.compare import (
    ReplayResult,
    distributed_values,
    replay_problem,
    run_sequential,
)
from shardproof.replay.errors import NotReplayable
from shardproof.replay.inputs import rank_inputs
from shardproof.replay.instantiate import is_concrete
from shardproof.replay.resize import Resized
from shardproof.replay.run import Environment, run_graph, run_program
from shardproof.replay.search import Fixed, instances, instantiate_small
from shardproof.report.diagnostic import Counterexample
from shardproof.spec.problem import Obligation, Problem


@dataclass(frozen=True, slots=True)
class OutputValue:
    """An output on one rank, as it should be and as it is."""

    rank: int
    expected: Array
    found: Array


def instance_of(problem: Problem, c: Counterexample) -> Resized:
    """The instance of the sizes at which a counterexample was found.

    Raises:
        NotReplayable: there is none; the program is not the one that it was found for.
    """
    concrete = problem if is_concrete(problem) else instantiate_small(problem, {})
    for resized in instances(concrete, []):
        if dict(resized.report.sizes) == c.sizes:
            return resized
    raise NotReplayable("the program has no instance of the sizes of this counterexample")


def replay_again(
    problem: Problem, c: Counterexample, fixed: Fixed | None = None
) -> tuple[ReplayResult, list[OutputValue]]:
    """Run both programs on the inputs of a counterexample; and the values of its output, the
    ranks that differed first (none where a program stopped).

    Raises:
        NotReplayable: see :func:`instance_of`.
    """
    resized = instance_of(problem, c)
    result = replay_problem(resized, c.seed, fixed)
    if result.fault is not None or result.invalid:
        return result, []
    values = output_values(resized, c.seed, fixed, c.output)
    return result, sorted(values, key=lambda v: (v.rank not in c.ranks, v.rank))


def output_values(
    resized: Resized, seed: int, fixed: Fixed | None, output: str
) -> list[OutputValue]:
    """An output on every rank that returns it, as the replay has them.

    Raises:
        NotReplayable, ReplayFault: a program cannot be run.
    """
    question = resized.problem
    inputs, sequential = run_sequential(question.sequential, resized.ranges, seed, fixed)
    ranks = run_program(
        question.distributed,
        rank_inputs(question, inputs, seed, fixed),
        [()] * len(question.distributed.graphs),
    )
    for ob in question.obligations:
        if ob.seq_output == output:
            return _of(question, ob, sequential, ranks)
    return []


def _of(
    question: Problem, ob: Obligation, sequential: Environment, ranks: Sequence[Environment]
) -> list[OutputValue]:
    value = question.sequential.output(ob.seq_output)
    found = distributed_values(question, ob, ranks)
    out = []
    for k, expected in enumerate(ob.expected):
        rank = rank_of(question.distributed, k)
        if expected is None or value is None or rank not in found:
            continue
        env = run_graph(expected, {v.name: sequential[value] for v in expected.inputs})
        want = expected.outputs[0]
        if want is not None:
            out.append(OutputValue(rank, env[want], found[rank]))
    return out
