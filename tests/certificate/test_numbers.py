"""Rules of sums of products against numbers: whatever a rule makes of a random product has its
value, and what is called equal is equal."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product as choices
from typing import Any

import pytest

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import IOTA, Atom, Lin, Piece, Term
from shardproof.certificate.exact import Aff, NotChecked
from shardproof.certificate.guards import turned
from shardproof.certificate.products import AtLeast, Base, Equal, Product, Read, Sum
from shardproof.certificate.region import Region, Split

FREE, REACH = 10**7, 3
HERE = Region({FREE: (0, REACH)}, ())
IDS = (0, 4)  # the values of atom 4


def axis(k: int, off: int = 0) -> Lin:
    return ((Term.of(k, ((0, 1),), (off,), ()), 1),)


def second(k: int) -> Lin:
    return ((Term.of(k, (None, (0, 1)), (0,), ()), 1),)


def both(k: int) -> Lin:
    return ((Term.of(k, ((0, 1), (0, 1)), (0,), ()), 1),)


def defined(fn: str, *operands: Lin, hi: Any = (9,), n_free: int = 1, attrs: Any = ()) -> Atom:
    return Atom(fn, fn, attrs, operands, (0,) * len(hi), hi, n_free, ())


# 2, 3 numbers and 4 ids of one axis; 5 sum_q x[q]; 6 sum_q x[q] y[i + q]; 7 x[i] y[i];
# 8 2 x[i] - 3 y[i + 1]; 9 [t[i] >= 2]; 10 [t[i] == j]
ATOMS = [
    *(Atom(name, "", (), (), (), (), int(k > 0), ()) for k, name in enumerate("1ixyt")),
    defined("sum", axis(2), hi=(6,), n_free=0),
    defined("sum", second(2), both(3), hi=(9, 3)),
    defined("prod", axis(2), axis(3)),
    defined("lin", ((axis(2)[0][0], 2), (axis(3, 1)[0][0], -3))),
    defined("ge", axis(4), attrs=(2,)),
    defined("eq", ((Term.of(4, ((0, 1), None), (0,), ()), 1),), second(1), hi=(9, 9), n_free=2),
]  # fmt: skip
ARITY = {1: 1, 2: 1, 3: 1, 4: 1, 5: 0, 6: 1, 7: 1, 8: 1, 9: 1, 10: 2}
WHOLE = {5: (("sum", 5, 0), 6), 6: (("sum", 6, 1), 3)}


def algebra(spans: bool = False) -> Algebra:
    out = Algebra(list(ATOMS))
    if spans:
        out.spans[4] = [Piece(0, 1, 1, 0), Piece(2, 4, 1, 0)]
    else:
        out.known[4] = IDS
    return out


# ------------------------------------------------------------------ values


@cache
def number(seed: int, atom: int, i: int, gap: bool) -> Fraction:
    rng = random.Random(f"{seed} {atom} {i}")
    if atom == 4:
        return Fraction(rng.choice([0, 2, 3] if gap else [0, 1, 2, 3]))
    return Fraction(rng.randint(1, 9), rng.randint(1, 4)) * rng.choice([1, -1])


class Values:
    """The values of products for one choice of what the unknowns are."""

    def __init__(self, seed: int, gap: bool) -> None:
        self.seed, self.gap = seed, gap

    def at(self, a: Aff, where: dict[int, int]) -> int:
        c: Any = a[0]
        return int(c + sum(where[v] * s for v, s in a[1]))  # type: ignore[misc]

    def atom(self, k: int, at: tuple[int, ...], restr: Any = ()) -> Fraction:
        if k == 0:
            return Fraction(1)
        if k == 1:
            return Fraction(at[0])
        d = ATOMS[k]
        if not d.fn:
            return number(self.seed, k, at[0], self.gap)
        (lo, hi) = restr[0][1:] if restr else (0, d.hi[-1])
        span = range(lo, hi) if d.fn == "sum" else range(1)
        total = Fraction(0)
        for q in span:
            index = (*at, q) if d.fn == "sum" else at
            values = [self.operand(op, index) for op in d.operands]
            total += self.function(d, values)
        return total

    def operand(self, op: Lin, index: tuple[int, ...]) -> list[tuple[Fraction, Any]]:
        out = []
        for t, c in op:
            at = [int(o) for o in t.off]  # type: ignore[call-overload]
            for j, w in enumerate(t.ax):
                if w is not None:
                    at[w[0]] += index[j] * int(w[1])  # type: ignore[call-overload]
            out.append((self.atom(t.atom, tuple(at)), c))
        return out

    @staticmethod
    def function(d: Atom, values: list[list[tuple[Fraction, Any]]]) -> Fraction:
        if d.fn == "lin":
            return sum((v * c for v, c in values[0]), Fraction(0))
        firsts = [v[0][0] for v in values]
        if d.fn == "ge":
            return Fraction(firsts[0] >= d.attrs[0])
        if d.fn == "eq":
            return Fraction(firsts[0] == firsts[1])
        out = Fraction(1)
        for v in firsts:
            out *= v
        return out

    def base(self, b: Base, where: dict[int, int]) -> Fraction:
        if isinstance(b, Read):
            return self.atom(b.atom, tuple(self.at(a, where) for a in b.at), b.restr)
        assert isinstance(b, AtLeast | Equal)
        value = self.base(b.base, where)
        if isinstance(b, AtLeast):
            return Fraction(value >= b.least)  # type: ignore[operator]
        return Fraction(value == self.at(b.position, where))

    def sum(self, terms: Sum, free: int) -> Fraction:
        total = Fraction(0)
        for p, c in terms:
            for at in choices(*(range(lo, hi) for _, lo, hi in p.ranges)):  # type: ignore[arg-type]
                where = {FREE: free, **{v: x for (v, _, _), x in zip(p.ranges, at, strict=True)}}
                value = Fraction(1)
                for b, e in p.factors:
                    value *= self.base(b, where) ** e
                total += value * c  # type: ignore[operator]
        return total


def same(a: Sum, b: Sum, gap: bool = False) -> bool:
    """Whether two sums have the same values for some choices of the unknowns."""
    return all(
        v.sum(a, i) == v.sum(b, i) for v in (Values(s, gap) for s in range(4)) for i in range(REACH)
    )


# ------------------------------------------------------------------ random sums


class Draw:
    """Random products over the atoms."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.names = iter(range(10**6, FREE))

    def index(self, names: list[int]) -> Aff:
        slopes = {v: self.rng.choice([1, 1, 1, 2, 3, -1]) for v in names if self.rng.random() < 0.7}
        return self.rng.choice([0, 0, 0, 1, 2, -1, 3]), tuple(sorted(slopes.items()))

    def read(self, k: int, names: list[int]) -> Read:
        restr = ()
        if k in WHOLE and self.rng.random() < 0.4:
            label, n = WHOLE[k]
            lo = self.rng.randint(0, n)
            restr = ((label, lo, self.rng.randint(lo, n)),)  # type: ignore[assignment]
        return Read(k, tuple(self.index(names) for _ in range(ARITY[k])), restr)

    def base(self, names: list[int]) -> Base:
        kind = self.rng.random()
        ids = self.read(self.rng.choice([4, 4, 4, 1]) if kind < 0.3 else 4, names[:1]) \
            if kind < 0.5 else None  # fmt: skip
        if ids is not None and kind < 0.25:
            return AtLeast(ids, self.rng.randint(-1, 5))
        if ids is not None:
            return Equal(ids, self.index(names))
        return self.read(self.rng.choice([2, 2, 3, 5, 6, 7, 8, 9, 10]), names)

    def product(self) -> Product:
        mine = [next(self.names) for _ in range(self.rng.choice([0, 1, 1, 2]))]
        ranges = []
        for v in mine:
            lo = self.rng.randint(-1, 2)
            ranges.append((v, lo, lo + self.rng.randint(0, 4)))
        names = [FREE, *mine]
        self.rng.shuffle(names)
        factors: list[Any] = []
        for _ in range(self.rng.randint(1, 3)):
            b = self.base(names)
            if isinstance(b, AtLeast | Equal) and factors and self.rng.random() < 0.3:
                continue
            factors.append((b, self.rng.choice([1, 1, 1, 2])))
        if self.rng.random() < 0.4:  # two guards of one tensor
            ids = Read(4, (self.index([FREE]),))
            pair = [Equal(ids, self.index(names)), AtLeast(ids, self.rng.randint(0, 4)),
                    Equal(ids, self.index(names))]  # fmt: skip
            factors += [(g, 1) for g in self.rng.sample(pair, 2)]
        return Product(tuple(ranges), tuple(factors))

    def sum(self) -> Sum:
        return [
            (self.product(), self.rng.choice([1, 2, -1])) for _ in range(self.rng.randint(1, 2))
        ]

    # ---- other spellings

    def respelled(self, terms: Sum, at: Algebra) -> Sum:
        """The same sum in other words."""
        out: Sum = []
        for p, c in terms:
            how = self.rng.randint(0, 4)
            if how == 0 and p.ranges:
                (v, lo, hi), *rest = p.ranges
                mid: Any = self.rng.randint(lo, hi)  # type: ignore[arg-type]
                out += [
                    (p._replace(ranges=((v, a, b), *rest)), c) for a, b in ((lo, mid), (mid, hi))
                ]
            elif how == 1 and p.ranges:
                out.append((self.renamed(p), c))
            elif how == 2:
                k = self.rng.randrange(len(p.factors))
                if at.opens(*p.factors[k]):
                    out += [(q, c * x) for q, x in at.opened(p, k)]  # type: ignore[operator]
                else:
                    out.append((p, c))
            else:
                factors = list(p.factors)
                self.rng.shuffle(factors)
                out.append((Product(p.ranges[::-1], tuple(factors)), c))
        self.rng.shuffle(out)
        return out

    def renamed(self, p: Product) -> Product:
        """A summed index by another name, and from another start."""
        (v, lo, hi), *rest = p.ranges
        new, by = next(self.names), self.rng.randint(-2, 2)

        def put(a: Aff) -> Aff:
            s = dict(a[1])
            if v not in s:
                return a
            k: Any = s.pop(v)
            return a[0] - k * by, tuple(sorted({**s, new: k}.items()))

        def base(b: Base) -> Base:
            if isinstance(b, Read):
                return b._replace(at=tuple(map(put, b.at)))
            assert isinstance(b, AtLeast | Equal)
            inner = base(b.base)
            assert isinstance(inner, Read)
            return (
                AtLeast(inner, b.least) if isinstance(b, AtLeast) else Equal(inner, put(b.position))
            )

        factors = tuple((base(b), e) for b, e in p.factors)
        return Product(((new, lo + by, hi + by), *rest), factors)

    def altered(self, terms: Sum) -> Sum:
        """The sum with one number changed."""
        k = self.rng.randrange(len(terms))
        p, c = terms[k]
        how = self.rng.randint(0, 3)
        new: tuple[Product, Any] = (p, c + 1)  # type: ignore[operator]
        if how == 1 and p.ranges:
            (v, lo, hi), *rest = p.ranges
            new = (p._replace(ranges=((v, lo, hi + 1), *rest)), c)
        elif how >= 2:
            j = self.rng.randrange(len(p.factors))
            b, e = p.factors[j]
            if isinstance(b, Read) and b.at:
                moved: Any = b._replace(at=((b.at[0][0] + 1, b.at[0][1]), *b.at[1:]))
            elif isinstance(b, Read) and b.restr:
                ((label, lo, hi),) = b.restr
                moved = b._replace(restr=((label, lo, hi - 1 if hi > lo else hi),))  # type: ignore[operator]
            elif isinstance(b, AtLeast):
                moved = AtLeast(b.base, b.least + 1)
            elif isinstance(b, Equal):
                moved = Equal(b.base, (b.position[0] + 1, b.position[1]))
            else:
                moved = b
            new = (p._replace(factors=(*p.factors[:j], (moved, e), *p.factors[j + 1 :])), c)
        return [*terms[:k], new, *terms[k + 1 :]]


ROUNDS, EACH = range(24), 20


@pytest.mark.parametrize("seed", ROUNDS)
@pytest.mark.parametrize("gap", [False, True])
def test_a_rule_of_guards(seed: int, gap: bool) -> None:
    draw, fired = Draw(f"guards {seed}"), 0
    for _ in range(EACH):
        at = algebra(gap)
        try:
            p = at.combined(draw.product())  # each factor once, as where the rules are used
            new = at.guarding.step(p, HERE)
        except (NotChecked, Split):
            continue
        if new is not None:
            fired += 1
            assert same([(p, 1)], new, gap), (p, new)
    assert fired > 0


def test_a_guard_of_positions_is_turned_to_count_up() -> None:
    for least in (-2, 0, 1, 3):
        for slopes in (((FREE, -1),), ((FREE, 2),), ((FREE, -1), (FREE + 1, 1))):
            g = AtLeast(Read(IOTA, ((2, slopes),)), least)
            p = Product(((FREE + 1, 0, 3),), ((g, 1),))
            new = turned(p, g)
            assert (new is None) == (slopes[0][1] > 0)
            assert new is None or same([(p, 1)], new), (p, new)


@pytest.mark.parametrize("seed", ROUNDS)
def test_simpler_products(seed: int) -> None:
    draw, found = Draw(f"simpler {seed}"), 0
    for _ in range(EACH):
        terms = draw.sum()
        try:
            new = algebra().simplified(terms, HERE)
        except (NotChecked, Split):
            continue
        found += 1
        assert same(terms, new), (terms, new)
    assert found > EACH // 2


@pytest.mark.parametrize("seed", ROUNDS)
def test_definitions(seed: int) -> None:
    draw, found = Draw(f"definitions {seed}"), 0
    at = algebra()
    for _ in range(EACH):
        p = draw.product()
        for k, (b, e) in enumerate(p.factors):
            if at.opens(b, e):
                found += 1
                assert same([(p, 1)], at.opened(p, k))
    assert found > 0


@pytest.mark.parametrize("seed", ROUNDS)
def test_sums_that_are_called_equal(seed: int) -> None:
    draw, counts = Draw(f"equal {seed}"), Counter[tuple[str, bool]]()
    for _ in range(EACH):
        a = draw.sum()
        at = algebra()
        b = draw.respelled(a, at)
        for kind, other in (("the same", b), ("another", draw.altered(b))):
            try:
                equal = at.equal(a, other, HERE)
            except (NotChecked, Split):
                continue
            counts[kind, equal] += 1
            assert same(a, other) or not equal, (a, other)
            if kind == "the same":
                assert same(a, other)
    assert counts["the same", True] > 3 * counts["the same", False]
    assert counts["another", False] > EACH // 4
