"""The pass: a concrete problem in, the same problem at small sizes out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from math import prod

from shardproof.collectives.errors import node_name
from shardproof.replay.errors import NotReplayable
from shardproof.replay.resize.analysis import Analysis, analyse
from shardproof.replay.resize.apply import Writer
from shardproof.replay.resize.scales import Dim
from shardproof.replay.resize.solve import Solution, Unsolved, Wish, identity, solve
from shardproof.spec.problem import Problem


@dataclass(slots=True)
class ResizeReport:
    """What was done.

    Attributes:
        sizes: original size to the reduced sizes it became, as text (``"1536" -> "3/4"``).
        kept: integer constants that were not scaled, with the place and the reason.
        ambiguous: literals read as a multiple of a size plus a small offset.
        counts: factors taken for 1 / number of summed terms.
        classes, dims, products: how large the system of equations was.
        largest: elements of the largest tensor after resizing.
        exact: every position scales exactly (no trimmed slices), so offsets keep their relations.
    """

    sizes: dict[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    ambiguous: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)
    classes: int = 0
    dims: int = 0
    products: int = 0
    largest: int = 0
    exact: bool = True


@dataclass(slots=True)
class Resized:
    """A runnable instance. ``ranges``: number of valid indices of each integer input of the
    sequential graph, where the analysis found what it indexes."""

    problem: Problem
    ranges: dict[str, int]
    report: ResizeReport
    wish: Wish = field(default_factory=Wish)


def resize(
    problem: Problem, wish: Wish | None = None, *, counts: bool = True, exact: bool = False
) -> Resized:
    """``problem`` at small sizes.

    Args:
        wish: preferred sizes.
        counts: let factors that are 1 / number of summed terms follow the new number. Without,
            they stay as they are; a difference that only one of the two shows is no witness.
        exact: scale every position exactly, even if a dim can then hardly shrink.

    Raises:
        NotReplayable: symbolic sizes (instantiate first), protocol violations, or a rule that
            turned out too weak (checked with the shape rules).
    """
    wish = wish or Wish()
    for strict in (True,) if exact else (False, True):
        analysis = analyse(problem, strict)
        try:
            out = _written(analysis, solve(analysis.scales, wish), counts)
            out.wish = wish
            return out
        except Unsolved:
            continue
        except NotReplayable:
            if strict:
                raise
    raise NotReplayable("resizing found no smaller sizes")


def keep_sizes(problem: Problem) -> Resized:
    """``problem`` as it is, with the index ranges and the report of an analysis."""
    analysis = analyse(problem, exact=True)
    return _written(analysis, identity(analysis.scales), counts=True)


def _written(analysis: Analysis, solution: Solution, counts: bool) -> Resized:
    writer = Writer(analysis, solution, counts)
    return Resized(
        writer.problem(), _ranges(analysis, solution), _report(analysis, solution, counts)
    )


def _ranges(a: Analysis, solution: Solution) -> dict[str, int]:
    """Indices must suit every lookup of the sequential program, so its smallest table counts."""
    out = {}
    for v in a.problem.sequential.inputs:
        domain = a.tensor(v).domain
        if domain is not None:
            root = domain.root()
            tables = root.sequential_tables or root.tables
            if tables:
                out[v.name] = min(solution.size(t) for t in tables)
    return out


def _report(a: Analysis, solution: Solution, counts: bool) -> ResizeReport:
    used = [d for t in a.tensors.values() for d in t.dims]
    out = ResizeReport(
        dims=sum(a.scales.size[d] != 1 for d in used), exact=a.scales.exact or not a.scales.sums
    )
    out.classes = len({a.scales.find(d) for d in used if a.scales.size[d] != 1})
    out.products = len(a.scales.products)
    out.sizes = _size_table(a, solution, used)
    shapes = [t.dims for t in a.tensors.values()]
    out.largest = max((prod(solution.size(d) for d in dims) for dims in shapes), default=0)
    for (node, attr), r in a.readings.items():
        if r.why:
            text = f"{node_name(node)} ({attr} {r.value}): {r.why}"
            (out.ambiguous if r.dim is not None else out.kept).append(text)
    for node, count in a.counts.items():
        terms = prod(a.scales.size[d] for d in count.dims)
        what = f"{node_name(node)} ({count.attr} {node.attrs[count.attr]})"
        text = f"{what}: {count.ratio} / {terms} terms"
        (out.counts if counts else out.kept).append(text)
    return out


def _size_table(a: Analysis, solution: Solution, used: list[Dim]) -> dict[str, str]:
    found: dict[int, set[int]] = defaultdict(set)
    for d in used:
        found[a.scales.size[d]].add(solution.size(d))
    return {
        str(n): "/".join(map(str, sorted(small)))
        for n, small in sorted(found.items(), reverse=True)
        if small != {n}
    }
