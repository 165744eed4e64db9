"""Factors of dims: split, refine and align them."""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.infer.blocks import (
    Cell,
    Term,
    Unsupported,
    Val,
    Walk,
    insert_axes,
    map_lin,
    merge_axis,
    merge_cells,
    merge_factors,
    occupied,
    pin_cell,
    start,
)
from shardproof.ir.sizes import Size, Undecided, div_mod, divides

MAX_PIECES = 4096


def split_axis(v: Val, d: int, f: int, n1: Size, n2: Size) -> Val:
    """Factor ``f`` of dim ``d`` (extent ``n1*n2``) becomes the two factors ``n1, n2``."""
    j = start(v.dims, d) + f
    cells: list[Cell] = []
    for c in v.cells:
        lin = map_lin(c.lin, lambda t: _split_walk(t, j, n2))
        for a, b, p, q in _split_interval(c.lo[j], c.hi[j], n2):
            lo = (*c.lo[:j], a, p, *c.lo[j + 1 :])
            hi = (*c.hi[:j], b, q, *c.hi[j + 1 :])
            cells.append(pin_cell(Cell(lo, hi, lin)))
    fs = v.dims[d]
    dims = (*v.dims[:d], (*fs[:f], n1, n2, *fs[f + 1 :]), *v.dims[d + 1 :])
    return Val(dims, tuple(cells), v.index)


def _split_walk(t: Term, j: int, n2: Size) -> Term:
    walk = t.ax[j]
    two: tuple[Walk, ...] = (None, None) if walk is None else ((walk[0], walk[1] * n2), walk)
    return t._replace(ax=t.ax[:j] + two + t.ax[j + 1 :])


def _split_interval(lo: Size, hi: Size, n2: Size) -> list[tuple[Size, Size, Size, Size]]:
    """``[lo, hi)`` as boxes (outer range, inner range) of digits with radix ``n2``."""
    ql, rl = div_mod(lo, n2)
    qh, rh = div_mod(hi, n2)
    if rl == 0 and rh == 0:
        return [(ql, qh, 0, n2)]
    if ql == qh or (rh == 0 and ql == qh - 1):
        return [(ql, ql + 1, rl, hi - ql * n2)]
    out: list[tuple[Size, Size, Size, Size]] = []
    a = ql
    if rl != 0:
        out.append((ql, ql + 1, rl, n2))
        a = ql + 1
    if occupied(a, qh):
        out.append((a, qh, 0, n2))
    if rh != 0:
        out.append((qh, qh + 1, 0, rh))
    return out


def refine_dim(v: Val, d: int, factors: tuple[Size, ...]) -> Val:
    """Give dim ``d`` exactly the factors listed, a refinement of its own; a leading factor 1 is
    allowed and makes an axis that nothing walks."""
    lead_one = bool(factors) and factors[0] == 1
    todo = factors[1:] if lead_one else factors
    f = 0
    while f < len(todo):
        if f >= len(v.dims[d]):
            raise Unsupported(f"cannot refine {v.dims[d]} to {factors}")
        cur = v.dims[d][f]
        if cur != todo[f]:
            q, r = div_mod(cur, todo[f])
            if r != 0 or q == 1:
                raise Unsupported(f"cannot refine {v.dims[d]} to {factors}")
            v = split_axis(v, d, f, todo[f], q)
        f += 1
    if len(v.dims[d]) != len(todo):
        raise Unsupported(f"cannot refine {v.dims[d]} to {factors}")
    return insert_axis(v, d, 1) if lead_one else v


def insert_axis(v: Val, d: int, extent: Size) -> Val:
    """A new outermost axis of dim ``d`` that no term walks."""
    j = start(v.dims, d)
    cells = tuple(
        Cell(
            (*c.lo[:j], 0, *c.lo[j:]),
            (*c.hi[:j], extent, *c.hi[j:]),
            map_lin(c.lin, lambda t: insert_axes(t, j, (None,))),
        )
        for c in v.cells
    )
    return Val((*v.dims[:d], (extent, *v.dims[d]), *v.dims[d + 1 :]), cells, v.index)


def unfactor(v: Val, d: int) -> Val:
    """Give dim ``d`` a single factor, with one cell an outer index where the walk is not affine.

    Raises:
        Unsupported: an outer extent is symbolic or large.
    """
    v = merge_factors(v)
    while len(v.dims[d]) > 1:
        n1, n2 = v.dims[d][:2]
        j = start(v.dims, d)
        cells: list[Cell] = []
        for c in v.cells:
            first, last = c.lo[j], c.hi[j]
            if not isinstance(first, int) or not isinstance(last, int):
                raise Unsupported("a symbolic number of pieces")
            if last - first > MAX_PIECES:
                raise Unsupported("too many pieces")
            for o in range(first, last):
                piece = c._replace(
                    lo=(*c.lo[:j], o, *c.lo[j + 1 :]), hi=(*c.hi[:j], o + 1, *c.hi[j + 1 :])
                )
                cells.append(merge_axis(pin_cell(piece), j, n2))
        fs = v.dims[d]
        v = merge_cells(
            Val((*v.dims[:d], (n1 * n2, *fs[2:]), *v.dims[d + 1 :]), tuple(cells), v.index)
        )
    return v


def common_factors(lists: Sequence[tuple[Size, ...]]) -> tuple[Size, ...] | None:
    """Coarsest common refinement of several factorisations of one size, if there is one."""
    if all(x == lists[0] for x in lists[1:]):
        return lists[0]
    cuts: list[Size] = []
    for fs in lists:
        p: Size = 1
        for f in reversed(fs):
            p = p * f
            if p not in cuts:
                cuts.append(p)
    ordered = _divisor_chain(cuts)
    if ordered is None:
        return None
    out = []
    for a, b in zip(ordered, [*ordered[1:], 1], strict=True):
        q, r = div_mod(a, b)
        if r != 0:
            return None
        if q != 1:
            out.append(q)
    return tuple(out)


def _divisor_chain(cuts: list[Size]) -> list[Size] | None:
    """Sizes sorted so that each is divisible by the next."""
    out: list[Size] = []
    for c in cuts:
        pos = 0
        while pos < len(out) and divides(c, out[pos]):
            pos += 1
        if pos < len(out) and not divides(out[pos], c):
            return None
        out.insert(pos, c)
    return out


def align(vals: Sequence[Val], d: int) -> list[Val]:
    """Give dim ``d`` of all values the same factors."""
    if all(v.dims[d] == vals[0].dims[d] for v in vals):
        return list(vals)
    fs = common_factors([v.dims[d] for v in vals])
    if fs is not None:
        try:
            return [refine_dim(v, d, fs) for v in vals]
        except (Unsupported, Undecided):
            pass
    return [unfactor(v, d) for v in vals]


def align_all(vals: Sequence[Val]) -> list[Val]:
    """Equal factors in every dim; the values must have equal shapes."""
    out = list(vals)
    for d in range(len(out[0].dims)):
        out = align(out, d)
    return out
