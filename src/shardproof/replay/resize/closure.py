"""Congruence of products: merge the classes that every solution gives the same factor anyway.

``[s, b] -> [s*b] -> [s, b]`` must come back to the same s and b; without this step a transformer
has hundreds of classes and the search does not end.
"""

from __future__ import annotations

from collections import defaultdict

from shardproof.replay.resize.scales import Dim, Scales

Product = tuple[Dim, tuple[Dim, ...]]


def close(s: Scales) -> None:
    """Merge classes until nothing changes.

    1. Products of the same classes are one class (exact).
    2. Equal products of equally many factors whose original sizes agree but for at most one, or
       agree as a multiset, have their factors merged pairwise (stronger than necessary, which
       costs size only).
    3. Prefixes of one length of one class are one dim.
    """
    products = _products(s)
    while any([_same_factors(s, products), _same_product(s, products), s.merge_prefixes()]):
        pass


def _products(s: Scales) -> list[Product]:
    out: list[Product] = []
    for left, right in s.products:
        if len(left) == 1:
            out.append((left[0], right))
        elif len(right) == 1:
            out.append((right[0], left))
    return out


def _same_factors(s: Scales, products: list[Product]) -> bool:
    seen: dict[tuple[Dim, ...], Dim] = {}
    changed = False
    for whole, factors in products:
        first = seen.setdefault(tuple(sorted(map(s.find, factors))), whole)
        changed |= s.unify(first, whole)
    return changed


def _same_product(s: Scales, products: list[Product]) -> bool:
    by_whole: dict[Dim, dict[object, tuple[Dim, ...]]] = defaultdict(dict)
    for whole, factors in products:
        key = (tuple(map(s.find, factors)), tuple(s.size[f] for f in factors))
        by_whole[s.find(whole)].setdefault(key, factors)
    changed = False
    for group in by_whole.values():
        lists = list(group.values())
        for k, factors in enumerate(lists):
            for other in lists[:k]:
                changed |= _merge_factors(s, factors, other)
    return changed


def _merge_factors(s: Scales, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    if len(a) != len(b):
        return False
    differ = sum(s.size[x] != s.size[y] for x, y in zip(a, b, strict=True))
    if differ > 1:
        a, b = (tuple(sorted(t, key=lambda d: s.size[d])) for t in (a, b))
        if [s.size[x] for x in a] != [s.size[y] for y in b]:
            return False
    changed = False
    for x, y in zip(a, b, strict=True):
        changed |= s.unify(x, y)
    return changed
