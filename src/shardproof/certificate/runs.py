"""Summands at single indices as sums over runs of indices.

A flat buffer holds rows of several lengths, so that what is read from it is one formula a row
only. The sum over all rows is then one summand a row, and no rule compares that with a sum over an
index. Summands whose indices are ``a, a + d, a + 2 d, ...`` are the sum over ``v`` of the summand
at ``a + v d``.
"""

from __future__ import annotations

from itertools import pairwise

from shardproof.certificate.exact import Aff, Coef, total, variable
from shardproof.certificate.products import Product, Read, Sum

Place = tuple[int, ...]


def runs(terms: Sum, fresh: int) -> Sum:
    """The same sum with such summands joined; ``fresh`` is a variable that nothing uses."""
    groups: dict[Product, list[tuple[Place, Coef]]] = {}
    out: Sum = []
    for p, c in terms:
        found = _place(p)
        if found is None:
            out.append((p, c))
        else:
            groups.setdefault(found[0], []).append((found[1], c))
    for p, places in groups.items():
        out += _joined(p, sorted(places, key=lambda x: x[0]), fresh)
    return out


def _place(p: Product) -> tuple[Product, Place] | None:
    """A product with the constants of its indices taken out; and these."""
    constants: list[int] = []
    factors = []
    for b, e in p.factors:
        if not isinstance(b, Read) or not all(isinstance(c, int) for c, _ in b.at):
            return None
        constants += [c for c, _ in b.at if isinstance(c, int)]
        factors.append((b._replace(at=tuple([(0, slopes) for _, slopes in b.at])), e))
    return Product(p.ranges, tuple(factors)), tuple(constants)


def _joined(p: Product, places: list[tuple[Place, Coef]], fresh: int) -> Sum:
    steps = [_minus(b[0], a[0]) for a, b in pairwise(places)]
    alike = all(c == places[0][1] for _, c in places)
    if len(places) < 2 or not alike or not any(steps[0]) or any(s != steps[0] for s in steps):
        return [(_at(p, place), c) for place, c in places]
    first = _at(p, places[0][0], steps[0], fresh)
    return [(Product((*p.ranges, (fresh, 0, len(places))), first.factors), places[0][1])]


def _minus(a: Place, b: Place) -> Place:
    return tuple(x - y for x, y in zip(a, b, strict=True))


def _at(p: Product, place: Place, step: Place = (), v: int = 0) -> Product:
    """The product at a place; with a step, at ``place + v * step``."""
    rest = iter(zip(place, step or (0,) * len(place), strict=True))
    factors = []
    for b, e in p.factors:
        assert isinstance(b, Read)
        at: list[Aff] = []
        for _, slopes in b.at:
            c, s = next(rest)
            at.append(total([((c, slopes), 1), (variable(v), s)]) if s else (c, slopes))
        factors.append((b._replace(at=tuple(at)), e))
    return Product(p.ranges, tuple(factors))
