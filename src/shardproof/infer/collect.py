"""Meaning of collectives in the block normal form.

With concrete ranks a collective combines the members' values; with the rank as an index it acts
on one value that mentions rank symbols: a sum over ranks joins the intervals
``[a + b*r, a + b*(r+1))`` to ``[a, a + b*N)``, a gather turns the rank into an axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from shardproof.infer import blocks, views
from shardproof.infer.blocks import Cell, Term, Unsupported, Val
from shardproof.infer.coef import ONE, Coef, Ratio, from_size, ratio
from shardproof.infer.evaluate import Evaluator, scale_val, view
from shardproof.infer.factors import align_all
from shardproof.infer.terms import EXTREMA, innermost, lincomb, with_interval
from shardproof.ir.graph import Attrs, Mesh, TensorType
from shardproof.ir.sizes import Size, Symbol, linear_in, only_symbol, product, substitute, symbols
from shardproof.lemmas import names as lemmas
from shardproof.ops import base as alg

# Ranks along one axis whose terms are written out one by one.
MAX_RANKS = 16


class Collect:
    """Collectives over concrete members."""

    def __init__(self, ev: Evaluator) -> None:
        self.ev = ev

    def run(
        self, kind: str, vals: Sequence[Val], attrs: Sequence[Attrs], outs: Sequence[TensorType]
    ) -> list[Val]:
        """The value every member gets; ``vals`` and ``attrs`` are in group order."""
        a = attrs[0]
        if kind == "all_reduce":
            return [self.reduce(str(a["op"]), vals, outs[0])] * len(vals)
        if kind == "all_gather":
            self.ev.table.fire(lemmas.GATHERED)
            return [views.concat(vals, _int(a["dim"]))] * len(vals)
        if kind == "reduce_scatter":
            dim = _int(a["dim"])
            whole = TensorType(outs[0].dtype, vals[0].shape)
            total = self.reduce(str(a["op"]), vals, whole)
            return _cut(total, dim, [o.shape[dim] for o in outs])
        if kind == "all_to_all":
            return self._all_to_all(vals, attrs)
        if kind == "broadcast":
            group = a["group"]
            assert isinstance(group, tuple)
            return [vals[group.index(a["src"])]] * len(vals)
        raise Unsupported(f"the collective {kind}")

    def reduce(self, op: str, vals: Sequence[Val], out: TensorType) -> Val:
        """The elementwise reduction of the members' values."""
        if op in ("sum", "avg"):
            total = self.ev.linear(vals, [ONE] * len(vals), out.shape)
            if self.ev.infinite.lost(alg.Linear((ONE,) * len(vals)), vals, total):
                raise Unsupported("a sum in which an infinity vanishes")
            return scale_val(total, Fraction(1, len(vals))) if op == "avg" else total
        if op in ("max", "min"):
            return self._extremum(op, vals)
        if op == "product":
            return self.ev.apply(alg.Monomial((ONE,) * len(vals)), vals, [out] * len(vals), out)
        raise Unsupported(f"a reduction with {op}")

    def _extremum(self, op: str, vals: Sequence[Val]) -> Val:
        aligned = align_all(vals)
        cells = []
        for lo, hi, lins in views.overlay(aligned):
            if any(len(lin) != 1 or lin[0][1] != 1 for lin in lins):
                if any(lin != lins[0] for lin in lins):
                    raise Unsupported("the maximum of sums")
                cells.append(Cell(lo, hi, lins[0]))
                continue
            joined = self.ev.join_extrema(op, [x[0][0] for x in lins])
            cells.append(Cell(lo, hi, ((joined, ONE),)))
        return blocks.normalise(aligned[0].dims, cells)

    @staticmethod
    def _all_to_all(vals: Sequence[Val], attrs: Sequence[Attrs]) -> list[Val]:
        split, join = _int(attrs[0]["split_dim"]), _int(attrs[0]["concat_dim"])
        n = len(vals)
        pieces = []
        for v, a in zip(vals, attrs, strict=True):
            sizes = a.get("send_sizes")
            if sizes is None:
                sizes = (views.div_exact(v.shape[split], n),) * n
            assert isinstance(sizes, tuple)
            pieces.append(_cut(v, split, [_int(s) for s in sizes]))
        return [views.concat([pieces[s][r] for s in range(n)], join) for r in range(n)]


def _cut(v: Val, dim: int, sizes: Sequence[Size]) -> list[Val]:
    out = []
    at: Size = 0
    for s in sizes:
        start, stop = at, at + s
        out.append(view(v, lambda x, a=start, b=stop: views.slice_dim(x, dim, a, b)))  # type: ignore[misc]
        at = stop
    return out


def _int(x: Any) -> Any:
    return x


class CollectSpmd:
    """Collectives over the rank symbols of mesh axes."""

    def __init__(self, ev: Evaluator, mesh: Mesh) -> None:
        self.ev, self.mesh = ev, mesh

    def run(self, kind: str, v: Val, attrs: Attrs, out: TensorType) -> Val:
        """The value on every rank; ``attrs["group"]`` names mesh axes."""
        group = attrs["group"]
        assert isinstance(group, tuple)
        axes = [str(a) for a in group]
        if kind == "all_reduce":
            return self._reduce(str(attrs["op"]), v, axes)
        if kind == "all_gather":
            for a in reversed(axes):
                v = self._gather(v, a, _int(attrs["dim"]))
            return blocks.normalise(v.dims, v.cells)
        if kind == "reduce_scatter":
            total = self._reduce(str(attrs["op"]), v, axes)
            return self._share(total, axes, _int(attrs["dim"]))
        if kind == "all_to_all":
            if attrs.get("send_sizes") is not None:
                raise Unsupported("an uneven all_to_all with the rank as an index")
            return self._all_to_all(v, axes, _int(attrs["split_dim"]), _int(attrs["concat_dim"]))
        if kind == "broadcast":
            return self._from(v, axes, _int(attrs["src"]))
        raise Unsupported(f"{kind} with the rank as an index")

    def _all_to_all(self, v: Val, axes: Sequence[str], split: int, join: int) -> Val:
        if split == join:
            # Cut the dim in two: parts are sent by the first, and join along the second.
            shape, n = v.shape, product(self.mesh.extent(a) for a in axes)
            part = views.div_exact(shape[split], n)
            cut = views.reshape(v, (*shape[:split], n, part, *shape[split + 1 :]))
            return views.reshape(self._all_to_all(cut, axes, split, split + 1), shape)
        for a in reversed(axes):
            v = self._gather(v, a, join)
        return self._share(blocks.normalise(v.dims, v.cells), axes, split)

    def total(self, v: Val, axes: Sequence[str]) -> Val:
        """The sum over the ranks of mesh axes."""
        return self._reduce("sum", v, axes)

    def _symbol(self, axis: str) -> tuple[Symbol, Size]:
        return only_symbol(self.mesh.index(axis)), self.mesh.extent(axis)

    def _guard(self, v: Val, sym: Symbol) -> None:
        """A value made by the distributed program whose definition mentions the rank is another
        tensor on every rank; nothing is known of a combination of those."""
        for c in v.cells:
            for t, k in c.lin:
                if sym in self.ev.table.atoms[t.atom].rank_symbols:
                    raise Unsupported("a collective over a value without sequential meaning")
                _no_rank_coef(k, sym)
                if any(w is not None and sym in symbols(w[1]) for w in t.ax):
                    raise Unsupported("a collective over strides that depend on the rank")
            for x in (*c.lo, *c.hi):
                if sym in symbols(x):
                    raise Unsupported("a collective over pieces that depend on the rank")

    def _reduce(self, op: str, v: Val, axes: Sequence[str]) -> Val:
        for a in axes:
            sym, n = self._symbol(a)
            self._guard(v, sym)
            if op in ("sum", "avg"):
                v = self._sum(v, sym, n)
                if op == "avg":
                    v = scale_val(v, ratio(1, n))
            elif op in ("max", "min"):
                v = self._extremum(op, v, sym, n)
            else:
                raise Unsupported(f"a reduction with {op} with the rank as an index")
        return v

    def _sum(self, v: Val, sym: Symbol, n: Size) -> Val:
        cells = []
        for c in v.cells:
            pairs = [p for t, k in c.lin for p in self._sum_term(t, k, sym, n)]
            cells.append(Cell(c.lo, c.hi, lincomb(self.ev.table, pairs)))
        return self.ev.folder.value(blocks.normalise(v.dims, cells))

    def _sum_term(self, t: Term, k: Coef, sym: Symbol, n: Size) -> list[tuple[Term, Coef]]:
        """The sum over all ranks of one term: joined where its parts tile an interval, else, of
        few ranks, written out (a later sum over another axis may join what is left)."""
        _no_rank_coef(k, sym)
        try:
            if any(linear_in(o, sym)[1] != 0 for o in t.off):
                raise Unsupported("a sum over ranks of slices that depend on the rank")
            joined, hit = self._tile(t, sym, n)
        except Unsupported:
            if not isinstance(n, int) or n > MAX_RANKS or self.ev.infinite.read(t.atom):
                raise
            return [(self._on_rank(t, {sym: r}), k) for r in range(n)]
        if not hit:
            self.ev.table.fire(lemmas.REPLICAS)
        return [(joined, k if hit else k * from_size(n))]

    def _on_rank(self, t: Term, values: dict[Symbol, Size]) -> Term:
        """A term as it is on the rank with these coordinates."""
        out = t._replace(off=tuple(substitute(o, values) for o in t.off))
        for at in reversed(range(len(t.restr))):
            label, lo, hi = t.restr[at]
            span = substitute(lo, values), substitute(hi, values)
            out = with_interval(self.ev.table, out, at, label, *span)
        return out

    def _tile(
        self, t: Term, sym: Symbol, n: Size, *, extremum: str | None = None
    ) -> tuple[Term, bool]:
        """Join the intervals ``[a + b*r, a + b*(r+1))`` over all ranks ``r``; they tile because
        each starts where the one before ends. Maxima join only by a maximum and only where they
        are the value itself: the maximum of ``y * max(part)`` is something else."""
        out = []
        hit = False
        for label, lo, hi in t.restr:
            (a, b), (a2, b2) = linear_in(lo, sym), linear_in(hi, sym)
            if b == 0 and b2 == 0:
                out.append((label, lo, hi))
                continue
            fits = innermost(label)[0] not in EXTREMA if extremum is None else label[0] == extremum
            if b != b2 or a2 - a != b or hit or not fits:
                raise Unsupported("partial sums of the ranks do not tile an interval")
            hit = True
            self.ev.table.fire(lemmas.RANK_TILES)
            span = (a, a + b * n)
            if self.ev.table.full(label) != span:
                out.append((label, *span))
        return t._replace(restr=tuple(out)), hit

    def _extremum(self, op: str, v: Val, sym: Symbol, n: Size) -> Val:
        cells = []
        for c in v.cells:
            for _, k in c.lin:
                _no_rank_coef(k, sym)
            if any(sym in symbols(o) for t, _ in c.lin for o in t.off):
                raise Unsupported("a maximum over slices that depend on the rank")
            if not _mentions(c, sym):
                cells.append(c)
                continue
            if len(c.lin) != 1 or c.lin[0][1] != 1 or len(c.lin[0][0].restr) != 1:
                raise Unsupported("the maximum of sums")
            joined, _ = self._tile(c.lin[0][0], sym, n, extremum=op)
            cells.append(c._replace(lin=((joined, ONE),)))
        return blocks.normalise(v.dims, cells)

    def _gather(self, v: Val, axis: str, dim: int) -> Val:
        """The rank becomes the outermost axis of ``dim``."""
        sym, n = self._symbol(axis)
        self._guard(v, sym)
        if n == 1:
            return v
        self.ev.table.fire(lemmas.GATHERED)
        j = blocks.start(v.dims, dim)
        cells = []
        for c in v.cells:
            lin = tuple((self._walk_rank(t, j, sym), _no_rank_coef(k, sym)) for t, k in c.lin)
            cells.append(Cell((*c.lo[:j], 0, *c.lo[j:]), (*c.hi[:j], n, *c.hi[j:]), lin))
        return Val((*v.dims[:dim], (n, *v.dims[dim]), *v.dims[dim + 1 :]), tuple(cells))

    @staticmethod
    def _walk_rank(t: Term, j: int, sym: Symbol) -> Term:
        for _, lo, hi in t.restr:
            if sym in symbols(lo) | symbols(hi):
                raise Unsupported("a gather of partial sums")
        off, walk = [], None
        for q, o in enumerate(t.off):
            a, b = linear_in(o, sym)
            off.append(a)
            if b != 0:
                if walk is not None:
                    raise Unsupported("a gather along a diagonal")
                walk = (q, b)
        return t._replace(ax=(*t.ax[:j], walk, *t.ax[j:]), off=tuple(off))

    def _share(self, v: Val, axes: Sequence[str], dim: int) -> Val:
        """This rank's equal share of ``dim``."""
        at: Size = 0
        n: Size = 1
        for a in axes:
            at = at * self.mesh.extent(a) + self.mesh.index(a)
            n = n * self.mesh.extent(a)
        w = views.div_exact(v.shape[dim], n)
        return view(v, lambda x: views.slice_dim(x, dim, at * w, at * w + w))

    def _from(self, v: Val, axes: Sequence[str], position: int) -> Val:
        """The value of the member at ``position``."""
        values: dict[Symbol, Size] = {}
        for a in reversed(axes):
            sym, n = self._symbol(a)
            self._guard(v, sym)
            if not isinstance(n, int):
                if position != 0:
                    raise Unsupported("a broadcast from a rank other than the first")
                values[sym] = 0
            else:
                values[sym] = position % n
                position //= n

        cells = []
        for c in v.cells:
            lin = tuple((self._on_rank(t, values), _free_of(k, values)) for t, k in c.lin)
            cells.append(Cell(c.lo, c.hi, lin))
        return blocks.normalise(v.dims, cells)


def _mentions(c: Cell, sym: Symbol) -> bool:
    return any(sym in symbols(x) for t, _ in c.lin for _, lo, hi in t.restr for x in (lo, hi))


def _free_of(k: Coef, values: Iterable[Symbol]) -> Coef:
    for sym in values:
        _no_rank_coef(k, sym)
    return k


def _no_rank_coef(k: Coef, sym: Symbol) -> Coef:
    if isinstance(k, Ratio) and sym in symbols(k.num) | symbols(k.den):
        raise Unsupported("a coefficient that depends on the rank")
    return k
