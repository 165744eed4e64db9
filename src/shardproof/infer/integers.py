"""Integer and boolean tensors as piecewise-affine functions of one integer tensor.

Token ids minus a rank offset, masks of ids outside a rank's range, masked ids: all are
``a * t + c`` on intervals of the values of one tensor ``t``. The domain is closed under what
programs do with them (shift, compare, and, or, not, select), and it is exact. When such a value
meets real arithmetic it becomes a combination of the thresholds ``H_k(t) = [t >= k]``, which are
linearly independent, so equal masks have equal terms whatever their spelling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from shardproof.infer.blocks import Box, Lin, Term, Unsupported, Val
from shardproof.infer.coef import ONE, Coef, from_size
from shardproof.infer.naming import Instance
from shardproof.infer.products import Products
from shardproof.infer.terms import lincomb, unit_term
from shardproof.ir.sizes import Size, at_least, le, smax, smin
from shardproof.lemmas import names as lemmas

Bound = Size | None  # None: minus or plus infinity


@dataclass(frozen=True, slots=True)
class Piece:
    """``a * t + c`` for ``lo <= t < hi``."""

    lo: Bound
    hi: Bound
    a: int
    c: Size


@dataclass(frozen=True, slots=True)
class Index:
    """A value as a function of ``base``; pieces are sorted and cover all integers."""

    base: Val
    pieces: tuple[Piece, ...]

    def map_base(self, f: Callable[[Val], Val]) -> Index:
        return Index(f(self.base), self.pieces)


WHOLE = (Piece(None, None, 1, 0),)
PieceMap = Callable[[tuple[int, Size]], tuple[int, Size] | None]


def identity(v: Val) -> Index:
    """A tensor as a function of itself."""
    return Index(Val(v.dims, v.cells), WHOLE)


def _low(a: Bound, b: Bound) -> Bound:
    return b if a is None else a if b is None else smax(a, b)


def _high(a: Bound, b: Bound) -> Bound:
    return b if a is None else a if b is None else smin(a, b)


def _empty(lo: Bound, hi: Bound) -> bool:
    return lo is not None and hi is not None and at_least(lo, hi)


def _tidy(pieces: list[Piece]) -> tuple[Piece, ...]:
    out: list[Piece] = []
    for p in pieces:
        if _empty(p.lo, p.hi):
            continue
        if out and (out[-1].a, out[-1].c) == (p.a, p.c) and out[-1].hi == p.lo:
            out[-1] = Piece(out[-1].lo, p.hi, p.a, p.c)
        else:
            out.append(p)
    return tuple(out)


def transform(x: Index, f: PieceMap) -> Index | None:
    """Apply a function of one operand piece by piece; None where it leaves the domain."""
    out = []
    for p in x.pieces:
        r = f((p.a, p.c))
        if r is None:
            return None
        out.append(Piece(p.lo, p.hi, *r))
    return Index(x.base, _tidy(out))


def combine(
    x: Index, y: Index, f: Callable[[tuple[int, Size], tuple[int, Size]], tuple[int, Size] | None]
) -> Index | None:
    """Apply a function of two operands with the same base; None where it leaves the domain."""
    if x.base.key() != y.base.key():
        return None
    out = []
    for p in x.pieces:
        for q in y.pieces:
            lo, hi = _low(p.lo, q.lo), _high(p.hi, q.hi)
            if _empty(lo, hi):
                continue
            r = f((p.a, p.c), (q.a, q.c))
            if r is None:
                return None
            out.append(Piece(lo, hi, *r))
    return Index(x.base, _tidy(out))


def compare(x: Index, kind: str, k: Size) -> Index | None:
    """The boolean ``x <kind> k``."""
    if kind in ("le", "gt"):
        kind, k = {"le": "lt", "gt": "ge"}[kind], k + 1
    if kind in ("eq", "ne"):
        below, above = compare(x, "lt", k), compare(x, "ge", k + 1)
        if below is None or above is None:
            return None
        either = combine(below, above, logic_or)
        return either if kind == "ne" or either is None else transform(either, logic_not)
    yes = 1 if kind == "lt" else 0
    out: list[Piece] = []
    for p in x.pieces:
        if p.a == 0:
            holds = not at_least(p.c, k) if _decided(p.c, k) else None
            if holds is None:
                return None
            out.append(Piece(p.lo, p.hi, 0, yes if holds else 1 - yes))
        elif p.a == 1:
            cut = k - p.c
            out.append(Piece(p.lo, _high(p.hi, cut), 0, yes))
            out.append(Piece(_low(p.lo, cut), p.hi, 0, 1 - yes))
        else:
            return None
    return Index(x.base, _tidy(out))


def _decided(a: Size, b: Size) -> bool:
    return at_least(a, b) or at_least(b - 1, a)


def logic_not(u: tuple[int, Size]) -> tuple[int, Size] | None:
    return (0, 1 - u[1]) if u[0] == 0 else None


def logic_or(u: tuple[int, Size], w: tuple[int, Size]) -> tuple[int, Size] | None:
    return (0, smax(u[1], w[1])) if u[0] == 0 and w[0] == 0 else None


def logic_and(u: tuple[int, Size], w: tuple[int, Size]) -> tuple[int, Size] | None:
    return (0, u[1] * w[1]) if u[0] == 0 and w[0] == 0 else None


def logic_xor(u: tuple[int, Size], w: tuple[int, Size]) -> tuple[int, Size] | None:
    return (0, 0 if u[1] == w[1] else 1) if u[0] == 0 and w[0] == 0 else None


def times(u: tuple[int, Size], w: tuple[int, Size]) -> tuple[int, Size] | None:
    if u[0] != 0 and w[0] != 0:
        return None
    if u[0] == 0 and w[0] == 0:
        return 0, u[1] * w[1]
    (a, c), k = (u, w[1]) if u[0] != 0 else (w, u[1])
    return (a * k, c * k) if isinstance(k, int) else None


LOGIC = {"and": logic_and, "or": logic_or, "xor": logic_xor}


def select(cond: Index, a: Index, b: Index) -> Index | None:
    """``a if cond else b``."""
    if not cond.base.key() == a.base.key() == b.base.key():
        return None
    out = []
    for p in cond.pieces:
        if p.a != 0:
            return None
        chosen = a if p.c == 1 else b
        for q in chosen.pieces:
            lo, hi = _low(p.lo, q.lo), _high(p.hi, q.hi)
            if not _empty(lo, hi):
                out.append(Piece(lo, hi, q.a, q.c))
    return Index(cond.base, _tidy(out))


def clip(pieces: tuple[Piece, ...], known: tuple[Size, Size] | None) -> tuple[Piece, ...]:
    """Drop what the known range of the base excludes."""
    if known is None:
        return pieces
    out = []
    for p in pieces:
        lo, hi = _low(p.lo, known[0]), _high(p.hi, known[1])
        if not _empty(lo, hi):
            out.append(Piece(lo, hi, p.a, p.c))
    return tuple(out)


def within(
    pieces: tuple[Piece, ...], intervals: tuple[tuple[Bound, Bound], ...] | None
) -> tuple[Piece, ...]:
    """Drop what lies outside of all intervals, which do not overlap."""
    if intervals is None:
        return pieces
    out = []
    for p in pieces:
        for a, b in intervals:
            lo, hi = _low(p.lo, a), _high(p.hi, b)
            if not _empty(lo, hi):
                out.append(Piece(lo, hi, p.a, p.c))
    return _tidy(out)


def trimmed(p: Piece, rows: Size) -> Piece | None:
    """The part of a piece whose values are inside ``[0, rows)``, or None."""
    if p.a != 1 or in_table(p, rows):
        return p
    lo, hi = _low(p.lo, -p.c), _high(p.hi, rows - p.c)
    return None if _empty(lo, hi) else Piece(lo, hi, p.a, p.c)


# ------------------------------------------------------------------ towards real arithmetic


class Guards:
    """Threshold and one-hot terms over a naming table."""

    def __init__(self, products: Products) -> None:
        self.products = products
        self.known = products.known

    def base_term(self, lin: Lin) -> Term:
        """The single term of an integer tensor.

        Raises:
            Unsupported: the tensor is a combination of several.
        """
        if len(lin) != 1 or lin[0][1] != 1:
            raise Unsupported("an integer tensor that is a combination of several")
        return lin[0][0]

    def threshold(self, lo: Box, hi: Box, t: Term, k: Size) -> Lin:
        """``[t >= k]``."""
        return self.products.threshold(lo, hi, t, k)

    def onehot(self, lo: Box, hi: Box, t: Term, position: Term) -> Lin:
        """``[t == position]`` where ``position`` is an iota term."""
        operands: tuple[Lin, ...] = (((t, ONE),), ((position, ONE),))
        return ((self.products.name(Instance("eq", (), lo, hi, operands)), ONE),)

    def inside(self, lo: Box, hi: Box, t: Term, p: Piece) -> Lin:
        """``[p.lo <= t < p.hi]``."""
        pairs: list[tuple[Term, Coef]] = []
        if p.lo is None:
            pairs.append((unit_term(len(lo)), ONE))
        else:
            pairs.extend(self.threshold(lo, hi, t, p.lo))
        if p.hi is not None:
            pairs.extend((u, -c) for u, c in self.threshold(lo, hi, t, p.hi))
        return lincomb(self.products.table, pairs)

    def value(self, lo: Box, hi: Box, lin: Lin, pieces: tuple[Piece, ...]) -> Lin:
        """The real value of a piecewise-affine function over one cell of its base."""
        if pieces == WHOLE:
            return lin
        table = self.products.table
        if len(pieces) == 1:
            return lincomb(table, self._affine(lin, pieces[0], len(lo)))
        t = self.base_term(lin)
        table.fire(lemmas.PIECES)
        out: list[tuple[Term, Coef]] = []
        for p in pieces:
            where = self.inside(lo, hi, t, p)
            if p.a:
                both = self.products.multiply(lo, hi, [(((t, ONE),), ONE), (where, ONE)])
                out.extend((u, c * Fraction(p.a)) for u, c in both)
            out.extend((u, c * from_size(p.c)) for u, c in where if p.c != 0)
        return lincomb(table, out)

    @staticmethod
    def _affine(lin: Lin, p: Piece, n: int) -> list[tuple[Term, Coef]]:
        out: list[tuple[Term, Coef]] = [(t, c * Fraction(p.a)) for t, c in lin] if p.a else []
        if p.c != 0:
            out.append((unit_term(n), from_size(p.c)))
        return out


def in_table(p: Piece, rows: Size) -> bool:
    """Whether the piece's values stay in ``[0, rows)`` for every base value in it."""
    if p.a == 0:
        return at_least(p.c, 0) and at_least(rows - 1, p.c)
    if p.a != 1 or p.lo is None or p.hi is None:
        return False
    return le(0, p.lo + p.c) and le(p.hi + p.c, rows)


def integral(x: Fraction | Size | None) -> Size | None:
    """A constant as an integer, or None."""
    if isinstance(x, Fraction):
        return x.numerator if x.denominator == 1 else None
    return x
