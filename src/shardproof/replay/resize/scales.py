"""Scale classes: a union-find over the dims of all tensors of a problem.

A *dim* is an integer handle with a known original size. All dims of one class are multiplied by
the same rational factor, so a shard and its whole, or a part and its concatenation, share a class
and need no stored coefficients: the original sizes are the coefficients. Merging too much costs
size only; merging too little is found by the shape rules when the result is checked.

Positions inside a dim (slice bounds, offsets) come in two kinds. A *cut* scales with its class
exactly and therefore makes the unit of the class finer. A *prefix* is a dim of its own (the length
of ``x[:p]``), tied to others by sum equations; it serves where a cut would leave nothing to scale,
as in ``x[:, 1:]`` or a vocabulary of 50257 on two ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import gcd

Dim = int


@dataclass(frozen=True, slots=True)
class SumEquation:
    """size(whole) == sum of size(parts), in original and in reduced sizes."""

    whole: Dim
    parts: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """A position ``0 <= value <= size(dim)``. It scales with ``dim``, or is ``prefix``."""

    dim: Dim
    value: int
    prefix: Dim | None = None


@dataclass(slots=True)
class Scales:
    """The classes and everything that restricts their factors.

    ``products``: pairs of dim tuples whose products of factors agree. ``minimum``: least reduced
    size of single dims. ``same``: dims of one size that were put into one class, in the order in
    which that was done. ``exact``: never use prefixes (the fallback that always has a solution).
    """

    exact: bool = False
    size: list[int] = field(default_factory=list)
    products: list[tuple[tuple[Dim, ...], tuple[Dim, ...]]] = field(default_factory=list)
    sums: list[SumEquation] = field(default_factory=list)
    minimum: dict[Dim, int] = field(default_factory=dict)
    wide: set[Dim] = field(default_factory=set)
    pinned: set[Dim] = field(default_factory=set)
    same: list[tuple[Dim, Dim]] = field(default_factory=list)
    _parent: list[Dim] = field(default_factory=list)
    _cuts: defaultdict[Dim, set[int]] = field(default_factory=lambda: defaultdict(set))
    _prefixes: dict[tuple[Dim, int], tuple[Dim, Dim]] = field(default_factory=dict)

    def new(self, size: int) -> Dim:
        """A dim in a class of its own."""
        self._parent.append(len(self._parent))
        self.size.append(size)
        return len(self._parent) - 1

    def find(self, a: Dim) -> Dim:
        """The representative of the class of ``a``."""
        parent = self._parent
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        return a

    def unify(self, a: Dim, b: Dim) -> bool:
        """Put two dims into one class; whether they were in two."""
        if a != b and self.size[a] == self.size[b]:
            self.same.append((a, b))
        a, b = self.find(a), self.find(b)
        if a == b:
            return False
        self._parent[b] = a
        if b in self._cuts:
            self._cuts[a] |= self._cuts.pop(b)
        return True

    def unify_all(self, a: Sequence[Dim], b: Sequence[Dim]) -> None:
        """Unify two shapes dim by dim."""
        for x, y in zip(a, b, strict=True):
            self.unify(x, y)

    def cut(self, a: Dim, value: int) -> None:
        """``value`` must stay an integer when it is scaled with the class of ``a``."""
        if value:
            self._cuts[self.find(a)].add(abs(value))

    def cuts(self, a: Dim) -> set[int]:
        return self._cuts.get(self.find(a), set())

    def at_least(self, a: Dim, size: int) -> None:
        """The reduced size of ``a`` must not be below ``size`` (or its original size)."""
        self.minimum[a] = max(self.minimum.get(a, 0), min(size, self.size[a]))

    def classes(self) -> dict[Dim, list[Dim]]:
        """Members by representative."""
        out: dict[Dim, list[Dim]] = defaultdict(list)
        for a in range(len(self._parent)):
            out[self.find(a)].append(a)
        return out

    # ------------------------------------------------------------------------ positions

    def prefix(self, a: Dim, value: int) -> Dim:
        """The dim that stands for the length of ``a[:value]``, ``0 < value <= size``."""
        return a if value == self.size[a] else self._cut_in_two(a, value)[0]

    def _cut_in_two(self, a: Dim, value: int) -> tuple[Dim, Dim]:
        if (a, value) not in self._prefixes:
            head, rest = self.new(value), self.new(self.size[a] - value)
            self._prefixes[a, value] = head, rest
            self.sums.append(SumEquation(a, (head, rest)))
        return self._prefixes[a, value]

    def known_prefix(self, a: Dim, value: int) -> Dim | None:
        """The prefix of that length of any dim in the class of ``a``."""
        root = self.find(a)
        for (dim, length), (head, _) in self._prefixes.items():
            if length == value and self.find(dim) == root:
                return head
        return None

    def merge_prefixes(self) -> bool:
        """Prefixes of equal length of one class are one position, and so are the remainders of
        dims of equal size; a prefix that is also a cut scales like one. Whether anything
        changed."""
        heads: dict[tuple[Dim, int], Dim] = {}
        rests: dict[tuple[Dim, int, int], Dim] = {}
        changed = False
        for (dim, value), (head, rest) in self._prefixes.items():
            root = self.find(dim)
            if value in self.cuts(root):
                changed |= self.unify(head, dim)
                changed |= self.unify(rest, dim)
                continue
            changed |= self.unify(heads.setdefault((root, value), head), head)
            changed |= self.unify(rests.setdefault((root, value, self.size[dim]), rest), rest)
        return changed

    def part(
        self, whole: Dim, piece: Dim, start: int, scaled: bool | None = None
    ) -> tuple[Bound, Bound]:
        """``piece`` is ``whole[start : start + size(piece)]``; the bounds of the slice. ``scaled``
        says whether they are cuts (chosen by the sizes without)."""
        n, stop = self.size[whole], start + self.size[piece]
        if self._scales_well(n, start, stop) if scaled is None else scaled:
            self.unify(whole, piece)
            self.cut(whole, start)
            self.cut(whole, stop)
            return Bound(whole, start), Bound(whole, stop)
        end = self.prefix(whole, stop) if stop else None
        if start == 0:
            if end is not None:
                self.unify(end, piece)
            return Bound(whole, 0), Bound(whole, stop, end)
        head, rest = self._cut_in_two(whole, start)
        assert end is not None
        if stop == n:
            self.unify(rest, piece)
        else:
            self.sums.append(SumEquation(end, (head, piece)))
        return Bound(whole, start, head), Bound(whole, stop, end)

    def _scales_well(self, n: int, start: int, stop: int) -> bool:
        """Whether the bounds leave the dim enough freedom to shrink as cuts.

        Cuts keep every relation between offsets, prefixes only lengths, so cuts are preferred
        unless the dim would keep more than 512 elements; for a small piece trimmed off an end,
        where the offsets that matter are few and equal on both sides, more than 8.
        """
        units = n // max(gcd(n, start, stop), 1)
        if self.exact or units <= 8:
            return True
        trimmed = n - (stop - start) < n / 4
        edge = stop - start <= 4
        return units <= (8 if trimmed or edge else 512)

    def partition(self, whole: Dim, pieces: Sequence[Dim]) -> None:
        """``whole`` is the concatenation of ``pieces``."""
        n = self.size[whole]
        ends = list(accumulate((self.size[p] for p in pieces), initial=0))
        bounds = [(a, b) for a, b in pairwise(ends) if a != b]
        # All pieces in one way: a position that is a cut for one piece and a prefix for the next
        # would be in two places.
        scaled = all(self._scales_well(n, a, b) for a, b in bounds)
        for piece, start in zip(pieces, ends, strict=False):
            if self.size[piece]:
                self.part(whole, piece, start, scaled)


def divisor(values: Sequence[int]) -> int:
    """The greatest common divisor, at least 1."""
    return max(gcd(*values), 1) if values else 1
