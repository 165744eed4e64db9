"""Collectives with the rank as an index.

One claim describes the tensor on every rank, and mentions the rank's coordinates as symbols. To
read the tensor of *another* rank is to put an index in place of the symbol; to sum over the ranks
is to join the intervals ``[a + b r, a + b (r + 1))``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Atom, Interval
from shardproof.certificate.communication import EXTREMA, exact_part, summable
from shardproof.certificate.exact import (
    Aff,
    Coef,
    NotChecked,
    affine,
    at_rank,
    coef_times,
    const,
    over,
    quotient,
    total,
    variable,
)
from shardproof.certificate.extrema import direct, shortened
from shardproof.certificate.products import Product, Read, Sum, moved, sole
from shardproof.certificate.region import Region, digits, fresh
from shardproof.certificate.rules import Source, added, sliced
from shardproof.ir.graph import Attrs, Mesh
from shardproof.ir.sizes import (
    Poly,
    Size,
    Symbol,
    linear_in,
    only_symbol,
    product,
    substitute,
    symbols,
)

# Ranks along one axis whose terms are written out one by one.
MAX_RANKS = 16


class Ranks:
    """Collectives over the rank symbols of mesh axes. ``differs`` are atoms that are another
    tensor on every rank though no symbol shows it."""

    def __init__(self, algebra: Algebra, mesh: Mesh, differs: set[int]) -> None:
        self.algebra, self.mesh, self.differs = algebra, mesh, differs
        self._symbols: dict[Any, frozenset[Symbol]] = {}
        self._symbol = {a: [only_symbol(mesh.index(a))] if n != 1 else [] for a, n in mesh.axes}
        self.all = frozenset(s for found in self._symbol.values() for s in found)

    def run(self, kind: str, s: Source, attrs: Attrs, dtype: str) -> Source:
        """The result on every rank; ``attrs["group"]`` names mesh axes."""
        a: Any = attrs
        axes = [str(x) for x in a["group"]]
        n = product(self.mesh.extent(x) for x in axes)
        if a.get("group_size", n) != n or len(set(axes)) != len(axes):
            raise NotChecked("a group that is no set of mesh axes")
        if any(len(set(a.get(k) or ())) > 1 for k in ("sizes", "send_sizes", "recv_sizes")):
            raise NotChecked("uneven parts with the rank as an index")
        if kind == "all_reduce":
            return self.reduced(str(a["op"]), s, axes, dtype)
        if kind == "all_gather":
            return self._gathered(s, axes, a["dim"] % len(s.shape))
        if kind == "reduce_scatter":
            whole = self.reduced(str(a["op"]), s, axes, dtype)
            return self._share(whole, axes, a["dim"] % len(s.shape))
        if kind == "all_to_all":
            rank = len(s.shape)
            return self._exchanged(s, axes, a["split_dim"] % rank, a["concat_dim"] % rank)
        if kind == "broadcast":
            return self._from(s, axes, a["src"])
        raise NotChecked(f"{kind} with the rank as an index")

    def place(self, axes: Sequence[str]) -> Size:
        """The number of this rank among those along ``axes``."""
        out: Size = 0
        for a in axes:
            out = out * self.mesh.extent(a) + (
                self.mesh.index(a) if self.mesh.extent(a) != 1 else 0
            )
        return out

    # ---- reading another rank

    def _apart(
        self, axes: Sequence[str], at: Sequence[Aff], region: Region,
        build: Callable[[Region, Sequence[Aff], Mapping[Symbol, Aff]], Sum],
    ) -> Sum:  # fmt: skip
        """``build`` at an index in which this rank's own coordinates are variables, so that the
        symbols in what it reads are those of the other rank. The own ones are put back."""
        own = {s: fresh() for a in axes for s in self._symbol[a]}
        if any(s in symbols(x) for span in region.ranges.values() for x in span for s in own):
            # What holds inside this rank's box need not hold for the rank that is read.
            raise NotChecked("a piece that depends on the rank")
        mine = list(at)
        for sym, v in own.items():
            mine = [_lifted(x, sym, variable(v)) for x in mine]
        spans = {v: (0, sym.extent) for sym, v in own.items() if sym.extent is not None}
        names = {s: variable(v) for s, v in own.items()}
        terms = build(Region({**region.ranges, **spans}, ()), mine, names)
        back = {v: _symbol_value(sym) for sym, v in own.items()}
        return [
            (Product(p.ranges, tuple((moved(b, back), e) for b, e in p.factors)), c)
            for p, c in terms
        ]

    def _at(self, terms: Sum, values: dict[Symbol, Aff]) -> Sum:
        """Terms of another rank, whose coordinates are ``values``."""
        return [
            (Product(p.ranges, tuple((self._moved(b, values), e) for b, e in p.factors)), c)
            for p, c in terms
            if self._plain_coef(c, values)
        ]

    def _plain_coef(self, c: Coef, syms: Any) -> bool:
        n, d = over(c)
        if (symbols(n) | symbols(d)) & set(syms):
            raise NotChecked("a coefficient that depends on the rank")
        return True

    def _moved(self, b: Any, values: dict[Symbol, Aff]) -> Read:
        self._same_everywhere(b, values)
        fixed = {s: v[0] for s, v in values.items() if not v[1]}
        restr = []
        for label, lo, hi in b.restr:
            if any(s in symbols(lo) | symbols(hi) for s in values if s not in fixed):
                raise NotChecked("part of a sum that depends on the rank, at an index")
            restr.append((label, _fixed(lo, fixed), _fixed(hi, fixed)))
        at = b.at
        for sym, value in values.items():
            at = tuple(_lifted(x, sym, value) for x in at)
        return Read(b.atom, at, tuple(restr))

    def _same_everywhere(self, b: Any, syms: Any) -> None:
        if not isinstance(b, Read) or self.symbols_of(b.atom, b.restr) & set(syms):
            raise NotChecked("a collective over a value that is another tensor on every rank")

    def symbols_of(self, atom: int, restr: Sequence[Interval]) -> frozenset[Symbol]:
        """Rank symbols that the value of an atom depends on, beside the intervals of ``restr``
        themselves. Ranges of free variables are no part of a value."""
        labels = tuple(r[0] for r in restr)
        found = self._symbols.get((atom, labels))
        if found is not None:
            return found
        d = self.algebra.full[atom]
        mine = {label[2] for label in labels if label[0] != "in"}
        sizes = _sizes_in(d)
        for q in range(len(d.lo)):
            if q in d.whole or (q in d.bound and q not in mine):
                sizes += [d.lo[q], d.hi[q]]
        found = frozenset(s for x in sizes for s in symbols(x) if s.extent is not None)
        if atom in self.differs:
            found |= self.all
        for place, lin in enumerate(d.operands):
            own = [(n[3], 0, 0) for n in labels if n[0] == "in" and n[2] == place]
            for t, _ in lin:
                found |= self.symbols_of(t.atom, (*t.restr, *own))
        self._symbols[atom, labels] = found
        return found

    # ---- the collectives

    def reduced(self, op: str, s: Source, axes: Sequence[str], dtype: str) -> Source:
        """The sum, mean, maximum or minimum over the ranks along ``axes``."""
        if op not in EXTREMA:
            summable(op, dtype)
        n = product(self.mesh.extent(a) for a in axes)
        by = quotient(1, n) if op == "avg" else 1

        def build(r: Region, mine: Sequence[Aff], own: Mapping[Symbol, Aff]) -> Sum:
            return self._sum(s.read(r, mine), axes, op)

        whole = Source(s.shape, lambda region, at: self._apart(axes, at, region, build))
        return added([whole], [by])

    def _sum(self, terms: Sum, axes: Sequence[str], op: str) -> Sum:
        for a in axes:
            for sym in self._symbol[a]:
                n = self.mesh.extent(a)
                if op in EXTREMA:
                    terms = self._extreme(terms, op, sym, n)
                else:
                    terms = [one for p, c in terms for one in self._sum_one(p, c, sym, n)]
        return terms

    def _sum_one(self, p: Product, c: Coef, sym: Symbol, n: Size) -> Sum:
        """A term of every rank, added up: in one where its parts make up an interval, else
        written out for each rank."""
        try:
            return [self._joined(p, c, sym, n)]
        except NotChecked:
            if not isinstance(n, int) or n > MAX_RANKS or p.ranges:
                raise
            return [one for r in range(n) for one in self._at([(p, c)], {sym: const(r)})]

    def _joined(self, p: Product, c: Coef, sym: Symbol, n: Size) -> tuple[Product, Coef]:
        self._plain_coef(c, (sym,))
        if p.ranges or len(p.factors) > 1:
            raise NotChecked("a sum over ranks of products")
        if not p.factors:
            return p, coef_times(c, quotient(n, 1))
        ((b, e),) = p.factors
        self._same_everywhere(b, (sym,))
        assert isinstance(b, Read)
        if any(sym in symbols(x) for a in b.at for x in (a[0], *(s for _, s in a[1]))):
            raise NotChecked("a sum over ranks of parts that depend on the rank")
        restr, hit = [], False
        for label, lo, hi in b.restr:
            (x, y), (x2, y2) = linear_in(lo, sym), linear_in(hi, sym)
            if y != 0 or y2 != 0:
                if (
                    hit
                    or y != y2
                    or x2 - x != y
                    or e != 1
                    or not self.algebra.canonical.splits(b.atom, label)
                ):
                    raise NotChecked("partial sums of the ranks that make up no interval")
                hit = True
                lo, hi = x, x + y * n
            restr.append((label, lo, hi))
        out = Product((), ((shortened(self.algebra, b, restr), e),))
        return out, c if hit else coef_times(c, quotient(n, 1))

    def _extreme(self, terms: Sum, op: str, sym: Symbol, n: Size) -> Sum:
        """The maximum over the ranks: of equal values, or of parts that make up an interval."""
        for p, c in terms:
            self._plain_coef(c, (sym,))
            for b, _ in p.factors:
                self._same_everywhere(b, (sym,))
                assert isinstance(b, Read)
                if any(sym in symbols(x) for a in b.at for x in (a[0], *(s for _, s in a[1]))):
                    raise NotChecked("an extremum of parts that depend on the rank")
        name = sole(terms)
        if name is None or not any(sym in symbols(x) for r in name.restr for x in r[1:]):
            if any(sym in symbols(x) for p, _ in terms for b, _ in p.factors
                   if isinstance(b, Read) for r in b.restr for x in r[1:]):  # fmt: skip
                raise NotChecked("an extremum of parts of sums")
            return terms
        label, lo, hi = direct(self.algebra, op, name.atom, name.restr)
        (x, y), (x2, y2) = linear_in(lo, sym), linear_in(hi, sym)
        if y != y2 or x2 - x != y:
            raise NotChecked("parts of an extremum that make up no interval")
        joined = shortened(self.algebra, name, [(label, x, x + y * n)])
        return [(Product((), ((joined, 1),)), 1)]

    def _gathered(self, s: Source, axes: Sequence[str], dim: int) -> Source:
        extents = [self.mesh.extent(a) for a in axes]
        shape = (*s.shape[:dim], s.shape[dim] * product(extents), *s.shape[dim + 1 :])

        def build(r: Region, mine: Sequence[Aff], own: Mapping[Symbol, Aff]) -> Sum:
            *who, inner = digits(r, mine[dim], [*extents, s.shape[dim]])
            return self._of(axes, who, s.read(r, [*mine[:dim], inner, *mine[dim + 1 :]]))

        return Source(shape, lambda region, at: self._apart(axes, at, region, build))

    def _of(self, axes: Sequence[str], who: Sequence[Aff], terms: Sum) -> Sum:
        values = {s: w for a, w in zip(axes, who, strict=True) for s in self._symbol[a]}
        return self._at(terms, values)

    def _share(self, s: Source, axes: Sequence[str], dim: int) -> Source:
        n = exact_part(s.shape[dim], product(self.mesh.extent(a) for a in axes))
        return sliced(s, dim, self.place(axes) * n, n)

    def _exchanged(self, s: Source, axes: Sequence[str], split: int, join: int) -> Source:
        extents = [self.mesh.extent(a) for a in axes]
        count = product(extents)
        part = exact_part(s.shape[split], count)
        if split != join:
            return self._share(self._gathered(s, axes, join), axes, split)

        def build(r: Region, mine: Sequence[Aff], own: Mapping[Symbol, Aff]) -> Sum:
            *who, inner = digits(r, mine[join], [*extents, part])
            place = const(0)
            for a, n in zip(axes, extents, strict=True):
                place = total([(place, n), *((own[x], 1) for x in self._symbol[a])])
            here = total(((inner, 1), (place, part)))
            return self._of(axes, who, s.read(r, [*mine[:join], here, *mine[join + 1 :]]))

        return Source(s.shape, lambda region, at: self._apart(axes, at, region, build))

    def _from(self, s: Source, axes: Sequence[str], position: Any) -> Source:
        if not isinstance(position, int):
            raise NotChecked("a broadcast from a rank that is no number")
        who: list[Aff] = []
        for a in reversed(axes):
            n = self.mesh.extent(a)
            if not isinstance(n, int) and position != 0:
                raise NotChecked("a broadcast from a rank other than the first")
            who.append(const(position % n if isinstance(n, int) else 0))
            position = position // n if isinstance(n, int) else 0
        who.reverse()

        def build(r: Region, mine: Sequence[Aff], own: Mapping[Symbol, Aff]) -> Sum:
            return self._of(axes, who, s.read(r, mine))

        return Source(s.shape, lambda region, at: self._apart(axes, at, region, build))


# ------------------------------------------------------------------ helpers


def _lifted(a: Aff, sym: Symbol, value: Aff) -> Aff:
    """An index with a rank symbol replaced; strides must not mention it."""
    if any(sym in symbols(s) for _, s in a[1]):
        raise NotChecked("a stride that depends on the rank")
    return total(((at_rank(a[0], sym, value), 1), (affine(0, dict(a[1])), 1)))


def _symbol_value(sym: Symbol) -> Aff:
    return const(Poly({(sym,): 1}))


def _fixed(x: Size, values: dict[Symbol, Size]) -> Size:
    return substitute(x, values) if values else x


def _sizes_in(d: Atom) -> list[Size]:
    out: list[Any] = []
    todo: list[Any] = [d.attrs]
    for lin in d.operands:
        for t, c in lin:
            todo += [t.ax, t.off, t.restr, over(c)]
    while todo:
        x = todo.pop()
        if isinstance(x, tuple):
            todo += [y for y in x if type(y) is not int]
        elif isinstance(x, Poly):
            out.append(x)
    return out
