"""Operands of a function of whole axes that are in several pieces along them.

Such a function needs each operand as one formula. ``x = l`` where ``i < k`` and ``x = m`` from
there on is the one formula ``x = [i < k] l + [i >= k] m``, with thresholds of the position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardproof.infer import blocks
from shardproof.infer.blocks import Box, Cell, Lin, Term, Unsupported, Val, Walk
from shardproof.infer.coef import ONE, Coef
from shardproof.infer.integers import Guards
from shardproof.infer.naming import IOTA
from shardproof.infer.terms import lincomb
from shardproof.ir.sizes import Size, product
from shardproof.lemmas import names as lemmas

Boxes = list[tuple[Box, Box, list[Lin]]]


def joined(guards: Guards, dims: blocks.Dims, cells: Boxes, whole: Sequence[int]) -> Boxes:
    """The same operands with every axis in ``whole`` in one piece.

    Raises:
        Unsupported: the pieces do not make up the axes.
    """
    ext = blocks.flat(dims)
    if all(lo[j] == 0 and hi[j] == ext[j] for lo, hi, _ in cells for j in whole):
        return cells
    groups: dict[Any, Boxes] = {}
    for lo, hi, lins in cells:
        rest = tuple((lo[j], hi[j]) for j in range(len(ext)) if j not in whole)
        groups.setdefault(rest, []).append((lo, hi, lins))
    return [_one(guards, dims, group, whole) for group in groups.values()]


def _one(
    guards: Guards, dims: blocks.Dims, group: Boxes, whole: Sequence[int]
) -> tuple[Box, Box, list[Lin]]:
    """The operands over the box that the pieces of ``group``, which are disjoint, make up."""
    ext = blocks.flat(dims)
    lo, hi = list(group[0][0]), list(group[0][1])
    for j in whole:
        lo[j], hi[j] = 0, ext[j]
    covered: Size = 0
    for a, b, _ in group:
        covered = covered + product(b[j] - a[j] for j in whole)
    if covered != product(ext[j] for j in whole):
        raise Unsupported("the pieces of a whole axis do not make it up")
    lins = []
    for p in range(len(group[0][2])):
        pieces = Val(dims, tuple(Cell(a, b, operands[p]) for a, b, operands in group))
        lins.append(_formula(guards, tuple(lo), tuple(hi), blocks.merge_cells(pieces)))
    return tuple(lo), tuple(hi), lins


def _formula(guards: Guards, lo: Box, hi: Box, pieces: Val) -> Lin:
    """One formula for an operand over ``[lo, hi)``."""
    if len(pieces.cells) == 1:
        return pieces.cells[0].lin
    table = guards.products.table
    table.fire(lemmas.PIECES_OF_AXIS)
    out: list[tuple[Term, Coef]] = []
    for c in pieces.cells:
        where = [g for j in range(len(lo)) for g in _inside(guards, lo, hi, c, j)]
        out += guards.products.expand(lo, hi, [*((g, ONE) for g in where), (c.lin, ONE)])
    return lincomb(table, out)


def _inside(guards: Guards, lo: Box, hi: Box, c: Cell, j: int) -> list[Lin]:
    """``[c.lo <= i]`` and ``[i < c.hi]`` for the position ``i`` along axis ``j``; a product of
    both, not a difference, so that the piece counts nowhere else."""
    out = []
    if c.lo[j] != lo[j]:
        out.append(_at_least(guards, lo, hi, j, 1, -c.lo[j]))
    if c.hi[j] != hi[j]:
        out.append(_at_least(guards, lo, hi, j, -1, c.hi[j] - 1))
    return out


def _at_least(guards: Guards, lo: Box, hi: Box, j: int, s: int, c: Size) -> Lin:
    """``[s * i + c >= 0]``."""
    ax: tuple[Walk, ...] = tuple((0, s) if k == j else None for k in range(len(lo)))
    return guards.threshold(lo, hi, Term(IOTA, ax, (c,)), 0)
