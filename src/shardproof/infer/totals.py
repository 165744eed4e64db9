"""The sum of a one-hot over all its positions: ``sum over v in [a, b) of [t == v] = [a <= t < b]``.

The sum keeps a name, so that parts of it are partial sums; only what the complete one is, is noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardproof.infer.blocks import Box, Term
from shardproof.infer.coef import ONE, Coef
from shardproof.infer.naming import Completion, Instance
from shardproof.infer.terms import compose, lincomb
from shardproof.ir.sizes import Size
from shardproof.lemmas import names as lemmas

if TYPE_CHECKING:
    from shardproof.infer.products import Products


def note_total(products: Products, lo: Box, hi: Box, e: Term, axes: list[int]) -> None:
    """Note what the sum of the one-hot ``e`` over ``axes`` is, if it is the sum over its positions
    and something is known of the values of its tensor."""
    table = products.table
    d = table.definition(e.atom)
    if d is None or d.fn != "eq" or len(axes) != 1 or not table.defining:
        return
    position = compose(d.operands[1][0][0], e, d.n_free)
    base = compose(d.operands[0][0][0], e, d.n_free)
    if position.ax[axes[0]] != (0, 1) or base.ax[axes[0]] is not None:
        return
    if any(w is not None for j, w in enumerate(position.ax) if j != axes[0]):
        return
    if products.known.range(base.atom) is None and base.atom not in products.known.spans:
        return
    total = products._named(Instance("sum", (), lo, hi, (), tuple(axes)), [(e, ONE)])
    if total.restr or total.atom in table.complete:
        return
    first, last = position.off[0] + lo[axes[0]], position.off[0] + hi[axes[0]]
    value = _between(products, total.atom, first, last)
    if value is not None:
        products.fire(lemmas.ONEHOT_TOTAL)
        table.complete[total.atom] = Completion(value, {})


def _between(products: Products, total: int, first: Size, last: Size) -> Term | None:
    """``[first <= t < last]`` over the axes of the sum ``total`` of one-hots of ``t``."""
    table = products.table
    d = table.definition(total)
    assert d is not None
    n = d.n_free
    e = d.operands[0][0][0]
    inner = table.definition(e.atom)
    assert inner is not None
    base = compose(inner.operands[0][0][0], e, inner.n_free)
    lo, hi = d.lo[:n], d.hi[:n]
    t = base._replace(ax=base.ax[:n])
    ends: list[tuple[Term, Coef]] = list(products.threshold(lo, hi, t, first))
    ends += [(u, -c) for u, c in products.threshold(lo, hi, t, last)]
    lin = lincomb(table, ends)
    if not lin:
        return None
    if len(lin) == 1 and lin[0][1] == 1:
        return lin[0][0]
    return products.named_sum(lo, hi, lin) if lin[0][1] == 1 else None
