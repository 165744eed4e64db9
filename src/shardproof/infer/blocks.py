"""The block normal form: a tensor as a partition of its index box into cells.

Each cell holds a linear combination of *terms*. A :class:`Term` is one named sequential value
(an *atom*) read at an affine function of the absolute output index, and possibly with some of the
atom's reductions restricted to an interval (a *partial*). Because indices are absolute, two
adjacent shards hold equal terms, so shards merge by comparing terms; and because partials are
intervals, partial sums merge exactly as shards do.

A dim is a list of factors (mixed radix, outermost first, no factor 1), so reshape, permute,
split and concat stay inside the form. A dim of size 1 has no factors, hence no axis: an operand
read at a single index of an axis is a *pinned* term, with the index in its offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from shardproof.infer.coef import Coef
from shardproof.ir.sizes import Size, Undecided, at_least, div_mod, divides, lt, product, smax, smin


class Unsupported(Exception):
    """The block algebra cannot express this step; the value becomes opaque."""


Label = tuple[Any, ...]
Walk = tuple[int, Size] | None  # (atom axis, stride) that an output axis walks


class Term(NamedTuple):
    """``atom[off + sum_j stride_j * i_j]`` with reductions restricted to ``restr`` intervals."""

    atom: int
    ax: tuple[Walk, ...]
    off: tuple[Size, ...]
    restr: tuple[tuple[Label, Size, Size], ...] = ()


Lin = tuple[tuple[Term, Coef], ...]
Box = tuple[Size, ...]


class Cell(NamedTuple):
    lo: Box
    hi: Box
    lin: Lin


Dims = tuple[tuple[Size, ...], ...]


class Val:
    """A tensor in block normal form. ``index`` is the integer view of the value, if it has one
    (see :mod:`shardproof.infer.integers`)."""

    __slots__ = ("cells", "dims", "index")

    def __init__(self, dims: Dims, cells: tuple[Cell, ...], index: Any = None) -> None:
        self.dims, self.cells, self.index = dims, cells, index

    @property
    def shape(self) -> tuple[Size, ...]:
        return tuple(product(f) for f in self.dims)

    def key(self) -> tuple[Dims, tuple[Cell, ...]]:
        return self.dims, self.cells

    def __repr__(self) -> str:
        return f"Val{self.dims}{self.cells}"


def flat(dims: Dims) -> tuple[Size, ...]:
    """Extents of all axes in order."""
    return tuple(f for d in dims for f in d)


def start(dims: Dims, d: int) -> int:
    """Position of the first axis of dim ``d``."""
    return sum(len(x) for x in dims[:d])


def plain_dims(shape: Sequence[Size]) -> Dims:
    """One factor a dim, none where the size is 1."""
    return tuple((s,) if s != 1 else () for s in shape)


def full_box(dims: Dims) -> tuple[Box, Box]:
    ext = flat(dims)
    return (0,) * len(ext), ext


def is_empty(dims: Dims) -> bool:
    return any(f == 0 for d in dims for f in d)


def filled(shape: Sequence[Size], lin_of: Callable[[int], Lin]) -> Val:
    """A value with one cell; ``lin_of(number of axes)`` gives its terms."""
    dims = plain_dims(shape)
    if is_empty(dims):
        return Val(dims, ())
    lo, hi = full_box(dims)
    return Val(dims, (Cell(lo, hi, lin_of(len(lo))),))


def atom_val(atom: int, shape: Sequence[Size]) -> Val:
    """The named value ``atom`` itself: its atom axes are the dims that are not of size 1."""
    from shardproof.infer.coef import ONE

    return filled(
        shape,
        lambda n: ((Term(atom, tuple((a, 1) for a in range(n)), (0,) * n), ONE),),
    )


# ------------------------------------------------------------------ terms


def map_lin(lin: Lin, f: Callable[[Term], Term]) -> Lin:
    return tuple((f(t), c) for t, c in lin)


def shift_axis(t: Term, j: int, k: Size) -> Term:
    """Substitute ``i_j -> i_j + k``."""
    walk = t.ax[j]
    if walk is None or k == 0:
        return t
    a, s = walk
    off = t.off[:a] + (t.off[a] + s * k,) + t.off[a + 1 :]
    return t._replace(off=off)


def drop_axes(t: Term, keep: Sequence[int]) -> Term:
    return t._replace(ax=tuple(t.ax[j] for j in keep))


def insert_axes(t: Term, at: int, walks: tuple[Walk, ...]) -> Term:
    return t._replace(ax=t.ax[:at] + walks + t.ax[at:])


def pin_term(t: Term, j: int, index: Size) -> Term:
    """Fix output axis ``j`` at ``index``; the axis stays but is no longer walked."""
    moved = shift_axis(t, j, index)
    return moved._replace(ax=moved.ax[:j] + (None,) + moved.ax[j + 1 :])


# ------------------------------------------------------------------ normalisation


def normalise(dims: Dims, cells: Iterable[Cell]) -> Val:
    """Pin extent-1 axes, drop factors 1, merge adjacent cells and factors."""
    pinned = tuple(_pin_cell(c) for c in cells)
    if any(f == 1 for d in dims for f in d):
        dims, pinned = _drop_ones(dims, pinned)
    return merge_factors(merge_cells(Val(dims, pinned)))


def _pin_cell(cell: Cell) -> Cell:
    lo, hi, lin = cell
    for j in range(len(lo)):
        if hi[j] - lo[j] == 1 and any(t.ax[j] is not None for t, _ in lin):
            lin = tuple((pin_term(t, j, lo[j]), c) for t, c in lin)
    return Cell(lo, hi, lin)


def _drop_ones(dims: Dims, cells: tuple[Cell, ...]) -> tuple[Dims, tuple[Cell, ...]]:
    ext = flat(dims)
    keep = [j for j, f in enumerate(ext) if f != 1]

    def cut(x: Box) -> Box:
        return tuple(x[j] for j in keep)

    out = tuple(Cell(cut(c.lo), cut(c.hi), map_lin(c.lin, lambda t: drop_axes(t, keep))) for c in cells)
    return tuple(tuple(f for f in d if f != 1) for d in dims), out


def merge_cells(v: Val) -> Val:
    """Join adjacent cells whose terms are one affine function."""
    cells = list(v.cells)
    changed = len(cells) > 1
    while changed and len(cells) > 1:
        changed = False
        for j in range(len(cells[0].lo)):
            groups: dict[Any, list[Cell]] = {}
            for c in cells:
                side = (c.lo[:j], c.lo[j + 1 :], c.hi[:j], c.hi[j + 1 :])
                groups.setdefault(side, []).append(c)
            if len(groups) == len(cells):
                continue
            out: list[Cell] = []
            for group in groups.values():
                joined = _join_run(group, j)
                changed = changed or len(joined) < len(group)
                out.extend(joined)
            cells = out
    if len(cells) > 1:
        cells.sort(key=lambda c: tuple(map(_order_key, c.lo)))
    return Val(v.dims, tuple(cells), v.index)


def _order_key(x: Size) -> tuple[int, int, str]:
    return (0, x, "") if isinstance(x, int) else (1, 0, repr(x))


def _join_run(group: list[Cell], j: int) -> list[Cell]:
    by_start = {c.lo[j]: c for c in group}
    ends = {c.hi[j] for c in group}
    out: list[Cell] = []
    for head in sorted((c for c in group if c.lo[j] not in ends), key=lambda c: _order_key(c.lo[j])):
        cur = head
        while (nxt := by_start.get(cur.hi[j])) is not None and nxt is not head:
            lin = _join_lin(cur, nxt, j)
            if lin is None:
                out.append(cur)
                cur = nxt
            else:
                cur = Cell(cur.lo, nxt.hi, lin)
        out.append(cur)
    return out


def _join_lin(c1: Cell, c2: Cell, j: int) -> Lin | None:
    if c1.lin == c2.lin:
        return c1.lin
    if len(c1.lin) != len(c2.lin):
        return None
    one1, one2 = c1.hi[j] - c1.lo[j] == 1, c2.hi[j] - c2.lo[j] == 1
    if not (one1 or one2):
        return None
    rest = list(c2.lin)
    out = []
    for t1, k1 in c1.lin:
        for n, (t2, k2) in enumerate(rest):
            if t1.atom == t2.atom and k1 == k2 and t1.restr == t2.restr:
                t = _join_term(t1, c1.lo[j], one1, t2, c2.lo[j], one2, j)
                if t is not None:
                    out.append((t, k1))
                    del rest[n]
                    break
        else:
            return None
    return tuple(out)


def _join_term(
    t1: Term, lo1: Size, one1: bool, t2: Term, lo2: Size, one2: bool, j: int
) -> Term | None:
    """The term that equals ``t1`` on its cell and ``t2`` on the next one, if there is one. Where
    a cell has extent 1 along ``j`` its walk there is free, which is what makes runs of single
    heads or single samples merge."""
    if t1.ax[:j] != t2.ax[:j] or t1.ax[j + 1 :] != t2.ax[j + 1 :]:
        return None
    if one1 and one2:
        p1, p2 = pin_term(t1, j, lo1), pin_term(t2, j, lo2)
        diff = [(q, b - a) for q, (a, b) in enumerate(zip(p1.off, p2.off, strict=True)) if a != b]
        if not diff:
            return p1
        if len(diff) > 1 or not at_least(diff[0][1], 1):
            return None
        q, s = diff[0]
        off = p1.off[:q] + (p1.off[q] - s * lo1,) + p1.off[q + 1 :]
        return p1._replace(ax=p1.ax[:j] + ((q, s),) + p1.ax[j + 1 :], off=off)
    walk, single, at = (t2, t1, lo1) if one1 else (t1, t2, lo2)
    return walk if pin_term(walk, j, at).off == pin_term(single, j, at).off else None


def merge_factors(v: Val) -> Val:
    """Join adjacent factors of one dim wherever every cell walks them as one axis."""
    for d in range(len(v.dims)):
        f = 0
        while f + 1 < len(v.dims[d]):
            n1, n2 = v.dims[d][f : f + 2]
            j = start(v.dims, d) + f
            if not all(_walks_as_one(c, j, n2) for c in v.cells):
                f += 1
                continue
            fs = v.dims[d]
            dims = (*v.dims[:d], fs[:f] + (n1 * n2,) + fs[f + 2 :], *v.dims[d + 1 :])
            v = Val(dims, tuple(_merge_axis(c, j, n2) for c in v.cells), v.index)
    return v


def _walks_as_one(c: Cell, j: int, n2: Size) -> bool:
    if c.lo[j + 1] != 0 or c.hi[j + 1] != n2:
        return False
    for t, _ in c.lin:
        a, b = t.ax[j], t.ax[j + 1]
        if a is None and b is None:
            continue
        if a is None and b is not None and c.hi[j] - c.lo[j] == 1:
            continue
        if a is None or b is None or a[0] != b[0] or a[1] != b[1] * n2:
            return False
    return True


def _merge_axis(c: Cell, j: int, n2: Size) -> Cell:
    def fuse(t: Term) -> Term:
        a, b = t.ax[j], t.ax[j + 1]
        out = t._replace(ax=t.ax[:j] + (b,) + t.ax[j + 2 :])
        # A pinned outer digit: its index is in the offset already, so take lo*n2 out again.
        return shift_axis(out, j, -(c.lo[j] * n2)) if a is None and b is not None else out

    lo = (*c.lo[:j], c.lo[j] * n2 + c.lo[j + 1], *c.lo[j + 2 :])
    hi = (*c.hi[:j], (c.hi[j] - 1) * n2 + c.hi[j + 1], *c.hi[j + 2 :])
    return Cell(lo, hi, map_lin(c.lin, fuse))


# ------------------------------------------------------------------ factors


def split_axis(v: Val, d: int, f: int, n1: Size, n2: Size) -> Val:
    """Factor ``f`` of dim ``d`` (extent ``n1*n2``) becomes the two factors ``n1, n2``."""
    j = start(v.dims, d) + f
    cells: list[Cell] = []
    for c in v.cells:
        lin = map_lin(c.lin, lambda t: _split_walk(t, j, n2))
        for a, b, p, q in _split_interval(c.lo[j], c.hi[j], n2):
            lo = (*c.lo[:j], a, p, *c.lo[j + 1 :])
            hi = (*c.hi[:j], b, q, *c.hi[j + 1 :])
            cells.append(_pin_cell(Cell(lo, hi, lin)))
    fs = v.dims[d]
    dims = (*v.dims[:d], fs[:f] + (n1, n2) + fs[f + 1 :], *v.dims[d + 1 :])
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
    if _occupied(a, qh):
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
    return _insert_axis(v, d, 1) if lead_one else v


def _insert_axis(v: Val, d: int, extent: Size) -> Val:
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
            if not isinstance(c.lo[j], int) or not isinstance(c.hi[j], int):
                raise Unsupported("a symbolic number of pieces")
            if c.hi[j] - c.lo[j] > 4096:
                raise Unsupported("too many pieces")
            for o in range(c.lo[j], c.hi[j]):
                piece = c._replace(
                    lo=(*c.lo[:j], o, *c.lo[j + 1 :]), hi=(*c.hi[:j], o + 1, *c.hi[j + 1 :])
                )
                cells.append(_merge_axis(_pin_cell(piece), j, n2))
        fs = v.dims[d]
        v = merge_cells(Val((*v.dims[:d], (n1 * n2, *fs[2:]), *v.dims[d + 1 :]), tuple(cells), v.index))
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


# ------------------------------------------------------------------ rearrangements


def permute(v: Val, perm: Sequence[int]) -> Val:
    idx = [j for p in perm for j in range(start(v.dims, p), start(v.dims, p) + len(v.dims[p]))]

    def take(x: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(x[j] for j in idx)

    cells = tuple(
        Cell(take(c.lo), take(c.hi), map_lin(c.lin, lambda t: drop_axes(t, idx))) for c in v.cells
    )
    return Val(tuple(v.dims[p] for p in perm), cells)


def reshape(v: Val, shape: Sequence[Size]) -> Val:
    """Row-major reshape.

    Raises:
        Unsupported: a border of the new shape falls inside a factor that it does not divide.
    """
    if v.shape == tuple(shape):
        return Val(v.dims, v.cells)
    if any(s == 0 for s in shape):
        return Val(plain_dims(shape), ())
    u = Val((flat(v.dims),), v.cells)
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
        l, h = smax(c.lo[j], a), smin(c.hi[j], b)
        if not _occupied(l, h):
            continue
        lo = (*c.lo[:j], l - a, *c.lo[j + 1 :])
        hi = (*c.hi[:j], h - a, *c.hi[j + 1 :])
        cells.append(Cell(lo, hi, map_lin(c.lin, lambda t: shift_axis(t, j, a))))
    fs = v.dims[d]
    dims = (*v.dims[:d], fs[:f] + (b - a,) + fs[f + 1 :], *v.dims[d + 1 :])
    if keep_axis:
        return Val(dims, tuple(_pin_cell(c) for c in cells))
    return normalise(dims, cells)


def concat(vals: Sequence[Val], d: int) -> Val:
    """Join along dim ``d``; the other dims must agree."""
    vals = [v for v in vals if not any(f == 0 for f in v.dims[d])] or list(vals[:1])
    if len(vals) == 1:
        return Val(vals[0].dims, vals[0].cells)
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
            cells.append(Cell(lo, hi, map_lin(c.lin, lambda t: shift_axis(t, j, -o))))
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
    return v if v.dims[d] else _insert_axis(v, d, 1)


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
            out = Val(plain_dims(shape), ()) if n == 0 else _insert_axis(out, d, n)
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
    return lo, hi, [_pin_cell(Cell(lo, hi, lin)).lin for lin in lins]


def meet(lo1: Box, hi1: Box, lo2: Box, hi2: Box) -> tuple[Box, Box] | None:
    """Intersection of two boxes; None when empty.

    Raises:
        Undecided: the order of its borders depends on symbols.
    """
    lo = tuple(map(smax, lo1, lo2))
    hi = tuple(map(smin, hi1, hi2))
    if not all(_occupied(a, b) for a, b in zip(lo, hi, strict=True)):
        return None
    return lo, hi


def _occupied(a: Size, b: Size) -> bool:
    """Whether ``[a, b)`` has to be kept. A range that may be empty for some symbol values is
    kept: what a cell says of no elements is true.

    Raises:
        Undecided: even ``a <= b`` depends on symbols.
    """
    if at_least(a, b):
        return False
    if not at_least(b, a):
        raise Undecided(f"cannot order {a} and {b}")
    return True
