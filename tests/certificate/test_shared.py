"""What the checker looks up, does once or does in another order must be what it would have found.

Each has a near miss: two things that are alike but for what matters.
"""

from __future__ import annotations

import random
from itertools import product as choices
from typing import Any

import pytest
from tests.support.problems import Rank, even, sharded

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.check import Checker
from shardproof.certificate.claimed import Claimed
from shardproof.certificate.claims import Atom, Cell, Claims, Meaning, Term
from shardproof.certificate.exact import Aff, NotChecked, Quotient, coef_times, negative, variable
from shardproof.certificate.operators import Operators
from shardproof.certificate.products import AtLeast, Equal, Exp, Product, Read, Sum
from shardproof.certificate.region import Boxes, Region, Split
from shardproof.certificate.rules import Moved, reshaped, sliced
from shardproof.certificate.write import proof_of
from shardproof.infer.run import infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Node, TensorType, Value
from shardproof.ir.sizes import Size, symbol
from shardproof.ops import base as alg

N = symbol("N")
HERE = Region({}, ())
Box = tuple[tuple[Size, ...], tuple[Size, ...]]


def unknown(name: str, axes: int) -> Atom:
    return Atom(name, "", (), (), (), (), axes, ())


def plain(k: int) -> Term:
    return Term.of(k, ((0, 1),), (0,), ())


def atoms() -> list[Atom]:
    """Atoms 2 and 3 are unknown functions of one index, 4 is their product at one index."""
    ab = Atom("ab", "prod", (), (((plain(2), 1),), ((plain(3), 1),)), (0,), (4,), 1, ())
    return [unknown("1", 0), unknown("index", 1), unknown("a", 1), unknown("b", 1), ab]


def claimed(made: type[Any] = Claimed) -> Any:
    return made(Claims(atoms(), {}, [{}]))


# ------------------------------------------------------------------ boxes


def random_boxes(rng: random.Random, lo: list[int], hi: list[int]) -> list[Box]:
    """A partition of a box by cuts that do not all go through."""
    d = rng.randrange(len(lo))
    if hi[d] - lo[d] < 2 or rng.random() < 0.25:
        return [(tuple(lo), tuple(hi))]
    cut = rng.randrange(lo[d] + 1, hi[d])
    return [
        *random_boxes(rng, lo, [cut if k == d else x for k, x in enumerate(hi)]),
        *random_boxes(rng, [cut if k == d else x for k, x in enumerate(lo)], hi),
    ]


def visited(boxes: Boxes, region: Region) -> list[tuple[Region, int]]:
    return list(region.visit(lambda r: boxes.find(r, r.index), 1000, "it"))


@pytest.mark.parametrize("seed", range(30))
def test_boxes_are_found(seed: int) -> None:
    """Every element is read in the box in which it lies, whatever the cuts."""
    rng = random.Random(seed)
    shape = [rng.randrange(1, 9) for _ in range(rng.randrange(1, 4))]
    cells = random_boxes(rng, [0] * len(shape), shape)
    rng.shuffle(cells)
    names = range(5, 5 + len(shape))
    region = Region.of({v: (0, n) for v, n in zip(names, shape, strict=True)},
                       tuple(map(variable, names)))  # fmt: skip
    seen: dict[tuple[int, ...], int] = {}
    for part, k in visited(Boxes(cells), region):
        for values in choices(*(range(*part.ranges[v]) for v in part.ranges)):  # type: ignore[arg-type]
            at = dict(zip(part.ranges, values, strict=True))
            place = tuple(c + sum(s * at[v] for v, s in xs) for c, xs in part.index)
            assert place not in seen
            seen[place] = k  # type: ignore[index]
    assert set(seen) == set(choices(*map(range, shape)))
    for place, k in seen.items():
        lo, hi = cells[k]
        assert all(a <= x < b for a, x, b in zip(lo, place, hi, strict=True))


def test_a_read_is_cut_at_all_borders_at_once() -> None:
    boxes = Boxes([((k,), (k + 3,)) for k in range(0, 30, 3)])
    region = Region({8: (2, 25)}, (variable(8),))
    with pytest.raises(Split) as cut:
        boxes.find(region, region.index)
    assert cut.value.points == (3, 6, 9, 12, 15, 18, 21, 24)
    parts = region.parts(cut.value)
    assert [p.ranges.get(8, ()) for p in parts if p.ranges] == [
        (3, 6), (6, 9), (9, 12), (12, 15), (15, 18), (18, 21), (21, 24),
    ]  # fmt: skip
    assert [p.index[0][0] for p in parts if not p.ranges] == [2, 24]


def test_points_out_of_order_cut_nothing() -> None:
    for points in ((3, 2), (0, 9), (-1, 3)):
        with pytest.raises(NotChecked, match="cut outside its range"):
            Region({8: (0, 5)}, ()).parts(Split(8, *points))


def test_reads_beyond_all_boxes_are_refused() -> None:
    boxes = Boxes([((k,), (k + 3,)) for k in range(3, 12, 3)])
    for lo, hi in ((0, 3), (12, 15), (-4, 0)):
        with pytest.raises(NotChecked, match="no piece of the operand covers"):
            boxes.find(Region({8: (lo, hi)}, ()), [variable(8)])


def test_a_box_with_a_hole_before_it_is_not_taken_for_the_hole() -> None:
    """The list of starts leads to a box that ends before the index."""
    boxes = Boxes([((0,), (2,)), ((4,), (6,))])
    with pytest.raises(NotChecked, match="no piece of the operand covers"):
        boxes.find(Region({8: (2, 4)}, ()), [variable(8)])


def test_boxes_of_symbolic_size() -> None:
    boxes = Boxes([((0,), (N,)), ((N,), (2 * N,))])
    assert boxes.find(Region({8: (N, 2 * N)}, ()), [variable(8)]) == 1
    with pytest.raises(Split) as cut:
        boxes.find(Region({8: (0, 2 * N)}, ()), [variable(8)])
    assert cut.value.points == (N,)


# ------------------------------------------------------------------ forms that were looked at


def cells(*spans: tuple[int, int], k: int = 2) -> tuple[Cell, ...]:
    return tuple(Cell((a,), (b,), ((plain(k), 1),)) for a, b in spans)


def test_boxes_of_other_extents_are_looked_at() -> None:
    run = claimed()
    run.owner |= {2: "a", 3: "b"}
    run.form(Meaning(((4,),), cells((0, 2), (2, 4))))
    run.form(Meaning(((4,),), cells((0, 2), (2, 4), k=3)))
    for dims in (((5,),), ((3,),), ((N,),)):
        with pytest.raises(NotChecked, match=r"do not cover|leaves the tensor"):
            run.form(Meaning(dims, cells((0, 2), (2, 4))))
    with pytest.raises(NotChecked, match="overlap"):
        run.form(Meaning(((4,),), cells((0, 3), (2, 4))))


def test_what_is_in_known_boxes_is_looked_at() -> None:
    run = claimed()
    run.owner[2] = "a"
    run.form(Meaning(((4,),), cells((0, 2), (2, 4))))
    with pytest.raises(NotChecked, match="stands for nothing"):
        run.form(Meaning(((4,),), cells((0, 2), (2, 4), k=3)))
    flat = Cell((0,), (2,), ((Term.of(2, (), (0,), ()), 1),))
    with pytest.raises(NotChecked, match="wrong number of axes"):
        run.form(Meaning(((4,),), (flat, *cells((2, 4)))))


def test_types_are_those_of_the_same_attributes() -> None:
    run = Checker.__new__(Checker)
    run.ruled = {}
    x = TensorType("f32", (2, 3))
    for _ in range(2):
        assert run.types("sum", (x,), {"dims": (0,), "keepdim": True}) == (
            TensorType("f32", (1, 3)),
        )
        assert run.types("sum", (x,), {"dims": (0,), "keepdim": False})[0].shape == (3,)
        assert run.types("sum", (x,), {"dims": (1,), "keepdim": False})[0].shape == (2,)
        assert run.types("exp", (x,), {}) == (x,)
        with pytest.raises(alg.ShapeError):
            run.types("sum", (x,), {"dims": (0,), "keepdim": 1})  # equal to true, but no flag
        with pytest.raises(alg.ShapeError):
            run.types("sum", (TensorType("f32", (2,)),), {"dims": (1,), "keepdim": False})


# ------------------------------------------------------------------ undefined contents


def test_a_view_of_a_part_may_be_defined() -> None:
    """Whether a rearrangement reads undefined contents is seen in what it reads, not only in what
    its operands are."""
    run = claimed()
    run.undefined = {3}
    m = Meaning(((4,),), (*cells((0, 2)), *cells((2, 4), k=3)))
    views = [Moved(alg.Slice(0, a, b), sliced(run.source(m), 0, a, b - a), (m,))
             for a, b in ((0, 2), (2, 4), (1, 3))]  # fmt: skip
    assert [run.no_number(v) for v in views] == [False, True, True]
    again = [Moved(alg.Reshape((2, 1)), reshaped(v.source, (2, 1)), (v,)) for v in views]
    assert [run.no_number(v) for v in again] == [False, True, True]


# ------------------------------------------------------------------ collectives without a group


def test_a_collective_without_a_group_is_no_function() -> None:
    """As a local node it would be one unknown on all ranks."""
    run = claimed(Operators)
    x = Meaning(((4,),), cells((0, 4)))
    v, out = (Value(name, TensorType("f32", (4,))) for name in "xy")
    for op, outs in (("all_reduce", (out,)), ("send", ())):
        with pytest.raises(NotChecked, match="without a group"):
            run.node("it", Node(op, (v,), {"op": "sum"}, outs), {v: x, out: x})


# ------------------------------------------------------------------ sums


def reads(*factors: tuple[int, int]) -> Product:
    """The product of atoms, each at a variable."""
    return Product((), tuple((Read(k, (variable(v),)), 1) for k, v in factors))


REGION = Region({8: (0, 4), 9: (0, 4)}, ())


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (((2, 8), (3, 9)), ((3, 9), (2, 8)), True),
        (((2, 8), (3, 9)), ((3, 8), (2, 9)), False),
        (((2, 8), (2, 9)), ((2, 9), (2, 8)), True),
        (((2, 8), (2, 9)), ((2, 8), (2, 8)), False),
        (((4, 8),), ((3, 8), (2, 8)), True),
        (((4, 8),), ((3, 8), (2, 9)), False),
        (((4, 8), (4, 9)), ((2, 9), (3, 9), (2, 8), (3, 8)), True),
        (((4, 8), (4, 9)), ((2, 9), (3, 8), (2, 9), (3, 8)), False),
        (((4, 8), (2, 9)), ((4, 9), (2, 8)), False),
    ],
)
def test_factors_in_another_order(a: Any, b: Any, equal: bool) -> None:
    one: Sum = [(reads(*a), 1)]
    other: Sum = [(reads(*b), 1)]
    assert Algebra(atoms()).equal(one, other, REGION) is equal


def test_every_factor_has_the_atom_that_it_reads() -> None:
    r = Read(3, (variable(8),))
    at: Aff = variable(9)
    assert [b.atom for b in (r, AtLeast(r, 2), Equal(r, at), Exp(r))] == [3] * 4


def test_coefficients() -> None:
    half = Quotient(1, N)
    assert coef_times(1, half) is half
    assert coef_times(half, 1) is half
    assert coef_times(-1, half) == negative(half) == Quotient(-1, N) != half
    assert (coef_times(0, 5), coef_times(3, 5), negative(3)) == (0, 15, -3)


# ------------------------------------------------------------------ what is stated


def stated(swapped: bool) -> list[bool]:
    """Whether the joined value, and what is read of it, are claimed on the first rank."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("exp", v["x"])}

    def ranks(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        low, high = (b.emit("slice", v["x"], dim=0, start=k, stop=k + 2) for k in (0, 2))
        z = b.emit("concat", *((high, low) if swapped else (low, high)), dim=0)
        low, high = (b.emit("slice", z, dim=0, start=k, stop=k + 2) for k in (0, 2))
        z = b.emit("concat", *((high, low) if swapped else (low, high)), dim=0)
        return {"y": b.emit("exp", z)}

    x: Any = {"x": ("f32", (4,), None)}
    problem = sharded("joined", even(2, 1), x, sequential, ranks, {"y": None})
    inf = infer(problem, symbolic_ranks=False)
    assert inf.holds
    graph = problem.distributed.graphs[0]
    row = dict(zip((v.name for v in graph.values()), proof_of(inf).distributed[0], strict=True))
    return [row[n.outputs[0].name] is not None for n in graph.nodes if n.op == "concat"]


def test_what_is_in_fewer_pieces_is_stated() -> None:
    assert stated(swapped=False) == [True, True]
    assert stated(swapped=True) == [False, True]
