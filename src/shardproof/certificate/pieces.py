"""Piecewise-affine functions of an integer: ``a * t + c`` where ``lo <= t < hi``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardproof.certificate.claims import Piece
from shardproof.certificate.exact import NotChecked
from shardproof.ir.sizes import Size, at_least, smax, smin

Pieces = Sequence[Piece]
Line = tuple[int, Size]  # a, c
WHOLE = (Piece(None, None, 1, 0),)


def low(a: Size | None, b: Size | None) -> Size | None:
    return b if a is None else a if b is None else smax(a, b)


def high(a: Size | None, b: Size | None) -> Size | None:
    return b if a is None else a if b is None else smin(a, b)


def empty(lo: Size | None, hi: Size | None) -> bool:
    return lo is not None and hi is not None and at_least(lo, hi)


def well_formed(p: Pieces) -> None:
    """The pieces cover all integers once, in order."""
    ends: list[Size | None] = [None, *(x.hi for x in p)]
    for k, x in enumerate(p):
        a, b = ends[k], x.hi
        if (
            x.lo != a
            or (k and a is None)
            or (a is not None and b is not None and not at_least(b, a))
        ):
            raise NotChecked("pieces that do not cover the integers in order")
    if not p or p[-1].hi is not None:
        raise NotChecked("pieces that do not cover the integers")


def combine(parts: Sequence[Pieces], f: Callable[[Sequence[Line]], Line]) -> list[Piece]:
    """A function of several functions of one integer."""
    out: list[tuple[Size | None, Size | None, tuple[Line, ...]]] = [(None, None, ())]
    for p in parts:
        out = [
            (lo, hi, (*lines, (x.a, x.c)))
            for a, b, lines in out
            for x in p
            if not empty(lo := low(a, x.lo), hi := high(b, x.hi))
        ]
    return [Piece(lo, hi, *f(lines)) for lo, hi, lines in out]


def same(p: Pieces, q: Pieces) -> bool:
    """Whether two functions are equal; pieces not shown to be empty count."""
    return all(
        (x.a, x.c) == (y.a, y.c)
        for x in p
        for y in q
        if not empty(low(x.lo, y.lo), high(x.hi, y.hi))
    )


def clip(p: Pieces, known: tuple[Size, Size] | None) -> list[Piece]:
    """The pieces inside the known range of the integer."""
    return list(p) if known is None else cut(p, Piece(*known, 0, 0))


def cut(p: Pieces, to: Piece) -> list[Piece]:
    """The pieces inside the interval of another."""
    out = [x._replace(lo=low(x.lo, to.lo), hi=high(x.hi, to.hi)) for x in p]
    return [x for x in out if not empty(x.lo, x.hi)]


def trimmed(p: Piece, rows: Size) -> Piece | None:
    """The part of a piece whose values lie in ``[0, rows)``, or None."""
    if p.a != 1 or inside(p, rows):
        return p
    lo, hi = low(p.lo, -p.c), high(p.hi, rows - p.c)
    return None if empty(lo, hi) else p._replace(lo=lo, hi=hi)


def compared(p: Pieces, kind: str, k: Size) -> list[Piece]:
    """The function ``[p <kind> k]``."""
    if kind in ("le", "gt"):
        kind, k = {"le": "lt", "gt": "ge"}[kind], k + 1
    if kind in ("eq", "ne"):
        less, more = compared(p, "lt", k), compared(p, "ge", k + 1)
        flip = kind == "eq"
        return combine((less, more), lambda x: (0, 1 - _one(x) if flip else _one(x)))
    yes = 1 if kind == "lt" else 0
    out = []
    for x in p:
        if x.a == 0:
            less_than = not at_least(x.c, k)
            if less_than and not at_least(k - 1, x.c):
                raise NotChecked(f"the order of {x.c} and {k} is not known")
            out.append(Piece(x.lo, x.hi, 0, yes if less_than else 1 - yes))
            continue
        if x.a != 1:
            raise NotChecked("a comparison of a scaled index")
        out.append(Piece(x.lo, high(x.hi, k - x.c), 0, yes))
        out.append(Piece(low(x.lo, k - x.c), x.hi, 0, 1 - yes))
    return [x for x in out if not empty(x.lo, x.hi)]


def _one(lines: Sequence[Line]) -> int:
    """Whether one of two conditions holds."""
    return max(truth(x) for x in lines)


def truth(x: Line) -> int:
    """A condition as 0 or 1."""
    if x[0] != 0 or x[1] not in (0, 1) or not isinstance(x[1], int):
        raise NotChecked("a condition that is no constant on a piece")
    return int(x[1])


def logic(kind: str, lines: Sequence[Line]) -> Line:
    """and, or, xor, not."""
    x = [truth(line) for line in lines]
    if kind == "not":
        return 0, 1 - x[0]
    return 0, {"and": x[0] & x[1], "or": x[0] | x[1], "xor": x[0] ^ x[1]}[kind]


def times(lines: Sequence[Line]) -> Line:
    """The product of two functions of which one is constant."""
    (a, c), (b, d) = lines
    if a == 0 and b == 0:
        return 0, c * d
    (s, x), k = ((a, c), d) if b == 0 else ((b, d), c)
    if (a != 0 and b != 0) or not isinstance(k, int):
        raise NotChecked("a product of two indices")
    return s * k, x * k


def inside(p: Piece, rows: Size) -> bool:
    """Whether the piece's values lie in ``[0, rows)``."""
    if p.a == 0:
        return at_least(p.c, 0) and at_least(rows - 1, p.c)
    if p.a != 1 or p.lo is None or p.hi is None:
        return False
    return at_least(p.lo + p.c, 0) and at_least(rows, p.hi + p.c)
