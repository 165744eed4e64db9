"""Whether what is returned is what is expected, and makes up the whole: near misses."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as choices
from typing import Any

import pytest
from tests.support.problems import Rank, even, sharded, uneven
from tests.support.programs import builder

from shardproof.certificate.claims import Atom, Claims
from shardproof.certificate.exact import NotChecked, const
from shardproof.certificate.judge import Judge
from shardproof.certificate.operators import Operators
from shardproof.certificate.outputs import _all_ranks, _boxes, _covers, _image, check_cover
from shardproof.certificate.products import Product, Read, Sum
from shardproof.certificate.reading import check_proof
from shardproof.certificate.region import Boxes, Region
from shardproof.certificate.rules import Source
from shardproof.certificate.write import proof_of
from shardproof.infer.run import infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, TensorType, Value
from shardproof.ir.sizes import symbol
from shardproof.spec.problem import Obligation, Problem

N = symbol("N")
UNKNOWN = [Atom("x", "", (), (), (), (), n, ()) for n in (0, 1)]


# ------------------------------------------------------------------ parts


def graph(*views: tuple[str, dict[str, Any]], shape: Any = (4, 6), op: str = "") -> Graph:
    """A rearrangement of the output."""
    b = builder("expected")
    v = b.input("y", "f32", shape)
    for name, attrs in views:
        v = b.emit(name, v, **attrs)
    return b.returns(b.emit(op, v, v) if op else v)


def part(lo: Any, hi: Any, dim: int = 0, shape: Any = (4, 6)) -> Graph:
    return graph(("slice", {"dim": dim, "start": lo, "stop": hi}), shape=shape)


def covered(*parts: Graph | None, mesh: Mesh | None = None, shape: Any = (4, 6)) -> None:
    b = builder("sequential")
    y = b.input("y", "f32", shape)
    run = Operators(Claims(list(UNKNOWN), {}, []))
    check_cover(Obligation("y", "y", list(parts), ""), y, mesh, run.through)


MESH = Mesh((("r", N), ("s", 2), ("one", 1)))
R, S = MESH.index("r"), MESH.index("s")


def test_parts_that_make_up_the_whole() -> None:
    covered(graph())
    covered(None, graph())
    covered(part(0, 2), part(2, 4))
    covered(part(0, 2), None, part(2, 4))
    covered(part(0, 3), part(1, 4))
    covered(part(0, 4))
    covered(graph(("permute", {"perm": (1, 0)}), ("slice", {"dim": 0, "start": 0, "stop": 6})))
    covered(part(0, 0, shape=(0, 6)), shape=(0, 6))
    covered(graph(("reshape", {"shape": (24,)})))
    covered(part(3 * R, 3 * R + 3, shape=(3 * N, 6)), mesh=MESH, shape=(3 * N, 6))
    twice = 6 * R + 3 * S
    covered(part(twice, twice + 3, shape=(6 * N, 6)), mesh=MESH, shape=(6 * N, 6))
    covered(part(2 * S, 2 * S + 2), mesh=MESH)
    quarters = [
        graph(("slice", {"dim": 0, "start": a, "stop": a + 2}),
              ("slice", {"dim": 1, "start": b, "stop": b + 3}))
        for a in (0, 2) for b in (0, 3)
    ]  # fmt: skip
    covered(*quarters)
    with pytest.raises(NotChecked, match="do not make up"):
        covered(*quarters[1:])


@pytest.mark.parametrize(
    ("message", "run"),
    [
        ("do not make up", lambda: covered(part(0, 2), part(3, 4))),
        ("do not make up", lambda: covered(part(0, 3))),
        ("do not make up", lambda: covered(part(1, 4))),
        ("do not make up", lambda: covered(part(0, 0))),
        ("do not make up", lambda: covered(part(0, 3, dim=1), part(3, 5, dim=1))),
        ("do not make up", lambda: covered(part(S, S + 1), mesh=MESH)),
        ("do not make up", lambda: covered(part(2 * S, 2 * S + 2), mesh=MESH, shape=(5, 6))),
        ("do not tile", lambda: covered(part(S, S + 3), mesh=MESH)),
        ("do not tile", lambda: covered(part(0, S + 3), mesh=MESH)),
        ("do not tile", lambda: covered(part(S, 4), mesh=MESH)),
        ("no rearrangement", lambda: covered(graph(op="add"))),
        ("do not make up", lambda: covered(part(0, 3, shape=(4, 1)), shape=(4, 1))),
        ("with gaps", lambda: covered(graph(("reshape", {"shape": (12, 2)}),
                                            ("slice", {"dim": 1, "start": 0, "stop": 1})))),
    ],
)  # fmt: skip
def test_parts_that_do_not(message: str, run: Callable[[], None]) -> None:
    with pytest.raises(NotChecked, match=message):
        run()


def test_where_a_part_lies() -> None:
    r = Region({8: (1, 4), 9: (0, 5), 10: (2, N + 2)}, ())
    assert _image(r, const(3)) == (3, 4)
    assert _image(r, (2, ((8, 1),))) == (3, 6)
    assert _image(r, (0, ((8, 5), (9, 1)))) == (5, 20)
    assert _image(r, (0, ((9, 1), (10, 5)))) == (10, 5 * N + 10)
    for slopes in (((8, 2),), ((8, 4), (9, 1)), ((8, 6), (9, 1)), ((8, 1), (9, 1)), ((8, -1),)):
        with pytest.raises(NotChecked, match="with gaps"):
            _image(r, (0, slopes))


def test_the_parts_of_all_ranks() -> None:
    assert _all_ranks(((2 * R, 2 * R + 2), (0, 6)), MESH) == ((0, 2 * N), (0, 6))
    assert _all_ranks(((1, 2), (2 * R + 3, 2 * R + 5)), MESH) == ((1, 2), (3, 2 * N + 3))
    assert _all_ranks(((2 * R, 2 * R + 2), (3 * S, 3 * S + 3)), MESH) == ((0, 2 * N), (0, 6))
    assert _all_ranks(((0, 4),), None) == ((0, 4),)
    for box in (
        ((R, R + 1), (R, R + 1)),
        ((R, 2 * R + 1),),
        ((R, R + 2),),
        ((R, 7),),
        ((7, R + 9),),
    ):
        with pytest.raises(NotChecked, match="do not tile"):
            _all_ranks(box, MESH)


def test_what_an_expected_output_reads() -> None:
    def source(*terms: Any, shape: Any = (4,)) -> Source:
        return Source(
            shape, lambda r, at: [(Product((), ((Read(-1, (a(at),)), 1),)), c) for a, c in terms]
        )

    assert _boxes(source((lambda at: at[0], 1))) == [((0, 4),)]
    assert _boxes(source((lambda at: at[0], 1), shape=(2, 0))) == []
    for terms in ([], [(lambda at: at[0], 2)], [(lambda at: at[0], 1)] * 2):
        with pytest.raises(NotChecked, match="no rearrangement"):
            _boxes(source(*terms))

    def diagonal(r: Region, at: Any) -> Sum:
        return [(Product((), ((Read(-1, (at[0], at[0])), 1),)), 1)]

    with pytest.raises(NotChecked, match="along a diagonal"):
        _boxes(Source((4,), diagonal))


def test_boxes_cover() -> None:
    whole = ((0, 4), (0, N))
    assert _covers({((0, 2), (0, N)), ((2, 4), (0, N))}, whole)
    assert _covers({((-1, 2), (0, N)), ((2, 9), (0, N + 1))}, whole)
    assert not _covers({((0, 2), (0, N)), ((2, 4), (1, N))}, whole)
    assert not _covers({((0, 2), (0, N)), ((2, 4), (0, N - 1))}, whole)
    assert not _covers(set(), whole)


# ------------------------------------------------------------------ obligations


def halves(cut: Any = None) -> Problem:
    """``2 x``, of which every rank returns its part."""

    def run(b: Builder, v: dict[str, Value], rank: Rank | None = None) -> dict[str, Value]:
        return {"y": b.emit("scale", v["x"], by=2), "z": b.emit("exp", v["x"])}

    cut = cut or even(2, 2)
    return sharded("halves", cut, {"x": ("f32", (cut.total,), 0)}, run, run, {"y": 0, "z": 0})


def judged(change: Callable[[Problem, Obligation], None], problem: Problem | None = None) -> str:
    """What is said of a proof whose problem expects something else."""
    problem = problem or halves()
    inf = infer(problem, symbolic_ranks=False)
    assert inf.holds
    change(problem, problem.obligations[0])
    return check_proof(problem, problem, proof_of(inf), {}, []).problem


def changed(**fields: Any) -> Callable[[Problem, Obligation], None]:
    def change(p: Problem, ob: Obligation) -> None:
        for name, value in fields.items():
            setattr(ob, name, value)

    return change


def of(lo: int, hi: int, n: int = 4) -> Graph:
    return part(lo, hi, shape=(n,))


def mistyped() -> Graph:
    """It takes three elements and says two."""
    g = of(0, 3)
    g.nodes[0].outputs[0].type = TensorType("f32", (2,))
    return g


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("KeyError", changed(seq_output="w")),
        ("no rank returns it", changed(expected=[None, None])),
        ("KeyError", changed(dist_output="w")),
        ("not stated for every rank", changed(expected=[of(0, 2)])),
        ("not stated for every rank", changed(expected=[of(0, 2), of(2, 4), None])),
        ("part of another tensor", changed(expected=[of(0, 2, 5), of(2, 4, 5)])),
        ("another shape than is expected", changed(expected=[of(0, 2), of(1, 4)])),
        ("does not follow", changed(expected=[of(0, 2), of(1, 3)])),
        ("does not follow", changed(seq_output="z")),
        ("does not follow", changed(dist_output="z")),
        ("do not make up the whole", changed(expected=[of(0, 2), None])),
        ("do not make up the whole", changed(expected=[None, of(2, 4)])),
        ("axes that the mesh does not have", changed(partial_over=("dp",))),
        ("axes that the mesh does not have", changed(partial_over=("tp", "dp"))),
        ("does not follow", changed(partial_over=("tp",))),
        ("graph expected", changed(expected=[mistyped(), of(2, 4)])),
        ("", changed()),
    ],
)
def test_what_is_expected(message: str, change: Any) -> None:
    found = judged(change)
    assert message in found
    assert bool(message) == bool(found)


def test_an_output_of_one_element() -> None:
    assert judged(changed(), halves(uneven(0, 1))) == ""
    assert judged(changed(), halves(uneven(0, 1, 2))) == ""
    assert "does not follow" in judged(changed(dist_output="z"), halves(uneven(0, 1)))


@pytest.mark.parametrize(
    ("n", "cut", "order"),
    [(4, 1, 1), (4, 1, -1), (4, 3, 1), (4, 3, -1), (2, 1, 1), (2, 1, -1), (3, 1, 1), (N + 1, 1, 1)],
)
def test_every_element_is_compared(n: Any, cut: Any, order: int) -> None:
    def pieces(r: Region, at: Any) -> Sum:
        k = Boxes([((0,), (cut,)), ((cut,), (n,))]).find(r, at)
        return [(Product((), ((Read((1, 2)[::order][k], tuple(at)), 1),)), 1)]

    class Nothing:
        expected: tuple[Any, ...] = ()

    run: Any = Operators(Claims([*UNKNOWN, UNKNOWN[1], UNKNOWN[1]], {}, []))
    judge = Judge(run, Nothing)  # type: ignore[arg-type]
    plain = Source((n,), lambda r, at: [(Product((), ((Read(2, tuple(at)), 1),)), 1)])
    judge.compare(plain, Source((n,), plain.read))
    with pytest.raises(NotChecked, match="does not follow"):
        judge.compare(plain, Source((n,), pieces))


def rows() -> Problem:
    """The sums of rows: along ``dp`` the rows are cut, along ``tp`` what is summed."""
    b = builder("sequential")
    x = b.input("x", "f32", (2, 4))
    sequential = b.returns(b.emit("sum", x, dims=(1,), keepdim=False), names=("y",))
    graphs, relations, expected = [], [], []
    for k, (i, j) in enumerate(choices(range(2), repeat=2)):
        b = builder("relation")
        mine = b.emit("slice", b.input("x", "f32", (2, 4)), dim=0, start=i, stop=i + 1)
        mine = b.emit("slice", mine, dim=1, start=2 * j, stop=2 * j + 2)
        relations.append(b.returns(mine, names=("x",)))
        b = builder(f"rank{k}")
        mine = b.input("x", "f32", (1, 2))
        graphs.append(b.returns(b.emit("sum", mine, dims=(1,), keepdim=False), names=("y",)))
        graphs[-1].rank = k
        expected.append(part(i, i + 1, shape=(2,)))
    ob = Obligation("y", "y", expected, "", ("tp",))
    return Problem("rows", sequential, Program(Mesh.of(dp=2, tp=2), graphs), relations, [ob])


def test_only_the_ranks_along_the_axis_are_summed() -> None:
    problem = rows()
    proof = proof_of(infer(problem, symbolic_ranks=False))
    assert check_proof(problem, problem, proof, {}, []).agrees
    problem.obligations[0].partial_over = ("dp",)
    assert "does not follow" in check_proof(problem, problem, proof, {}, []).problem


def grid(*over: str) -> Problem:
    """The sum of x, of which the ranks along ``tp`` return parts, as all along ``dp`` do."""
    b = builder("sequential")
    x = b.input("x", "f32", (4,))
    sequential = b.returns(b.emit("sum", x, dims=(0,), keepdim=False), names=("y",))
    graphs, relations, expected = [], [], []
    for k in range(4):
        b = builder("relation")
        lo = 2 * (k % 2)
        mine = b.emit("slice", b.input("x", "f32", (4,)), dim=0, start=lo, stop=lo + 2)
        relations.append(b.returns(mine, names=("x",)))
        b = builder(f"rank{k}")
        mine = b.input("x", "f32", (2,))
        graphs.append(b.returns(b.emit("sum", mine, dims=(0,), keepdim=False), names=("y",)))
        graphs[-1].rank = k
        b = builder("expected")
        expected.append(b.returns(b.input("y", "f32", ())))
    ob = Obligation("y", "y", expected, "", tuple(over))
    return Problem("grid", sequential, Program(Mesh.of(dp=2, tp=2), graphs), relations, [ob])


def test_an_output_that_is_not_returned() -> None:
    def left_out(p: Problem, ob: Obligation) -> None:
        p.distributed.graphs[1].outputs[0] = None

    assert "a rank does not return it" in judged(left_out)

    def nowhere(p: Problem, ob: Obligation) -> None:
        p.sequential.outputs[0] = None

    assert "no rank returns it" in judged(nowhere)

    def without(p: Problem, ob: Obligation) -> None:
        for g in ob.expected:
            assert g is not None
            g.outputs[0] = None

    assert "part of another tensor" in judged(without)


@pytest.mark.parametrize(
    ("over", "agrees"), [(("tp",), True), ((), False), (("dp",), False), (("dp", "tp"), False)]
)
def test_over_which_axes_an_output_is_partial(over: Any, agrees: bool) -> None:
    problem = grid(*over)
    found = check_proof(problem, problem, proof_of(infer(problem, symbolic_ranks=False)), {}, [])
    assert found.agrees == agrees
    if not agrees:
        assert "does not follow" in found.problem
