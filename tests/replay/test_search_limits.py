"""The search for small sizes: what it settles at once, and when it gives up."""

from __future__ import annotations

import pytest

from shardproof.replay.resize import solve as solver
from shardproof.replay.resize.scales import Dim, Scales, SumEquation


def chain(parts: int) -> tuple[Scales, list[Dim], list[Dim]]:
    """A buffer of so many parts: every end is the end before and the next part."""
    s = Scales()
    pieces = [s.new(4 + 3 * k) for k in range(parts)]
    ends = [pieces[0]]
    for piece in pieces[1:]:
        ends.append(s.new(s.size[ends[-1]] + s.size[piece]))
        s.sums.append(SumEquation(ends[-1], (ends[-2], piece)))
    return s, pieces, ends


def test_the_ends_follow_from_the_parts() -> None:
    s, pieces, ends = chain(6)
    found = solver.solve(s)
    total = 0
    for piece, end in zip(pieces, ends, strict=True):
        total += found.size(piece)
        assert found.size(end) == total
    assert total < s.size[ends[-1]]


def test_too_many_consequences_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    s, _, _ = chain(6)
    monkeypatch.setattr(solver, "MAX_SETTLED", 1)
    with pytest.raises(solver.Unsolved, match="no sizes after"):
        solver.solve(s)
