"""Sizes as polynomials: one symbol for each independent scale class of a captured problem.

Scale classes are those of :mod:`shardproof.replay.resize`: dims that can only grow together. The
smallest unit of a class (that divides all its sizes and cut points) becomes a symbol, or a product
of the symbols of other classes where a reshape says so. How often N divides a size is read off by
:mod:`shardproof.generalise.powers`. All of it is a guess about one instance; it is accepted only
because the result is checked afterwards: every shape rule must hold, the captured instance must
come back by substitution, and the proof must go through.
"""

from __future__ import annotations

from collections import Counter

from shardproof.generalise.errors import NotGeneral
from shardproof.generalise.powers import Powers
from shardproof.ir.sizes import Poly, Size, Undecided, div_mod, symbol
from shardproof.replay.resize.analysis import Analysis
from shardproof.replay.resize.scales import Dim, divisor

Equation = tuple[tuple[Dim, ...], tuple[Dim, ...]]


class SymbolicSizes:
    """Takes the place of a resizing solution: ``size`` and ``scaled`` give polynomials.

    ``values`` holds the number of every symbol in the captured instance, ``kept`` the classes
    whose unit stays the captured number because an equation allows no other, or all of them
    without ``sizes``.
    """

    def __init__(
        self, analysis: Analysis, ranks: int, axis_symbol: str, sizes: bool = True
    ) -> None:
        self.scales = analysis.scales
        self.powers = Powers(analysis, ranks)
        self.used = {self.scales.find(d) for t in analysis.tensors.values() for d in t.dims}
        self.ranks = ranks
        self.n = symbol(axis_symbol)
        self.values: dict[str, int] = {axis_symbol: ranks}
        self.unit: dict[Dim, int] = {}
        self.fixed = {self.scales.find(d) for d in self.scales.pinned}
        self.kept: set[Dim] = set()
        self.poly: dict[Dim, Size] = {}
        self.members = self.scales.classes()
        self._describe()
        if not sizes:
            self.kept |= set(self.unit)
        while not self._assign():
            self.values, self.poly = {axis_symbol: ranks}, {}

    def size(self, d: Dim) -> Size:
        """The symbolic size of a dim."""
        return self.scaled(self.scales.size[d], d)

    def ones(self) -> set[int]:
        """1, if a share of some larger size is kept at 1."""
        return {1 for r in self.kept & self.used if self.unit[r] == 1
                if any(self.powers.of(m) for m in self.members[r])}  # fmt: skip

    def scaled(self, value: int, d: Dim) -> Size:
        """A position in a dim: as many powers of N as the dim has."""
        return self._write(value, self.scales.find(d), self.powers.of(d))

    def step(self, value: int, d: Dim) -> Size:
        """What a position in a dim moves by from rank to rank."""
        return self._write(value, self.scales.find(d), max(self.powers.of(d) - 1, 0))

    def literal(self, value: int, d: Dim) -> Size:
        """A number that is a multiple of some size of the class of ``d``: of the largest."""
        root = self.scales.find(d)
        sizes = {(self.scales.size[m], self.powers.of(m)) for m in self.members[root]}
        power = max(((n, e) for n, e in sizes if n and value % n == 0), default=(0, 0))[1]
        return self._write(value, root, power)

    def _write(self, value: int, root: Dim, power: int) -> Size:
        if root in self.fixed:
            return value
        k, rest = divmod(value, self.unit[root] * self.ranks**power)
        if rest:
            raise NotGeneral(
                f"{value} is no multiple of {self.unit[root] * self.ranks**power}, "
                "the unit of its dim"
            )
        return self._times_n(k, power) * self.poly.get(root, 1)

    def _times_n(self, k: int, power: int) -> Size:
        out: Size = k
        for _ in range(power):
            out = out * self.n
        return out

    # ---- classes

    def _describe(self) -> None:
        for root, members in self.members.items():
            sizes = [(self.scales.size[m], self.powers.of(m)) for m in members]
            if root in self.fixed or not any(n for n, _ in sizes):
                self.fixed.add(root)
                self.unit[root] = 1
                continue
            shares = {n // self.ranks**e for n, e in sizes if n and n % self.ranks**e == 0}
            self.unit[root] = divisor([*shares, *(n for n, _ in sizes if n),
                                       *self.scales.cuts(root)])  # fmt: skip
            if 1 in shares:  # equations of reshapes leave out an extent of 1
                self.kept.add(root)

    def _assign(self) -> bool:
        """Give every class a polynomial; False where some class must be kept first."""
        self.poly = {r: self.unit[r] for r in (*self.fixed, *self.kept)}
        equations = [e for e in self.scales.products if e[0] or e[1]]
        waiting = sorted(
            (r for r in self.unit if r not in self.poly), key=lambda r: (self.unit[r], r)
        )
        wholes = {self.scales.find(e[k][0]) for e in equations for k in (0, 1) if len(e[k]) == 1}
        while True:
            solved = True
            while solved:
                solved = any(self._solve(left, right) for left, right in equations)
            left_over = [r for r in waiting if r not in self.poly]
            if not left_over:
                break
            root = next((r for r in left_over if r not in wholes), left_over[0])
            if root in self.used:
                name = f"u{len(self.values)}"
                self.values[name] = self.unit[root]
                self.poly[root] = symbol(name)
            else:
                self.poly[root] = self.unit[root]  # no tensor has such a dim
        return self._agree(equations)

    def _agree(self, equations: list[Equation]) -> bool:
        """Whether the equations hold; sizes of those that do not keep their captured numbers from
        now on."""
        wrong = [(x, y) for x, y in equations if self._product(x) != self._product(y)]
        more = {self.scales.find(d) for x, y in wrong for d in x + y} - self.kept - self.fixed
        if wrong and not more:
            left, right = ("*".join(str(self.scales.size[d]) for d in x) for x in wrong[0])
            raise NotGeneral(f"a reshape ({left} = {right}) holds for the captured sizes only")
        self.kept |= more
        return not wrong

    def _product(self, dims: tuple[Dim, ...]) -> Size:
        """The product of sizes; classes without a polynomial count as 1."""
        out: Size = 1
        for d in dims:
            out = out * self.size(d)
        return out

    def _solve(self, left: tuple[Dim, ...], right: tuple[Dim, ...]) -> bool:
        """Give the only class of an equation that has no polynomial yet the one it must have. A
        class that stands on both sides equally often cancels, whatever its polynomial."""
        net: Counter[Dim] = Counter(map(self.scales.find, left))
        net.subtract(map(self.scales.find, right))
        unknown = [(r, n) for r, n in net.items() if n and r not in self.poly]
        if len(unknown) != 1 or abs(unknown[0][1]) != 1:
            return False
        root, times = unknown[0]
        mine, other = (left, right) if times > 0 else (right, left)
        try:
            value, rest = div_mod(self._product(other), self._product(mine))
        except Undecided:
            return False
        if rest != 0:
            return False
        self.poly[root] = value
        return True


def evaluate(size: Size, values: dict[str, int]) -> int:
    """A size with numbers for its symbols."""
    if isinstance(size, int):
        return size
    out = 0
    for mono, coef in size.terms.items():
        term = coef
        for s in mono:
            term *= values[s.name]
        out += term
    return out


__all__ = ["Poly", "SymbolicSizes", "evaluate"]
