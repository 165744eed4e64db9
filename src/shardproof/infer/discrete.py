"""Operators on integers and booleans: comparisons, logic, selection.

Where the operands are functions of one integer tensor the result is worked out piece by piece
(:mod:`shardproof.infer.integers`); else booleans are the numbers 0 and 1 and logic is arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shardproof.infer import blocks, integers, views
from shardproof.infer.blocks import Cell, Val
from shardproof.infer.coef import ONE
from shardproof.infer.integers import Index
from shardproof.infer.naming import UNIT
from shardproof.infer.positions import position, step
from shardproof.infer.terms import constant, lincomb
from shardproof.ir.graph import TensorType, is_bool, is_integer
from shardproof.ir.sizes import Size
from shardproof.lemmas import names as lemmas
from shardproof.ops import base as alg

if TYPE_CHECKING:
    from shardproof.infer.evaluate import Evaluator


def _combination(
    coefs: Sequence[Size], const: Size
) -> Callable[[Sequence[tuple[int, Size]]], tuple[int, Size] | None]:
    """``sum_i coefs[i] * u_i + const`` of affine functions; a stride must stay a number, so a
    symbolic coefficient applies to constants only."""

    def f(parts: Sequence[tuple[int, Size]]) -> tuple[int, Size] | None:
        stride: Size = 0
        offset = const
        for k, (a, c) in zip(coefs, parts, strict=True):
            stride, offset = stride + k * a, offset + k * c
        return (stride, offset) if isinstance(stride, int) else None

    return f


class Discrete:
    """Integer and boolean operators of one evaluator."""

    def __init__(self, ev: Evaluator) -> None:
        self.ev = ev

    def from_index(self, index: Index) -> Val:
        """The value of a piecewise-affine function of an integer tensor."""
        cells = [
            Cell(c.lo, c.hi, self.ev.guards.value(c.lo, c.hi, c.lin, index.pieces))
            for c in index.base.cells
        ]
        v = blocks.normalise(index.base.dims, cells)
        v.index = index
        return v

    def linear_index(self, a: alg.Linear, vals: list[Val], out: TensorType) -> Index | None:
        if not discrete(out.dtype) and not all(v.index for v in vals):
            return None
        const = integers.integral(a.constant)
        coefs = [integers.integral(c) for c in a.coefs]
        if const is None or None in coefs:
            return None
        f = _combination([k for k in coefs if k is not None], const)
        if len(vals) == 1:
            index = index_of(views.expand(vals[0], out.shape), vals[0])
            return integers.transform(index, lambda u: f([u]))
        if len(vals) == 2:
            return self.joint_index(vals, lambda u, w: f([u, w]), out.shape)
        return None

    def joint_index(self, vals: list[Val], f: Any, shape: Sequence[Size]) -> Index | None:
        """A function of two values of which both are functions of one integer tensor."""
        if not all(v.index for v in vals) and not any(v.index for v in vals):
            return None
        x, y = (spread_index(v, shape) for v in vals)
        return integers.combine(x, y, f)

    def compare(self, a: alg.Compare, vals: list[Val], out: TensorType) -> Val:
        if len(vals) == 1:
            k = integers.integral(a.value) if not isinstance(a.value, float) else None
            if k is not None and (vals[0].index or self.ev.types[0].dtype[0] in "iu"):
                found = integers.compare(spread_index(vals[0], out.shape), a.kind, k)
                if found is not None:
                    return self.from_index(found)
            return self._named_compare(a.kind, (a.value,), vals, out)
        x, y = vals
        if a.kind in ("eq", "ne"):
            v = self._named_compare("eq", (), vals, out)
            return v if a.kind == "eq" else self._not(v, out)
        if a.kind in ("gt", "lt"):  # a > b is not (b >= a)
            return self._not(self._ge(y, x, out) if a.kind == "gt" else self._ge(x, y, out), out)
        return self._ge(x, y, out) if a.kind == "ge" else self._ge(y, x, out)

    def _not(self, v: Val, out: TensorType) -> Val:
        return self.ev.linear([v], [-ONE], out.shape, ONE)

    def _ge(self, x: Val, y: Val, out: TensorType) -> Val:
        """``x >= y``. Of positions there is one spelling: their difference grows along the first
        axis on which it depends (``i >= j + 1`` is not ``j >= i``), and ``y`` starts at 0."""
        p, q = position(x, out.shape), position(y, out.shape)
        if p is None or q is None or len(p.ax) != len(q.ax):
            return self._named_compare("ge", (), [x, y], out)
        slopes = [step(a) - step(b) for a, b in zip(p.ax, q.ax, strict=True)]
        first = next((k for k in slopes if k != 0), 0)
        if isinstance(first, int) and first < 0:
            turned = self.ev.linear([x], [ONE], x.shape, ONE)
            return self._not(self._ge(y, turned, out), out)
        start = Fraction(-q.off[0]) if isinstance(q.off[0], int) else None
        if start:
            x, y = (self.ev.linear([v], [ONE], v.shape, start) for v in (x, y))
        return self._named_compare("ge", (), [x, y], out)

    def _named_compare(
        self, kind: str, attrs: tuple[Any, ...], vals: list[Val], out: TensorType
    ) -> Val:
        before = len(self.ev.table.atoms)
        rule = alg.Pointwise(f"compare_{kind}", attrs, commutative=kind == "eq" and not attrs)
        v = self.ev.pointwise(rule, vals, out)
        for a in self.ev.table.atoms[before:]:
            a.boolean = True
        return v

    def logic(self, a: alg.Logic, vals: list[Val], out: TensorType) -> Val:
        if a.kind == "not":
            index = vals[0].index and integers.transform(vals[0].index, integers.logic_not)
            if index:
                return self.from_index(index)
            return self.ev.linear(vals, [-ONE], out.shape, ONE)
        index = self.joint_index(vals, integers.LOGIC[a.kind], out.shape)
        if index is not None:
            return self.from_index(index)
        both = self.ev.monomial(alg.Monomial((ONE, ONE)), vals, out)
        if a.kind == "and":
            return both
        coef = -ONE if a.kind == "or" else Fraction(-2)
        return self.ev.linear([*vals, both], [ONE, ONE, coef], out.shape)

    def select(self, a: alg.Select, vals: list[Val], out: TensorType) -> Val:
        if isinstance(a.other, float):
            rule = alg.Pointwise(alg.FILL, (a.other,))
            self.ev.infinite.filled = True
            return self.ev.pointwise(rule, vals, out)
        if a.other is not None:
            x, mask = vals
            other = blocks.filled(out.shape, lambda n: constant(a.other, n))
            vals = [mask, other, x]
        if discrete(out.dtype):
            index = self._select_index(vals, out, a.other)
            if index is not None:
                return self.from_index(index)
        dims, boxes = self.ev.overlay(vals, out.shape)
        self.ev.table.fire(lemmas.SELECT)
        cells = []
        for lo, hi, (c, x, y) in boxes:
            c = self.ev.products.positions.opened(c)
            neg = lincomb(self.ev.table, [*((t, -k) for t, k in c), *constant(ONE, len(lo))])
            pairs = self.ev.products.expand(lo, hi, [(c, ONE), (x, ONE)])
            pairs += self.ev.products.expand(lo, hi, [(neg, ONE), (y, ONE)])
            cells.append(Cell(lo, hi, lincomb(self.ev.table, pairs)))
        return self.ev.folder.value(blocks.normalise(dims, cells))

    def _select_index(self, vals: list[Val], out: TensorType, other: Any) -> Index | None:
        if not vals[0].index:
            return None
        cond = spread_index(vals[0], out.shape)
        k = integers.integral(other) if other is not None else _number(vals[1])
        yes, no = _branch(cond, vals[1], k, out), _branch(cond, vals[2], _number(vals[2]), out)
        return integers.select(cond, yes, no)


def _branch(cond: Index, v: Val, k: Size | None, out: TensorType) -> Index:
    """A branch of a selection: a number is a function of whatever the condition is one of."""
    if k is not None:
        return Index(cond.base, (integers.Piece(None, None, 0, k),))
    return spread_index(v, out.shape)


def _number(v: Val) -> int | None:
    """The integer that every element of a value is, or None."""
    if v.index is not None or len({c.lin for c in v.cells}) != 1:
        return None
    lin = v.cells[0].lin
    if not lin:
        return 0
    (t, c), *more = lin
    if more or t.atom != UNIT or t.restr or not isinstance(c, Fraction):
        return None
    return c.numerator if c.denominator == 1 else None


def index_of(spread: Val, original: Val) -> Index:
    if original.index is not None:
        index: Index = original.index
        return index.map_base(lambda b: views.expand(b, spread.shape))
    return integers.identity(spread)


def spread_index(v: Val, shape: Sequence[Size]) -> Index:
    """The integer view of a value broadcast to ``shape``."""
    return index_of(views.expand(v, shape), v)


def discrete(dtype: str) -> bool:
    """Whether elements are integers or booleans (bf16 is neither)."""
    return is_bool(dtype) or is_integer(dtype)
