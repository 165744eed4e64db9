"""Matching of instances: what is returned as equal must be equal, point by point."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support.atoms import AtomValues

from shardproof.infer.blocks import Term
from shardproof.infer.naming import Instance, Table
from shardproof.infer.solve import solve, verify
from shardproof.ops.base import Array

Rng = np.random.Generator
ONE = Fraction(1)
EXTENT = 4


def unseen(atom: int, index: tuple[int, ...]) -> float:
    raise AssertionError("every atom is an input or has a definition")


def random_term(rng: Rng, atom: int, rank: int, axes: int) -> Term:
    """A read of ``atom`` at a random affine function of some axes."""
    ax: list[Any] = [None] * axes
    for j in range(axes):
        if rng.random() < 0.75:
            ax[j] = (int(rng.integers(rank)), int(rng.choice([1, 1, 1, 2, 4])))
    return Term(atom, tuple(ax), tuple(int(k) for k in rng.integers(0, 4, size=rank)))


def sides(inst: Instance) -> tuple[int, ...]:
    return tuple(int(h) - int(g) for g, h in zip(inst.lo, inst.hi, strict=True))  # type: ignore[arg-type]


class Pool:
    """Input atoms with enough numbers around zero to be read anywhere."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.table = rng, Table()
        self.ranks: dict[int, int] = {}
        self.arrays: dict[int, Array] = {}
        for rank in (1, 2, 2):
            atom = self.table.fresh("x")
            self.ranks[atom] = rank
            self.arrays[atom] = rng.normal(size=(60,) * rank)

    def values(self) -> AtomValues:
        return AtomValues(self.table, self.arrays, unseen, {})

    def instance(self, fn: str, axes: int) -> Instance:
        rng = self.rng
        atoms = list(self.ranks)
        count = int(rng.integers(1, 4)) if fn in ("sum", "prod", "lin") else 2
        terms = []
        for _ in range(count):
            atom = int(rng.choice(atoms))
            terms.append(random_term(rng, atom, self.ranks[atom], axes))
        lo = tuple(int(k) for k in rng.integers(0, 2, size=axes))
        hi = tuple(a + EXTENT for a in lo)
        bound = tuple(j for j in range(axes) if rng.random() < 0.4) if fn in ("sum", "max") else ()
        bound = tuple(j for j in bound if any(t.ax[j] is not None for t in terms))
        terms.sort(key=lambda t: t.atom)
        if fn in ("lin", "max"):
            operands: Any = (tuple((t, ONE) for t in dict.fromkeys(terms)),)
        else:
            operands = tuple(((t, ONE),) for t in terms)
        return Instance(
            fn, (), lo, hi, operands, bound, commutative=fn in ("sum", "prod", "maximum")
        )

    def number(self, inst: Instance) -> Array:
        """The instance over its own box, straight from its operands."""
        shape = sides(inst)
        points = np.indices(shape).reshape(len(shape), -1) + np.array(inst.lo)[:, None]
        values = self.values()
        ops = [values.lin(lin, points).reshape(shape) for lin in inst.operands]
        out = ops[0]
        for x in ops[1:]:
            out = {"sum": out * x, "prod": out * x, "maximum": np.maximum(out, x),
                   "atan2": np.arctan2(out, x)}[inst.fn]  # fmt: skip
        if inst.bound:
            reduce = np.max if inst.fn == "max" else np.sum
            out = reduce(out, axis=inst.bound, keepdims=True)
        return np.broadcast_to(out, shape)

    def read(self, inst: Instance, t: Term) -> Array:
        shape = sides(inst)
        points = np.indices(shape).reshape(len(shape), -1) + np.array(inst.lo)[:, None]
        return self.values().term(t, points).reshape(shape)


def reread(rng: Rng, inst: Instance) -> Instance:
    """The same function seen through another order of axes, other boxes, shifted reads."""
    axes = len(inst.lo)
    perm = [int(p) for p in rng.permutation(axes)]
    shift = [int(k) for k in rng.integers(0, 3, size=axes)]
    if rng.random() < 0.3:
        shift[int(rng.integers(axes))] += 1

    def moved(t: Term) -> Term:
        off = list(t.off)
        for j, w in enumerate(t.ax):
            if w is not None:
                off[w[0]] += w[1] * shift[j]
        return t._replace(ax=tuple(t.ax[p] for p in perm), off=tuple(off))

    operands = [tuple((moved(t), c) for t, c in lin) for lin in inst.operands]
    if rng.random() < 0.3:  # a near miss
        k = int(rng.integers(len(operands)))
        t, c = operands[k][0]
        q = int(rng.integers(len(t.off)))
        off = (*t.off[:q], t.off[q] + 1, *t.off[q + 1 :])
        operands[k] = ((t._replace(off=off), c), *operands[k][1:])
    if inst.commutative and rng.random() < 0.5:
        operands = [operands[int(p)] for p in rng.permutation(len(operands))]
        operands.sort(key=lambda lin: lin[0][0].atom)
    bound = tuple(perm.index(j) for j in inst.bound)
    return Instance(
        inst.fn, inst.attrs, tuple(inst.lo[p] for p in perm), tuple(inst.hi[p] for p in perm),
        tuple(operands), bound, commutative=inst.commutative,
    )  # fmt: skip


@pytest.mark.parametrize("fn", ["sum", "prod", "lin", "max", "maximum", "atan2"])
def test_a_match_is_the_same_numbers(fn: str) -> None:
    found = missed = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, len(fn)])
        pool = Pool(rng)
        named = pool.instance(fn, int(rng.integers(1, 4)))
        pool.table.defining = True
        own = pool.table.define(named)
        np.testing.assert_allclose(pool.read(named, own), pool.number(named), atol=1e-9)
        other = reread(rng, named)
        term = pool.table.find(other)
        if term is None:
            missed += 1
            continue
        found += 1
        np.testing.assert_allclose(pool.read(other, term), pool.number(other), atol=1e-9)
    assert found >= 40, (found, missed)


@pytest.mark.parametrize("seed", range(100))
def test_a_solution_makes_every_read_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(1, 4))
    named = [random_term(rng, 5, 2, axes) for _ in range(2)]
    order = [int(p) for p in rng.permutation(axes)]
    hand = [t._replace(ax=tuple(t.ax[p] for p in order)) for t in named]
    if rng.random() < 0.4:
        hand[0] = hand[0]._replace(off=(hand[0].off[0] + 1, hand[0].off[1]))
    pairs = list(zip(named, hand, strict=True))
    box = (0,) * axes, (EXTENT,) * axes
    found = solve(pairs, *box, *box)
    if found is None:
        return
    assert verify(pairs, found)
    for point in np.ndindex(*(EXTENT,) * axes):
        at = {v: a.const + sum(s * point[x] for x, s in a.slope.items()) for v, a in found.items()}
        for td, ti in pairs:
            for q in range(2):
                mine = ti.off[q] + sum(
                    w[1] * point[j] for j, w in enumerate(ti.ax) if w and w[0] == q
                )
                theirs = td.off[q] + sum(
                    w[1] * at[v] for v, w in enumerate(td.ax) if w and w[0] == q
                )
                assert mine == theirs


def whole(table: Table, fn: str, term: Term, lo: Any, hi: Any, axes: tuple[int, ...]) -> Instance:
    return Instance(fn, (), lo, hi, (((term, ONE),),), (), axes)


def test_whole_axes_must_be_the_same_axes() -> None:
    table = Table()
    x = table.fresh("x")
    plain = Term(x, ((0, 1), (1, 1)), (0, 0))
    turned = Term(x, ((1, 1), (0, 1)), (0, 0))
    assert table.define(whole(table, "cumsum", plain, (0, 0), (4, 4), (0,)))
    assert table.find(whole(table, "cumsum", plain, (0, 0), (4, 4), (0,))) is not None
    assert table.find(whole(table, "cumsum", turned, (0, 0), (4, 4), (1,))) is not None
    assert table.find(whole(table, "cumsum", plain, (0, 0), (4, 4), (1,))) is None
    assert table.find(whole(table, "cumsum", plain, (0, 0), (2, 4), (0,))) is None
    assert table.find(whole(table, "cumsum", plain, (0, 0), (4, 2), (0,))) is not None


def test_whole_axes_must_be_in_the_same_order() -> None:
    table = Table()
    x = table.fresh("x")
    plain = Term(x, ((0, 1), (1, 1)), (0, 0))
    turned = Term(x, ((1, 1), (0, 1)), (0, 0))
    table.define(whole(table, "cumsum", plain, (0, 0), (2, 3), (0, 1)))
    assert table.find(whole(table, "cumsum", plain, (0, 0), (2, 3), (0, 1))) is not None
    assert table.find(whole(table, "cumsum", turned, (0, 0), (3, 2), (0, 1))) is None
