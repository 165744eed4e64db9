"""The interpreter: values, lock-step, poison, and everything that stops it."""

from __future__ import annotations

import numpy as np
import pytest

from shardproof.ir.graph import Graph, Mesh, Program
from shardproof.ir.text import parse_graph
from shardproof.ops.base import infer_types
from shardproof.replay.errors import NotReplayable, ReplayFault
from shardproof.replay.run import run_graph, run_program


def graph(text: str) -> Graph:
    return parse_graph(text, infer_types).graph


def rank(k: int, body: str) -> Graph:
    return graph(f"graph g\nrank {k}\nmesh tp=2\n{body}")


def program(*bodies: str) -> Program:
    return Program(Mesh.of(tp=len(bodies)), [rank(k, b) for k, b in enumerate(bodies)])


def test_values_of_one_graph() -> None:
    g = graph(
        "graph g\n%x = input bf16[2, 3]\n%i = input i32[2]\n%m = input b8[2, 3]\n"
        "%y = masked_fill(%x, %m) {value=7}\n%z = take_rows(%y, %i)\n"
        "%s = sum(%z) {dims=(0,)}\nreturn %s\n"
    )
    x = np.arange(6.0).reshape(2, 3)
    env = run_graph(g, {"x": x, "i": np.array([1, 1]), "m": x == 4})
    assert env[g.by_name()["s"]].tolist() == [6.0, 14.0, 10.0]
    assert env[g.by_name()["y"]].dtype == np.float64
    assert env[g.by_name()["i"]].dtype == np.int64


def test_only_what_is_kept_stays() -> None:
    g = graph(
        "graph g\n%x = input f32[2]\n%a = exp(%x)\n%b = neg(%a)\n%c = neg(%b)\n"
        "%unused = sin(%x)\nreturn %c\n"
    )
    names = g.by_name()
    env = run_graph(g, {"x": np.zeros(2)}, keep=[names["a"]])
    assert {v.name for v in env} == {"a", "c"}
    assert len(run_graph(g, {"x": np.zeros(2)})) == 5


def test_ranks_run_in_lock_step() -> None:
    """Rank 1 computes what rank 0 needs for what rank 1 gathers."""
    group = "group=(0, 1), group_size=2"
    p = program(
        f'%x = input f32[2]\n%r = recv() {{src=1, tag=0, {group}, shape=(2,), dtype="f32"}}\n'
        f"%s = add(%r, %x)\n%y = all_gather(%s) {{dim=0, {group}}}\nreturn %y\n",
        f"%x = input f32[2]\nsend(%x) {{dst=0, tag=0, {group}}}\n"
        f"%s = scale(%x) {{by=10}}\n%y = all_gather(%s) {{dim=0, {group}}}\nreturn %y\n",
    )
    envs = run_program(p, [{"x": np.ones(2)}, {"x": np.full(2, 3.0)}], [(), ()])
    for g, env in zip(p.graphs, envs, strict=True):
        assert [env[v].tolist() for v in g.outputs if v is not None] == [[4, 4, 30, 30]]


def test_undefined_memory_poisons_what_reads_it() -> None:
    g = graph(
        'graph g\n%x = input f32[2]\n%e = undefined() {shape=(2,), dtype="f32"}\n'
        "%y = add(%x, %e)\n%z = scale(%x) {by=2}\nreturn %y, %z\n"
    )
    env = run_graph(g, {"x": np.ones(2)})
    y, z = g.outputs
    assert y is not None
    assert z is not None
    assert np.isnan(env[y]).all()
    assert env[z].tolist() == [2, 2]


def test_index_out_of_range_names_the_place() -> None:
    p = program(
        *["%t = input f32[4, 2]\n%i = input i64[3]\n%rows = take_rows(%t, %i)\nreturn %rows\n"] * 2
    )
    good = {"t": np.zeros((4, 2)), "i": np.array([0, 3, 1])}
    bad = {**good, "i": np.array([0, 4, 1])}
    with pytest.raises(ReplayFault, match=r"rank 1: take_rows rows.*index 4 is outside") as caught:
        run_program(p, [good, bad])
    assert caught.value.rank == 1
    with pytest.raises(ReplayFault, match="-1"):
        run_program(p, [good, {**good, "i": np.array([0, -1, 1])}])


def test_what_cannot_be_run() -> None:
    g = graph("graph g\n%x = input f32[2]\n%y = neg(%x)\nreturn %y\n")
    with pytest.raises(NotReplayable, match="'x' of rank 0 is not defined"):
        run_graph(g, {})
    with pytest.raises(NotReplayable, match=r"\(3,\) is not \(2,\)"):
        run_graph(g, {"x": np.zeros(3)})
    opaque = graph(
        'graph g\n%x = input f32[2]\n%y = opaque(%x) {target="my.kernel", shape=(2,), '
        'dtype="f32"}\nreturn %y\n'
    )
    with pytest.raises(NotReplayable, match=r"my\.kernel"):
        run_graph(opaque, {"x": np.zeros(2)})
    g.nodes[0].op = "nonsense"
    with pytest.raises(NotReplayable, match="nonsense is not declared"):
        run_graph(g, {"x": np.zeros(2)})
    with pytest.raises(NotReplayable, match="instantiated first"):
        run_program(Program(Mesh.of(tp=2), [g], spmd=True), [{}])


def test_protocol_violations_do_not_run() -> None:
    body = (
        '%x = input f32[2]\n%y = all_reduce(%x) {{op="{}", group=(0, 1), group_size=2}}\n'
        "return %y\n"
    )
    p = program(body.format("sum"), body.format("max"))
    with pytest.raises(NotReplayable, match="values of op: sum, max"):
        run_program(p, [{"x": np.ones(2)}] * 2)


def test_wrong_shapes_are_caught_where_they_appear() -> None:
    g = graph("graph g\n%x = input f32[2, 3]\n%y = permute(%x) {perm=(1, 0)}\nreturn %y\n")
    g.nodes[0].attrs["perm"] = (0, 1)
    with pytest.raises(NotReplayable, match=r"permute y on rank 0: computed \(2, 3\)"):
        run_graph(g, {"x": np.zeros((2, 3))})
