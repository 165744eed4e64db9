"""Obligations: pairing, placements, proposals, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spec.programs import RANKS, SEQUENTIAL

from shardproof import InputError, Mesh, Output, Partial, Replicate, Shard, Spec, seq
from shardproof.ir.text import print_graph
from shardproof.spec.problem import Problem


def resolve(outputs: Any, **more: Any) -> Problem:
    arguments: dict[str, Any] = {
        "sequential": SEQUENTIAL,
        "distributed": RANKS,
        "mesh": Mesh(tp=2),
        "inputs": {"x": Shard(0), "w": Replicate()},
    }
    return Spec.from_graphs(outputs=outputs, **(arguments | more)).resolve()


def renamed(index: int = 0) -> list[str]:
    """The ranks with other names for what they return."""
    return [t.replace("%h", "%g").replace("%s", "%t") for t in RANKS]


def test_all_outputs_are_obligations_by_default_with_proposals_printed() -> None:
    problem = resolve(None)
    assert [(o.seq_output, o.dist_output, o.placement) for o in problem.obligations] == [
        ("h", "h", "S(0)"),
        ("s", "s", "S(0)"),
    ]
    texts = [a.text for a in problem.assumptions]
    assert "output h is expected as S(0), proposed from its shape" in texts
    assert problem.left_out == []


def test_what_is_not_expected_is_left_out() -> None:
    problem = resolve({"h": Shard(0)})
    assert problem.left_out == ["s"]
    assert not any("proposed" in a.text for a in problem.assumptions)
    assert resolve("h").left_out == resolve(["h"]).left_out == ["s"]


def test_expected_graphs_are_functions_of_the_sequential_output() -> None:
    (obligation,) = resolve({"h": Shard(0)}).obligations
    first, second = obligation.expected
    assert first is not None
    assert second is not None
    assert [v.name for v in second.inputs] == ["h"]
    assert "slice(%h) {dim=0, start=4, stop=8}" in print_graph(second)
    assert second.outputs[0].shape == (4, 6)  # type: ignore[union-attr]


def test_pairing_by_position_and_by_given_name() -> None:
    by_position = resolve({"h": Shard(0)}, distributed=renamed())
    assert by_position.obligations[0].dist_output == "g"
    assert "sequential h is paired with distributed g by position" in [
        a.text for a in by_position.assumptions
    ]
    for rule in ("g", ("g", Shard(0)), Output("g", Shard(0)), Output("g")):
        problem = resolve({"h": rule}, distributed=renamed())
        assert problem.obligations[0].dist_output == "g"
        assert not any("by position" in a.text for a in problem.assumptions)


def test_partial_outputs() -> None:
    whole = [t.replace("%x = input f32[4, 4]", "%x = input f32[8, 4]") for t in RANKS]
    (o,) = resolve({"h": Partial()}, distributed=whole, inputs={"*": Replicate()}).obligations
    assert o.partial_over == ("tp",)
    assert o.placement == "P(sum)"
    assert o.expected[0] is not None
    assert o.expected[0].nodes == []


def test_placements_on_two_axes() -> None:
    ranks = [t.replace("tp=2", "dp=2, tp=2") for t in RANKS]
    ranks += [t.replace("rank 0", "rank 2").replace("rank 1", "rank 3") for t in ranks]
    problem = resolve(
        {"h": {"tp": Shard(0), "dp": Partial()}},
        distributed=ranks,
        mesh=Mesh(dp=2, tp=2),
        inputs={"x": {"tp": Shard(0)}, "w": Replicate()},
    )
    (o,) = problem.obligations
    assert o.placement == "dp: P(sum), tp: S(0)"
    assert o.partial_over == ("dp",)
    assert problem.assumptions[0].text == "x: dp: R, tp: S(0)"


def test_outputs_of_some_ranks() -> None:
    stage = [RANKS[0].replace("return %h, %s", "return %h"), RANKS[1]]
    (o,) = resolve({"s": Output("s", seq("s")[4:8], ranks=(1,))}, distributed=stage).obligations
    assert [e is not None for e in o.expected] == [False, True]
    assert o.placement == "= s[4:8] on ranks 1"


def test_per_rank_functions() -> None:
    (o,) = resolve({"h": lambda r: seq("h")[4 * r : 4 * r + 4]}).obligations
    assert o.placement == "given for each rank by a function"


def test_casts_are_listed() -> None:
    ranks = [t.replace("input f32", "input bf16") for t in RANKS]
    problem = resolve({"h": Shard(0)}, distributed=ranks)
    casts = [a.text for a in problem.assumptions if a.kind == "cast"]
    assert "output h is f32, on the ranks bf16" in casts


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ({}, {}, "there is nothing to prove"),
    ([], {}, "there is nothing to prove"),
    ({"q": Shard(0), "h": Shard(0)}, {}, "'q' matches no sequential output"),
    ({"h": ("q", Shard(0))}, {}, "'q' matches no distributed output of rank 0"),
    ({"h": Replicate()}, {}, "the relation gives f32[8, 6] for 'h', the program has f32[4, 6]"),
    ({"h": Shard(1)}, {}, "the relation gives f32[8, 3] for 'h'"),
    ({"h": seq("s").shard(0)}, {}, "the expression for output 'h' mentions 's'"),
    ({"h": {"pp": Shard(0)}}, {}, "'pp' is not a mesh axis"),
    ({"h": Output(ranks=())}, {}, "'h' matches no distributed output"),
    ({"h": Output("h", ranks=(9,))}, {}, "no rank returns 'h'"),
    ({"h": ("h", Shard(0), 1)}, {}, "('h', Shard(0), 1)"),
    ({"h": 3}, {}, "3 says nothing about a tensor"),
]


@pytest.mark.parametrize(("outputs", "more", "what"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_wrong_outputs(outputs: Any, more: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(outputs, **more)
    assert what in caught.value.what
    assert caught.value.where.startswith("outputs")


def test_an_output_that_a_rank_does_not_return() -> None:
    ranks = [RANKS[0], RANKS[1].replace("return %h, %s", "return %h")]
    with pytest.raises(InputError, match="'s' matches no distributed output of rank 1"):
        resolve({"s": Shard(0)}, distributed=ranks)
    ranks = [RANKS[0], RANKS[1].replace("return %h, %s", "return %h, none as s")]
    with pytest.raises(InputError, match="rank 1 returns None for 's'"):
        resolve({"s": Shard(0)}, distributed=ranks)


def test_names_that_do_not_pair() -> None:
    ranks = [t.replace("return %g, %t", "return %g") for t in renamed()]
    with pytest.raises(InputError, match="'h' matches no distributed output"):
        resolve({"h": Shard(0)}, distributed=ranks)


def test_shapes_without_a_placement() -> None:
    ranks = [t.replace("[4, 4]", "[3, 4]") for t in RANKS]
    with pytest.raises(InputError, match="no single placement follows from the shapes"):
        resolve(None, distributed=ranks, inputs={"x": seq("x")[0:3], "w": Replicate()})
