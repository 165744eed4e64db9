"""Whether the parts that the ranks return make up the whole sequential output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from itertools import product as choices

from shardproof.certificate.canonical import ordered
from shardproof.certificate.exact import Aff, NotChecked, variable
from shardproof.certificate.products import Product, Read, Sum
from shardproof.certificate.region import Range, Region, fresh
from shardproof.certificate.rules import Source
from shardproof.ir.graph import Graph, Mesh, Value
from shardproof.ir.sizes import Size, at_least, linear_in, only_symbol, product
from shardproof.spec.problem import Obligation

Box = tuple[Range, ...]
Through = Callable[[Graph, dict[Value, Source]], dict[Value, Source]]
MAX_GRID = 100_000
MAX_PARTS = 4096


def check_cover(ob: Obligation, seq: Value, mesh: Mesh | None, through: Through) -> None:
    """Every element of the sequential output is expected on some rank.

    Raises:
        NotChecked: that was not shown.
    """
    if 0 in seq.shape or any(g is not None and not g.nodes for g in ob.expected):
        return  # without nodes the whole output is expected

    def read(region: Region, at: Sequence[Aff]) -> Sum:
        return [(Product((), ((Read(-1, tuple(at)), 1),)), 1)]

    boxes: set[Box] = set()
    for g in ob.expected:
        if g is not None:
            out = g.outputs[0]
            assert out is not None
            values = through(g, {g.inputs[0]: Source(seq.shape, read)})
            boxes |= {_all_ranks(b, mesh) for b in _boxes(values[out])}
    whole = tuple((0, n) for n in seq.shape)
    if whole not in boxes and not _covers(boxes, whole):
        raise NotChecked("the parts of the ranks do not make up the whole output")


def _boxes(s: Source) -> list[Box]:
    """The parts of the sequential output that a rearrangement of it reads."""
    if any(n == 0 for n in s.shape):
        return []
    names = [fresh() for _ in s.shape]
    spans: dict[int, Range] = {v: (0, n) for v, n in zip(names, s.shape, strict=True)}
    whole = Region.of(spans, tuple(map(variable, names)))
    out: list[Box] = []
    for r, terms in whole.visit(lambda r: s.read(r, r.index), MAX_PARTS, "an expected output"):
        if len(terms) != 1 or terms[0][1] != 1:
            raise NotChecked("an expected output that is no rearrangement")
        ((b, _),) = terms[0][0].factors
        assert isinstance(b, Read)
        walked = [v for a in b.at for v, _ in a[1]]
        if len(set(walked)) != len(walked):
            raise NotChecked("an expected output along a diagonal")
        out.append(tuple(_image(r, a) for a in b.at))
    return out


def _image(r: Region, a: Aff) -> Range:
    """The values of an index function, which are an interval if its strides are digits."""
    first, width = a[0], 1
    left = dict(a[1])
    wide: Size = width
    while left:
        v = next((v for v, s in left.items() if s == wide), None)
        if v is None:
            raise NotChecked("an expected output with gaps")
        del left[v]
        lo, hi = r.ranges[v]
        first = first + wide * lo
        wide = wide * (hi - lo)
    return first, first + wide


def _all_ranks(box: Box, mesh: Mesh | None) -> Box:
    """The union over all ranks of a box whose borders are affine in the rank."""
    out = list(box)
    for axis, n in reversed(mesh.axes if mesh is not None else ()):
        if n == 1:
            continue
        sym = only_symbol(mesh.index(axis)) if mesh is not None else None
        assert sym is not None
        hit = False
        for q, (lo, hi) in enumerate(out):
            (a, b), (a2, b2) = linear_in(lo, sym), linear_in(hi, sym)
            if b == 0 and b2 == 0:
                continue
            if hit or b != b2 or a2 - a != b:
                raise NotChecked("parts of the ranks that do not tile the output")
            out[q] = (a, a + b * n)
            hit = True
    return tuple(out)


def _covers(boxes: set[Box], whole: Box) -> bool:
    """Whether boxes cover the whole: each cell of the grid of all borders is in one."""
    borders: list[list[Size]] = []
    for q, (lo, hi) in enumerate(whole):
        points: list[Size] = []
        for x in (lo, hi, *(y for b in boxes for y in b[q])):
            if at_least(x, lo) and at_least(hi, x) and x not in points:
                points.append(x)
        borders.append(ordered(points))
    if product(len(p) for p in borders) > MAX_GRID:
        raise NotChecked("an output in too many parts")
    for cell in choices(*(list(pairwise(p)) for p in borders)):
        if not any(
            all(
                at_least(a, lo) and at_least(hi, b)
                for (a, b), (lo, hi) in zip(cell, box, strict=True)
            )
            for box in boxes
        ):
            return False
    return True
