"""Edits of ranks that run other programs than the one that the edit was made for."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Output, Replicate, Shard
from shardproof.diagnose.edit import Rewire, apply, value_at
from shardproof.ir.text import parse_graph
from shardproof.ops.base import ShapeError, infer_types
from shardproof.spec.spec import Spec

SENDER = """\
graph a
rank 0
mesh pp=2
%x = input f32[2]
%y = exp(%x)
send(%y) {dst=1, tag=0, group=(0, 1), group_size=2}
%z = neg(%y)
return %z
"""
RECEIVER = """\
graph b
rank 1
mesh pp=2
%x = input f32[2]
%y = exp(%x)
%r = recv() {src=0, tag=0, group=(0, 1), group_size=2, shape=(2,), dtype="f32"}
%z = neg(%y)
return %z
"""
ONE = "graph s\n%x = input f32[2]\n%y = exp(%x)\n%z = neg(%y)\nreturn %z\n"


def test_a_node_without_a_result_has_no_value() -> None:
    graph = parse_graph(SENDER, infer_types).graph
    assert value_at(graph, 0).name == "y"
    assert value_at(graph, -1).name == "x"
    for position in (1, 3, -2):
        with pytest.raises(ShapeError):
            value_at(graph, position)


def test_an_edit_that_does_not_fit_every_rank_is_no_candidate() -> None:
    problem = Spec.from_graphs(
        sequential=ONE, distributed=[SENDER, RECEIVER], mesh=Mesh(pp=2), inputs={"*": Replicate()}
    ).resolve()
    assert apply(problem, [Rewire(2, (1,))], "neg") is None
    assert apply(problem, [Rewire(2, (0,))], "neg") is not None


def test_an_output_that_one_rank_returns() -> None:
    first = "graph a\nrank 0\nmesh pp=2\n%x = input f32[2]\n%z = neg(%x)\nreturn %z\n"
    second = first.replace("rank 0", "rank 1").replace(
        "return %z", "%e = exp(%x)\n%y = scale(%e) {by=2/1}\nreturn %z, %y"
    )
    verdict = Spec.from_graphs(
        sequential="graph s\n%x = input f32[2]\n%z = neg(%x)\n%y = exp(%x)\nreturn %z, %y\n",
        distributed=[first, second],
        mesh=Mesh(pp=2),
        inputs={"*": Replicate()},
        outputs={"z": Replicate(), "y": Output(placement=Replicate(), ranks=(1,))},
    ).check()
    assert verdict.status == "refuted"
    assert [o.status for o in verdict.outputs] == ["proved", "refuted"]


def test_a_bias_on_every_rank_keeps_its_name_beside_another_summand() -> None:
    text = (
        "%x = input f32[4, {k}]\n%w = input f32[{k}, 6]\n%b = input f32[6]\n%r = input f32[4, 6]\n"
        "%p = matmul(%x, %w)\n%q = add(%p, %b)\n{sum}%y = add(%r, %s)\nreturn %y\n"
    )
    reduce = '%s = all_reduce(%q) {op="sum", group=("tp",)}\n'
    verdict = Spec.from_graphs(
        sequential="graph s\n" + text.format(k=8, sum="%s = scale(%q) {by=1/1}\n"),
        distributed="graph r\nmesh tp=2\n" + text.format(k=4, sum=reduce),
        inputs={"x": Shard(1), "w": Shard(0), "*": Replicate()},
    ).check()
    assert [f.code for f in verdict.findings] == ["SP118"]
