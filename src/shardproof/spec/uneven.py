"""The same live program with unequal counts on the ranks.

Where every rank has as many rows, a mean of means is the mean, and a factor 1/ranks is a share of
the rows. Such a program is right for the sizes it was checked at and wrong for others. So a live
Spec whose inputs are cut evenly is tried once more with one row moved from the last rank to the
first, where that is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shardproof.errors import InputError
from shardproof.ir.graph import Mesh
from shardproof.report.diagnostic import Uneven, Verdict
from shardproof.spec.counts import Counts
from shardproof.spec.live import Input, as_input
from shardproof.spec.placement import Shard, by_axis, is_placement
from shardproof.spec.problem import Problem

if TYPE_CHECKING:
    from shardproof.spec.spec import Spec

# Nodes of all graphs together up to which a program is captured again without being asked for.
CHEAP = 6000
Cut = tuple[str, str, Shard]  # input, mesh axis, its placement along it


def variant(spec: Spec) -> tuple[Spec, str] | None:
    """The Spec with unequal counts along one mesh axis, and the counts as text; None where no
    input is cut evenly, or where a rank has one row only."""
    mesh = spec.mesh
    if mesh is None or not isinstance(spec.inputs, Mapping):
        return None
    inputs = {k: as_input(k, v) for k, v in spec.inputs.items()}
    cuts = [c for k, v in inputs.items() for c in _even(k, v, mesh)]
    axis = min(cuts, key=lambda c: c[2].dim)[1] if cuts else ""
    mine = [c for c in cuts if c[1] == axis]
    ranks = dict(mesh.axes).get(axis, 1)
    assert isinstance(ranks, int)
    if ranks < 2 or any(inputs[k].shape[s.dim] % ranks for k, _, s in mine):
        return None
    rows = min(inputs[k].shape[s.dim] for k, _, s in mine) // ranks
    sizes = {k: _moved(inputs[k].shape[s.dim] // ranks, rows, ranks) for k, _, s in mine}
    if rows < 2 or any(not x for x in sizes.values()):
        return None
    changed: dict[str, Any] = {}
    for k, _, s in mine:
        placements = dict(by_axis(inputs[k].placement, mesh, k))
        placements[axis] = Shard(s.dim, sizes=sizes[k])
        changed[k] = replace(inputs[k], placement=placements)
    text = ", ".join(f"{k}: {' + '.join(map(str, sizes[k]))}" for k in changed)
    counts = Counts(axis, _moved(rows, rows, ranks))
    other = replace(spec, inputs={**inputs, **changed}, uneven=False, counts=counts)
    return other, f"{text} over {axis}"


def _even(name: str, given: Input, mesh: Mesh) -> list[Cut]:
    """The mesh axes along which an input is cut evenly, each along a dim of its own."""
    if not is_placement(given.placement):
        return []
    placements = by_axis(given.placement, mesh, name)
    shards = {a: p for a, p in placements.items() if isinstance(p, Shard)}
    dims = [p.dim % len(given.shape) for p in shards.values()]
    return [
        (name, a, replace(p, dim=p.dim % len(given.shape)))
        for a, p in shards.items()
        if p.sizes is None and dims.count(p.dim % len(given.shape)) == 1
    ]


def _moved(own: int, rows: int, ranks: int) -> tuple[int, ...]:
    """Sizes of the shards with one of ``rows`` moved from the last rank to the first; an input
    with more than one element a row has as many times that. Empty where it does not divide."""
    if rows == 0 or own % rows:
        return ()
    one = own // rows
    return (own + one, *[own] * (ranks - 2), own - one)


def cheap(problem: Problem) -> bool:
    """Whether a second capture is cheap."""
    graphs = [problem.sequential, *problem.distributed.graphs]
    return sum(len(g.nodes) for g in graphs) <= CHEAP


def tried(
    spec: Spec,
    even: Verdict,
    decide: Callable[[Spec], Verdict],
    *,
    asked: bool,
) -> Verdict:
    """``even`` with what is found for unequal counts noted in it.

    Args:
        decide: checks a Spec.
        asked: the Spec asks for unequal counts: what does not hold for them does not hold.

    Raises:
        InputError: unequal counts are asked for and cannot be had.
    """
    found = variant(spec)
    if found is None:
        if asked:
            raise _impossible("no input is cut evenly along an axis, with two rows a rank or more")
        return even
    other, counts = found
    try:
        verdict = decide(other)
    except InputError as error:
        if asked:
            raise _impossible(f"with {counts} it cannot be captured: {error}") from error
        even.uneven = Uneven(counts, "not tried", _first_line(str(error)))
        return even
    first = verdict.findings[0] if verdict.findings else None
    why = f"{first.code} {first.title}: {first.message}" if first is not None else ""
    even.uneven = Uneven(counts, verdict.status, why)
    if asked and verdict.status != "refines":
        even.status = verdict.status
        even.findings += verdict.findings
        for f in verdict.findings:
            f.notes.append(f"with unequal counts ({counts})")
    return even


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""


def _impossible(why: str) -> InputError:
    return InputError(
        why,
        where="uneven",
        expected="inputs with an even Shard, of programs that run with unequal shards",
        next_step="leave uneven out, or give Shard(dim, sizes=[...]) for the counts meant",
    )
