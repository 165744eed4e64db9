"""Sums of products over atoms, and the one question about them: is this sum zero?

A sum is compared by what it means, not by how it is spelled: named products, sums and linear
combinations are replaced by their definitions, the latest first (definitions only use earlier
atoms, so this ends), until the sum cancels. Reductions over intervals of one body are a step
function of their bounds, which is zero or not; so partial sums never have to be joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product as choices
from math import prod
from typing import Any
from weakref import proxy

from shardproof.certificate.canonical import Canonical
from shardproof.certificate.claims import IOTA, UNIT, Atom, Interval, Lin, Piece, Term
from shardproof.certificate.exact import (
    Aff,
    Coef,
    NotChecked,
    Quotient,
    Rational,
    coef_plus,
    coef_times,
    const,
    is_zero,
    minus,
    negative,
    over,
    quotient,
    shifted,
    total,
    variable,
)
from shardproof.certificate.guards import Guarding
from shardproof.certificate.products import (
    AtLeast,
    Base,
    Equal,
    Exp,
    Factor,
    Product,
    Read,
    Sum,
    affs,
    moved,
)
from shardproof.certificate.region import Range, Region, fresh
from shardproof.certificate.roots import root_of
from shardproof.ir.sizes import Poly, Size, at_least, product
from shardproof.ops.base import EXP, FILL, LOG, POSITIONS

COMPARE = "compare_ge"
MAX_TERMS = 4000
SPECIAL = frozenset((EXP, "ge", "eq", COMPARE))
OPEN = frozenset(("lin", "sum", "prod"))
MAX_POWER = 64
MAX_WRITTEN_OUT = 512
MAX_WORK = 3_000_000


@dataclass(slots=True)
class Noted:
    """What the check of a layer rested on, beside definitions: what it divides by, unknowns that
    were tied to a value, and whether it needed an assumption about an atom."""

    divisors: set[int] = field(default_factory=set)
    owned: set[int] = field(default_factory=set)
    assumed: bool = False


class Algebra:
    """Sums of products over the atoms of one certificate: ``full`` are all definitions, ``atoms``
    those that may be used (a copied layer is checked with some hidden). ``known`` are ranges of
    integer unknowns and ``spans`` several of one, ``boolean`` unknowns that are 0 or 1, ``linear``
    the places in which the functions of atoms that a node of the program computes are linear,
    ``divisors`` what the program divides by, and ``assumed`` the facts that the comparisons rested
    on."""

    def __init__(self, atoms: list[Atom]) -> None:
        self.full, self.atoms = atoms, list(atoms)
        self.known: dict[int, Range] = {}
        self.boolean: set[int] = set()
        self.linear: dict[int, frozenset[int]] = {}
        self.divisors: set[int] = set()
        self.assumed: dict[str, None] = {}
        self.spans: dict[int, list[Piece]] = {}
        me = proxy(self)  # no cycle, so that all is freed when the check ends
        self.guarding = Guarding(lambda atom: me.range(atom), self.spans)
        self.work = 0
        self.canonical = Canonical(self.atoms, self.linear)
        self.noted: Noted | None = None

    def range(self, atom: int) -> Range | None:
        """The values that an integer atom has, as one range. Positions along whole axes are
        inside them."""
        d = self.full[atom]
        if d.fn in POSITIONS:
            return 0, product(d.hi[q] - d.lo[q] for q in d.whole)
        return self.known.get(atom)

    def assume(self, text: str) -> None:
        """Note a fact about sizes that the proof rests on."""
        self.assumed[text] = None

    def assume_of_atom(self, text: str) -> None:
        """Note a fact about the values of an atom that the proof rests on."""
        self.assumed[text] = None
        if self.noted is not None:
            self.noted.assumed = True

    def divides(self, atom: int) -> None:
        """Note that the program divides by an atom."""
        self.divisors.add(atom)
        if self.noted is not None:
            self.noted.divisors.add(atom)

    # ---- terms as sums

    def read(self, t: Term, at: Sequence[Aff]) -> Read:
        """A term where its axes are ``at``."""
        if t.plain:
            return Read(t.atom, tuple(at), t.restr)
        index = []
        for o, ws in zip(t.off, t.walks, strict=True):
            if not ws:
                index.append(const(o))
            elif len(ws) == 1 and ws[0][1] == 1:
                a = at[ws[0][0]]
                index.append(a if o == 0 else shifted(a, o))
            else:
                index.append(total([(at[j], s) for j, s in ws], o))
        return Read(t.atom, tuple(index), t.restr)

    def sum_of(self, lin: Lin, at: Sequence[Aff]) -> Sum:
        """A linear combination where its axes are ``at``."""
        return [(Product((), ((self.read(t, at), 1),)), c) for t, c in lin]

    def operand_sum(self, r: Read, place: int, at: Sequence[Aff]) -> Sum:
        """One operand of an atom's definition, where the variables of that are ``at``."""
        return self.sum_of(self.operand(r, place), at)

    def operand(self, r: Read, place: int) -> Lin:
        """One operand of an atom's definition, with the intervals that ``r`` has for it."""
        lin = self.atoms[r.atom].operands[place]
        if not r.restr:
            return lin
        own = tuple((n[3], a, b) for n, a, b in r.restr if n[0] == "in" and n[2] == place)
        if not own:
            return lin
        t = lin[0][0]
        if len(lin) != 1 or {n for n, _, _ in own} & {n for n, _, _ in t.restr}:
            raise NotChecked("an interval of an operand that has one already")
        return ((t._replace(restr=t.restr + own), lin[0][1]),)

    # ---- definitions

    def opens(self, b: Base, e: Rational) -> bool:
        """Whether a factor may be replaced by its definition."""
        if type(b) is not Read:
            return isinstance(b, Exp) and self._sum_in_exp(b) is not None
        fn = self.atoms[b.atom].fn
        if fn not in OPEN:
            return False
        if fn == "lin":
            return e == 1 and not b.restr
        return e == 1 or (fn == "prod" and not b.restr)

    def opened(self, p: Product, k: int) -> Sum:
        """The product with its ``k``-th factor replaced by its definition."""
        b, e = p.factors[k]
        rest = (*p.factors[:k], *p.factors[k + 1 :])
        if isinstance(b, Exp):
            inner = self._sum_in_exp(b)
            assert inner is not None
            return [(Product(p.ranges, (*rest, *((f, x * e) for f, x in inner))), 1)]
        assert isinstance(b, Read)
        d = self.atoms[b.atom]
        if d.fn == "lin":
            return [
                (Product(p.ranges, (*rest, (self.read(t, b.at), 1))), c) for t, c in d.operands[0]
            ]
        ranges, at = self.bound_variables(b)
        factors: list[tuple[Base, Rational]] = []
        for place in range(len(d.operands)):
            ((t, power),) = self.operand(b, place)
            if isinstance(power, Quotient) or power.denominator != 1:
                raise NotChecked("a product with a power that is no whole number")
            if power != 1 and any(n[0] == "in" and n[2] == place for n, _, _ in b.restr):
                raise NotChecked("part of a sum under a power")
            factors.append((self.read(t, at), power * e))
        return [(Product((*p.ranges, *ranges), (*rest, *factors)), 1)]

    def bound_variables(self, r: Read) -> tuple[tuple[tuple[int, Size, Size], ...], list[Aff]]:
        """New variables for the reductions of an atom with their ranges; and the values of all
        its variables."""
        d = self.atoms[r.atom]
        at = list(r.at)
        ranges = []
        mine = {n[2]: (a, b) for n, a, b in r.restr if n[0] != "in"}
        for q in d.bound:
            v = fresh()
            ranges.append((v, *mine.get(q, (d.lo[q], d.hi[q]))))
            at.append(variable(v))
        return tuple(ranges), at

    # ---- is a sum zero

    def equal(self, a: Sum, b: Sum, region: Region) -> bool:
        """Whether two sums are equal on the whole region."""
        return a == b or self.zero([*a, *[(p, negative(c)) for p, c in b]], region)

    def zero(self, terms: Sum, region: Region) -> bool:
        """Whether a sum is zero on the whole region (False: not shown)."""
        for _ in range(400):
            terms = _collected(terms)
            if not terms:
                return True
            self.work += len(terms)
            if self.work > MAX_WORK:
                raise NotChecked("more comparisons than are allowed")
            new = self.simplified(terms, region)
            if new is not terms:
                terms = _collected(new)
            names = self._next(terms)
            if not names or len({_atoms(p) for p, _ in terms}) != len(terms):
                terms = self._left(terms)
                if not terms:
                    return True
                names = self._next(terms)
            if len(terms) > MAX_TERMS:
                raise NotChecked("a comparison with too many terms")
            if names:
                terms = self._open_all(terms, names)
                continue
            written_out = _written_out(terms)
            if written_out is None:
                return False
            terms = written_out
        return False

    def _next(self, terms: Sum) -> set[int]:
        """The atoms to open next: products, which make no term longer, or what stands
        alone and is later than these, which multiplies no terms; else the latest."""
        names = {b.atom for p, _ in terms for b, e in p.factors if self.opens(b, e)}
        short = {k for k in names if self.atoms[k].fn == "prod"}
        alone = {p.factors[0][0].atom for p, _ in terms if len(p.factors) == 1} & names
        if alone and max(alone) > max(short, default=0):
            return {max(alone)}
        return short or {*sorted(names)[-1:]}

    def _left(self, terms: Sum) -> Sum:
        """What is left when equal products up to intervals have cancelled."""
        groups: dict[Any, list[tuple[Product, dict[Any, Range], Coef]]] = {}
        for p, c in terms:
            key, boxes = self.canonical.key(p)
            groups.setdefault(key, []).append((p, boxes, c))
        return [(p, c) for g in groups.values() if not self.canonical.cancels(g) for p, _, c in g]

    def _open_all(self, terms: Sum, names: set[int]) -> Sum:
        done: Sum = []
        todo = terms[::-1]
        while todo:
            p, c = todo.pop()
            for k, (b, e) in enumerate(p.factors):
                if b.atom in names and self.opens(b, e):
                    todo += [(q, coef_times(c, x)) for q, x in self.opened(p, k)]
                    break
            else:
                done.append((p, c))
        return done

    # ---- one product

    def simplified(self, terms: Sum, region: Region) -> Sum:
        """Products without constants, positions that are sums, unused indices and guards that a
        rule decides; ``terms`` itself where all are so already."""
        out: Sum = []
        todo, same = list(terms), True
        while todo:
            p, c = todo.pop()
            if self._settled(p):
                new = self._summed(p) if p.ranges else None
            else:
                p, same = self.combined(p), False
                new = self._position(p) or self._power_in_exp(p)
                new = self._filled_in_exp(p) if new is None else new
                new = new or self._summed(p)
                new = self._root(p) if new is None else new
                new = self.guarding.step(p, region) if new is None else new
            if new is None:
                out.append((p, c))
            else:
                todo += [(q, coef_times(c, x)) for q, x in new if not is_zero(x)]
                same = False
                if len(out) + len(todo) > MAX_TERMS:
                    raise NotChecked("a comparison with too many terms")
        return terms if same else out

    def _settled(self, p: Product) -> bool:
        """Whether all factors are different terms that no rule but opening applies to."""
        for b, e in p.factors:
            if type(b) is not Read or b.atom <= IOTA or e != 1 or self.atoms[b.atom].fn in SPECIAL:
                return False
        n = len(p.factors)
        return n == 1 or len(set(_atoms(p))) == n or len({b for b, _ in p.factors}) == n

    def combined(self, p: Product) -> Product:
        """Powers of one factor joined; guards in their own form."""
        acc: dict[Base, Rational] = {}
        todo = list(p.factors)
        while todo:
            b, e = todo.pop()
            if isinstance(b, Read):
                if b.atom == UNIT:
                    continue
                inner = self.exponential(b)
                if inner is not None:
                    todo += [(f, x * e) for f, x in inner]
                    continue
                b = self._as_guard(b)
            elif isinstance(b, AtLeast):
                b = _threshold(b.base, b.least)
            acc[b] = acc[b] + e if b in acc else e
        factors: list[Factor] = []
        for b, e in acc.items():
            if e == 0:
                self._nonzero(b)
            else:
                factors.append((b, self._power(b, e)))
        return Product(p.ranges, tuple(factors))

    def _power(self, b: Base, e: Rational) -> Rational:
        """The power of a factor; that of a condition is 1."""
        if e == 1 or isinstance(b, Exp) or not self._is_boolean(b):
            return e
        if e < 0:
            raise NotChecked("a division by a condition")
        return 1

    def exponential(self, r: Read) -> list[Factor] | None:
        """``exp(sum of c t) = product of exp(t) ** c``, for an atom that is an exponential."""
        d = self.atoms[r.atom]
        if d.fn != EXP or r.restr or len(d.operands) != 1 or d.attrs:
            return None
        return _exponentials([(self.read(t, r.at), c) for t, c in d.operands[0]])

    def _sum_in_exp(self, b: Exp) -> list[Factor] | None:
        """The factors of the exponential of a named sum."""
        d = self.atoms[b.inner.atom]
        if d.fn != "lin" or b.inner.restr:
            return None
        return _exponentials([(self.read(t, b.inner.at), c) for t, c in d.operands[0]])

    def _power_in_exp(self, p: Product) -> Sum | None:
        """``exp(n log u) = u ** n``, where ``log u`` is defined."""
        for k, (b, e) in enumerate(p.factors):
            if not isinstance(b, Exp) or e.denominator != 1 or b.inner.restr:
                continue
            d = self.atoms[b.inner.atom]
            if d.fn != LOG or not d.operands[0] or (len(d.operands[0]) != 1 and e != 1):
                continue
            if b.inner.atom not in self.linear:
                continue  # no node of the program takes this logarithm
            terms = self.sum_of(d.operands[0], b.inner.at)
            if not all(self.positive(t) for t, _ in d.operands[0]):
                name = " + ".join(self.atoms[t.atom].name for t, _ in d.operands[0][:3])
                self.assume_of_atom(f"{name} is positive (the program takes its logarithm)")
            rest = (*p.factors[:k], *p.factors[k + 1 :])
            return [
                (Product(p.ranges, (*rest, *((f, e) for f, _ in q.factors))), self.raised(c, e))
                for q, c in terms
            ]
        return None

    def _filled_in_exp(self, p: Product) -> Sum | None:
        """``exp(c x)`` where ``x`` is minus infinity under a mask: ``exp(c x)`` where it is not,
        and 0 under the mask, for ``c > 0``."""
        for k, (b, e) in enumerate(p.factors):
            if not isinstance(b, Exp):
                continue
            d = self.atoms[b.inner.atom]
            if not _is_filled(d) or b.inner.restr or e <= 0:
                continue
            if b.inner.atom not in self.linear:
                continue  # no node of the program fills so: the mask may be no condition
            scores = [(self.read(t, b.inner.at), c) for t, c in d.operands[0]]
            factors = _exponentials(scores)
            if factors is None:
                continue
            rest = (*p.factors[:k], *p.factors[k + 1 :], *((f, c * e) for f, c in factors))
            mask = self.sum_of(d.operands[1], b.inner.at)
            hidden = [(Product(p.ranges, (*rest, *q.factors)), coef_times(c, -1)) for q, c in mask]
            return [(Product(p.ranges, rest), 1), *hidden]
        return None

    def _root(self, p: Product) -> Sum | None:
        """``root(x) ** q = x ** p``, where ``x`` is nowhere negative."""
        for k, (b, e) in enumerate(p.factors):
            found = root_of(self.atoms, b, e) if e != 1 else None
            if found is not None:
                x, c, n, rest = found
                assert isinstance(b, Read)
                left = ((b, rest),) if rest else ()
                factors = (*p.factors[:k], (self.read(x, b.at), n), *left, *p.factors[k + 1 :])
                return [(Product(p.ranges, factors), self.raised(c, n))]
        return None

    def raised(self, c: Coef, e: Rational) -> Coef:
        """A coefficient to a whole power; a negative one needs a coefficient that is not zero."""
        n, d = over(c)
        if e < 0:
            if n == 0:
                raise NotChecked("a division by zero")
            if not at_least(n, 1) and not at_least(-1, n):
                self.assume(f"{n} is not zero (the program divides by it)")
            n, d = d, n
        if not -MAX_POWER <= e <= MAX_POWER:
            raise NotChecked("a power that is too large")
        out: Coef = 1
        for _ in range(abs(int(e))):
            out = coef_times(out, quotient(n, d))
        return out

    def _is_boolean(self, b: Base) -> bool:
        if not isinstance(b, Read):
            return True
        return b.atom in self.boolean or self.atoms[b.atom].fn.startswith("compare_")

    def _as_guard(self, r: Read) -> Base:
        d = self.atoms[r.atom]
        if d.fn not in ("ge", "eq", COMPARE):
            return r
        pair = len(d.operands) == 2 and all(len(x) == 1 and x[0][1] == 1 for x in d.operands)
        if d.fn == "ge":
            ((t, c),) = d.operands[0]
            whole = len(d.attrs) == 1 and type(d.attrs[0]) in (int, Poly)
            if len(d.operands) == 1 and c == 1 and whole and not r.restr:
                return _threshold(self.read(t, r.at), d.attrs[0])
        elif pair and not r.restr:
            t, u = d.operands[0][0][0], d.operands[1][0][0]
            if d.fn == "eq" and u.atom == IOTA:
                return Equal(self.read(t, r.at), self.read(u, r.at).at[0])
            if d.fn == COMPARE and not d.attrs and t.atom == u.atom == IOTA:
                gap = minus(self.read(t, r.at).at[0], self.read(u, r.at).at[0])
                return AtLeast(Read(IOTA, (gap,)), 0)
        if d.fn == COMPARE:
            return r
        raise NotChecked("a guard of another form")

    @staticmethod
    def _position(p: Product) -> Sum | None:
        """``iota[c + s i + ...] = c + s iota[i] + ...``."""
        for k, (b, e) in enumerate(p.factors):
            if not isinstance(b, Read) or b.atom != IOTA or e != 1:
                continue
            c, slopes = b.at[0]
            if c == 0 and len(slopes) == 1 and slopes[0][1] == 1:
                continue
            rest = (*p.factors[:k], *p.factors[k + 1 :])
            out: Sum = [(p._replace(factors=rest), quotient(c, 1))]
            for v, s in slopes:
                one = (Read(IOTA, (variable(v),)), 1)
                out.append((p._replace(factors=(*rest, one)), quotient(s, 1)))
            return out
        return None

    @staticmethod
    def _summed(p: Product) -> Sum | None:
        """A sum over no index, over one, or over an index that nothing reads."""
        used = {w for b, _ in p.factors for a in affs(b) for w, _ in a[1]}
        for k, (v, lo, hi) in enumerate(p.ranges):
            rest = (*p.ranges[:k], *p.ranges[k + 1 :])
            n = hi - lo
            if n == 1:
                value = {v: const(lo)}
                return [(Product(rest, tuple((moved(b, value), e) for b, e in p.factors)), 1)]
            if n == 0 or v not in used:
                return [(p._replace(ranges=rest), quotient(n, 1))]
        return None

    def _nonzero(self, b: Base) -> None:
        """``x / x = 1`` rests on an assumption unless ``x`` is positive."""
        if isinstance(b, Exp):
            if _is_filled(self.atoms[b.inner.atom]):
                raise NotChecked("a division by the exponential of minus infinity")
            return
        if not isinstance(b, Read):
            raise NotChecked("a division by a condition")
        if not self.positive(b):
            if b.atom not in self.divisors:
                raise NotChecked("a quotient of something that the program does not divide by")
            if not _never_empty(b.restr):
                raise NotChecked("a division by part of a sum that may be empty")
            name = self.atoms[b.atom].name
            self.assume_of_atom(f"{name} is nowhere zero (the program divides by it)")

    def positive(self, t: Term | Read) -> bool:
        """Exponentials, and products and sums of them; an empty sum is zero."""
        d = self.atoms[t.atom]
        if t.atom == UNIT or d.fn == EXP:
            return True
        spans = [*t.restr, *(((), d.lo[q], d.hi[q]) for q in d.bound)]
        return (
            d.fn in ("prod", "sum")
            and _never_empty(spans)
            and all(self.positive(x[0][0]) for x in d.operands)
        )


# ------------------------------------------------------------------ helpers


def _threshold(base: Read, k: Size) -> AtLeast:
    """``[base >= k]``; a position is moved so that ``k`` is 0."""
    if base.atom == IOTA:
        return AtLeast(base._replace(at=(total(((base.at[0], 1),), -k),)), 0)
    return AtLeast(base, k)


def _never_empty(spans: Sequence[Interval]) -> bool:
    return all(at_least(b, a + 1) for _, a, b in spans)


def _is_filled(d: Atom) -> bool:
    """Whether an atom is a value with minus infinity under a mask."""
    return d.fn == FILL and len(d.operands) == 2 and tuple(d.attrs) == (float("-inf"),)


def _exponentials(terms: list[tuple[Read, Coef]]) -> list[Factor] | None:
    if any(isinstance(c, Quotient) for _, c in terms):
        return None
    return [(Exp(t), c) for t, c in terms if not isinstance(c, Quotient)]


def _written_out(terms: Sum) -> Sum | None:
    """Short sums written out, summand by summand: so sums over every s-th index are compared with
    the sum over all. None if there is no sum, or a long one."""
    out: Sum = []
    if not any(p.ranges for p, _ in terms):
        return None
    for p, c in terms:
        spans = []
        for _, lo, hi in p.ranges:
            if not isinstance(lo, int) or not isinstance(hi, int):
                return None
            spans.append(range(lo, hi))
        if len(out) + prod(map(len, spans)) > MAX_WRITTEN_OUT:
            return None
        for at in choices(*spans):
            value = {v: const(x) for (v, _, _), x in zip(p.ranges, at, strict=True)}
            out.append((Product((), tuple((moved(b, value), e) for b, e in p.factors)), c))
    return out


def _atoms(p: Product) -> tuple[int, ...]:
    """The atoms of a product; products that cancel have the same."""
    return tuple(sorted([b.atom for b, _ in p.factors]))


def _collected(terms: Sum) -> Sum:
    """With equal products added up; factors stand in the order of their atoms."""
    acc: dict[Product, Coef] = {}
    for p, c in terms:
        if len(p.factors) > 1:
            p = Product(p.ranges, tuple(sorted(p.factors, key=_atom)))
        acc[p] = coef_plus(acc[p], c) if p in acc else c
    return [(p, c) for p, c in acc.items() if not is_zero(c)]


def _atom(f: Factor) -> int:
    return f[0].atom
