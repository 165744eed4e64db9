"""Maxima and minima: of a tensor over dims, and of the members of a collective.

Overlap does no harm to a maximum, so only the union of the parts counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Interval, innermost
from shardproof.certificate.exact import (
    Aff,
    NotChecked,
    const,
    minus,
    replace,
    total,
    variable,
)
from shardproof.certificate.products import Product, Read, Sum, sole
from shardproof.certificate.region import Region, digits, fresh
from shardproof.certificate.rules import MAX_PARTS, Source
from shardproof.ir.sizes import Size, at_least, div_mod, product, smax
from shardproof.ops import base as alg


def over_dims(
    algebra: Algebra, a: alg.Extremum, s: Source, region: Region, at: Sequence[Aff], claimed: Sum
) -> bool:
    """Whether the claimed term is the maximum (minimum) of ``s`` over dims: its definition, with
    its reduction starting where the claimed interval does, is ``s`` at every index."""
    name = sole(claimed)
    lone = all(s.shape[d % len(s.shape)] == 1 for d in a.dims)
    if lone and (name is None or algebra.atoms[name.atom].fn != a.kind):
        return algebra.equal(s.read(region, _with_ones(a, len(s.shape), at)), claimed, region)
    if name is None or algebra.atoms[name.atom].fn != a.kind or algebra.atoms[name.atom].attrs:
        raise NotChecked(f"the claimed value is no {a.kind}")
    dims = sorted(d % len(s.shape) for d in a.dims)
    names = [fresh() for _ in dims]
    spans = {v: (0, s.shape[d]) for v, d in zip(names, dims, strict=True)}
    if any(s.shape[d] == 0 for d in dims):
        raise NotChecked("an extremum of nothing")
    whole = Region.of({**region.ranges, **spans}, tuple(map(variable, names)))

    def look(r: Region) -> bool:
        return _is_operand(algebra, name, s, dims, a.keepdim, r, at)

    return all(ok for _, ok in whole.visit(look, MAX_PARTS, "an extremum", region.ranges))


def _with_ones(a: alg.Extremum, rank: int, at: Sequence[Aff]) -> list[Aff]:
    """The index of the only element along the dims of an extremum."""
    dims = {d % rank for d in a.dims}
    outer = iter(at)
    index = []
    for d in range(rank):
        index.append(const(0) if d in dims and not a.keepdim else next(outer))
    return index


def _is_operand(
    algebra: Algebra, name: Read, s: Source, dims: Sequence[int], keepdim: bool,
    r: Region, at: Sequence[Aff],
) -> bool:  # fmt: skip
    inner = dict(zip(dims, r.index, strict=True))
    outer = iter(at)
    index = []
    for dim in range(len(s.shape)):
        index.append(inner[dim] if dim in inner else next(outer))
        if dim in inner and keepdim:
            next(outer)
    flat = const(0)
    for dim in dims:
        flat = total(((flat, s.shape[dim]), (inner[dim], 1)))
    d = algebra.atoms[name.atom]
    mine = {label[2]: (lo, hi) for label, lo, hi in name.restr if label[0] == d.fn}
    spans = [mine.get(q, (d.lo[q], d.hi[q])) for q in d.bound]
    if len(mine) != len(name.restr):
        raise NotChecked("a part of an extremum of another form")
    widths = [hi - lo for lo, hi in spans]
    if product(widths) != product(s.shape[x] for x in dims):
        raise NotChecked("an extremum over another number of elements")
    digit = digits(r, flat, widths)
    values = [*name.at, *(total(((x, 1),), lo) for x, (lo, _) in zip(digit, spans, strict=True))]
    named = algebra.sum_of(d.operands[0], values)
    return algebra.equal(s.read(r, index), named, r)


def of_members(algebra: Algebra, op: str, sources: Sequence[Source]) -> Source:
    """The elementwise maximum (minimum) of tensors."""
    if any(s.shape != sources[0].shape for s in sources):
        raise NotChecked("an extremum of tensors of different shapes")

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        found = [s.read(region, at) for s in sources]
        if all(x == found[0] for x in found):
            return found[0]
        names = [sole(x) for x in found]
        first = next((n for n in names if n is not None and algebra.atoms[n.atom].fn == op), None)
        spans: list[tuple[Size, Size]] = []
        for n in names:
            if first is None or n is None:
                raise NotChecked("an extremum of unlike tensors")
            if n.atom == first.atom and n.at == first.at:
                spans.append(direct(algebra, op, n.atom, n.restr)[1:])
            else:
                spans.append(_element(algebra, first, n))
        assert first is not None
        label = (op, first.atom, algebra.atoms[first.atom].n_free)
        return [(Product((), ((shortened(algebra, first, [(label, *_union(spans))]), 1),)), 1)]

    return Source(sources[0].shape, read)


def _element(algebra: Algebra, of: Read, element: Read) -> tuple[Size, Size]:
    """The one index at which the operand of an extremum is ``element``."""
    d = algebra.atoms[of.atom]
    ((t, c), *more) = d.operands[0]
    v = fresh()
    operand = algebra.read(t, [*of.at, variable(v)])
    if more or c != 1 or (operand.atom, operand.restr) != (element.atom, element.restr):
        raise NotChecked("an extremum of unlike tensors")
    for a, b in zip(operand.at, element.at, strict=True):
        stride = dict(a[1]).get(v)
        gap = minus(b, replace(a, {v: const(0)}))
        if stride is None or gap[1]:
            continue
        at, rest = div_mod(gap[0], stride)
        if rest == 0 and [replace(x, {v: const(at)}) for x in operand.at] == list(element.at):
            return at, at + 1
    raise NotChecked("an extremum of unlike tensors")


def direct(algebra: Algebra, op: str, atom: int, restr: Sequence[Interval]) -> Interval:
    """The interval of a part of an extremum, which must be the value itself."""
    d = algebra.atoms[atom]
    if d.fn != op or len(d.bound) != 1 or len(restr) > 1:
        raise NotChecked("an extremum of unlike tensors")
    q = d.n_free
    label, lo, hi = restr[0] if restr else ((op, atom, q), d.lo[q], d.hi[q])
    if label != (op, atom, q):
        raise NotChecked("an extremum inside another function")
    return label, lo, hi


def _union(spans: list[tuple[Size, Size]]) -> tuple[Size, Size]:
    lo, hi = spans.pop(0)
    while spans:
        k = next((k for k, (a, b) in enumerate(spans) if at_least(hi, a) and at_least(b, lo)), None)
        if k is None:
            raise NotChecked("parts of an extremum with a gap")
        a, b = spans.pop(k)
        lo, hi = (a if at_least(lo, a) else lo), smax(hi, b)
    return lo, hi


def shortened(algebra: Algebra, r: Read, restr: Sequence[Interval]) -> Read:
    """A reduction over intervals; a complete one is no restriction."""
    kept = []
    for label, lo, hi in restr:
        atom, q = innermost(algebra.atoms, r.atom, label)
        if (lo, hi) != (algebra.atoms[atom].lo[q], algebra.atoms[atom].hi[q]):
            kept.append((label, lo, hi))
    return Read(r.atom, r.at, tuple(kept))
