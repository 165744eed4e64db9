"""Fuzzing of inference: random programs, random mutants, judged by numbers.

Run it for as long as you like with ``python -m tests.infer.fuzz FIRST LAST MUTANTS [deep]
[layers]``; seeds make everything reproducible.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from tests.support.claims import Report, check_claims, inferences
from tests.support.programs import live_problem

from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.layers import deep_program
from shardproof.testing.fuzz.mutate import NoMutant, mutant
from shardproof.testing.fuzz.numeric import Ranges, replay, sample
from shardproof.testing.fuzz.programs import Made, program

Rng = np.random.Generator
SAMPLES = 3


@dataclass
class Stats:
    """Counts over all programs; ``bad`` lists every false claim or verdict."""

    programs: int = 0
    proved: int = 0
    proved_by_index: int = 0
    uniform: int = 0
    mutants: int = 0
    different: int = 0
    equal_mutants: int = 0
    equal_proved: int = 0
    claims: Report = field(default_factory=Report)
    bad: list[str] = field(default_factory=list)
    gaps: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)


def fuzz(
    first: int,
    last: int,
    mutants: int = 4,
    deep: bool = False,
    make: Callable[[int], Made] = program,
) -> Stats:
    """Check the programs of a range of seeds, and some mutants of each."""
    stats = Stats()
    for seed in range(first, last):
        g, problem, rng = make(seed)
        stats.programs += 1
        check(stats, f"seed {seed}", problem, rng, g.ranges, deep)
        done = tries = 0
        while done < mutants and tries < 12 * mutants:
            tries += 1
            try:
                kind, changed = mutant(problem, rng)
            except NoMutant:
                continue
            done += 1
            check_mutant(stats, f"seed {seed} mutant {done} {kind}", changed, rng, g.ranges, deep)
    return stats


def check(
    stats: Stats, what: str, problem: Problem, rng: Rng, ranges: Ranges, deep: bool = False
) -> None:
    """A correct program: all claims must be true; count what is proved."""
    found = inferences(problem, deep)
    for inference in found:
        values, report = check_claims(problem, inference, rng, ranges=ranges)
        if not values.equal:
            stats.bad.append(f"{what}: the generator is wrong: {values.wrong} {values.fault}")
        stats.claims.add(report)
        stats.bad.extend(f"{what}: false claim: {w}" for w in report.wrong)
    stats.proved += found[-1].holds
    by_index = [i for i in found if i.symbolic_ranks]
    stats.uniform += bool(by_index)
    stats.proved_by_index += any(i.holds for i in by_index)
    if not found[-1].holds:
        stats.gaps[_ops(problem)] += 1


def _ops(problem: Problem) -> str:
    return " ".join(n.op for n in problem.sequential.nodes)


def check_mutant(
    stats: Stats, what: str, problem: Problem, rng: Rng, ranges: Ranges, deep: bool = False
) -> None:
    """A changed program: every claim must be true, and it must hold only if it is equal."""
    stats.mutants += 1
    stats.kinds[what.rsplit(" ", 1)[1]] += 1
    found = inferences(problem, deep)
    equal = True
    for _ in range(SAMPLES):
        equal = equal and agrees(problem, rng, ranges)
    for inference in found:
        values, report = check_claims(problem, inference, rng, ranges=ranges)
        if not values.fault:
            stats.claims.add(report)
            stats.bad.extend(f"{what}: false claim: {w}" for w in report.wrong)
        equal = equal and (values.equal or "is outside" in values.fault or not values.defined)
        if inference.holds and not equal:
            program = inference.problem.distributed
            how = "by index" if program.spmd else "by class" if program.inner else "rank by rank"
            stats.bad.append(f"{what}: FALSE VERDICT {how}")
    if equal:
        stats.equal_mutants += 1
        stats.equal_proved += any(inference.holds for inference in found)
    else:
        stats.different += 1


def summary(stats: Stats) -> str:
    c = stats.claims
    return "\n".join(
        [
            (
                f"{stats.programs} programs, {stats.proved} proved rank by rank; of "
                f"{stats.uniform} uniform ones {stats.proved_by_index} by the rank as an index"
            ),
            (
                f"{stats.mutants} mutants, {stats.different} different; of {stats.equal_mutants} "
                f"equal ones {stats.equal_proved} proved"
            ),
            (
                f"{c.checked} claims checked, {c.unknown} unknown, {c.undefined} undefined, "
                f"{len(c.wrong)} wrong"
            ),
            *stats.bad[:40],
        ]
    )


def agrees(problem: Problem, rng: Rng, ranges: Ranges) -> bool:
    """Whether the two sides agree on one input. A lookup out of range that no output depends on
    stops a program, but that is not the question that inference answers."""
    inputs = sample(problem.sequential, rng, ranges)
    values = replay(problem, inputs, rng)
    if "is outside" not in values.fault:
        return values.equal or not values.defined
    values = replay(live_problem(problem), inputs, rng)
    if values.fault and "is outside" not in values.fault:
        return True  # without its dead code one rank lacks a collective: cannot be told
    return values.equal or not values.defined


if __name__ == "__main__":
    first, last, count = (int(x) for x in sys.argv[1:4])
    maker = deep_program if "layers" in sys.argv else program
    result = fuzz(first, last, count, "deep" in sys.argv, maker)
    print(summary(result))  # noqa: T201
