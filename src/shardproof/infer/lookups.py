"""Lookups by integer index as contractions with a one-hot.

``T[t] = sum_v [t == v] T[v]`` makes a vocabulary shard an interval of ``v``, that is an ordinary
partial sum (lemmas.md A1, A2). The index is a piecewise-affine function of an integer tensor;
every piece must stay inside the table, else the lookup means nothing and stays opaque. An
unmasked lookup on the *sequential* side instead states an assumption about the ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardproof.infer import blocks, views
from shardproof.infer.blocks import Box, Cell, Lin, Term, Unsupported, Val, insert_axes
from shardproof.infer.coef import ONE
from shardproof.infer.factors import align_all
from shardproof.infer.fold import Folder
from shardproof.infer.integers import (
    WHOLE,
    Guards,
    Index,
    Piece,
    clip,
    identity,
    in_table,
    trimmed,
    within,
)
from shardproof.infer.labels import bring_together, project
from shardproof.infer.naming import IOTA, UNIT, Table
from shardproof.infer.products import Products, index_range
from shardproof.infer.terms import lincomb
from shardproof.ir.sizes import Size, at_least
from shardproof.lemmas import names as lemmas


class OutOfTable(Unsupported):
    """An index is not shown to stay inside its table."""


@dataclass(frozen=True, slots=True)
class _Gather:
    """``x`` read at ``index`` along ``dim`` (label "v"); the other dims of ``x``, the dims of the
    index and those of the output are labelled."""

    x: Val
    x_labels: tuple[str, ...]
    index: Index
    id_labels: tuple[str, ...]
    output: tuple[str, ...]
    dim: int


class Lookups:
    """Gather and scatter over one naming table."""

    def __init__(self, table: Table, products: Products, guards: Guards, folder: Folder) -> None:
        self.table, self.products, self.guards, self.folder = table, products, guards, folder
        self.known = products.known

    @property
    def assumed(self) -> list[str]:
        """What lookups of the sequential program state of their ids."""
        return list(self.known.assumed)

    # ---- gathers

    def take_rows(self, rows: Val, ids: Val) -> Val:
        """``rows[ids]`` over the first dim."""
        id_labels = tuple(f"i{k}" for k in range(len(ids.dims)))
        row_labels = tuple(f"h{k}" for k in range(len(rows.dims) - 1))
        index = self._checked(ids, rows.shape[0])
        g = _Gather(rows, ("v", *row_labels), index, id_labels, (*id_labels, *row_labels), 0)
        return self._gather(g)

    def take_along(self, x: Val, ids: Val) -> Val:
        """``out[i] = x[i, ids[i]]``."""
        labels = tuple(f"i{k}" for k in range(len(ids.dims)))
        index = self._checked(ids, x.shape[-1])
        return self._gather(_Gather(x, (*labels, "v"), index, labels, labels, len(labels)))

    def _gather(self, g: _Gather) -> Val:
        position = self._positions(g)
        if position is not None:
            return position
        one = len(g.index.pieces) == 1
        self.table.fire(lemmas.LOOKUP if one else lemmas.LOOKUP_PIECES)
        total = [
            self._constant_piece(g, p) if p.a == 0 else self._onehot_piece(g, p)
            for p in g.index.pieces
        ]
        return self._sum(total)

    def _positions(self, g: _Gather) -> Val | None:
        """Ids that are positions (``arange``): a lookup of consecutive rows is a slice."""
        base, pieces = g.index.base, g.index.pieces
        if len(base.cells) != 1 or len(pieces) != 1 or len(g.x.cells) != 1 or g.dim != 0:
            return None
        lin = base.cells[0].lin
        if len(lin) != 1 or lin[0][0].atom != IOTA or lin[0][1] != 1:
            return None
        t = lin[0][0]
        walks = [(j, w) for j, w in enumerate(t.ax) if w is not None]
        if len(base.dims) != 1 or len(walks) != 1 or walks[0][1][1] != 1 or pieces[0].a != 1:
            return None
        first = t.off[0] + pieces[0].c
        self.table.fire(lemmas.POSITIONS)
        return views.slice_dim(g.x, 0, first, first + base.shape[0])

    def _checked(self, ids: Val, rows: Size) -> Index:
        """The index as pieces that all stay inside ``[0, rows)``."""
        index, pieces = self.stated(ids, rows)
        if not pieces:
            raise OutOfTable("no index is inside the table")
        for p in pieces:
            if not in_table(p, rows):
                raise OutOfTable(
                    f"the index may leave the table: {_show(p)} for a table of {rows} rows"
                )
        return Index(index.base, pieces)

    def stated(self, ids: Val, rows: Size) -> tuple[Index, tuple[Piece, ...]]:
        """The index, and those of its pieces that occur. A lookup of the sequential program states
        that it stays inside its table of ``rows`` rows."""
        index: Index = ids.index if ids.index is not None else identity(ids)
        if any(len(c.lin) != 1 or c.lin[0][1] != 1 for c in index.base.cells):
            raise Unsupported("an index that is a multiple, a sum or a constant")
        atoms = {c.lin[0][0].atom for c in index.base.cells} - {UNIT}
        known = self._known(index, atoms, rows)
        pieces = clip(index.pieces, known)
        if len(atoms) == 1 and known is None:
            pieces = self._allowed(min(atoms), pieces, rows)
        return index, pieces

    def _allowed(self, atom: int, pieces: tuple[Piece, ...], rows: Size) -> tuple[Piece, ...]:
        """Masked ids of the sequential program: where an id is not masked it indexes the table,
        which is assumed, as for ids without a mask. Both programs then have these ids only."""
        if self.table.defining and atom != IOTA and atom not in self.known.spans:
            kept = [q for p in pieces if (q := trimmed(p, rows)) is not None]
            if kept != list(pieces) and kept and all(in_table(p, rows) for p in kept):
                name = self.table.atoms[atom].name
                self.known.confine(atom, name, tuple((p.lo, p.hi) for p in kept), rows)
        return within(pieces, self.known.spans.get(atom))

    def _known(self, index: Index, atoms: set[int], rows: Size) -> tuple[Size, Size] | None:
        if atoms == {IOTA}:
            return self._position_range(index.base)
        if len(atoms) != 1:
            return None
        (atom,) = atoms
        if index.pieces == WHOLE and self.table.defining:
            self.known.index(atom, self.table.atoms[atom].name, rows)
        return self.known.range(atom)

    @staticmethod
    def _position_range(base: Val) -> tuple[Size, Size] | None:
        if len(base.cells) != 1 or len(base.cells[0].lin) != 1 or base.cells[0].lin[0][1] != 1:
            return None
        first, last = index_range(base.cells[0].lin[0][0], base.cells[0].lo, base.cells[0].hi)
        return first, last + 1

    def _onehot_piece(self, g: _Gather, p: Piece) -> Val:
        """``sum over v in [lo, hi) of [t == v] x[v + c]``: one partial of the whole lookup."""
        assert p.lo is not None
        assert p.hi is not None
        part = views.slice_dim(g.x, g.dim, p.lo + p.c, p.hi + p.c)
        # Positions run over [0, hi - lo) in the slice; the one-hot reads id value lo + position.
        hot = self.onehot(g.index.base, p.lo, p.hi - p.lo)
        together = bring_together([hot, part], [(*g.id_labels, "v"), g.x_labels], g.output)
        bound = list(together.axes("v"))
        parts = [
            (lo, hi, self.products.expand(lo, hi, [(a, ONE), (b, ONE)], bound, summing=True))
            for lo, hi, (a, b) in together.cells
        ]
        return project(self.table, together, g.output, parts)

    def _constant_piece(self, g: _Gather, p: Piece) -> Val:
        """Ids in ``[lo, hi)`` all read one row."""
        where = self.indicator(g.index.base, p)
        row = views.slice_dim(g.x, g.dim, p.c, p.c + 1)
        labels = tuple("1" if x == "v" else x for x in g.x_labels)
        together = bring_together([where, row], [g.id_labels, labels], g.output)
        parts = [
            (lo, hi, self.products.expand(lo, hi, [(a, ONE), (b, ONE)]))
            for lo, hi, (a, b) in together.cells
        ]
        return project(self.table, together, g.output, parts)

    # ---- one-hot and indicators

    def onehot(self, base: Val, first: Size, n: Size) -> Val:
        """``[base[..] == first + v]`` for ``v`` in ``[0, n)``: one more dim than ``base``."""
        dims = (*base.dims, (n,) if n != 1 else ())
        cells = []
        for c in base.cells:
            axes = () if n == 1 else (None,)
            lo, hi = (*c.lo, 0), (*c.hi, n)
            if n == 1:
                lo, hi = c.lo, c.hi
            t = insert_axes(self.guards.base_term(c.lin), len(c.lo), axes)
            walk: tuple[blocks.Walk, ...] = (None,) * len(c.lo) + (((0, 1),) if n != 1 else ())
            position = Term(IOTA, walk, (first,))
            cells.append(Cell(lo, hi, self.guards.onehot(lo, hi, t, position)))
        return Val(dims, tuple(cells))

    def indicator(self, base: Val, p: Piece) -> Val:
        """``[p.lo <= base < p.hi]``."""
        cells = tuple(
            Cell(c.lo, c.hi, self.guards.inside(c.lo, c.hi, self.guards.base_term(c.lin), p))
            for c in base.cells
        )
        return Val(base.dims, cells)

    def hits(self, index: Index, first: Size, n: Size) -> Val:
        """``[index[..] == first + v]`` for ``v`` in ``[0, n)``, ``index`` piecewise affine."""
        shape = (*index.base.shape, n)
        total: list[Val] = []
        for p in index.pieces:
            where = views.expand(_unsqueeze(self.indicator(index.base, p)), shape)
            if p.a == 1:
                hot = self.onehot(index.base, first - p.c, n)
                total.append(self._times(hot, where))
                continue
            if p.a != 0:
                raise Unsupported("a scatter by a scaled index")
            at = p.c - first
            if at_least(-1, at) or at_least(at, n):
                continue
            if not (at_least(at, 0) and at_least(n - 1, at)):
                raise Unsupported("a scatter to a row that may be elsewhere")
            total.append(self._only_at(where, at, n))
        return self._sum(total) if total else blocks.filled(shape, lambda k: ())

    @staticmethod
    def _only_at(where: Val, at: Size, n: Size) -> Val:
        """Zero except at index ``at`` of the last dim."""
        d = len(where.dims) - 1
        zero = Val(where.dims, tuple(Cell(c.lo, c.hi, ()) for c in where.cells))
        parts = [
            views.slice_dim(zero, d, 0, at),
            views.slice_dim(where, d, at, at + 1),
            views.slice_dim(zero, d, at + 1, n),
        ]
        return views.concat(parts, d)

    # ---- scatters

    def add_rows(self, g: Val, ids: Val, rows: Size) -> Val:
        """``out[v] = sum_p [ids[p] == v] g[p]``."""
        index = self._checked(ids, rows)
        hot = self.hits(index, 0, rows)
        self.table.fire(lemmas.SCATTER)
        k = len(ids.dims)
        pos = tuple(f"i{j}" for j in range(k))
        rest = tuple(f"h{j}" for j in range(len(g.dims) - k))
        output = ("v", *rest)
        together = bring_together([hot, g], [(*pos, "v"), (*pos, *rest)], output)
        bound = [j for x in pos for j in together.axes(x)]
        parts = [
            (lo, hi, self.products.expand(lo, hi, [(a, ONE), (b, ONE)], bound, summing=True))
            for lo, hi, (a, b) in together.cells
        ]
        return project(self.table, together, output, parts)

    def put_along(self, x: Val, ids: Val, v: Val) -> Val:
        """``x`` with ``x[i, ids[i]] = v[i]``: ``x - hit * x + hit * v``. Each ``i`` writes once,
        so nothing is written twice."""
        index = self._checked(ids, x.shape[-1])
        value = views.expand(_unsqueeze(v), x.shape)
        pieces = tuple(p for p in index.pieces if not self._writes_nothing(index.base, p, x, value))
        hit = self.hits(Index(index.base, pieces), 0, x.shape[-1])
        self.table.fire(lemmas.WRITE)
        aligned = align_all([x, hit, value])
        cells = []
        for lo, hi, (a, h, b) in views.overlay(aligned):
            neg: Lin = tuple((t, -c) for t, c in h)
            pairs = [*a]
            pairs += self.products.expand(lo, hi, [(neg, ONE), (a, ONE)])
            pairs += self.products.expand(lo, hi, [(h, ONE), (b, ONE)])
            cells.append(Cell(lo, hi, lincomb(self.table, pairs)))
        return self.folder.value(blocks.normalise(aligned[0].dims, cells))

    def _writes_nothing(self, base: Val, p: Piece, x: Val, value: Val) -> bool:
        """Whether ids of a piece that all write one column write zeros over zeros (labels that
        are ignored): then the column stays like the others."""
        if p.a != 0:
            return False
        where = views.expand(_unsqueeze(self.indicator(base, p)), x.shape)
        return not any(c.lin for v in (x, value) for c in self._times(where, v).cells)

    # ---- small helpers

    def _times(self, a: Val, b: Val) -> Val:
        aligned = align_all([a, b])
        cells = [
            Cell(lo, hi, self.products.multiply(lo, hi, [(x, ONE), (y, ONE)]))
            for lo, hi, (x, y) in views.overlay(aligned)
        ]
        return blocks.normalise(aligned[0].dims, cells)

    def _sum(self, vals: Sequence[Val]) -> Val:
        if len(vals) == 1:
            return vals[0]
        aligned = align_all(vals)
        cells = [
            Cell(lo, hi, lincomb(self.table, [tc for lin in lins for tc in lin]))
            for lo, hi, lins in views.overlay(aligned)
        ]
        return blocks.normalise(aligned[0].dims, cells)


def _unsqueeze(v: Val) -> Val:
    return Val((*v.dims, ()), v.cells)


def _show(p: Piece) -> str:
    lo = "-inf" if p.lo is None else str(p.lo)
    hi = "inf" if p.hi is None else str(p.hi)
    value = f"t + {p.c}" if p.a == 1 else str(p.c) if p.a == 0 else f"{p.a}*t + {p.c}"
    return f"{value} for t in [{lo}, {hi})"


__all__ = ["Box", "Lookups"]
