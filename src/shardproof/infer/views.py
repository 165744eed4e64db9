"""Rearrangements of values: permute, reshape, slice, concat, expand, and common cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardproof.infer.blocks import (
    Box,
    Cell,
    Lin,
    Unsupported,
    Val,
    drop_axes,
    flat,
    map_lin,
    normalise,
    occupied,
    pin_cell,
    plain_dims,
    shift_axis,
    start,
)
from shardproof.infer.factors import align, insert_axis, refine_dim, split_axis, unfactor
from shardproof.ir.sizes import Size, Undecided, div_mod, divides, product, smax, smin


def permute(v: Val, perm: Sequence[int]) -> Val:
    idx = [j for p in perm for j in range(start(v.dims, p), start(v.dims, p) + len(v.dims[p]))]

    def take(x: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(x[j] for j in idx)

    cells = tuple(
        Cell(take(c.lo), take(c.hi), map_lin(c.lin, lambda t: drop_axes(t, idx))) for c in v.cells
    )
    return Val(tuple(v.dims[p] for p in perm), cells)


def reshape(v: Val, shape: Sequence[Size]) -> Val:
    """Row-major reshape. Where a border of the new shape falls inside a factor that it does not
    divide (of a flat buffer, which holds rows of several lengths), the elements are counted anew.

    Raises:
        Unsupported: such a border, and the elements cannot be counted.
    """
    if v.shape == tuple(shape):
        return Val(v.dims, v.cells)
    if any(s == 0 for s in shape):
        return Val(plain_dims(shape), ())
    u = Val((flat(v.dims),), v.cells)
    try:
        return _grouped(u, v, shape)
    except Unsupported:
        one = unfactor(u, 0) if len(u.dims[0]) > 1 else u
        if one.dims == u.dims:
            raise
        return _grouped(one, v, shape)


def _grouped(u: Val, v: Val, shape: Sequence[Size]) -> Val:
    """The one dim of ``u`` cut into dims of ``shape``; ``v`` is what it was made from."""
    groups, pos = [], 0
    for target in shape:
        acc: Size = 1
        count = 0
        while acc != target:
            if pos >= len(u.dims[0]):
                raise Unsupported(f"reshape {v.shape} to {tuple(shape)}")
            f = u.dims[0][pos]
            if divides(acc * f, target):
                acc = acc * f
            else:
                u, f = _split_for(u, pos, acc, target, v, shape)
                acc = acc * f
            pos += 1
            count += 1
        groups.append(count)
    if pos != len(u.dims[0]):
        raise Unsupported(f"reshape {v.shape} to {tuple(shape)}")
    fs, dims, o = u.dims[0], [], 0
    for g in groups:
        dims.append(tuple(fs[o : o + g]))
        o += g
    return normalise(tuple(dims), u.cells)


def _split_for(
    u: Val, pos: int, acc: Size, target: Size, v: Val, shape: Sequence[Size]
) -> tuple[Val, Size]:
    need, r = div_mod(target, acc)
    f = u.dims[0][pos]
    q, r2 = div_mod(f, need) if r == 0 else (0, 1)
    if r2 != 0:
        raise Unsupported(f"reshape {v.shape} to {tuple(shape)}")
    return split_axis(u, 0, pos, need, q), need


def slice_dim(v: Val, d: int, a: Size, b: Size) -> Val:
    """``v[..., a:b, ...]`` at dim ``d``, ``0 <= a <= b <= size``."""
    if a == 0 and b == product(v.dims[d]):
        return Val(v.dims, v.cells)
    if a == b:
        return Val(plain_dims((*v.shape[:d], 0, *v.shape[d + 1 :])), ())
    if not v.dims[d]:
        raise Unsupported("a part of one element that may be none")
    f = 0
    while True:
        fs = v.dims[d]
        inner = product(fs[f + 1 :])
        (qa, ra), (qb, rb) = div_mod(a, inner), div_mod(b, inner)
        if ra == 0 and rb == 0:
            return _slice_axis(v, d, f, qa, qb)
        if qa == qb or (rb == 0 and qa == qb - 1):
            v = _slice_axis(v, d, f, qa, qa + 1, keep_axis=True)
            a, b, f = a - qa * inner, b - qa * inner, f + 1
        else:
            v, f = unfactor(v, d), 0


def _slice_axis(v: Val, d: int, f: int, a: Size, b: Size, keep_axis: bool = False) -> Val:
    j = start(v.dims, d) + f
    cells = []
    for c in v.cells:
        first, last = smax(c.lo[j], a), smin(c.hi[j], b)
        if not occupied(first, last):
            continue
        lo = (*c.lo[:j], first - a, *c.lo[j + 1 :])
        hi = (*c.hi[:j], last - a, *c.hi[j + 1 :])
        cells.append(Cell(lo, hi, map_lin(c.lin, lambda t: shift_axis(t, j, a))))
    fs = v.dims[d]
    dims = (*v.dims[:d], (*fs[:f], b - a, *fs[f + 1 :]), *v.dims[d + 1 :])
    if keep_axis:
        return Val(dims, tuple(pin_cell(c) for c in cells))
    return normalise(dims, cells)


def concat(vals: Sequence[Val], d: int) -> Val:
    """Join along dim ``d``; the other dims must agree."""
    vals = [v for v in vals if not any(f == 0 for f in v.dims[d])] or list(vals[:1])
    if len(vals) == 1:
        return Val(vals[0].dims, vals[0].cells)
    if len({(v.shape[:d], v.shape[d + 1 :]) for v in vals}) > 1:
        raise Unsupported("parts whose other dims differ")
    for k in range(len(vals[0].dims)):
        if k != d:
            vals = align(vals, k)
    vals = _same_inner(vals, d)
    j = start(vals[0].dims, d)
    cells: list[Cell] = []
    o: Size = 0
    for v in vals:
        for c in v.cells:
            lo = (*c.lo[:j], c.lo[j] + o, *c.lo[j + 1 :])
            hi = (*c.hi[:j], c.hi[j] + o, *c.hi[j + 1 :])
            lin = tuple((shift_axis(t, j, -o), k) for t, k in c.lin)
            cells.append(Cell(lo, hi, lin))
        o = o + v.dims[d][0]
    dims = vals[0].dims
    return normalise((*dims[:d], (o, *dims[d][1:]), *dims[d + 1 :]), cells)


def _same_inner(vals: Sequence[Val], d: int) -> list[Val]:
    """Refine every part to ``(n, *inner)`` with one common ``inner``."""
    tails = {t for v in vals for t in (v.dims[d][1:], v.dims[d])}
    for inner in sorted(tails, key=len, reverse=True):
        p = product(inner)
        try:
            return [refine_dim(v, d, (div_exact(product(v.dims[d]), p), *inner)) for v in vals]
        except (Unsupported, Undecided):
            continue
    return [_single(unfactor(v, d), d) for v in vals]


def _single(v: Val, d: int) -> Val:
    return v if v.dims[d] else insert_axis(v, d, 1)


def div_exact(a: Size, b: Size) -> Size:
    q, r = div_mod(a, b)
    if r != 0:
        raise Unsupported(f"{b} does not divide {a}")
    return q


def expand(v: Val, shape: Sequence[Size]) -> Val:
    """NumPy broadcasting to ``shape``: a broadcast axis is one that no term walks."""
    if v.shape == tuple(shape):
        return v
    k = len(shape) - len(v.dims)
    out = Val(((),) * k + v.dims, v.cells)
    for d, n in enumerate(shape):
        if out.dims[d] == () and n != 1:
            out = Val(plain_dims(shape), ()) if n == 0 else insert_axis(out, d, n)
    return out


def overlay(vals: Sequence[Val]) -> list[tuple[Box, Box, list[Lin]]]:
    """Common refinement of the cells of values with equal factors."""
    if all(len(v.cells) == 1 for v in vals):
        c = vals[0].cells[0]
        return [(c.lo, c.hi, [v.cells[0].lin for v in vals])]
    acc: list[tuple[Box, Box, list[Lin]]] = [(c.lo, c.hi, [c.lin]) for c in vals[0].cells]
    for v in vals[1:]:
        same = {(c.lo, c.hi): c.lin for c in v.cells}
        out: list[tuple[Box, Box, list[Lin]]] = []
        for lo, hi, lins in acc:
            if (lo, hi) in same:
                out.append((lo, hi, [*lins, same[lo, hi]]))
                continue
            for c in v.cells:
                box = meet(lo, hi, c.lo, c.hi)
                if box is not None:
                    out.append((*box, [*lins, c.lin]))
        acc = out
    return [_pin_overlay(*x) for x in acc]


def _pin_overlay(lo: Box, hi: Box, lins: list[Lin]) -> tuple[Box, Box, list[Lin]]:
    return lo, hi, [pin_cell(Cell(lo, hi, lin)).lin for lin in lins]


def meet(lo1: Box, hi1: Box, lo2: Box, hi2: Box) -> tuple[Box, Box] | None:
    """Intersection of two boxes; None when empty.

    Raises:
        Undecided: the order of its borders depends on symbols.
    """
    lo = tuple(map(smax, lo1, lo2))
    hi = tuple(map(smin, hi1, hi2))
    if not all(occupied(a, b) for a, b in zip(lo, hi, strict=True)):
        return None
    return lo, hi
