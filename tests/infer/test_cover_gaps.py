"""Parts that lie apart (zigzag) and whether they make up the whole."""

from __future__ import annotations

import pytest

from shardproof.infer.blocks import Cell, Term, Val
from shardproof.infer.coef import ONE
from shardproof.infer.cover import covered


def part(start: int, apart: int, length: int = 2) -> Val:
    """Two chunks of ``length``, the second ``apart`` after the first one's start."""
    term = Term(2, ((0, apart), (0, 1)), (start,), ())
    return Val(((2, length),), (Cell((0, 0), (2, length), ((term, ONE),)),))


@pytest.mark.parametrize(
    ("parts", "right"),
    [
        ([part(0, 6), part(2, 2)], True),
        ([part(0, 6), part(1, 2)], False),
        ([part(0, 6)], False),
        ([part(0, 5), part(2, 2)], False),
        ([part(0, 4), part(2, 4)], True),
    ],
)
def test_parts_in_zigzag(parts: list[Val], right: bool) -> None:
    assert covered(parts, (8,), None) is right
