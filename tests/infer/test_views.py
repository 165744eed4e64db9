"""The block algebra against NumPy, on random concrete values and on symbolic ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support.atoms import AtomValues
from tests.support.claims import evaluate

from shardproof.infer import factors, views
from shardproof.infer.blocks import Unsupported, Val, atom_val, merge_factors, normalise
from shardproof.infer.naming import Table
from shardproof.infer.terms import lincomb
from shardproof.ir.sizes import (
    Size,
    Symbol,
    Undecided,
    only_symbol,
    rank_symbol,
    substitute,
    symbol,
)
from shardproof.ops.base import Array

Rng = np.random.Generator
Numbers = dict[Symbol, Size]


def unseen(atom: int, index: tuple[int, ...]) -> float:
    raise AssertionError("every atom is an input")


class World:
    """Input atoms with numbers."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.table = rng, Table()
        self.arrays: dict[int, Array] = {}

    def fresh(self, shape: tuple[int, ...]) -> tuple[Val, Array]:
        atom = self.table.fresh("x")
        array = self.rng.normal(size=shape)
        self.arrays[atom] = array.reshape(tuple(n for n in shape if n != 1))
        return atom_val(atom, shape), array

    def same(self, v: Val, array: Array, numbers: Numbers | None = None) -> None:
        got = evaluate(AtomValues(self.table, self.arrays, unseen, numbers or {}), v)
        assert got.shape == array.shape
        np.testing.assert_allclose(got, array, atol=1e-12)


def shape(rng: Rng, rank: int) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.choice([1, 2, 3, 4, 6], size=rank))


# ------------------------------------------------------------------ random steps


def step(world: World, v: Val, x: Array) -> tuple[Val, Array]:
    """One random rearrangement on both sides."""
    rng = world.rng
    kind = rng.choice(["permute", "reshape", "slice", "concat", "expand", "join"])
    d = int(rng.integers(x.ndim)) if x.ndim else 0
    if kind == "permute":
        perm = [int(p) for p in rng.permutation(x.ndim)]
        return views.permute(v, perm), x.transpose(perm)
    if kind == "reshape":
        new = reshaped(rng, x.shape)
        return views.reshape(v, new), x.reshape(new)
    if kind == "slice" and x.ndim:
        a, b = sorted(int(k) for k in rng.integers(0, x.shape[d] + 1, size=2))
        if a == b:
            return v, x
        return views.slice_dim(v, d, a, b), np.take(x, range(a, b), axis=d)
    if kind == "concat" and x.ndim:
        other, y = world.fresh(x.shape)
        return views.concat([v, other, v], d), np.concatenate([x, y, x], axis=d)
    if kind == "join" and x.ndim and x.shape[d] > 1:
        k = int(rng.integers(1, x.shape[d]))
        parts = [views.slice_dim(v, d, 0, k), views.slice_dim(v, d, k, x.shape[d])]
        return views.concat(parts, d), x
    if kind == "expand":
        n = int(rng.integers(2, 4))
        return views.expand(v, (n, *x.shape)), np.broadcast_to(x, (n, *x.shape))
    return v, x


def reshaped(rng: Rng, old: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of the same size: two dims merged, or one split."""
    dims = list(old)
    if len(dims) > 1 and rng.random() < 0.5:
        k = int(rng.integers(len(dims) - 1))
        dims[k : k + 2] = [dims[k] * dims[k + 1]]
    else:
        k = int(rng.integers(len(dims))) if dims else 0
        inner = [q for q in (1, 2, 3, 4) if dims and dims[k] % q == 0]
        if inner:
            q = int(rng.choice(inner))
            dims[k : k + 1] = [dims[k] // q, q]
    return tuple(dims)


@pytest.mark.parametrize("seed", range(60))
def test_rearrangements(seed: int) -> None:
    world = World(np.random.default_rng(seed))
    v, x = world.fresh(shape(world.rng, int(world.rng.integers(1, 4))))
    done = 0
    for _ in range(8):
        try:
            w, y = step(world, v, x)
        except Unsupported:
            continue
        if y.size > 400:
            continue
        v, x, done = w, y, done + 1
        world.same(v, x)
        world.same(normalise(v.dims, v.cells), x)
        world.same(merge_factors(v), x)
    assert done >= 3


def test_aligned_values_keep_their_numbers() -> None:
    """Two values of one shape get equal factors, and their overlay covers both."""
    assert sum(aligned(seed) for seed in range(40)) >= 20


def aligned(seed: int) -> bool:
    """Check one random pair; false where a step has no block form or the value got large."""
    world = World(np.random.default_rng(100 + seed))
    w, y = world.fresh((4, 6))
    for _ in range(6):
        try:
            w, y = step(world, w, y)
        except Unsupported:
            continue
    other, z = world.fresh(y.shape)
    try:
        a, b = factors.align_all([w, other])
    except Unsupported:
        return False
    if y.size > 300:
        return False
    assert a.dims == b.dims
    world.same(a, y)
    world.same(b, z)
    total = 0
    for lo, hi, _ in views.overlay([a, b]):
        sides = [int(h) - int(g) for g, h in zip(lo, hi, strict=True)]  # type: ignore[arg-type]
        total += int(np.prod(sides))
    assert total == y.size
    return True


def test_adjacent_shards_merge_to_the_whole() -> None:
    world = World(np.random.default_rng(0))
    v, x = world.fresh((6, 4))
    parts = [views.slice_dim(v, 0, a, a + 2) for a in (0, 2, 4)]
    whole = views.concat(parts, 0)
    assert whole.key() == v.key()
    swapped = views.concat([parts[1], parts[0], parts[2]], 0)
    assert swapped.key() != v.key()
    world.same(swapped, x[[2, 3, 0, 1, 4, 5]])


def test_single_rows_out_of_order_do_not_merge() -> None:
    world = World(np.random.default_rng(0))
    v, x = world.fresh((3, 2))
    rows = [views.slice_dim(v, 0, k, k + 1) for k in range(3)]
    for order in ((0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (0, 0, 0), (0, 2, 2)):
        joined = views.concat([rows[k] for k in order], 0)
        world.same(joined, x[list(order)])
        assert (joined.key() == v.key()) == (order == (0, 1, 2))


# ------------------------------------------------------------------ symbolic sizes

N, K = symbol("N"), symbol("K")
R = rank_symbol("@r", N)


def sized(numbers: Numbers, size: Size) -> int:
    out = substitute(size, numbers)
    assert isinstance(out, int)
    return out


STEPS: dict[str, tuple[Callable[[Val], Val], Callable[[Array, int, int, int], Array]]] = {
    "shard": (
        lambda v: views.slice_dim(v, 0, R * K, R * K + K),
        lambda x, n, k, r: x[r * k : r * k + k],
    ),
    "split": (lambda v: views.reshape(v, (N, K, 3)), lambda x, n, k, r: x.reshape(n, k, 3)),
    "one row of blocks": (
        lambda v: views.slice_dim(views.reshape(v, (N, K, 3)), 0, R, R + 1),
        lambda x, n, k, r: x.reshape(n, k, 3)[r : r + 1],
    ),
    "flat": (lambda v: views.reshape(v, (N * K * 3,)), lambda x, n, k, r: x.reshape(-1)),
    "turned": (
        lambda v: views.reshape(views.permute(views.reshape(v, (N, K, 3)), (1, 0, 2)), (K, N * 3)),
        lambda x, n, k, r: x.reshape(n, k, 3).transpose(1, 0, 2).reshape(k, n * 3),
    ),
    "twice": (lambda v: views.concat([v, v], 0), lambda x, n, k, r: np.concatenate([x, x])),
    "spread": (
        lambda v: views.expand(v, (K, N * K, 3)),
        lambda x, n, k, r: np.broadcast_to(x, (k, n * k, 3)),
    ),
    "columns swapped": (
        lambda v: views.concat([views.slice_dim(v, 1, 2, 3), views.slice_dim(v, 1, 0, 2)], 1),
        lambda x, n, k, r: x[:, [2, 0, 1]],
    ),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 3), (3, 1), (4, 2)])
def test_symbolic_rearrangements(name: str, n: int, k: int) -> None:
    make, expected = STEPS[name]
    world = World(np.random.default_rng(5))
    atom = world.table.fresh("x")
    v = make(atom_val(atom, (N * K, 3)))
    x = world.rng.normal(size=(n * k, 3))
    world.arrays[atom] = x
    for r in range(n):
        numbers: Numbers = {only_symbol(N): n, only_symbol(K): k, only_symbol(R): r}
        want = expected(x, n, k, r)
        got = evaluate(AtomValues(world.table, world.arrays, unseen, numbers), v)
        assert tuple(sized(numbers, s) for s in v.shape) == want.shape
        np.testing.assert_allclose(got, want)


def test_a_row_by_rank_over_two_pieces_is_refused() -> None:
    """Which piece the row comes from depends on the rank; dropping its axis would forget that."""
    table = Table()
    v = atom_val(table.fresh("x"), (2, 3))
    r = rank_symbol("@r", 2)
    swapped = views.concat([views.slice_dim(v, 0, 1, 2), views.slice_dim(v, 0, 0, 1)], 0)
    with pytest.raises((Unsupported, Undecided)):
        views.slice_dim(swapped, 0, r, r + 1)


def test_a_part_of_one_element_is_refused() -> None:
    table = Table()
    r = rank_symbol("@r", 2)
    with pytest.raises((Unsupported, Undecided)):
        views.slice_dim(atom_val(table.fresh("x"), (1, 3)), 0, r, 1)


# ------------------------------------------------------------------ linear combinations


def label_terms(table: Table, rng: Rng) -> tuple[list[Any], Callable[[Any], float]]:
    """Partial sums of one value over random intervals, and what each is."""
    from shardproof.infer.blocks import Term
    from shardproof.infer.naming import Instance

    x = table.fresh("x")
    operand = ((Term(x, ((0, 1),), (0,)), Fraction(1)),)
    total = table.define(Instance("sum", (), (0,), (8,), (operand,), (0,)))
    values = rng.normal(size=8)
    terms = []
    for _ in range(6):
        a, b = sorted(int(k) for k in rng.integers(0, 9, size=2))
        restr = () if (a, b) == (0, 8) else ((("sum", total.atom, 0), a, b),)
        terms.append(Term(total.atom, (), (), restr))

    def value(t: Any) -> float:
        a, b = (0, 8) if not t.restr else t.restr[0][1:]
        return float(values[a:b].sum())

    return terms, value


@pytest.mark.parametrize("seed", range(40))
def test_partial_sums_join_only_where_that_is_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = Table()
    terms, value = label_terms(table, rng)
    pairs = [(t, Fraction(int(rng.choice([-1, 1, 1, 2])))) for t in terms]
    want = sum(float(c) * value(t) for t, c in pairs)
    got = sum(float(c) * value(t) for t, c in lincomb(table, pairs) if isinstance(c, Fraction))
    assert abs(got - want) < 1e-9


def test_equal_intervals_add_up_and_do_not_join() -> None:
    table = Table()
    terms, _ = label_terms(table, np.random.default_rng(0))
    t = terms[0]._replace(restr=((("sum", terms[0].atom, 0), 0, 4),))
    assert lincomb(table, [(t, Fraction(1)), (t, Fraction(1))]) == ((t, Fraction(2)),)
