"""Collectives element by element: over concrete members against arrays, and with the rank as an
index against those over concrete members."""

from __future__ import annotations

from collections import Counter
from itertools import product as choices
from typing import Any

import numpy as np
import pytest
from tests.certificate.test_over_ranks import ATOMS as OVER
from tests.certificate.test_over_ranks import FIRST, HERE, MAX, SUM, N, R, extreme, ranks, read
from tests.certificate.test_over_ranks import product as over_product

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Atom, Term
from shardproof.certificate.communication import concrete, reduction
from shardproof.certificate.exact import NotChecked, const, quotient, total
from shardproof.certificate.products import Product, Read, Sum
from shardproof.certificate.ranks import Ranks
from shardproof.certificate.region import Region
from shardproof.certificate.rules import Source
from shardproof.ir.graph import Mesh, TensorType
from shardproof.ir.sizes import only_symbol, rank_symbol, substitute

EMPTY = Region({}, ())
ATOMS = [Atom("x", "", (), (), (), (), n, ()) for n in (0, 1, 1)]
SHAPE = (4, 6)
RANK = 1000
Elements = Counter[tuple[int, ...]]


def tensor(first: Any, shape: Any = SHAPE) -> Source:
    """The elements are ``x`` from ``first`` on."""

    def at_(r: Region, at: Any) -> Sum:
        place = const(first)
        flat = const(0)
        for a, n in zip(at, shape, strict=True):
            flat = total(((flat, n), (a, 1)))
        place = total(((place, 1), (flat, 1)))
        return [(Product((), ((Read(2, (place,)), 1),)), 1)]

    return Source(tuple(shape), at_)


def array(first: int, shape: Any = SHAPE) -> Any:
    return np.arange(int(np.prod(shape))).reshape(shape) + first


def elements(s: Source, values: Any = None) -> Any:
    """What a tensor of single terms holds; with the rank symbols put in."""
    out = np.zeros(s.shape, dtype=object)
    for at in np.ndindex(*s.shape):
        terms = s.read(EMPTY, [const(int(i)) for i in at])
        places = []
        for p, c in terms:
            assert c == 1
            places.append(tuple(sorted(substitute(b.at[0][0], values or {}) for b, _ in p.factors)))  # type: ignore[union-attr]
        out[at] = tuple(sorted(places))
    return out


def ones(a: Any) -> Any:
    """The same form, of numbers."""
    out = np.zeros(a.shape, dtype=object)
    for at in np.ndindex(*a.shape):
        out[at] = ((int(a[at]),),)
    return out


def meet(kind: str, members: list[Source], **attrs: Any) -> list[Source]:
    types = [TensorType("f32", s.shape) for s in members]
    every = attrs.pop("every", None) or [attrs] * len(members)
    return concrete(Algebra(ATOMS), kind, members, every, types)


def same(found: list[Source], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for s, a in zip(found, expected, strict=True):
        assert s.shape == a.shape
        assert (elements(s) == ones(a)).all()


FIRSTS = (0, RANK, 2 * RANK)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_gathered(dim: int) -> None:
    made = meet("all_gather", [tensor(k) for k in FIRSTS], dim=dim)
    same(made, [np.concatenate([array(k) for k in FIRSTS], dim)] * 3)
    shapes = [(4, 6), (1, 6), (3, 6)]
    if dim == 0:
        made = meet(
            "all_gather", [tensor(k, s) for k, s in zip(FIRSTS, shapes, strict=True)], dim=0
        )
        parts = [array(k, s) for k, s in zip(FIRSTS, shapes, strict=True)]
        same(made, [np.concatenate(parts, 0)] * 3)


@pytest.mark.parametrize(("split", "join"), list(choices((0, 1, -1), repeat=2)))
def test_exchanged(split: int, join: int) -> None:
    made = meet("all_to_all", [tensor(0), tensor(RANK)], split_dim=split, concat_dim=join)
    cut = [np.split(array(k), 2, split) for k in (0, RANK)]
    same(made, [np.concatenate([c[r] for c in cut], join) for r in (0, 1)])


def test_exchanged_in_uneven_parts() -> None:
    every = [{"split_dim": 1, "concat_dim": 1, "send_sizes": s} for s in ((1, 5), (4, 2))]
    made = meet("all_to_all", [tensor(0), tensor(RANK)], every=every)
    cut = [np.split(array(k), [n], 1) for k, n in ((0, 1), (RANK, 4))]
    same(made, [np.concatenate([c[r] for c in cut], 1) for r in (0, 1)])
    two = [tensor(0), tensor(RANK)]
    for sizes in ((1, 4), (1, 6), (1, 2)):
        with pytest.raises(NotChecked, match="do not make up"):
            meet("all_to_all", two, every=[{**every[0], "send_sizes": sizes}] * 2)
    got = [{**a, "recv_sizes": s} for a, s in zip(every, ((1, 4), (5, 2)), strict=True)]
    assert meet("all_to_all", two, every=got)
    for wrong in ((4, 1), (1, 5), (1,)):
        with pytest.raises(NotChecked, match="other sizes than are sent"):
            meet("all_to_all", two, every=[{**got[0], "recv_sizes": wrong}, got[1]])
    turned = {"split_dim": 0, "concat_dim": 1, "recv_sizes": (6, 6)}
    assert meet("all_to_all", two, every=[turned] * 2)
    with pytest.raises(NotChecked, match="other sizes than are sent"):
        meet("all_to_all", two, every=[turned, {**turned, "recv_sizes": (2, 2)}])


@pytest.mark.parametrize("src", [3, 7])
def test_broadcast(src: int) -> None:
    made = meet("broadcast", [tensor(0), tensor(RANK)], group=(3, 7), src=src)
    same(made, [array(RANK if src == 7 else 0)] * 2)


@pytest.mark.parametrize(("dim", "sizes"), [(0, None), (1, None), (-1, None), (1, (1, 5))])
def test_reduced_and_scattered(dim: int, sizes: Any) -> None:
    made = meet("reduce_scatter", [tensor(0), tensor(RANK)], op="sum", dim=dim, sizes=sizes)
    parts = np.split(array(0), [sizes[0]] if sizes else 2, dim)
    for s, a in zip(made, parts, strict=True):
        assert s.shape == a.shape
        found = elements(s)
        assert all(found[at] == ((a[at],), (a[at] + RANK,)) for at in np.ndindex(*a.shape))


def test_reductions() -> None:
    def value(op: str, dtype: str = "f32") -> Sum:
        made = reduction(Algebra(ATOMS), op, [tensor(0, (1,)), tensor(RANK, (1,))], dtype)
        return made.read(EMPTY, [const(0)])

    x, y = (Read(2, (const(k),)) for k in (0, RANK))
    assert value("sum") == [(Product((), ((x, 1),)), 1), (Product((), ((y, 1),)), 1)]
    assert [c for _, c in value("avg")] == [quotient(1, 2)] * 2
    assert value("product") == [(Product((), ((x, 1), (y, 1))), 1)]
    assert value("sum", "i64") == value("sum")
    for op, dtype in (
        ("avg", "i64"),
        ("sum", "b8"),
        ("avg", "b8"),
        ("product", "b8"),
        ("xor", "i64"),
    ):
        with pytest.raises(NotChecked, match="the reduction"):
            value(op, dtype)


# ------------------------------------------------------------------ with the rank as an index

MESH = Mesh((("r", 2), ("s", 3), ("one", 1)))
SYMBOLS = {a: only_symbol(MESH.index(a)) for a in ("r", "s")}
GROUPS = [("r",), ("s",), ("r", "s"), ("s", "r"), ("s", "one")]


def spread_out(shape: Any) -> Source:
    """Every rank holds other elements."""
    return tensor(RANK * MESH.index("r") + 2 * RANK * MESH.index("s"), shape)


def members(group: Any, mine: dict[str, int], shape: Any) -> list[Source]:
    out = [mine]
    for a in group:
        n: Any = MESH.extent(a)
        out = [{**c, a: i} for c in out for i in range(n)]
    return [tensor(RANK * c["r"] + 2 * RANK * c["s"], shape) for c in out]


def place(group: Any, mine: dict[str, int]) -> int:
    out = 0
    for a in group:
        n: Any = MESH.extent(a)
        out = out * n + mine[a]
    return out


CASES: list[tuple[str, dict[str, Any]]] = [
    ("all_gather", {"dim": 0}), ("all_gather", {"dim": -1}),
    ("all_to_all", {"split_dim": 0, "concat_dim": 1}),
    ("all_to_all", {"split_dim": 1, "concat_dim": 0}),
    ("all_to_all", {"split_dim": 0, "concat_dim": 0}),
    ("all_to_all", {"split_dim": 1, "concat_dim": 1}),
    ("reduce_scatter", {"dim": 0, "op": "sum"}), ("reduce_scatter", {"dim": 1, "op": "sum"}),
    ("all_reduce", {"op": "sum"}),
    *(("broadcast", {"src": k}) for k in (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(("kind", "attrs"), CASES)
def test_it_is_that_of_every_rank(kind: str, attrs: Any, group: Any) -> None:
    shape = (6, 12, 1) if "all" in kind else (6, 6, 1)
    mine = Ranks(Algebra(ATOMS), MESH, set())
    made = mine.run(kind, spread_out(shape), {"group": group, **attrs}, "f32")
    for r, s in choices(range(2), range(3)):
        here = {"r": r, "s": s, "one": 0}
        given = {**attrs, "group": tuple(range(6)), "every": None}
        each = meet(kind, members(group, here, shape), **given)
        want = each[place(group, here)]
        assert made.shape == want.shape
        values: Any = {SYMBOLS[a]: here[a] for a in SYMBOLS}
        some = [tuple(i) for i in np.ndindex(*want.shape)][:: 7 if len(group) > 1 else 3]
        for at in some:
            index = [const(int(i)) for i in at]
            found = [
                substitute(b.at[0][0], values)  # type: ignore[union-attr]
                for p, _ in made.read(EMPTY, index) for b, _ in p.factors
            ]  # fmt: skip
            expected = [b.at[0][0] for p, _ in want.read(EMPTY, index) for b, _ in p.factors]  # type: ignore[union-attr]
            assert Counter(found) == Counter(expected), (at, here)


def test_a_mean_over_the_ranks() -> None:
    mine = Ranks(Algebra(ATOMS), MESH, set())
    made = mine.reduced("avg", tensor(0, (1,)), ("r", "s"), "f32")
    ((_, c),) = made.read(EMPTY, [const(0)])
    assert c == 1
    assert made.shape == (1,)
    for op, dtype in (("avg", "i64"), ("sum", "b8"), ("product", "f32")):
        with pytest.raises(NotChecked, match="the reduction"):
            mine.reduced(op, tensor(0, (1,)), ("r",), dtype)
    top = mine.reduced("max", tensor(0, (1,)), ("r",), "b8")
    assert len(top.read(EMPTY, [const(0)])) == 1


def test_parts_of_equal_sizes() -> None:
    for sizes in ((2, 2), None, ()):
        assert ranks().run(
            "all_gather", tensor(0), {"group": ("two",), "dim": 0, "sizes": sizes}, "f32"
        )
    for k in ("sizes", "send_sizes", "recv_sizes"):
        with pytest.raises(NotChecked, match="uneven parts"):
            ranks().run("all_gather", tensor(0), {"group": ("two",), "dim": 0, k: (1, 2)}, "f32")


def test_sums_that_are_written_out() -> None:
    """For few ranks only, and not under a sum."""
    at = over_product(read(2, at=(const(HERE),)))
    found = ranks()._sum_one(at, 1, R, 16)
    assert [p.factors[0][0].at for p, _ in found] == [(const(k),) for k in range(16)]  # type: ignore[union-attr]
    for p, n in ((at, 17), (at, N), (over_product(FIRST, ranges=((8, 0, 4),)), 2)):
        with pytest.raises(NotChecked):
            ranks()._sum_one(p, 1, R, n)


@pytest.mark.parametrize(
    "span", [(HERE, 2 * HERE + 1), (HERE, HERE), (2 * HERE, 2 * HERE + 1), (1 - HERE, HERE + 2)]
)
def test_parts_that_make_up_no_maximum(span: Any) -> None:
    with pytest.raises(NotChecked, match="make up no interval"):
        extreme((over_product(read(4, (MAX, *span))), 1))


def test_parts_of_a_maximum_that_start_later() -> None:
    found = extreme((over_product(read(4, (MAX, HERE + 2, HERE + 3))), 1))
    assert found == [(over_product(read(4, (MAX, 2, N + 2))), 1)]


# ------------------------------------------------------------------ what depends on the rank


def depends(k: int, *labels: Any, more: Any = ()) -> bool:
    mine = Ranks(Algebra([*OVER, *more]), Mesh((("r", N), ("one", 1), ("two", 2))), set())
    return R in mine.symbols_of(k, [(n, 0, 0) for n in labels])


def of(k: int, axes: int = 0, **how: Any) -> Atom:
    """A function of one term."""
    fields = {"off": (), "ax": (None,) * axes, "restr": (), "c": 1, "attrs": (), **how}
    t = Term.of(k, fields["ax"], fields["off"], fields["restr"])
    lo, hi = fields.get("lo", (0,) * axes), fields.get("hi", (4,) * axes)
    ops = (((t, fields["c"]),),)
    free, whole = fields.get("free", axes), fields.get("whole", ())
    return Atom("f", fields.get("fn", "f"), fields["attrs"], ops, lo, hi, free, whole)


OTHER = rank_symbol("@two", 2)


@pytest.mark.parametrize(
    ("atom", "expected"),
    [
        (of(0), False),
        (of(0, attrs=(HERE,)), True),
        (of(0, attrs=((1, (HERE,)),)), True),
        (of(0, attrs=(N,)), False),
        (of(0, attrs=(OTHER,)), False),
        (of(0, c=quotient(HERE, 1)), True),
        (of(0, c=quotient(1, HERE + 1)), True),
        (of(2, 1, ax=((0, 1),), off=(HERE,)), True),
        (of(2, 1, ax=((0, HERE),), off=(0,)), True),
        (of(2, 1, ax=((0, 1),), off=(0,)), False),
        (of(3, restr=((SUM, HERE, HERE + 1),)), True),
        (of(3, restr=((SUM, 0, 1),)), False),
        (of(5), True),
        (of(5, restr=((("sum", 5, 0), 0, 1),)), False),
        (of(0, 1, lo=(HERE,)), False),  # the range of a free variable
        (of(0, 1, hi=(HERE + 1,)), False),
        (of(0, 1, lo=(HERE,), whole=(0,)), True),
        (of(0, 1, hi=(HERE + 1,), whole=(0,)), True),
        (of(0, 1, hi=(HERE + 1,), free=0, fn="sum"), True),
    ],
)
def test_what_an_atom_depends_on(atom: Atom, expected: bool) -> None:
    assert depends(len(OVER), more=(atom,)) is expected


def test_intervals_hide_the_ends_that_they_replace() -> None:
    k = len(OVER)
    two = Atom(
        "p", "prod", (), tuple(((Term.of(5, (), (), ()), 1),) for _ in range(2)), (), (), 0, ()
    )
    mine = ("sum", 5, 0)
    assert not depends(5, mine)
    assert depends(k, ("in", k, 0, mine), more=(two,))
    assert depends(k, ("in", k, 1, mine), more=(two,))
    assert not depends(k, ("in", k, 0, mine), ("in", k, 1, mine), more=(two,))
    one = of(5, fn="prod")
    assert not depends(k, ("in", k, 0, mine), more=(one,))
    bound = Atom("s", "sum", (), (((Term.of(0, (None,), (), ()), 1),),), (0,), (HERE + 1,), 0, ())
    assert depends(k, ("in", k, 0, ("sum", 0, 0)), more=(bound,))  # of an operand, not of the sum
