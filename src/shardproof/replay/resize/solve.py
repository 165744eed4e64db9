"""Choose a factor for every class: the smallest sizes that satisfy all equations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, prod

from shardproof.replay.resize.scales import Dim, Scales, divisor

LIMIT = 20_000
# Factors that are settled as consequences before the search gives up: a step may settle hundreds.
MAX_SETTLED = 100_000

# Settles what the factors known so far determine, adding it to the list; False: a contradiction.
Equation = Callable[[dict[Dim, Fraction], list[Dim]], bool]


@dataclass(frozen=True, slots=True)
class Wish:
    """What sizes are preferred.

    ``first``: multiples of the unit to try first, alternating, so that unrelated dims differ;
    ``least`` size of an ordinary dim, ``wide`` of one that takes part in a statistic (a layer norm
    over two values returns one and minus one, whatever they are); ``times``: everything so many
    times larger. No size exceeds its original.
    """

    first: tuple[int, ...] = (3, 2)
    least: int = 2
    wide: int = 4
    times: int = 1


class Unsolved(Exception):
    """The search found no sizes within its limit."""


class Solution:
    """A factor a class."""

    def __init__(self, scales: Scales, factors: dict[Dim, Fraction]) -> None:
        self._scales = scales
        self.factors = factors

    def factor(self, d: Dim) -> Fraction:
        return self.factors[self._scales.find(d)]

    def size(self, d: Dim) -> int:
        """The reduced size of a dim."""
        return self.scaled(self._scales.size[d], d)

    def scaled(self, value: int, d: Dim) -> int:
        """A position in, or a multiple of, a dim, scaled with it."""
        out = value * self.factor(d)
        if out.denominator != 1:
            raise Unsolved(f"{value} does not scale by {self.factor(d)}")
        return out.numerator


def identity(scales: Scales) -> Solution:
    """The original sizes."""
    return Solution(scales, {root: Fraction(1) for root in scales.classes()})


@dataclass(slots=True)
class _Class:
    """Sizes are multiples of ``1/unit`` of the original: factor ``t / unit``, ``t >= low``."""

    unit: int
    low: int
    smallest: int

    def candidates(self, want: int) -> list[int]:
        """Values of ``t`` in the order of preference; the original size comes last."""
        near = range(self.low, min(self.low + 12, self.unit + 1))
        start = min(max(want, self.low), self.unit)
        return list(dict.fromkeys([start, *near, self.unit]))


def solve(scales: Scales, wish: Wish | None = None) -> Solution:
    """Factors for all classes.

    Raises:
        Unsolved: the search gave up.
    """
    return _Search(scales, wish or Wish()).run()


class _Search:
    def __init__(self, scales: Scales, wish: Wish) -> None:
        self.s, self.wish, self.steps, self.settled = scales, wish, 0, 0
        self.products = _reduced_products(scales)
        self.sums = _distinct_sums(scales)
        self.equations_of: defaultdict[Dim, list[Equation]] = defaultdict(list)
        for left, right in self.products:
            for c in {*left, *right}:
                self.equations_of[c].append(partial(self.by_product, left, right))
        for whole, parts in self.sums:
            for c in {c for c, _ in (whole, *parts)}:
                self.equations_of[c].append(partial(self.by_sum, whole, parts))
        self.classes: dict[Dim, _Class] = {}
        self.fixed: dict[Dim, Fraction] = {}
        pinned = {scales.find(d) for d in scales.pinned}
        for root, members in scales.classes().items():
            made = None if root in pinned else self.describe(root, members)
            if made is None:
                self.fixed[root] = Fraction(1)
            else:
                self.classes[root] = made

    def describe(self, root: Dim, members: Sequence[Dim]) -> _Class | None:
        """The unit and least factor of a class; None where it must stay as it is."""
        sizes = {self.s.size[m] for m in members} - {0}
        if 1 in sizes or not sizes:
            return None
        unit = divisor([*sizes, *self.s.cuts(root)])
        low = max(self.least_factor(m, unit) for m in members if self.s.size[m])
        return _Class(unit, min(low, unit), min(sizes))

    def least_factor(self, d: Dim, unit: int) -> int:
        size = self.s.size[d]
        want = self.wish.wide if d in self.s.wide else self.wish.least
        want = max(want * self.wish.times, self.s.minimum.get(d, 0))
        return ceil(Fraction(unit * min(want, size), size))

    def run(self) -> Solution:
        tied = {c for left, right in self.products for c in left + right}
        tied |= {c for whole, parts in self.sums for c, _ in (whole, *parts)}
        start = dict(self.fixed)
        wants = {root: self.want(k) for k, root in enumerate(self.classes)}
        for root, c in self.classes.items():
            if root not in tied:
                start[root] = Fraction(c.candidates(wants[root])[0], c.unit)
        order = sorted(
            (r for r in self.classes if r in tied), key=lambda r: (self.classes[r].smallest, r)
        )
        found = self.descend(self.propagate({}, start), order, wants)
        if found is None:
            raise Unsolved("no sizes satisfy all equations")
        return Solution(self.s, found)

    def want(self, k: int) -> int:
        return self.wish.first[k % len(self.wish.first)] * self.wish.times

    def descend(
        self, known: dict[Dim, Fraction] | None, order: list[Dim], wants: dict[Dim, int]
    ) -> dict[Dim, Fraction] | None:
        """Depth-first search with propagation; the stack is explicit, graphs are deep."""
        if known is None:
            return None
        stack = [(known, self.branches(known, order, wants))]
        while stack:
            known, branches = stack[-1]
            if branches is None:
                return known
            nxt = next(branches, None)
            if nxt is None:
                stack.pop()
                continue
            self.steps += 1
            if self.steps > LIMIT or self.settled > MAX_SETTLED:
                raise Unsolved(f"no sizes after {self.steps} steps")
            more = self.propagate(known, nxt)
            if more is not None:
                stack.append((more, self.branches(more, order, wants)))
        return None

    def branches(
        self, known: dict[Dim, Fraction], order: list[Dim], wants: dict[Dim, int]
    ) -> Iterator[dict[Dim, Fraction]] | None:
        root = next((r for r in order if r not in known), None)
        if root is None:
            return None
        c = self.classes[root]
        return iter([{root: Fraction(t, c.unit)} for t in c.candidates(wants[root])])

    # ------------------------------------------------------------------------ propagation

    def propagate(
        self, known: dict[Dim, Fraction], more: dict[Dim, Fraction]
    ) -> dict[Dim, Fraction] | None:
        """``known`` with all its consequences and ``more``, and all consequences; None on a
        contradiction. Only equations of classes that are new are looked at, so that one step of
        the search costs what it changes and not the whole system."""
        out = {**known, **more}
        fresh = list(more)
        while fresh:
            if not all(holds(out, fresh) for holds in self.equations_of[fresh.pop()]):
                return None
        return out

    def by_product(
        self, left: tuple[Dim, ...], right: tuple[Dim, ...], out: dict[Dim, Fraction],
        fresh: list[Dim],
    ) -> bool:  # fmt: skip
        unknown = [c for c in left + right if c not in out]
        if len(unknown) > 1:
            return True
        a = prod((out[c] for c in left if c in out), start=Fraction(1))
        b = prod((out[c] for c in right if c in out), start=Fraction(1))
        if not unknown:
            return a == b
        (c,) = unknown
        return self.settle(out, fresh, c, b / a if c in left else a / b)

    def by_sum(
        self, whole: tuple[Dim, int], parts: tuple[tuple[Dim, int], ...],
        out: dict[Dim, Fraction], fresh: list[Dim],
    ) -> bool:  # fmt: skip
        terms = [(c, n) for c, n in parts] + [(whole[0], -whole[1])]
        weight: dict[Dim, int] = {}
        total = Fraction(0)
        for c, n in terms:
            if c in out:
                total += out[c] * n
            else:
                weight[c] = weight.get(c, 0) + n
        weight = {c: n for c, n in weight.items() if n}
        if len(weight) > 1:
            return True
        if not weight:
            return total == 0
        ((c, n),) = weight.items()
        return self.settle(out, fresh, c, -total / n)

    def settle(self, out: dict[Dim, Fraction], fresh: list[Dim], c: Dim, factor: Fraction) -> bool:
        t = factor * self.classes[c].unit
        if t.denominator != 1 or not self.classes[c].low <= t <= self.classes[c].unit:
            return False
        out[c] = factor
        self.settled += 1
        fresh.append(c)
        return True


def _reduced_products(s: Scales) -> list[tuple[tuple[Dim, ...], tuple[Dim, ...]]]:
    """Each equation between classes once, common factors cancelled."""
    found: dict[tuple[tuple[Dim, ...], tuple[Dim, ...]], None] = {}
    for left, right in s.products:
        a, b = sorted(map(s.find, left)), sorted(map(s.find, right))
        for c in list(a):
            if c in b:
                a.remove(c)
                b.remove(c)
        if a or b:
            found[tuple(a), tuple(b)] = None
    return list(found)


def _distinct_sums(
    s: Scales,
) -> list[tuple[tuple[Dim, int], tuple[tuple[Dim, int], ...]]]:
    found = {
        (
            (s.find(e.whole), s.size[e.whole]),
            tuple(sorted((s.find(p), s.size[p]) for p in e.parts)),
        ): None
        for e in s.sums
    }
    return list(found)
