"""Bring labelled operands onto one common set of axes (for contractions and signatures)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from shardproof.infer.blocks import (
    Box,
    Cell,
    Dims,
    Lin,
    Term,
    Unsupported,
    Val,
    normalise,
    start,
)
from shardproof.infer.coef import Coef
from shardproof.infer.factors import align_all
from shardproof.infer.naming import Table
from shardproof.infer.terms import lincomb
from shardproof.infer.views import expand, meet, overlay, permute
from shardproof.ir.sizes import Size, Undecided, at_least, product
from shardproof.ops.base import ONE as UNIT_LABEL

MAX_BOXES = 512


@dataclass(frozen=True, slots=True)
class Labelled:
    """Operands over the axes of all labels: ``dims`` is the common dims (one a label, in the
    order of ``labels``), ``cells`` the common refinement of their cells."""

    labels: tuple[str, ...]
    dims: Dims
    cells: list[tuple[Box, Box, list[Lin]]]

    def axes(self, label: str) -> range:
        k = self.labels.index(label)
        first = start(self.dims, k)
        return range(first, first + len(self.dims[k]))


def bring_together(
    vals: Sequence[Val], operands: Sequence[tuple[str, ...]], output: Sequence[str]
) -> Labelled:
    """Permute, broadcast and align operands over all labels, output labels first."""
    order: list[str] = [x for x in output if x != UNIT_LABEL]
    for ls in operands:
        order.extend(x for x in ls if x not in order and x != UNIT_LABEL)
    sizes: dict[str, Size] = {}
    for v, ls in zip(vals, operands, strict=True):
        for label, n in zip(ls, v.shape, strict=True):
            if label != UNIT_LABEL:
                sizes[label] = n
    for label in order:
        if label not in sizes:
            raise Unsupported(f"axis {label!r} is made by the operator")
    full = [_spread(v, ls, order, sizes) for v, ls in zip(vals, operands, strict=True)]
    aligned = align_all(full)
    if any(not v.cells for v in aligned):
        return Labelled(tuple(order), aligned[0].dims, [])
    return Labelled(tuple(order), aligned[0].dims, overlay(aligned))


def _spread(v: Val, ls: tuple[str, ...], order: list[str], sizes: dict[str, Size]) -> Val:
    keep = [k for k, label in enumerate(ls) if label != UNIT_LABEL]
    mine = [ls[k] for k in keep]
    v = Val(tuple(v.dims[k] for k in keep), v.cells)
    wanted = [x for x in order if x in mine]
    v = permute(v, [mine.index(x) for x in wanted])
    dims, k = [], 0
    for label in order:
        dims.append(v.dims[k] if label in mine else ())
        k += label in mine
    return expand(Val(tuple(dims), v.cells), [sizes[x] for x in order])


def project(
    table: Table,
    together: Labelled,
    output: Sequence[str],
    parts: Sequence[tuple[Box, Box, Sequence[tuple[Term, Coef]]]],
) -> Val:
    """Sum ``parts`` (terms over all axes, none of which walks a dropped axis) into a value over
    the output labels."""
    kept = [x for x in output if x != UNIT_LABEL]
    keep = [j for x in kept for j in together.axes(x)]

    def cut(x: Box) -> Box:
        return tuple(x[j] for j in keep)

    cells: list[tuple[Box, Box, list[tuple[Term, Coef]]]] = []
    for lo, hi, pairs in parts:
        terms = [(t._replace(ax=tuple(t.ax[j] for j in keep)), c) for t, c in pairs]
        cells.append((cut(lo), cut(hi), terms))
    dims: list[tuple[Size, ...]] = []
    for x in output:
        dims.append(() if x == UNIT_LABEL else together.dims[together.labels.index(x)])
    merged = add_boxes(cells)
    return normalise(
        tuple(dims), tuple(Cell(lo, hi, lincomb(table, pairs)) for lo, hi, pairs in merged)
    )


Piece = tuple[Box, Box, list[tuple[Term, Coef]]]


def add_boxes(cells: list[Piece]) -> list[Piece]:
    """Sum contributions over boxes: equal boxes add up, overlapping ones are cut first."""
    acc: dict[tuple[Box, Box], list[tuple[Term, Coef]]] = {}
    for lo, hi, pairs in cells:
        acc.setdefault((lo, hi), []).extend(pairs)
    boxes = list(acc)
    if len(boxes) > MAX_BOXES:
        raise Unsupported("too many partial boxes")
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            if meet(*a, *b) is not None:
                return _cut_up(acc)
    return [(lo, hi, pairs) for (lo, hi), pairs in acc.items()]


def _cut_up(acc: dict[tuple[Box, Box], list[tuple[Term, Coef]]]) -> list[Piece]:
    n = len(next(iter(acc))[0])
    cuts: list[list[Size]] = []
    for j in range(n):
        points: list[Size] = []
        for lo, hi in acc:
            for x in (lo[j], hi[j]):
                if x not in points:
                    points.append(x)
        cuts.append(_ordered(points))
    total = product(len(c) - 1 for c in cuts)
    if not isinstance(total, int) or total > MAX_BOXES:
        raise Unsupported("too many overlapping boxes")
    grid: list[tuple[Box, Box]] = [((), ())]
    for c in cuts:
        grid = [((*lo, a), (*hi, b)) for lo, hi in grid for a, b in itertools.pairwise(c)]
    out: list[Piece] = []
    for lo, hi in grid:
        pairs = [p for box, ps in acc.items() if _inside(lo, hi, *box) for p in ps]
        if any(_inside(lo, hi, *box) for box in acc):
            out.append((lo, hi, pairs))
    return out


def _inside(lo: Box, hi: Box, lo2: Box, hi2: Box) -> bool:
    return all(at_least(a, c) for a, c in zip(lo, lo2, strict=True)) and all(
        at_least(d, b) for b, d in zip(hi, hi2, strict=True)
    )


def _ordered(points: list[Size]) -> list[Size]:
    out: list[Size] = []
    for x in points:
        pos = 0
        while pos < len(out) and at_least(x, out[pos]):
            pos += 1
        if pos < len(out) and not at_least(out[pos], x):
            raise Undecided("cannot order box borders")
        out.insert(pos, x)
    return out
