"""Linear combinations of terms: adding, scaling, and joining partial sums.

Two terms that differ only in the interval of one reduction join when the intervals are adjacent
and the coefficients equal (``sum over [0,4) + sum over [4,8) = sum over [0,8)``). Maxima and
minima never join by addition.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from shardproof.infer.blocks import Lin, Term
from shardproof.infer.coef import ONE, Coef, Ratio, from_size
from shardproof.infer.naming import IOTA, UNIT, Table

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
        return tuple(acc.items())
    while len(acc) > 1 and _join_partials(table, acc):
        pass
    _absorb_constant(acc)
    return tuple(sorted(acc.items(), key=_order))


def _order(tc: tuple[Term, Coef]) -> tuple[Any, ...]:
    t = tc[0]
    return (t.atom, str(t.restr), str(t.off), str(t.ax))


def _join_partials(table: Table, acc: dict[Term, Coef]) -> bool:
    groups: dict[Any, list[Term]] = {}
    for t, c in acc.items():
        for n, (label, _, _) in enumerate(t.restr):
            if innermost(label)[0] in EXTREMA:
                continue
            key = (t.atom, t.ax, t.off, t.restr[:n], label, t.restr[n + 1 :], c)
            groups.setdefault(key, []).append(t)
    for key, members in groups.items():
        if len(members) < 2:
            continue
        n, label, c = len(key[3]), key[4], key[6]
        by_lo = {t.restr[n][1]: t for t in members}
        for t in members:
            nxt = by_lo.get(t.restr[n][2])
            if nxt is None or nxt is t:
                continue
            joined = with_interval(table, t, n, label, t.restr[n][1], nxt.restr[n][2])
            del acc[t], acc[nxt]
            total = acc[joined] + c if joined in acc else c
            acc.pop(joined, None)
            if total != 0:
                acc[joined] = total
            return True
    return False


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
