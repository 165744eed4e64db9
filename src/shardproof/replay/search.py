"""Look for concrete inputs on which the two programs differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle
from math import inf, nan, prod

from shardproof.ir.sizes import symbols
from shardproof.ops.base import ShapeError, infer_types
from shardproof.replay.compare import Comparison, ReplayResult, replay_problem
from shardproof.replay.errors import NotReplayable
from shardproof.replay.instantiate import (
    all_graphs,
    instantiate_problem,
    is_concrete,
    size_symbols,
)
from shardproof.replay.resize import Resized, Wish, keep_sizes, resize
from shardproof.report.diagnostic import Counterexample
from shardproof.spec.problem import Problem

Fixed = Mapping[str, float]

# Elements of the largest tensor up to which an instance with exactly scaled offsets is run as a
# check on one with trimmed slices.
LARGEST = 2_000_000
# Elements of all tensors together up to which a problem is run as it is.
SMALL = 5_000_000
# Runs at a problem's own sizes that speak against a difference seen at reduced ones.
OWN_RUNS = 8
# A relative error that no rounding makes.
PLAIN = 1e-6


@dataclass(slots=True)
class Search:
    """What a search found.

    Attributes:
        counterexample: the witness, or None ("not witnessed", which is no proof of anything).
        resized: the instance it was found on, or the last one tried; verify it again before
            showing the counterexample.
        fault: why the distributed program stopped, where that is the difference.
        notes: what was tried and what was discarded.
    """

    counterexample: Counterexample | None = None
    resized: Resized | None = None
    fault: str = ""
    notes: list[str] = field(default_factory=list)


def find_counterexample(
    problem: Problem,
    seeds: int = 5,
    tolerance: float = 1e-9,
    fixed_inputs: Fixed | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Counterexample | None:
    """Inputs on which the programs differ, or None where none was found; see :func:`search`."""
    return search(problem, seeds, tolerance, fixed_inputs, sizes).counterexample


def differing_as_given(
    problem: Problem, fixed: Fixed | None = None, like: Resized | None = None
) -> set[str]:
    """Sequential outputs that, in a run at the problem's own sizes, differ by more than any
    rounding: there is no proof of these. What is not in it says nothing; it is empty where the
    problem is too large to run.

    Args:
        like: the same sequential program analysed before (:func:`keep_sizes`); the analysis takes
            longer than the run.
    """
    if not is_concrete(problem) or elements(problem) > SMALL:
        return set()
    try:
        given = problem if like is None else replace(like, problem=problem)
        result = replay_problem(given, 0, fixed)
    except NotReplayable:
        return set()
    if result.fault is not None:
        return {o.seq_output for o in problem.obligations}
    return {c.obligation.seq_output for c in result.comparisons if c.error > PLAIN}


def elements(problem: Problem) -> int:
    """Elements of all values of a concrete problem."""
    return sum(
        prod(n for n in v.shape if isinstance(n, int))
        for graph in (problem.sequential, *problem.distributed.graphs)
        for v in graph.values()
    )


def search(
    problem: Problem,
    seeds: int = 5,
    tolerance: float = 1e-9,
    fixed_inputs: Fixed | None = None,
    sizes: Mapping[str, int] | None = None,
    accept: Callable[[Problem], bool] | None = None,
) -> Search:
    """Resize and replay with several seeds, then at twice the size.

    Args:
        tolerance: relative error above which two tensors differ.
        fixed_inputs: inputs that hold one constant, by name.
        sizes: numbers for the symbols of a symbolic problem; small ones are chosen without.
        accept: whether an instance on which the programs differ may serve as a witness (the
            verdict on it is the verdict on the original); others are passed over.

    Raises:
        NotReplayable: the problem cannot be run at all.
    """
    out = Search()
    concrete = problem if is_concrete(problem) else instantiate_small(problem, sizes or {})
    for resized in instances(concrete, out.notes):
        out.resized = resized
        result = _differing(concrete, resized, seeds, tolerance, fixed_inputs, out.notes)
        if result is None:
            continue
        if accept is not None and not accept(resized.problem):
            out.notes.append("an instance that differs was passed over: its verdict is another")
            continue
        out.counterexample = describe(result, resized, tolerance)
        out.fault = str(result.fault or "")
        return out
    return out


def _differing(
    problem: Problem,
    resized: Resized,
    seeds: int,
    tolerance: float,
    fixed: Fixed | None,
    notes: list[str],
) -> ReplayResult | None:
    """The first run of an instance that shows a difference, among ``seeds`` runs in which the
    sequential program is defined (inputs may divide by zero, so more are tried)."""
    informative = 0
    for seed in range(4 * seeds):
        result = replay_problem(resized, seed, fixed)
        informative += result.informative
        if informative > seeds:
            break
        if result.invalid:
            notes.append(f"seed {seed}: {result.invalid}")
        elif result.differs(tolerance):
            doubt = _doubt(problem, resized, seed, tolerance, fixed)
            if not doubt:
                return result
            notes.append(f"seed {seed}: {doubt}")
    return None


def instances(problem: Problem, notes: list[str]) -> Iterator[Resized]:
    """The problem at small sizes and at twice these; as it is where it is small already."""
    for wish in (Wish(), Wish(first=(2, 3)), Wish(times=2)):
        try:
            yield resize(problem, wish)
        except NotReplayable as e:
            notes.append(str(e))
            if wish == Wish():
                yield keep_sizes(problem)
                return


def _doubt(
    problem: Problem, found: Resized, seed: int, tolerance: float, fixed: Fixed | None
) -> str:
    """Why a difference may be one of the small instance only; empty where it is not.

    A factor 1/8 after a sum over 8 elements may be a mean, whose factor follows the size, or a
    constant; a trimmed slice keeps the lengths but not the relations between its offsets and
    others. Only a difference under every reading is one of the original program.
    """
    if found.report.counts:
        other = resize(problem, found.wish, counts=False)
        if not replay_problem(other, seed, fixed).differs(tolerance):
            return "the difference depends on how a literal count is read"
    if not found.report.exact:
        other = resize(problem, found.wish, exact=True)
        small = other.report.largest <= LARGEST
        if small and not replay_problem(other, seed, fixed).differs(tolerance):
            return "the difference depends on how offsets were scaled"
    if found.report.sizes and elements(problem) <= SMALL:
        whole = keep_sizes(problem)
        if not any(replay_problem(whole, s, fixed).differs(tolerance) for s in range(OWN_RUNS)):
            return "the programs agree at the sizes that they were given with"
    return ""


def describe(result: ReplayResult, resized: Resized, tolerance: float) -> Counterexample:
    """The counterexample of a run that differs: worst obligation, all ranks that differ there."""
    sizes, kept = dict(resized.report.sizes), list(resized.report.kept)
    if result.fault is not None:
        first = resized.problem.obligations[0] if resized.problem.obligations else None
        name = first.seq_output if first is not None else ""
        rank = result.fault.rank
        # The run stopped here, so no output exists to compare.
        values = {str(rank): nan}
        return Counterexample(name, [rank], sizes, result.seed, [], 0.0, values, inf, kept)
    worst = result.worst
    assert worst is not None
    same = [c for c in result.comparisons if c.obligation is worst.obligation]
    bad: list[Comparison] = [c for c in same if c.error > tolerance]
    return Counterexample(
        output=worst.obligation.seq_output,
        ranks=[c.rank for c in bad],
        sizes=sizes,
        seed=result.seed,
        element=list(worst.element),
        sequential_value=worst.expected,
        distributed_values={str(c.rank): c.found for c in same},
        relative_error=worst.error,
        kept_constants=kept,
    )


def instantiate_small(problem: Problem, sizes: Mapping[str, int]) -> Problem:
    """A concrete instance of a symbolic problem: small numbers for the symbols not in ``sizes``.

    Mesh extents become 2; other symbols get numbers from 2 up, different ones where possible, so
    that unrelated dims differ.

    Raises:
        NotReplayable: no choice tried is well-shaped.
    """
    ranks = {s.name for _, n in problem.distributed.mesh.axes for s in symbols(n)}
    free = [s.name for s in size_symbols(problem) if s.name not in sizes]
    for numbers in ((3, 4, 5), (2, 4, 6), (4, 8), (6, 12), (2,), (12,)):
        chosen = dict(zip(free, cycle(numbers), strict=False))
        chosen.update({name: 2 for name in free if name in ranks})
        try:
            out = instantiate_problem(problem, {**chosen, **sizes})
            if _well_shaped(out):
                return out
        except (NotReplayable, ShapeError, ZeroDivisionError):
            continue
    raise NotReplayable("no small numbers for the symbols give a well-shaped problem")


def _well_shaped(problem: Problem) -> bool:
    for graph in all_graphs(problem):
        for node in graph.nodes:
            types = infer_types(node.op, tuple(v.type for v in node.inputs), node.attrs)
            if [t.shape for t in types] != [v.shape for v in node.outputs]:
                return False
    return True
