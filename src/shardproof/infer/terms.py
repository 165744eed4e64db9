"""Linear combinations of terms: adding, scaling, and joining partial sums.

Two terms that differ only in the interval of one reduction join when the intervals are adjacent
and the coefficients equal (``sum over [0,4) + sum over [4,8) = sum over [0,8)``). Maxima and
minima never join by addition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from shardproof.infer.blocks import Lin, Term, Walk
from shardproof.infer.coef import ONE, Coef, Ratio, from_size
from shardproof.infer.naming import IOTA, UNIT, Table
from shardproof.ir.sizes import Size
from shardproof.lemmas import names as lemmas

EXTREMA = ("max", "min")


def innermost(label: tuple[Any, ...]) -> tuple[Any, ...]:
    """The reduction that a carried label stands for."""
    while label[0] == "in":
        label = label[3]
    return label


def lincomb(table: Table, pairs: Iterable[tuple[Term, Coef]]) -> Lin:
    """Sum of terms in canonical order, partial sums joined, zero terms dropped."""
    acc: dict[Term, Coef] = {}
    for t, c in pairs:
        if any(lo == hi for label, lo, hi in t.restr if innermost(label)[0] not in EXTREMA):
            continue
        acc[t] = acc[t] + c if t in acc else c
    acc = {t: c for t, c in acc.items() if c != 0}
    if len(acc) == 1:
        return tuple(_complete(table, acc).items())
    while len(acc) > 1 and _join_partials(table, acc):
        pass
    acc = _complete(table, acc)
    _absorb_constant(acc)
    count = Counter(t.atom for t in acc)
    return tuple(
        sorted(acc.items(), key=lambda tc: _order(tc) if count[tc[0].atom] > 1 else (tc[0].atom,))
    )


def completed(table: Table, t: Term) -> Term | None:
    """What a term equals because a part of it is complete, if that is known."""
    c = table.complete.get(t.atom)
    if c is None:
        return None
    restr = []
    for label, lo, hi in t.restr:
        if label[0] != "in" or label[1] != t.atom or label[2] not in c.places:
            return None
        place = c.places[label[2]]
        moved = label[3] if place is None else ("in", c.term.atom, place, label[3])
        restr.append((moved, lo, hi))
    d = table.definition(t.atom)
    assert d is not None
    out = compose(c.term, t, d.n_free)
    return out._replace(restr=out.restr + tuple(restr))


def _complete(table: Table, acc: dict[Term, Coef]) -> dict[Term, Coef]:
    if not any(t.atom in table.complete for t in acc):
        return acc
    out: dict[Term, Coef] = {}
    for t, c in acc.items():
        u = completed(table, t) or t
        out[u] = out[u] + c if u in out else c
    return {t: c for t, c in out.items() if c != 0}


def _order(tc: tuple[Term, Coef]) -> tuple[Any, ...]:
    t = tc[0]
    return (t.atom, str(t.restr), str(t.off), str(t.ax))


def _join_partials(table: Table, acc: dict[Term, Coef]) -> bool:
    """Join what is adjacent, each term along one of its reductions; whether anything was."""
    groups: dict[Any, list[Term]] = {}
    count = Counter(t.atom for t in acc)
    for t in acc:
        if count[t.atom] == 1:
            continue
        for n, (label, _, _) in enumerate(t.restr):
            if innermost(label)[0] in EXTREMA:
                continue
            key = (t.atom, t.ax, t.off, t.restr[:n], label, t.restr[n + 1 :])
            groups.setdefault(key, []).append(t)
    changed = False
    for key, members in groups.items():
        if len(members) > 1 and _join_group(table, acc, len(key[3]), members):
            changed = True
    return changed


def _join_group(table: Table, acc: dict[Term, Coef], n: int, members: list[Term]) -> bool:
    """Join terms that differ in the interval of their n-th reduction only, where they still are
    summands and their coefficients are equal."""
    by_lo = {(t.restr[n][1], acc[t]): t for t in members if t in acc}
    changed = False
    for t in members:
        while t in acc:
            c = acc[t]
            label, lo, hi = t.restr[n]
            nxt = by_lo.get((hi, c))
            if nxt is None or nxt is t or acc.get(nxt) != c:
                break
            joined = with_interval(table, t, n, label, lo, nxt.restr[n][2])
            del acc[t], acc[nxt]
            total = acc[joined] + c if joined in acc else c
            acc.pop(joined, None)
            if total != 0:
                acc[joined] = total
            table.fire(lemmas.PARTIAL_SUMS)
            changed = True
            if total != c or len(joined.restr) <= n or joined.restr[n][0] != label:
                break
            t = by_lo[lo, c] = joined
    return changed


def with_interval(table: Table, t: Term, n: int, label: Any, lo: Any, hi: Any) -> Term:
    """Set the n-th restriction of ``t``; a complete interval is no restriction."""
    mid = () if table.full(label) == (lo, hi) else ((label, lo, hi),)
    return t._replace(restr=t.restr[:n] + mid + t.restr[n + 1 :])


def _absorb_constant(acc: dict[Term, Coef]) -> None:
    """``iota[i] + 3 = iota[i + 3]``: positions with an offset are one term."""
    positions = [t for t, c in acc.items() if t.atom == IOTA and c == 1]
    units = [(t, c) for t, c in acc.items() if t.atom == UNIT]
    if len(positions) != 1 or len(units) != 1:
        return
    unit, c = units[0]
    if isinstance(c, Ratio):
        if c.den != 1:
            return
        shift: Any = c.num
    elif c.denominator == 1:
        shift = c.numerator
    else:
        return
    t = positions[0]
    del acc[t], acc[unit]
    moved = t._replace(off=(t.off[0] + shift,))
    acc[moved] = ONE


def scaled(lin: Lin, by: Coef) -> Lin:
    if by == 1:
        return lin
    return tuple((t, c * by) for t, c in lin) if by != 0 else ()


def unit_term(n_axes: int) -> Term:
    """The constant 1."""
    return Term(UNIT, (None,) * n_axes, ())


def constant(value: Fraction | Any, n_axes: int) -> Lin:
    c: Coef = value if isinstance(value, Fraction | Ratio) else from_size(value)
    return ((unit_term(n_axes), c),) if c != 0 else ()


def compose(inner: Term, outer: Term, n_free: int, new_axes: Sequence[int] = ()) -> Term:
    """``inner`` (over the variables of a definition) read through ``outer`` (a term of that
    definition's atom). Bound variable ``n_free + k`` becomes output axis ``new_axes[k]``; the
    result has the axes of ``outer`` followed by those."""
    off = list(inner.off)
    n = len(outer.ax)
    ax: list[Walk] = [None] * (n + len(new_axes))
    walk_of: dict[int, list[tuple[int, Size]]] = {}
    for x, w in enumerate(outer.ax):
        if w is not None:
            walk_of.setdefault(w[0], []).append((x, w[1]))
    for v, walk in enumerate(inner.ax):
        if walk is None:
            continue
        q, s = walk
        if v >= n_free:
            ax[new_axes[v - n_free]] = (q, s)
            continue
        off[q] = off[q] + s * outer.off[v]
        for x, s2 in walk_of.get(v, ()):
            ax[x] = (q, s * s2)
    return Term(inner.atom, tuple(ax), tuple(off), inner.restr)


def exponent(c: Coef) -> Fraction:
    """The exponent of a factor of a product or of a sum of products, where it stands in the
    place of a coefficient."""
    assert isinstance(c, Fraction)
    return c
