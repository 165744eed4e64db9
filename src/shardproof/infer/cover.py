"""Whether the parts that the ranks hold make up the whole sequential output.

Every rank's part may be right while a piece of the output is held by nobody, so this is an
obligation of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from shardproof.infer.blocks import Box, Term, Unsupported, Val, full_box, plain_dims
from shardproof.infer.labels import add_boxes
from shardproof.infer.views import meet
from shardproof.ir.graph import Mesh
from shardproof.ir.sizes import Size, Undecided, linear_in, only_symbol, product

MAX_BOXES = 64
"""Pieces of one part that are looked at."""


def covered(parts: Sequence[Val], shape: Sequence[Size], mesh: Mesh | None) -> bool:
    """Whether ``parts``, rearrangements of one atom of ``shape``, read every element of it.

    With ``mesh`` set, offsets may mention its rank symbols and stand for all ranks.
    """
    dims = plain_dims(shape)
    lo, hi = full_box(dims)
    try:
        boxes = {b for v in parts for b in _boxes(v)}
        if mesh is not None:
            boxes = {_all_ranks(b, mesh) for b in boxes}
        if (lo, hi) in boxes:
            return True
        pieces = add_boxes([(a, b, []) for a, b in boxes])
        inside = [m for a, b, _ in pieces if (m := meet(lo, hi, a, b)) is not None]
        volumes = [product(y - x for x, y in zip(a, b, strict=True)) for a, b in inside]
        total: Size = 0
        for v in volumes:
            total = total + v
        return total == product(hi)
    except (Undecided, Unsupported):
        return False


def _boxes(v: Val) -> list[tuple[Box, Box]]:
    out = []
    for c in v.cells:
        if len(c.lin) != 1 or c.lin[0][1] != 1 or c.lin[0][0].restr:
            raise Unsupported("a part that is not a rearrangement")
        out += _images(c.lin[0][0], c.lo, c.hi)
    return out


def _images(t: Term, lo: Box, hi: Box) -> list[tuple[Box, Box]]:
    """The boxes of atom indices that a term reads."""
    intervals = []
    for q in range(len(t.off)):
        walks = [(w[1], lo[j], hi[j]) for j, w in enumerate(t.ax) if w is not None and w[0] == q]
        intervals.append(_intervals(t.off[q], walks))
    if prod(len(i) for i in intervals) > MAX_BOXES:
        raise Unsupported("a part in too many pieces")
    return [
        (tuple(a for a, _ in box), tuple(b for _, b in box))
        for box in itertools.product(*intervals)
    ]


def _intervals(first: Size, walks: list[tuple[Size, Size, Size]]) -> list[tuple[Size, Size]]:
    """What walks of strides over ranges read from ``first`` on: one interval where the strides are
    digits, else one for every value of those that leave gaps."""
    width: Size = 1
    while (n := next((k for k, w in enumerate(walks) if w[0] == width), None)) is not None:
        s, a, b = walks.pop(n)
        first = first + s * a
        width = width * (b - a)
    starts = [first]
    for s, a, b in walks:
        if not isinstance(a, int) or not isinstance(b, int) or len(starts) * (b - a) > MAX_BOXES:
            raise Unsupported("a part with gaps")
        starts = [x + s * k for x in starts for k in range(a, b)]
    return [(x, x + width) for x in starts]


def _all_ranks(box: tuple[Box, Box], mesh: Mesh) -> tuple[Box, Box]:
    """The union over ranks of a box whose borders are affine in the rank."""
    lo, hi = list(box[0]), list(box[1])
    for axis, n in reversed(mesh.axes):
        sym = only_symbol(mesh.index(axis)) if n != 1 else None
        if sym is None:
            continue
        hit = 0
        for q in range(len(lo)):
            (a, b), (a2, b2) = linear_in(lo[q], sym), linear_in(hi[q], sym)
            if b == 0 and b2 == 0:
                continue
            if b != b2 or a2 - a != b:
                raise Unsupported("parts of the ranks do not tile")
            lo[q], hi[q] = a, a + b * n
            hit += 1
        if hit > 1:
            raise Unsupported("parts along a diagonal")
    return tuple(lo), tuple(hi)
