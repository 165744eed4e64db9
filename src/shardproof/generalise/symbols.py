"""Sizes as polynomials: one symbol for each independent scale class of a captured problem.

Scale classes are those of :mod:`shardproof.replay.resize`: dims that can only grow together. The
smallest unit of a class (that divides all its sizes and cut points) becomes a symbol, or a product
of the symbols of other classes where a reshape says so. In a class that is cut over the ranks, a
multiple of the number of ranks is read as a multiple of N. That reading is a guess about one
instance; it is accepted only because the result is checked afterwards: every shape rule must
hold, the captured instance must come back by substitution, and the proof must go through.
"""

from __future__ import annotations

from shardproof.generalise.errors import NotGeneral
from shardproof.ir.sizes import Poly, Size, Undecided, div_mod, symbol
from shardproof.replay.resize.analysis import Analysis
from shardproof.replay.resize.scales import Dim, divisor


class SymbolicSizes:
    """Takes the place of a resizing solution: ``size`` and ``scaled`` give polynomials.

    ``values`` holds the number of every symbol in the captured instance.
    """

    def __init__(self, analysis: Analysis, ranks: int, axis_symbol: str, local: set[Dim]) -> None:
        self.scales = analysis.scales
        self.used = {self.scales.find(d) for t in analysis.tensors.values() for d in t.dims}
        self.ranks = ranks
        self.n = symbol(axis_symbol)
        self.values: dict[str, int] = {axis_symbol: ranks}
        self.unit: dict[Dim, int] = {}
        self.cut: set[Dim] = set()
        self.poly: dict[Dim, Size] = {}
        self._describe(local)
        self._assign()

    def size(self, d: Dim) -> Size:
        """The symbolic size of a dim."""
        return self.scaled(self.scales.size[d], d)

    def scaled(self, value: int, d: Dim) -> Size:
        """A position in, or a multiple of, a dim."""
        root = self.scales.find(d)
        k, rest = divmod(value, self.unit[root])
        if rest:
            raise NotGeneral(f"{value} is no multiple of the unit {self.unit[root]} of its dim")
        return self._multiple(root, k) * self.poly[root]

    def _multiple(self, root: Dim, k: int) -> Size:
        if root in self.cut and k % self.ranks == 0:
            return (k // self.ranks) * self.n
        return k

    # ---- classes

    def _describe(self, local: set[Dim]) -> None:
        pinned = {self.scales.find(d) for d in self.scales.pinned}
        for root, members in self.scales.classes().items():
            sizes = {self.scales.size[m] for m in members} - {0}
            if root in pinned or 1 in sizes or not sizes:
                self.unit[root], self.poly[root] = 1, 1
                continue
            self.unit[root] = divisor([*sizes, *self.scales.cuts(root)])
            shares = {self.scales.size[m] for m in members if m in local}
            if any(s * self.ranks in sizes for s in shares) and len(sizes) > 1:
                self.cut.add(root)

    def _assign(self) -> None:
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
        for left, right in equations:
            if self._product(left) != self._product(right):
                raise NotGeneral("a reshape holds for the captured sizes only")

    def _product(self, dims: tuple[Dim, ...]) -> Size:
        out: Size = 1
        for d in dims:
            out = out * self.size(d)
        return out

    def _solve(self, left: tuple[Dim, ...], right: tuple[Dim, ...]) -> bool:
        """Give the only class of an equation that has no size yet the one it must have."""
        open_dims = [d for d in left + right if self.scales.find(d) not in self.poly]
        if len(open_dims) != 1:
            return False
        d = open_dims[0]
        mine, other = (left, right) if d in left else (right, left)
        known = self._product(tuple(x for x in mine if x is not d and x != d))
        root = self.scales.find(d)
        k, _ = divmod(self.scales.size[d], self.unit[root])
        try:
            value, rest = div_mod(self._product(other), known * self._multiple(root, k))
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
