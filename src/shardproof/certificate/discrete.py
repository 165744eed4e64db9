"""Integers, conditions and lookups.

A claim may say that a tensor is a piecewise-affine function of another integer tensor, its *base*
(ids minus the first id of a rank, the mask of ids of other ranks). That is checked on its own, by
working the function out again; its real value is then a sum over thresholds of the base. A lookup
``x[t]`` is ``sum over v of [t == v] x[v]``, so a part of a table is a part of a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shardproof.certificate import pieces as pw
from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import IOTA, UNIT, Meaning, Piece
from shardproof.certificate.exact import Aff, NotChecked, const, minus, quotient, total
from shardproof.certificate.functions import Functions
from shardproof.certificate.products import AtLeast, Equal, Product, Read, Sum, sole
from shardproof.certificate.region import Region, Split
from shardproof.certificate.rules import (
    Moved,
    Source,
    Tensor,
    number,
    scaled,
    spread,
    times,
    under_sum,
    unit,
)
from shardproof.ir.graph import Value, is_bool, is_integer
from shardproof.ir.sizes import Size, at_least, smax, smin
from shardproof.ops import base as alg

if TYPE_CHECKING:
    from shardproof.certificate.claimed import Claimed

LOOKUPS = alg.TakeRows | alg.TakeAlong | alg.AddRows | alg.PutAlong
DISCRETE = LOOKUPS | alg.Compare | alg.Logic | alg.Select
View = tuple[Source, Sequence[Piece]]


class Discrete:
    """Checks of one certificate. ``assumed`` are ranges of ids that a sequential lookup states;
    ``stating`` is set while the sequential graph is checked."""

    def __init__(self, algebra: Algebra, functions: Functions) -> None:
        self.algebra, self.functions = algebra, functions
        self.assumed: dict[str, None] = {}
        self.stating = True
        self.allowed = algebra.spans

    def check(
        self, run: Claimed, rule: alg.Algebra, operands: Sequence[Tensor], v: Value,
        types: Sequence[Any], m: Meaning,
    ) -> bool:  # fmt: skip
        """Check a claim that is about integers; False if it is none."""
        if m.base is None and not isinstance(rule, DISCRETE):
            return False
        sources = [run.source(x) for x in operands]
        if m.base is not None:
            views = [self.view(run, x, t.dtype) for x, t in zip(operands, types, strict=True)]
            base = run.source(m.base)
            pw.well_formed(m.pieces)
            constants = [_constant(x) for x in operands]
            if not isinstance(rule, alg.Select):
                constants = [None for _ in operands]
            views = [
                w if c is None else (w[0], (Piece(None, None, 0, c),))
                for w, c in zip(views, constants, strict=True)
            ]
            used, found = self._worked_out(rule, views, v)
            for b, c in zip(used, constants, strict=True):
                if c is None:
                    run.equals(m.base, spread(b, v.shape))
            if not pw.same(found, m.pieces):
                raise NotChecked("the claimed function of the ids is another one")
            run.equals(m, Source(v.shape, lambda r, at: self.value(base.read(r, at), m.pieces)))
            return True
        if isinstance(rule, LOOKUPS):
            views = [self.view(run, x, t.dtype) if k == 1 else (sources[k], pw.WHOLE)
                     for k, (x, t) in enumerate(zip(operands, types, strict=True))]  # fmt: skip
            run.equals(m, self._lookup(rule, sources, views[1], v))
            return True
        wide = [spread(s, v.shape) for s in sources]
        run.cells(m, lambda r, at, x: self._arithmetic(rule, [s.read(r, at) for s in wide], r, x))
        return True

    # ---- integer views

    def view(self, run: Claimed, m: Tensor, dtype: str) -> View:
        """A tensor as a function of its base, or of itself."""
        if m.base is not None:
            return run.source(m.base), m.pieces
        return run.source(m), pw.WHOLE if is_integer(dtype) or is_bool(dtype) else ()

    def _worked_out(
        self, rule: alg.Algebra, views: Sequence[View], v: Value
    ) -> tuple[list[Source], list[Piece]]:
        """The bases that the result depends on, and the function of them."""
        bases, parts = [b for b, _ in views], [p for _, p in views]
        if any(not p for p in parts):
            raise NotChecked("an integer view of real numbers")
        match rule:
            case alg.Linear():
                ks, c = [_whole(k) for k in rule.coefs], _whole(rule.constant)
                return bases, pw.combine(parts, lambda x: _linear(ks, c, x))
            case alg.Monomial() if len(parts) == 2 and all(e == 1 for e in rule.exponents):
                return bases, pw.combine(parts, pw.times)
            case alg.Logic():
                return bases, pw.combine(parts, lambda x: pw.logic(rule.kind, x))
            case alg.Compare() if len(parts) == 1 and not isinstance(rule.value, float):
                assert rule.value is not None
                return bases, pw.compared(parts[0], rule.kind, _whole(rule.value))
            case alg.Select():
                return self._selected(rule, bases, parts)
        raise NotChecked("an integer view of another operator")

    @staticmethod
    def _selected(
        rule: alg.Select, bases: list[Source], parts: list[Sequence[Piece]]
    ) -> tuple[list[Source], list[Piece]]:
        if rule.other is not None:  # data first, then the mask
            if isinstance(rule.other, float):
                raise NotChecked("an infinite integer")
            c = _whole(rule.other)
            return bases, pw.combine(parts, lambda x: (0, c) if pw.truth(x[1]) else x[0])
        return bases, pw.combine(parts, lambda x: x[1] if pw.truth(x[0]) else x[2])

    def value(self, base: Sum, pieces: Sequence[Piece]) -> Sum:
        """The real value of a function of the base."""
        out: Sum = []
        for p in pieces:
            if p.a == 0 and p.c == 0:
                continue
            line = [*(scaled(base, p.a) if p.a else []), *unit(quotient(p.c, 1))]
            if p.lo is None and p.hi is None:
                out += line
            else:
                out += times([self.where(base, p), line])
        return out

    @staticmethod
    def single(base: Sum) -> Read:
        """The one term of an integer tensor."""
        found = sole(base)
        if found is None:
            raise NotChecked("an integer tensor that is a combination of several")
        return found

    def where(self, base: Sum, p: Piece) -> Sum:
        """``[p.lo <= base < p.hi]``."""
        t = self.single(base)
        out: Sum = []
        for end, sign in ((p.lo, 1), (p.hi, -1)):
            if end is not None:
                out.append((Product((), ((AtLeast(t, end), 1),)), sign))
            elif sign == 1:
                out += unit(1)
        return out

    # ---- conditions and choices as arithmetic

    def _arithmetic(
        self, rule: alg.Algebra, x: Sequence[Sum], region: Region, claimed: Sum
    ) -> bool:
        one = unit(1)
        match rule:
            case alg.Compare():
                found = self._comparison(rule, x, region, claimed)
            case alg.Logic(kind="not"):
                found = [*one, *scaled(x[0], -1)]
            case alg.Logic():
                both = times(x)
                by = {"and": 1, "or": -1, "xor": -2}[rule.kind]
                found = both if rule.kind == "and" else [*x[0], *x[1], *scaled(both, by)]
            case alg.Select() if isinstance(rule.other, float):
                fill = alg.Pointwise(alg.FILL, (rule.other,))
                found = self.functions.scalar(fill, x, region, claimed)
            case alg.Select():
                other = unit(number(rule.other)) if rule.other is not None else []
                mask, yes, no = (x[1], other, x[0]) if rule.other is not None else x
                rest = [*one, *scaled(mask, -1)]
                found = [*times([mask, yes]), *times([rest, no])]
            case _:
                return False
        return self.algebra.equal(found, claimed, region)

    def _comparison(self, a: alg.Compare, x: Sequence[Sum], region: Region, claimed: Sum) -> Sum:
        kind, swap, flip = a.kind, False, False
        attrs: tuple[Any, ...] = ()
        if len(x) == 1:
            attrs = (a.value,)
        elif kind in ("gt", "lt"):  # a > b is not (b >= a)
            kind, swap, flip = "ge", kind == "gt", True
        elif kind == "le":
            kind, swap = "ge", True
        elif kind == "ne":
            kind, flip = "eq", True
        x = x[::-1] if swap else x
        places = [position(y) for y in x]
        if kind == "ge" and len(places) == 2 and places[0] is not None and places[1] is not None:
            gap = minus(places[0], places[1])
            found: Sum = [(Product((), ((AtLeast(Read(IOTA, (gap,)), 0), 1),)), 1)]
        else:
            rule = alg.Pointwise(f"compare_{kind}", attrs, commutative=kind == "eq" and not attrs)
            found = self.functions.scalar(rule, x, region, claimed)
        return [*unit(1), *scaled(found, -1)] if flip else found

    # ---- lookups

    def _lookup(self, rule: alg.Algebra, sources: Sequence[Source], view: View, v: Value) -> Source:
        base, pieces = view
        n = len(base.shape)
        match rule:
            case alg.TakeRows():
                rows = sources[0].shape[0]

                def read(r: Region, at: Sequence[Aff]) -> Sum:
                    return self._take(sources[0], 0, at[n:], base.read(r, at[:n]), pieces, rows, r)
            case alg.TakeAlong():
                rows = sources[0].shape[-1]

                def read(r: Region, at: Sequence[Aff]) -> Sum:
                    return self._take(sources[0], n, at, base.read(r, at), pieces, rows, r)
            case alg.AddRows():

                def read(r: Region, at: Sequence[Aff]) -> Sum:
                    def build(q: Region, out: Sequence[Aff], p: Sequence[Aff]) -> Sum:
                        hit = self._hits(base.read(q, p), pieces, rule.rows, out[0], q)
                        return times([hit, sources[0].read(q, [*p, *out[1:]])])

                    return under_sum(r, base.shape, build, at)
            case _:
                rows = sources[0].shape[-1]

                def read(r: Region, at: Sequence[Aff]) -> Sum:
                    hit = self._hits(base.read(r, at[:-1]), pieces, rows, at[-1], r)
                    old, new = sources[0].read(r, at), sources[2].read(r, at[:-1])
                    return [*old, *times([scaled(hit, -1), old]), *times([hit, new])]

        return Source(v.shape, read)

    def _inside(self, base: Sum, pieces: Sequence[Piece], rows: Size) -> list[Piece]:
        """The pieces that occur, each of which stays inside a table of ``rows`` rows."""
        found = self._stated(self.single(base).atom, pieces, rows)
        if not found or not all(pw.inside(p, rows) for p in found):
            raise NotChecked("an index that may leave its table")
        return found

    def state(self, rows: Size, m: Meaning, inputs: set[int]) -> None:
        """Take note of what a sequential lookup by ``m`` says of the inputs, before anything else
        is checked. That ``m`` is what is claimed of it is checked in its turn."""
        if m.base is not None:
            pw.well_formed(m.pieces)
        for c in (m.base or m).cells:
            if len(c.lin) == 1 and c.lin[0][1] == 1 and c.lin[0][0].atom in inputs:
                self._stated(c.lin[0][0].atom, m.pieces if m.base is not None else pw.WHOLE, rows)

    def _stated(self, atom: int, pieces: Sequence[Piece], rows: Size) -> list[Piece]:
        """The pieces that occur. A lookup of the sequential program states which these are."""
        if tuple(pieces) == pw.WHOLE and self.stating and not self.algebra.full[atom].fn:
            old = self.algebra.known.get(atom)
            self.algebra.known[atom] = (
                (0, rows) if old is None else (smax(old[0], 0), smin(old[1], rows))
            )
            name = self.algebra.atoms[atom].name
            if self.algebra.known[atom] != old:
                text = f"0 <= {name} < {rows} (it indexes a table of {rows} rows)"
                self.assumed[text] = None
        known = self.algebra.range(atom)
        found = pw.clip(pieces, known)
        if known is None and atom != IOTA:
            found = self._allowed(atom, found, rows)
        return found

    def _allowed(self, atom: int, pieces: list[Piece], rows: Size) -> list[Piece]:
        """Masked ids of the sequential program: where an id is not masked it indexes the table,
        which is assumed, as for ids without a mask."""
        name = self.algebra.atoms[atom].name
        if self.stating and atom not in self.allowed and not self.algebra.full[atom].fn:
            kept = [q for p in pieces if (q := pw.trimmed(p, rows)) is not None]
            if kept != pieces and kept and all(pw.inside(p, rows) for p in kept):
                self.allowed[atom] = kept
                spans = " or ".join(f"{p.lo} <= {name} < {p.hi}" for p in kept)
                self.assumed[f"{spans} (it indexes a table of {rows} rows)"] = None
        within = self.allowed.get(atom)
        return pieces if within is None else [q for p in within for q in pw.cut(pieces, p)]

    def _take(
        self, x: Source, dim: int, at: Sequence[Aff], base: Sum, pieces: Sequence[Piece],
        rows: Size, region: Region,
    ) -> Sum:  # fmt: skip
        """``x`` at an index of which coordinate ``dim`` is a function of the base."""
        t = self.single(base)
        if t.atom == IOTA and len(pieces) == 1:
            row = total(((t.at[0], pieces[0].a),), pieces[0].c)
            if not region.inside(row, 0, rows):
                raise NotChecked("a position that may leave the table")
            return x.read(region, [*at[:dim], row, *at[dim:]])
        out: Sum = []
        for p in self._inside(base, pieces, rows):
            if p.a == 0:
                one = x.read(region, [*at[:dim], const(p.c), *at[dim:]])
                out += times([self.where(base, p), one])
                continue
            assert p.lo is not None
            assert p.hi is not None
            first, c = p.lo, p.c

            def build(
                r: Region, here: Sequence[Aff], v: Sequence[Aff], first: Size = first, c: Size = c
            ) -> Sum:
                place = total(((v[0], 1),), first)
                hot = Equal(Read(t.atom, tuple(here[len(at) :]), t.restr), place)
                row = total(((place, 1),), c)
                value = x.read(r, [*here[:dim], row, *here[dim : len(at)]])
                return times([[(Product((), ((hot, 1),)), 1)], value])

            out += under_sum(region, [p.hi - p.lo], build, [*at, *t.at])
        return out

    def _hits(self, base: Sum, pieces: Sequence[Piece], rows: Size, v: Aff, region: Region) -> Sum:
        """``[index == v]``."""
        t = self.single(base)
        out: Sum = []
        for p in self._inside(base, pieces, rows):
            if p.a == 1:
                hot: Sum = [(Product((), ((Equal(t, total(((v, 1),), -p.c)), 1),)), 1)]
                out += times([hot, self.where(base, p)])
                continue
            first, last = region.bounds(v)
            if at_least(p.c, last + 1) or at_least(first, p.c + 1):
                continue
            if v != const(p.c):
                if len(v[1]) != 1 or v[1][0][1] != 1:
                    raise NotChecked("a write at an index that is no single variable")
                at = p.c - v[0]
                raise Split(v[1][0][0], at if at_least(p.c, first + 1) else at + 1)
            out += self.where(base, p)
        return out


def _constant(m: Tensor) -> int | None:
    """The integer that every element of a tensor is claimed to be; it is a function of anything."""
    if isinstance(m, Moved):
        return _constant(m.operands[0]) if len(m.operands) == 1 else None
    if m.base is not None or len({c.lin for c in m.cells}) != 1:
        return None
    lin = m.cells[0].lin
    if not lin:
        return 0
    (t, c), *more = lin
    return None if more or t.atom != UNIT or not isinstance(c, int) else c


def _linear(ks: Sequence[Any], c: Any, lines: Sequence[pw.Line]) -> pw.Line:
    slope = 0
    for k, (a, d) in zip(ks, lines, strict=True):
        if a != 0 and not isinstance(k, int):
            raise NotChecked("an index with a symbolic stride")
        slope = slope + k * a if a != 0 else slope
        c = c + k * d
    return slope, c


def _whole(x: Any) -> Any:
    """A constant as an integer."""
    if isinstance(x, Fraction):
        if x.denominator != 1:
            raise NotChecked("an index with a fraction")
        return x.numerator
    return x


def position(x: Sum) -> Aff | None:
    """A sum of positions and constants as one index."""
    parts: list[tuple[Aff, Size]] = []
    for p, c in x:
        whole = c.numerator if isinstance(c, Fraction) and c.denominator == 1 else c
        if p.ranges or not isinstance(whole, int) or len(p.factors) > 1:
            return None
        b, e = p.factors[0] if p.factors else (Read(IOTA, (const(1),)), 1)
        if not isinstance(b, Read) or b.atom != IOTA or e != 1 or b.restr:
            return None
        parts.append((b.at[0], whole))
    return total(parts)
