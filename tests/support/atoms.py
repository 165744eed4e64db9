"""Numbers of named values, computed from their definitions alone.

This shares no code with inference: it reads :class:`~shardproof.infer.naming.Def` as what it says,
a function of operands over free and bound variables, and evaluates it point by point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tests.support.functions import WHOLE_AXIS, pointwise

from shardproof.infer.blocks import Lin, Term
from shardproof.infer.coef import Coef, Ratio
from shardproof.infer.naming import IOTA, UNIT, Def, Table
from shardproof.ir.sizes import Size, Symbol, substitute
from shardproof.ops.base import Array

Restr = tuple[tuple[Any, int, int], ...]
Points = Array  # one row a variable, one column a point
Numbers = Mapping[Symbol, Size]


class Unknown(Exception):
    """The value of an atom at a point cannot be computed and was not seen."""


class Wrong(Exception):
    """A meaning that contradicts itself."""


def number(x: Size, numbers: Numbers) -> int:
    out = substitute(x, numbers)
    if not isinstance(out, int):
        raise Unknown(f"the size {x}")
    return out


def coefficient(c: Coef, numbers: Numbers) -> float:
    if isinstance(c, Ratio):
        return number(c.num, numbers) / number(c.den, numbers)
    return float(c)


class AtomValues:
    """Values of the atoms of one naming table.

    Args:
        known: arrays of input atoms, without their axes of extent 1.
        seen: a value of an atom that has no usable definition, at a point, from the replay.
    """

    def __init__(
        self,
        table: Table,
        known: Mapping[int, Array],
        seen: Callable[[int, tuple[int, ...]], float],
        numbers: Numbers,
    ) -> None:
        self.table, self.known, self.seen, self.numbers = table, dict(known), seen, numbers
        self._dense: dict[tuple[int, Restr], tuple[Array, Array]] = {}

    # ---- terms

    def lin(self, lin: Lin, points: Points, extra: Restr = ()) -> Array:
        """A linear combination of terms over variables."""
        total: Array = np.zeros(points.shape[1])
        for t, c in lin:
            total = total + coefficient(c, self.numbers) * self.term(t, points, extra)
        return total

    def term(self, t: Term, points: Points, extra: Restr = ()) -> Array:
        n = points.shape[1]
        index = np.empty((len(t.off), n), dtype=np.int64)
        for q, o in enumerate(t.off):
            index[q] = number(o, self.numbers)
        for j, walk in enumerate(t.ax):
            if walk is not None:
                index[walk[0]] += number(walk[1], self.numbers) * points[j]
        own = tuple((label, self._n(a), self._n(b)) for label, a, b in t.restr)
        return self.at(t.atom, index, own + extra)

    def _n(self, x: Size) -> int:
        return number(x, self.numbers)

    # ---- atoms

    def at(self, atom: int, index: Points, restr: Restr) -> Array:
        """The values of an atom at points, with some of its reductions restricted."""
        if atom == UNIT:
            return np.ones(index.shape[1])
        if atom == IOTA:
            return np.asarray(index[0], dtype=float)
        if atom in self.known:
            array = self.known[atom]
            if ((index < 0) | (np.array(array.shape, dtype=int) <= index.T).T).any():
                raise Wrong(f"{self.table.atoms[atom].name} is read outside of its shape")
            return np.asarray(array[tuple(index)], dtype=float)
        d = self.table.atoms[atom].definition
        if d is None or not _evaluable(d):
            if restr:
                raise Unknown("a partial of an unknown value")
            return np.array([self.seen(atom, tuple(map(int, p))) for p in index.T])
        try:
            table, low = self.dense(atom, d, restr)
        except Wrong:
            # Elsewhere in its range this part may read what is not there; here it need not.
            return self.compute(atom, d, index, restr)
        at = index - low[:, None]
        if ((at < 0) | (at >= np.array(table.shape, dtype=int)[:, None])).any():
            return self.compute(atom, d, index, restr)
        return np.broadcast_to(table[tuple(at)], index.shape[1:])

    def dense(self, atom: int, d: Def, restr: Restr) -> tuple[Array, Array]:
        """All values over the ranges of the free variables."""
        key = (atom, tuple(sorted(restr, key=repr)))
        if key not in self._dense:
            low = np.array([self._n(x) for x in d.lo[: d.n_free]], dtype=int)
            high = np.array([self._n(x) for x in d.hi[: d.n_free]], dtype=int)
            shape = tuple(np.maximum(high - low, 0))
            points = np.indices(shape).reshape(len(shape), int(np.prod(shape, dtype=int)))
            values = self.compute(atom, d, points + low[:, None], restr)
            self._dense[key] = values.reshape(shape), low
        return self._dense[key]

    def compute(self, atom: int, d: Def, index: Points, restr: Restr) -> Array:
        """Values at points of the free variables, from the definition."""
        ranges = {p: (self._n(d.lo[p]), self._n(d.hi[p])) for p in range(d.n_free, len(d.lo))}
        carried: dict[int, list[tuple[Any, int, int]]] = {}
        for label, a, b in restr:
            if label[0] == "in" and label[1] == atom:
                carried.setdefault(label[2], []).append((label[3], a, b))
            elif label[:2] == (d.fn, atom) and label[2] in ranges:
                ranges[label[2]] = (a, b)
            else:
                raise Wrong(f"the label {label} on a value of {d.fn}")
        with np.errstate(all="ignore"):
            if d.whole or d.fn in WHOLE_AXIS:
                return self._whole(d, index, ranges, carried)
            return self._reduced(d, index, ranges, carried)

    def _reduced(
        self,
        d: Def,
        index: Points,
        ranges: Mapping[int, tuple[int, int]],
        carried: Mapping[int, list[tuple[Any, int, int]]],
    ) -> Array:
        n = index.shape[1]
        inner = _grid([range(*ranges[p]) for p in sorted(ranges)])
        m = inner.shape[1]
        points = np.vstack([np.repeat(index, m, axis=1), np.tile(inner, (1, n))])
        if d.fn in ("sum", "prod"):
            product = self._product(d, points, carried)
            return np.asarray(product.reshape(n, m).sum(axis=1))
        operands = [self._operand(d, p, points, carried) for p in range(len(d.operands))]
        if d.fn in ("max", "min"):
            reduce, nothing = (np.max, -np.inf) if d.fn == "max" else (np.min, np.inf)
            return np.asarray(reduce(operands[0].reshape(n, m), axis=1, initial=nothing))
        assert m == 1, f"{d.fn} with bound variables"
        return pointwise(d.fn, d.attrs, operands, self.numbers)

    def _product(
        self, d: Def, points: Points, carried: Mapping[int, list[tuple[Any, int, int]]]
    ) -> Array:
        """The product of the operands; where a guard is 0 the others need not have a value."""
        product = np.ones(points.shape[1])
        for guards in (True, False):
            for p, op in enumerate(d.operands):
                if self._is_guard(op[0][0].atom) == guards:
                    there = product != 0
                    values = self._operand(d, p, points[:, there], carried)
                    product[there] *= values ** float(op[0][1])  # type: ignore[arg-type]
        return product

    def _is_guard(self, atom: int) -> bool:
        d = self.table.atoms[atom].definition
        return d is not None and d.fn in ("ge", "eq")

    def _operand(
        self, d: Def, p: int, points: Points, carried: Mapping[int, list[tuple[Any, int, int]]]
    ) -> Array:
        op, extra = d.operands[p], tuple(carried.get(p, ()))
        if extra and len(op) != 1:
            raise Wrong("a carried partial of a sum of several terms")
        if d.fn in ("sum", "prod"):  # the coefficient field is an exponent
            return self.term(op[0][0], points, extra)
        return self.lin(op, points, extra)

    def _whole(
        self,
        d: Def,
        index: Points,
        ranges: Mapping[int, tuple[int, int]],
        carried: Mapping[int, list[tuple[Any, int, int]]],
    ) -> Array:
        """A function of whole axes: evaluated for all their indices, then picked."""
        free = sorted(p for p in d.whole if p < d.n_free)
        axes = [*free, *sorted(ranges)]
        full = [range(self._n(d.lo[p]), self._n(d.hi[p])) for p in axes]
        inner = _grid(full)
        n, m = index.shape[1], inner.shape[1]
        points = np.empty((len(d.lo), n * m), dtype=np.int64)
        points[: d.n_free] = np.repeat(index, m, axis=1)
        for k, p in enumerate(axes):
            points[p] = np.tile(inner[k], n)
        operands = [
            self._operand(d, p, points, carried).reshape(n, m) for p in range(len(d.operands))
        ]
        out = WHOLE_AXIS[d.fn](operands, d.attrs)
        if not free:
            return out
        place = np.zeros(n, dtype=int)
        for p, r in zip(axes, full, strict=True):
            if ((index[p] < r.start) | (index[p] >= r.stop)).any():
                raise Wrong(f"{d.fn} is read outside of its whole axis")
            place = place * len(r) + (index[p] - r.start)
        return np.asarray(out[np.arange(n), place])


def _grid(ranges: Sequence[range]) -> Array:
    shape = tuple(len(r) for r in ranges)
    points = np.indices(shape).reshape(len(shape), int(np.prod(shape, dtype=int)))
    return np.asarray(points + np.array([r.start for r in ranges], dtype=int)[:, None])


def _evaluable(d: Def) -> bool:
    return not d.whole or d.fn in WHOLE_AXIS
