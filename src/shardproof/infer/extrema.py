"""One element of a maximum as the part of it over one index: what a shard of width 1 holds."""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.infer.blocks import Term
from shardproof.infer.naming import Def, Table
from shardproof.infer.terms import compose
from shardproof.ir.sizes import Size, Undecided, div_mod
from shardproof.lemmas import names as lemmas


def as_parts(table: Table, kind: str, terms: Sequence[Term]) -> list[Term]:
    """The terms, those that are elements of an extremum among them as parts of that one. A term
    that is none stays as it is."""
    named = next((t for t in terms if _is_extremum(table.definition(t.atom), kind)), None)
    if named is None:
        return list(terms)
    out = []
    for t in terms:
        part = None if t.atom == named.atom else _part(table, kind, named, t)
        if part is not None:
            table.fire(lemmas.SINGLE_SUMMAND)
        out.append(t if part is None else part)
    return out


def _is_extremum(d: Def | None, kind: str) -> bool:
    return (
        d is not None
        and d.fn == kind
        and len(d.lo) == d.n_free + 1
        and len(d.operands[0]) == 1
        and d.operands[0][0][1] == 1
    )


def _part(table: Table, kind: str, named: Term, element: Term) -> Term | None:
    """``element`` as the part of ``named``'s extremum over the one index at which the operand is
    it, whatever part of it ``named`` is."""
    d = table.definition(named.atom)
    assert d is not None
    n = len(named.ax)
    operand = compose(d.operands[0][0][0], named._replace(restr=()), d.n_free, [n])
    if (operand.atom, operand.restr) != (element.atom, element.restr):
        return None
    walk = operand.ax[n]
    if walk is None or operand.ax[:n] != element.ax:
        return None
    axis, stride = walk
    gaps = [b - a for a, b in zip(operand.off, element.off, strict=True)]
    if any(g != 0 for q, g in enumerate(gaps) if q != axis):
        return None
    at = _quotient(gaps[axis], stride)
    if at is None:
        return None
    return named._replace(restr=(((kind, named.atom, d.n_free), at, at + 1),))


def _quotient(n: Size, by: Size) -> Size | None:
    try:
        q, rest = div_mod(n, by)
    except Undecided:
        return None
    return q if rest == 0 else None
