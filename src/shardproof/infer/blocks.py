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
from shardproof.ir.sizes import Size, Undecided, at_least, product


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
    off = (*t.off[:a], t.off[a] + s * k, *t.off[a + 1 :])
    return t._replace(off=off)


def drop_axes(t: Term, keep: Sequence[int]) -> Term:
    return t._replace(ax=tuple(t.ax[j] for j in keep))


def insert_axes(t: Term, at: int, walks: tuple[Walk, ...]) -> Term:
    return t._replace(ax=t.ax[:at] + walks + t.ax[at:])


def pin_term(t: Term, j: int, index: Size) -> Term:
    """Fix output axis ``j`` at ``index``; the axis stays but is no longer walked."""
    moved = shift_axis(t, j, index)
    return moved._replace(ax=(*moved.ax[:j], None, *moved.ax[j + 1 :]))


# ------------------------------------------------------------------ normalisation


def normalise(dims: Dims, cells: Iterable[Cell]) -> Val:
    """Pin extent-1 axes, drop factors 1, merge adjacent cells and factors."""
    pinned = tuple(pin_cell(c) for c in cells)
    if any(f == 1 for d in dims for f in d):
        dims, pinned = _drop_ones(dims, pinned)
    return merge_factors(merge_cells(Val(dims, pinned)))


def pin_cell(cell: Cell) -> Cell:
    lo, hi, lin = cell
    for j in range(len(lo)):
        if hi[j] - lo[j] == 1 and any(t.ax[j] is not None for t, _ in lin):
            lin = tuple((pin_term(t, j, lo[j]), c) for t, c in lin)
    return Cell(lo, hi, lin)


def _drop_ones(dims: Dims, cells: tuple[Cell, ...]) -> tuple[Dims, tuple[Cell, ...]]:
    ext = flat(dims)
    keep = [j for j, f in enumerate(ext) if f != 1]
    for j, f in enumerate(ext):
        if f == 1 and any(c.lo[j] != 0 or c.hi[j] != 1 for c in cells):
            # Two cells of which one is empty, depending on a symbol: a box cannot say which.
            raise Unsupported("a single element whose piece depends on a symbol")

    def cut(x: Box) -> Box:
        return tuple(x[j] for j in keep)

    out = tuple(
        Cell(cut(c.lo), cut(c.hi), map_lin(c.lin, lambda t: drop_axes(t, keep))) for c in cells
    )
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
    for head in sorted(
        (c for c in group if c.lo[j] not in ends), key=lambda c: _order_key(c.lo[j])
    ):
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
        off = (*p1.off[:q], p1.off[q] - s * lo1, *p1.off[q + 1 :])
        return p1._replace(ax=(*p1.ax[:j], (q, s), *p1.ax[j + 1 :]), off=off)
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
            dims = (*v.dims[:d], (*fs[:f], n1 * n2, *fs[f + 2 :]), *v.dims[d + 1 :])
            v = Val(dims, tuple(merge_axis(c, j, n2) for c in v.cells), v.index)
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


def merge_axis(c: Cell, j: int, n2: Size) -> Cell:
    def fuse(t: Term) -> Term:
        a, b = t.ax[j], t.ax[j + 1]
        out = t._replace(ax=(*t.ax[:j], b, *t.ax[j + 2 :]))
        # A pinned outer digit: its index is in the offset already, so take lo*n2 out again.
        return shift_axis(out, j, -(c.lo[j] * n2)) if a is None and b is not None else out

    lo = (*c.lo[:j], c.lo[j] * n2 + c.lo[j + 1], *c.lo[j + 2 :])
    hi = (*c.hi[:j], (c.hi[j] - 1) * n2 + c.hi[j + 1], *c.hi[j + 2 :])
    return Cell(lo, hi, map_lin(c.lin, fuse))


def occupied(a: Size, b: Size) -> bool:
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
