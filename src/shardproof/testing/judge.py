"""Judge a verdict on a mutant: by replay whether the mutant is wrong, and whether the finding
names what was mutated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from shardproof.collectives.match import match
from shardproof.replay.compare import replay_problem
from shardproof.replay.errors import NotReplayable
from shardproof.replay.resize import Resized, resize
from shardproof.report.diagnostic import Finding, Verdict
from shardproof.spec.problem import Problem
from shardproof.testing.mutate import Mutant
from shardproof.verify import verify

SEEDS = 5
TOLERANCE = 1e-9
Truth = Literal["differs", "same", "protocol", "not replayable"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found about one mutant.

    Attributes:
        pair: the correct pair it was made from.
        truth: "differs": on some random input the outputs differ, or the distributed program
            stops; "same": on none; "protocol": the ranks cannot run; "not replayable".
        error: the largest relative error of the runs.
        status, codes: the verdict and the codes of its findings.
        named: whether a finding names the mutated node or a value next to it (see :func:`named`).
        pointed: whether one does so without its notes: at the operator blamed or its operands.
    """

    pair: str
    kind: str
    description: str
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    truth: Truth
    error: float
    status: str
    codes: tuple[str, ...]
    named: bool
    pointed: bool
    blamed: str = ""
    seconds: float = 0.0

    @property
    def wrong(self) -> bool:
        """Whether "refines" would be false."""
        return self.truth in ("differs", "protocol")

    @property
    def missed(self) -> bool:
        """Whether a wrong program was called correct."""
        return self.wrong and self.status == "refines"


@dataclass(slots=True)
class Pair:
    """A correct pair of programs at sizes that can be run."""

    name: str
    small: Resized
    original: Problem
    fixed: Mapping[str, float] = field(default_factory=dict)


def judge(pair: Pair, mutant: Mutant) -> Judgement:
    """Replay a mutant of the small problem, verify it, and compare."""
    truth, error = replayed(mutant.problem, pair)
    verdict = verify(mutant.problem, fixed=dict(pair.fixed), fixes=False)
    return judgement(pair.name, mutant, truth, error, verdict)


def judge_full_size(pair: Pair, mutant: Mutant) -> Judgement:
    """The same for a mutant of the original problem, which only its resizing can run."""
    truth: Truth = "not replayable"
    error = 0.0
    try:
        small = resize(mutant.problem)
    except NotReplayable:
        if match(mutant.problem.distributed).errors:
            truth = "protocol"
    else:
        truth, error = replayed(small.problem, Pair(pair.name, small, pair.original, pair.fixed))
    verdict = verify(mutant.problem, fixed=dict(pair.fixed), fixes=False)
    return judgement(pair.name, mutant, truth, error, verdict)


def judgement(pair: str, m: Mutant, truth: Truth, error: float, verdict: Verdict) -> Judgement:
    """Everything about one mutant in one record."""
    primary = next((f.primary for f in verdict.findings if f.primary is not None), None)
    return Judgement(
        pair, m.kind, m.description, m.nodes, m.ranks, truth, error, verdict.status,
        tuple(f.code for f in verdict.findings), named(verdict.findings, m.names),
        any(m.names & names_in(f, notes=False) for f in verdict.findings),
        primary.node if primary is not None else "", sum(verdict.seconds.values()),
    )  # fmt: skip


def replayed(problem: Problem, pair: Pair) -> tuple[Truth, float]:
    """Whether the outputs differ on any of five random inputs, and the largest error."""
    if match(problem.distributed).errors:
        return "protocol", 0.0
    worst, runs = 0.0, 0
    for seed in range(SEEDS):
        instance = Resized(problem, pair.small.ranges, pair.small.report)
        try:
            result = replay_problem(instance, seed, dict(pair.fixed))
        except NotReplayable:
            return "not replayable", 0.0
        if result.invalid:
            continue
        runs += 1
        if result.differs(TOLERANCE):
            found = result.worst
            return "differs", found.error if found is not None else float("inf")
        worst = max(worst, result.worst.error if result.worst is not None else 0.0)
    return ("same" if runs else "not replayable"), worst


# ---------------------------------------------------------------- naming


def named(findings: Iterable[Finding], names: frozenset[str]) -> bool:
    """Whether some finding names what was mutated.

    The names looked for are the captured names of the mutated node, of its operands and of its
    outputs. They count where they occur, whole, as the node of the primary span, as an operand,
    as the collective, or, behind a ``%``, in a note. Text that describes meanings is made of
    names of *sequential* values, which may be the same words; it has no ``%`` and does not count.
    The secondary span, a place in the sequential program, does not count either.
    """
    return any(names & names_in(f) for f in findings)


def names_in(f: Finding, *, notes: bool = True) -> set[str]:
    """The names of distributed nodes and values that a finding shows, with or without notes."""
    found = {re.sub(r" \(rank \d+\)$", "", o.name) for o in f.operands}
    if f.primary is not None:
        found.add(f.primary.node)
    found.update(f.collective.split())
    for note in f.notes if notes else ():
        found.update(re.findall(r"%([\w.#]+)", note))
        # The step of one rank in a protocol finding: "rank 1: all_reduce NAME (...)".
        found.update(re.findall(r"^rank \d+: \w+ ([\w.#]+)", note))
    return found
