"""Sums over indices that lie apart in the sequential value.

The keys of a zigzag rank are two chunks of the sequence. A sum over both is no interval of the
sequential sum, but the sum over each chunk is a part of it. So the outer index is written out,
where that shows parts of sums that the sequential program has.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from shardproof.infer.blocks import Box, Lin, Term, map_lin, pin_term
from shardproof.infer.coef import ONE, Coef
from shardproof.infer.naming import Table
from shardproof.infer.products import Products
from shardproof.infer.simplify import foldable, open_product
from shardproof.infer.terms import EXTREMA, innermost
from shardproof.lemmas import names as lemmas

MAX_CHUNKS = 8
Operands = Sequence[tuple[Lin, Fraction]]
Pairs = list[tuple[Term, Coef]]


def summed(
    products: Products, lo: Box, hi: Box, operands: Operands, bound: Sequence[int], summing: bool
) -> Pairs:
    """A product of sums, contracted over the ``bound`` axes."""
    pairs = products.expand(lo, hi, operands, bound, summing=summing)
    table = products.table
    if table.defining or not bound or _parts(table, pairs):
        return pairs
    j = _apart(lo, hi, _factors(table, operands), bound)
    if j is None:
        return pairs
    chunks: Pairs = []
    for i in range(int(lo[j]), int(hi[j])):  # type: ignore[arg-type]
        first, last = (*lo[:j], i, *lo[j + 1 :]), (*hi[:j], i + 1, *hi[j + 1 :])
        here = [(_at(lin, j, i), e) for lin, e in operands]
        chunks += products.expand(first, last, here, bound, summing=summing)
    if not _parts(table, chunks):
        return pairs
    products.fire(lemmas.SPLIT_CONTRACTION)
    return chunks


def _at(lin: Lin, j: int, i: int) -> Lin:
    return map_lin(lin, lambda t: pin_term(t, j, i))


def _parts(table: Table, pairs: Pairs) -> bool:
    """Whether some term holds a part of a sum of the sequential program."""
    labels = (label for t, _ in pairs for label, _, _ in t.restr)
    return any(innermost(x)[0] not in EXTREMA and table.full(x) is not None for x in labels)


def _apart(lo: Box, hi: Box, factors: Sequence[Term], bound: Sequence[int]) -> int | None:
    """A summed axis whose neighbouring indices lie apart, of a few indices."""
    for j in bound:
        few = isinstance(lo[j], int) and isinstance(hi[j], int) and hi[j] - lo[j] <= MAX_CHUNKS
        if few and any(_leaps(t, lo, hi, j, bound) for t in factors):
            return j
    return None


def _factors(table: Table, operands: Operands) -> list[Term]:
    """The terms of all operands, products opened."""
    todo = [t for lin, _ in operands for t, _ in lin]
    out: list[Term] = []
    while todo:
        t = todo.pop()
        d = table.definition(t.atom)
        if d is not None and d.fn == "prod" and foldable(t, ONE):
            todo += [u for u, _ in open_product(d, t, ONE)]
        else:
            out.append(t)
    return out


def _leaps(t: Term, lo: Box, hi: Box, j: int, bound: Sequence[int]) -> bool:
    walk = t.ax[j]
    if walk is None or walk[1] == 1:
        return False
    inner = [(i, w[1]) for i in bound if i != j and (w := t.ax[i]) is not None and w[0] == walk[0]]
    return not any(s * (hi[i] - lo[i]) == walk[1] for i, s in inner)
