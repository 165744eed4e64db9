"""The input relation: every way to write one, and every way to get it wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.spec.programs import RANKS, SEQUENTIAL, SPMD, SYMBOLIC_SEQUENTIAL, rank

from shardproof import InputError, Mesh, Partial, Parts, Replicate, Shard, Spec, concat, seq
from shardproof.ir.graph import Program
from shardproof.ir.sizes import symbol
from shardproof.ir.text import parse_graph, print_graph
from shardproof.ops.base import infer_types
from shardproof.spec.inputs import InputRelation
from shardproof.spec.patterns import shown_names
from shardproof.spec.problem import Problem


def relation(rule: Any, whole: str, *parts: str, mesh: Mesh | None = None) -> list[list[str]]:
    """For each rank the operators of the relation of an input x, without names."""
    mesh = mesh or Mesh(tp=len(parts))
    body = "%b = input f32[2]\n%y = exp(%b)\nreturn %y"
    spec = Spec.from_graphs(
        sequential=f"graph s\n%x = input f32[{whole}]\n{body}",
        distributed=[
            f"graph g\nrank {k}\nmesh {mesh}\n%x = input f32[{part}]\n{body}"
            for k, part in enumerate(parts)
        ],
        mesh=mesh,
        inputs={"x": rule, "b": Replicate()},
    )
    graphs = spec.resolve().relation
    return [[f"{n.op}{dict(n.attrs)}" for n in g.nodes] for g in graphs]


def cut(dim: int, start: int, stop: int) -> str:
    return f"slice{ {'dim': dim, 'start': start, 'stop': stop} }"


def test_placements() -> None:
    assert relation(Replicate(), "8", "8", "8") == [[], []]
    assert relation(Shard(0), "8", "4", "4") == [[cut(0, 0, 4)], [cut(0, 4, 8)]]
    assert relation(Shard(-1), "3, 8", "3, 4", "3, 4")[1] == [cut(1, 4, 8)]
    assert relation(Shard(0, sizes=[3, 3, 2]), "8", "3", "3", "2")[2] == [cut(0, 6, 8)]
    assert relation(Shard(0, sizes=[8, 0]), "8", "8", "0") == [[], [cut(0, 8, 8)]]
    assert relation(Shard(0), "8", "8") == [[]]


def test_parts_lie_side_by_side() -> None:
    (_, second) = relation(Parts(0, sizes=[8, 2, 2]), "12", "6", "6")
    assert second == [cut(0, 4, 8), cut(0, 9, 10), cut(0, 11, 12), "concat{'dim': 0}"]


def test_a_mesh_with_several_axes_cuts_in_mesh_order() -> None:
    mesh = Mesh(dp=2, tp=2)
    rule = {"tp": Shard(0), "dp": Shard(0)}
    ranks = relation(rule, "8", "2", "2", "2", "2", mesh=mesh)
    assert ranks[1] == [cut(0, 0, 4), cut(0, 2, 4)]
    assert ranks[2] == [cut(0, 4, 8), cut(0, 0, 2)]
    columns = {"tp": Shard(1), "dp": Replicate()}
    assert relation(columns, "4, 8", *["4, 4"] * 4, mesh=mesh)[3] == [cut(1, 4, 8)]
    assert relation(Replicate(), "8", *["8"] * 4, mesh=mesh) == [[]] * 4


def test_an_axis_of_size_one_needs_no_name() -> None:
    assert relation(Shard(0), "8", "4", "4", mesh=Mesh(dp=1, tp=2))[1] == [cut(0, 4, 8)]


def test_expressions() -> None:
    def inputs(rule: Any, part: str = "4, 4") -> str:
        spec = Spec.from_graphs(
            sequential=SEQUENTIAL,
            distributed=[rank(0).replace("[4, 4]", f"[{part}]"), rank(1)],
            mesh=Mesh(tp=2),
            inputs={"x": lambda r: rule if r == 0 else seq("x")[4:], "w": Replicate()},
            outputs={"h": Shard(0)},
        )
        graph = spec.resolve().relation[0]
        return " ".join(f"{n.op}{list(n.attrs.values())}" for n in graph.nodes)

    x = seq("x")
    assert inputs(x[4:8]) == "slice[0, 4, 8]"
    assert inputs(x[-4:]) == "slice[0, 4, 8]"
    assert inputs(x[:4, 0:4]) == "slice[0, 0, 4]"
    assert inputs(x.shard(0)) == "slice[0, 0, 4]"
    assert inputs(x.shard(0, axis="tp", sizes=[4, 4])) == "slice[0, 0, 4]"
    assert inputs(x.place({"tp": Shard(0)})) == "slice[0, 0, 4]"
    assert inputs(x.permute(1, 0)[:, 0:4]) == "permute[(1, 0)] slice[1, 0, 4]"
    assert inputs(x.reshape(2, -1)[0:1].reshape(4, 4)) == (
        "reshape[(2, 16)] slice[0, 0, 1] reshape[(4, 4)]"
    )
    assert inputs(concat(x[6:8], x[0:2], dim=0)) == "slice[0, 6, 8] slice[0, 0, 2] concat[0]"


def test_per_rank_functions_get_the_rank() -> None:
    assert relation(lambda r: seq("x")[4 * r : 4 * r + 4], "8", "4", "4")[1] == [cut(0, 4, 8)]
    assert relation(lambda r: Shard(0), "8", "4", "4")[1] == [cut(0, 4, 8)]


def test_symbolic_ranks() -> None:
    spec = Spec.from_graphs(
        sequential=SYMBOLIC_SEQUENTIAL,
        distributed=SPMD,
        inputs={
            "x": Replicate(),
            "w1": Shard(1),
            "w2": lambda r: seq("w2")[r * symbol("f") : (r + 1) * symbol("f")],
        },
    )
    problem = spec.resolve()
    (graph,) = problem.relation
    assert "slice(%w1) {dim=1, start=@tp*f, stop=@tp*f + f}" in print_graph(graph)
    assert "slice(%w2) {dim=0, start=@tp*f, stop=@tp*f + f}" in print_graph(graph)
    assert problem.distributed.spmd
    assert str(problem.distributed.mesh) == "tp=N"


def resolve(inputs: Any, **more: Any) -> Problem:
    arguments: dict[str, Any] = {"sequential": SEQUENTIAL, "distributed": RANKS, "mesh": Mesh(tp=2)}
    return Spec.from_graphs(inputs=inputs, **(arguments | more)).resolve()


def test_exact_names_win_over_patterns_and_earlier_patterns_over_later() -> None:
    problem = resolve({"?": Replicate(), "*": Shard(1), "x": Shard(0)})
    texts = [a.text for a in problem.assumptions if a.kind == "relation"]
    assert texts[:2] == ["x: S(0)", "w: R"]


def test_a_function_may_stand_for_the_mapping() -> None:
    problem = resolve(lambda name: Shard(0) if name == "x" else Replicate())
    assert len(problem.relation[0].output_names) == 2


def test_relation_is_printed_with_names_drawn_together() -> None:
    assert shown_names(["a_1", "a_2", "b", "a_3", "a_7"]) == "a_{1-3, 7}, b"
    assert shown_names(["w", "w1", "w1"]) == "w, w1"


def test_free_and_fixed_inputs() -> None:
    distributed = [text.replace("%x = input", "%k = input f32[3]\n%x = input") for text in RANKS]
    free = resolve({"x": Shard(0), "w": Replicate()}, distributed=distributed, free=["k"])
    assert "k" not in free.relation[0].output_names
    assert "k: free: any value on any rank" in [a.text for a in free.assumptions]
    spec = Spec.from_graphs(
        sequential=SEQUENTIAL,
        distributed=distributed,
        mesh=Mesh(tp=2),
        inputs={"x": Shard(0), "w": Replicate()},
        fixed={"k*": 0, "w": 2},
    )
    fixed = spec.resolve()
    assert spec.fixed_values == {"k": 0.0, "w": 2.0}
    assert '%k: f32[3] = full() {value=0/1, shape=(3,), dtype="f32"}' in print_graph(
        fixed.relation[1]
    )
    assert "k: every element is 0" in [a.text for a in fixed.assumptions]


def test_casts_are_listed() -> None:
    distributed = [text.replace("%x = input f32", "%x = input bf16") for text in RANKS]
    problem = resolve({"x": Shard(0), "w": Replicate()}, distributed=distributed, outputs=["h"])
    casts = [a.text for a in problem.assumptions if a.kind == "cast"]
    assert casts[0] == "x: f32 inputs are read as bf16"


MASKED = """\
graph s
%x = input f32[8]
%m = input b8[8]
%n = input b8[8]
%y = masked_fill(%x, %m) {value=0}
return %y
"""
MASKED_RANK = """\
graph d
%x = input f32[4]
%drop_0 = input b8[4]
%drop_1 = input b8[8]
return %x
"""


def masked(text: str = MASKED_RANK) -> InputRelation:
    sequential = parse_graph(MASKED, infer_types).graph
    program = Program(Mesh(tp=2), [parse_graph(text).graph, parse_graph(text).graph])
    return InputRelation(sequential, program, {"x": Shard(0)}, {}, ())


def test_random_masks_are_paired_in_order() -> None:
    found = masked()
    found.pair_random(["m", "n"], [["drop_0", "drop_1"]] * 2)
    graphs = found.resolve()
    assert graphs[1].output_names == ["x", "drop_0", "drop_1"]
    assert [v.name for v in graphs[1].inputs] == ["x", "m", "n"]
    random = [a.text for a in found.assumptions if a.kind == "random"]
    assert random[0].startswith("drop_0: the sequential random input of name m, S(0) (proposed")
    assert random[1].startswith("drop_1: the sequential random input of name n, R (proposed")


def test_random_masks_that_do_not_pair() -> None:
    with pytest.raises(InputError, match="1 random inputs on rank 0, 2 in the sequential graph"):
        masked().pair_random(["m", "n"], [["drop_0"]] * 2)
    odd = MASKED_RANK.replace("drop_0 = input b8[4]", "drop_0 = input b8[3]")
    with pytest.raises(InputError, match=r"the random input 'drop_0' is b8\[3\]"):
        masked(odd).pair_random(["m", "n"], [["drop_0", "drop_1"]] * 2)


X, W = Shard(0), Replicate()
WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"x": X}, "nothing says what the distributed input 'w' (f32[4, 6]) is", "free=[...]"),
    ({"x": X, "w": W, "v": W}, "'v' matches no distributed input", "correct the name"),
    ({"x": X, "w": W, "xx*": W}, "'xx*' matches no distributed input", ""),
    ({"x": X, "w": seq("ww")}, "'ww' matches no sequential input", "did you mean 'w'?"),
    (
        {"x": Shard(1), "w": W},
        "the relation gives f32[8, 2] for 'x', the program has f32[4, 4]",
        "",
    ),
    ({"x": Shard(2), "w": W}, "dim 2 of a tensor with 2 dims", ""),
    ({"x": X, "w": {"dp": Shard(0)}}, "'dp' is not a mesh axis", ""),
    ({"x": Partial(), "w": W}, "an input cannot be Partial", "free=[...]"),
    ({"x": {"tp": Partial()}, "w": W}, "an input cannot be Partial", ""),
    ({"x": Shard(0, sizes=[5, 4]), "w": W}, "sizes [5, 4] should be 2 numbers with sum 8", ""),
    ({"x": Parts(0, sizes=[5, 4]), "w": W}, "the parts [5, 4] sum to 9, dim 0 has 8", ""),
    ({"x": Parts(0, sizes=[5, 3]), "w": W}, "tp=2 does not divide the part of size 5 in dim 0", ""),
    ({"x": seq("x")[6:12], "w": W}, "expected 0 <= start <= stop <= 8", ""),
    ({"x": seq("x")[0:4, 0:4, 0:1], "w": W}, "3 slices of a tensor with 2 dims", ""),
    ({"x": seq("x").permute(0, 0), "w": W}, "does not permute", ""),
    ({"x": seq("x").reshape(5, -1), "w": W}, "has no reshape to [5, -1]", ""),
    ({"x": seq("x").reshape(5, 5), "w": W}, "elements", ""),
    ({"x": seq("x").reshape(0, -1), "w": W}, "has no reshape to [0, -1]", ""),
    ({"x": concat(dim=0), "w": W}, "there is nothing to concatenate", ""),
    ({"x": "S(0)", "w": W}, "'S(0)' says nothing about a tensor", ""),
    ({"x": lambda r: 1 / 0, "w": W}, "the per-rank function failed for rank 0: ZeroDivision", ""),
    ({"x": lambda r: None, "w": W}, "None says nothing about a tensor", ""),
]


@pytest.mark.parametrize(("inputs", "what", "step"), WRONG, ids=[w[1][:45] for w in WRONG])
def test_wrong_inputs(inputs: dict[str, Any], what: str, step: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(inputs)
    error = caught.value
    assert what in error.what
    assert step in error.next_step
    assert error.where.startswith("inputs")
    assert error.expected


def test_wrong_kind_of_tensor() -> None:
    distributed = [text.replace("%w = input f32", "%w = input i64") for text in RANKS]
    with pytest.raises(InputError, match="gives f32"):
        resolve({"x": X, "w": W}, distributed=distributed, outputs=["h"])


def test_a_bare_shard_is_ambiguous_on_two_axes() -> None:
    with pytest.raises(InputError, match="does not say which mesh axis") as caught:
        relation(Shard(0), "8", *["2"] * 4, mesh=Mesh(dp=2, tp=2))
    assert caught.value.next_step == 'write {"tp": Shard(0)}'


def test_unused_fixed_and_free_entries_are_refused() -> None:
    with pytest.raises(InputError, match="'t_\\*' matches no input"):
        resolve({"x": X, "w": W}, fixed={"t_*": 0})
    with pytest.raises(InputError, match="'t' matches no distributed input"):
        resolve({"x": X, "w": W}, free=["t"])


def test_symbolic_sizes_that_do_not_divide() -> None:
    with pytest.raises(InputError, match=r"does not divide|cannot divide"):
        Spec.from_graphs(
            sequential=SYMBOLIC_SEQUENTIAL,
            distributed=SPMD,
            inputs={"x": Shard(0), "w1": Shard(1), "w2": Shard(0)},
        ).resolve()


def test_uneven_shards_need_concrete_ranks() -> None:
    with pytest.raises(InputError, match="uneven shards need one graph a rank"):
        Spec.from_graphs(
            sequential=SYMBOLIC_SEQUENTIAL,
            distributed=SPMD,
            inputs={"x": Shard(0, sizes=[1, 2]), "w1": Shard(1), "w2": Shard(0)},
        ).resolve()


def test_only_slices_can_be_taken() -> None:
    with pytest.raises(InputError, match="the index 0"):
        seq("x")[0]  # type: ignore[index]
    with pytest.raises(InputError, match="the index slice"):
        seq("x")[::2]


MAKERS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Shard("0"), "dim is '0'"),  # type: ignore[arg-type]
    (lambda: Shard(0, sizes=3), "sizes is 3"),  # type: ignore[arg-type]
    (lambda: Shard(0, sizes=[-1, 9]), "sizes has -1"),
    (lambda: Parts(None, [8]), "dim is None"),  # type: ignore[arg-type]
    (lambda: Parts(0, "ab"), "sizes is 'ab'"),  # type: ignore[arg-type]
    (lambda: seq(3), r"seq\(3\)"),  # type: ignore[arg-type]
    (lambda: seq("x")[0.5:4], "the slice has 0.5"),  # type: ignore[misc]
    (lambda: seq("x").permute("a"), "a dim is 'a'"),  # type: ignore[arg-type]
    (lambda: seq("x").reshape(2.5), "the shape has 2.5"),  # type: ignore[arg-type]
    (lambda: concat("x", dim=0), "'x' is no expression"),  # type: ignore[arg-type]
    (lambda: concat(seq("x"), dim="a"), "dim is 'a'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "message"), MAKERS, ids=[m for _, m in MAKERS])
def test_arguments_are_checked_where_they_are_passed(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_failing_function_of_the_name() -> None:
    with pytest.raises(InputError, match="the function failed for 'x': ZeroDivisionError"):
        resolve(lambda name: 1 / 0)


@pytest.mark.parametrize("constant", [float("inf"), float("nan"), "1 / 0"])
def test_fixed_inputs_hold_finite_numbers(constant: Any) -> None:
    with pytest.raises(InputError, match="'w' cannot hold the constant") as caught:
        resolve({"x": X}, fixed={"w": constant})
    assert caught.value.where == "fixed['w']"


def test_fixed_integers_are_whole() -> None:
    ranks = [text.replace("%x = input", "%k = input i64[3]\n%x = input") for text in RANKS]
    with pytest.raises(InputError, match=r"'k' cannot hold the constant 0\.5"):
        resolve({"x": X, "w": W}, distributed=ranks, fixed={"k": 0.5})


def test_a_misspelt_entry_is_named_with_the_input_that_it_may_mean() -> None:
    whole = "graph s\n%weight = input f32[4]\n%y = exp(%weight)\nreturn %y"
    with pytest.raises(InputError) as caught:
        Spec.from_graphs(
            sequential=whole, distributed=whole, mesh=Mesh(tp=1), inputs={"wieght": Replicate()}
        ).resolve()
    assert caught.value.what == "'wieght' matches no distributed input"
    assert caught.value.next_step == "did you mean 'weight'?"


def test_an_extent_that_does_not_divide_is_named() -> None:
    with pytest.raises(InputError, match=r"tp=3 does not divide dim 0 of f32\[8\]; give Shard"):
        relation(Shard(0), "8", "3", "3", "2")
