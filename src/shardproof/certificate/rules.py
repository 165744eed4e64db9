"""What an operator's result is, from its declared algebra, at an index inside a box.

An operand is a :data:`Source`: a function from an index to the sum of terms it holds there. So a
view is a change of index, and a relation graph, which is made of views, is read through without
any claim about what lies between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from itertools import product as choices
from typing import Union

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import IOTA, Meaning, Piece
from shardproof.certificate.exact import (
    Aff,
    Coef,
    NotChecked,
    coef_times,
    const,
    quotient,
    shifted,
    total,
    variable,
    whole,
)
from shardproof.certificate.products import Product, Read, Sum
from shardproof.certificate.region import Boxes, Region, digits, fresh, place
from shardproof.certificate.runs import runs
from shardproof.ir.sizes import Poly, Size, at_least
from shardproof.ops import base as alg

MAX_PARTS = 4096
VIEWS = (alg.Identity, alg.Reshape, alg.Permute, alg.Slice, alg.Concat, alg.Expand)


@dataclass(eq=False, slots=True)
class Source:
    """A tensor as a function of the index; ``read`` may raise :class:`Split`."""

    shape: tuple[Size, ...]
    read: Callable[[Region, Sequence[Aff]], Sum]


@dataclass(eq=False, slots=True)
class Moved:
    """A rearrangement of tensors, of which nothing is claimed: it is read through. ``base`` and
    ``pieces`` as for a :class:`Meaning`."""

    rule: alg.Algebra
    source: Source
    operands: tuple[Tensor, ...]
    base: Moved | None = None
    pieces: tuple[Piece, ...] = ()
    atoms: frozenset[int] = field(init=False)
    """Those of the operands: what is read is among them."""

    def __post_init__(self) -> None:
        self.atoms = frozenset().union(*[x.atoms for x in self.operands])

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.source.shape


Tensor = Union[Meaning, Moved]  # noqa: UP007 - used at run time


def read_through(m: Moved) -> list[tuple[Product, Coef]]:
    """The products that a rearrangement reads anywhere."""
    if any(n == 0 for n in m.shape):
        return []
    names = [fresh() for _ in m.shape]
    spans: dict[int, tuple[Size, Size]] = {v: (0, n) for v, n in zip(names, m.shape, strict=True)}
    region = Region.of(spans, tuple(map(variable, names)))
    parts = region.visit(lambda r: m.source.read(r, r.index), MAX_PARTS, "a rearrangement")
    return [x for _, terms in parts for x in terms]


def meaning_source(algebra: Algebra, m: Meaning) -> Source:
    """The tensor that a checked claim describes."""
    boxes = Boxes(m.boxes)
    plain = all(len(f) <= 1 for f in m.dims)
    kept = [k for k, f in enumerate(m.dims) if f]

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        if plain:
            axes = [at[k] for k in kept]
        else:
            axes = [d for a, f in zip(at, m.dims, strict=True) for d in digits(region, a, f)]
        k = boxes.find(region, axes) if len(m.cells) != 1 else 0
        return algebra.sum_of(m.cells[k].lin, axes)

    return Source(m.shape, read)


def scaled(terms: Sum, by: Coef) -> Sum:
    return terms if by == 1 else [(p, coef_times(c, by)) for p, c in terms]


def times(factors: Sequence[Sum]) -> Sum:
    """The product of sums, multiplied out."""
    out: Sum = []
    n = 1
    for f in factors:
        n *= len(f)
    if n > MAX_PARTS:
        raise NotChecked("a product of sums with too many terms")
    for combo in choices(*factors):
        c: Coef = 1
        for _, k in combo:
            c = coef_times(c, k)
        ranges = tuple(r for p, _ in combo for r in p.ranges)
        out.append((Product(ranges, tuple(f for p, _ in combo for f in p.factors)), c))
    return out


def unit(c: Coef) -> Sum:
    return [(Product((), ()), c)]


def number(x: Fraction | float | Poly | int) -> Coef:
    """A constant of an operator as a coefficient."""
    if isinstance(x, float):
        raise NotChecked(f"the constant {x}")
    return whole(x) if isinstance(x, Fraction) else quotient(x, 1)


def spread(source: Source, shape: Sequence[Size]) -> Source:
    """NumPy broadcasting."""
    skip = len(shape) - len(source.shape)
    if source.shape == tuple(shape):
        return source

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        mine = [
            const(0) if n == 1 and m != 1 else a
            for n, m, a in zip(source.shape, shape[skip:], at[skip:], strict=True)
        ]
        return source.read(region, mine)

    return Source(tuple(shape), read)


def reshaped(source: Source, shape: Sequence[Size]) -> Source:
    """Elements in the same order; the index along dims that both shapes end with is the same."""
    old, new = list(source.shape), list(shape)
    same = 0
    while old and new and old[-1] == new[-1]:
        old.pop(), new.pop()
        same += 1
    keep = [k for k, n in enumerate(old) if n != 1]
    sizes = [old[k] for k in keep]

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        mine = [const(0)] * len(old)
        found = digits(region, place(new, at[: len(new)]), sizes)
        for k, a in zip(keep, found, strict=True):
            mine[k] = a
        return source.read(region, [*mine, *at[len(at) - same :]])

    return Source(tuple(shape), read)


def permuted(source: Source, perm: Sequence[int]) -> Source:
    def read(region: Region, at: Sequence[Aff]) -> Sum:
        mine = list(at)
        for k, p in enumerate(perm):
            mine[p] = at[k]
        return source.read(region, mine)

    return Source(tuple(source.shape[p] for p in perm), read)


def sliced(source: Source, dim: int, start: Size, size: Size) -> Source:
    """``size`` elements along ``dim`` from ``start``."""

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        return source.read(region, [*at[:dim], shifted(at[dim], start), *at[dim + 1 :]])

    shape = source.shape
    return Source((*shape[:dim], size, *shape[dim + 1 :]), read)


def joined(sources: Sequence[Source], dim: int) -> Source:
    """Concatenation along ``dim``."""
    sources = [s for s in sources if s.shape[dim] != 0] or list(sources[:1])
    if len({(s.shape[:dim], s.shape[dim + 1 :]) for s in sources}) > 1:
        raise NotChecked("parts whose other dims differ")
    starts: list[Size] = [0]
    for s in sources:
        starts.append(starts[-1] + s.shape[dim])
    boxes = Boxes([((a,), (b,)) for a, b in pairwise(starts)])

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        k = boxes.find(region, [at[dim]]) if len(sources) > 1 else 0
        mine = shifted(at[dim], -starts[k])
        return sources[k].read(region, [*at[:dim], mine, *at[dim + 1 :]])

    shape = sources[0].shape
    return Source((*shape[:dim], starts[-1], *shape[dim + 1 :]), read)


def added(sources: Sequence[Source], coefs: Sequence[Coef], c: Coef = 0) -> Source:
    """A linear combination of tensors of one shape, plus a constant."""

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        out: Sum = [] if c == 0 else unit(c)
        for s, k in zip(sources, coefs, strict=True):
            out += scaled(s.read(region, at), k)
        return out

    return Source(sources[0].shape, read)


def under_sum(
    region: Region,
    extents: Sequence[Size],
    build: Callable[[Region, Sequence[Aff], Sequence[Aff]], Sum],
    at: Sequence[Aff],
) -> Sum:
    """The sum over new indices below ``extents`` of what ``build`` gives for them."""
    if any(n == 0 for n in extents):
        return []
    names = [fresh() for _ in extents]
    ranges = dict(zip(names, ((0, n) for n in extents), strict=True))
    whole = Region.of({**region.ranges, **ranges}, (*at, *map(variable, names)))

    def look(r: Region) -> Sum:
        return build(r, r.index[: len(at)], r.index[len(at) :])

    out: Sum = []
    for r, terms in whole.visit(look, MAX_PARTS, "a sum", region.ranges):
        mine = tuple((v, a, b) for v, (a, b) in r.ranges.items() if v not in region.ranges)
        out += [(Product((*mine, *p.ranges), p.factors), c) for p, c in terms]
    return runs(out, fresh())


def contracted(a: alg.Contract, sources: Sequence[Source], assume: Callable[[str], None]) -> Source:
    """A sum of products over labelled dims."""
    sizes = label_sizes(a.operands, sources)
    bound = [x for x in sizes if x not in a.output]
    extents = [sizes[x] for x in bound]
    count: Size = 1
    for n in extents:
        count = count * n
    if a.scale_by_count and not at_least(count, 1):
        if count == 0:
            raise NotChecked("a mean over nothing")
        assume(f"{count} is not zero (the program divides by it)")

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        def build(r: Region, out: Sequence[Aff], mine: Sequence[Aff]) -> Sum:
            where = dict(zip(a.output, out, strict=True)) | dict(zip(bound, mine, strict=True))
            where[alg.ONE] = const(0)
            reads = [
                s.read(r, [where[x] for x in ls]) for s, ls in zip(sources, a.operands, strict=True)
            ]
            return times(reads)

        terms = under_sum(region, extents, build, at)
        return scaled(terms, quotient(1, count)) if a.scale_by_count else terms

    return Source(tuple(sizes[x] if x != alg.ONE else 1 for x in a.output), read)


def label_sizes(operands: Sequence[Sequence[str]], sources: Sequence[Source]) -> dict[str, Size]:
    """The extent of every label, labels in order of appearance."""
    out: dict[str, Size] = {}
    for s, labels in zip(sources, operands, strict=True):
        for x, n in zip(labels, s.shape, strict=True):
            if x != alg.ONE and out.setdefault(x, n) != n:
                raise NotChecked("axes of one label with different sizes")
    return out


def simple(
    a: alg.Algebra,
    sources: Sequence[Source],
    shape: tuple[Size, ...],
    assume: Callable[[str], None],
) -> Source | None:
    """The result of operators whose value is a sum of products of their operands'."""
    if isinstance(a, VIEWS):
        return _viewed(a, sources, shape)
    match a:
        case alg.Linear():
            return added([spread(s, shape) for s in sources], [number(c) for c in a.coefs],
                         number(a.constant))  # fmt: skip
        case alg.Contract():
            return contracted(a, sources, assume)
        case alg.Constant():
            c = number(a.value)
            return Source(shape, lambda region, at: unit(c) if c != 0 else [])
        case alg.Iota():
            return Source(shape, lambda region, at: _positions(a, at[0]))
        case alg.Monomial() if all(e == 1 for e in a.exponents):
            wide = [spread(s, shape) for s in sources]
            return Source(shape, lambda region, at: times([s.read(region, at) for s in wide]))
    return None


def _viewed(a: alg.Algebra, sources: Sequence[Source], shape: tuple[Size, ...]) -> Source:
    match a:
        case alg.Identity():
            return sources[0]
        case alg.Reshape():
            return reshaped(sources[0], a.shape)
        case alg.Permute():
            return permuted(sources[0], a.perm)
        case alg.Slice():
            return sliced(sources[0], a.dim % len(shape), a.start, a.stop - a.start)
        case alg.Concat():
            return joined(sources, a.dim % len(shape))
        case alg.Expand():
            return spread(sources[0], a.shape)
    raise NotChecked("another rearrangement")


def _positions(a: alg.Iota, at: Aff) -> Sum:
    return [(Product((), ((Read(IOTA, (total(((at, a.step),), a.start),)), 1),)), 1)]
