"""Numbers for symbols, one graph a rank."""

from __future__ import annotations

import numpy as np
import pytest
from tests.spec.programs import SPMD, SYMBOLIC_SEQUENTIAL

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.ir.graph import Mesh as GraphMesh
from shardproof.ir.text import parse_graph
from shardproof.ops.base import infer_types
from shardproof.replay.compare import replay_problem
from shardproof.replay.errors import NotReplayable
from shardproof.replay.instantiate import (
    group_ranks,
    instantiate_problem,
    instantiate_rank,
    is_concrete,
    size_symbols,
)
from shardproof.replay.resize import keep_sizes
from shardproof.replay.search import find_counterexample, instantiate_small


def mlp(text: str = SPMD) -> Spec:
    return Spec.from_graphs(
        sequential=SYMBOLIC_SEQUENTIAL,
        distributed=text,
        mesh=Mesh(tp="N"),
        inputs={"x": Replicate(), "w1": Shard(1), "w2": Shard(0)},
    )


def test_groups_of_a_mesh() -> None:
    mesh = GraphMesh.of(dp=2, pp=2, tp=3)
    assert group_ranks(mesh, 7, ("tp",)) == (6, 7, 8)
    assert group_ranks(mesh, 7, ("dp",)) == (1, 7)
    assert group_ranks(mesh, 7, ("dp", "tp")) == (0, 1, 2, 6, 7, 8)
    assert group_ranks(mesh, 7, ("tp", "dp")) == (0, 6, 1, 7, 2, 8)
    for rank in range(12):
        group = group_ranks(mesh, rank, ("pp", "tp"))
        assert rank in group
        assert all(group_ranks(mesh, r, ("pp", "tp")) == group for r in group)


def test_a_symbolic_program_becomes_one_graph_a_rank() -> None:
    problem = mlp().resolve()
    assert not is_concrete(problem)
    assert [s.name for s in size_symbols(problem)] == ["D", "N", "S", "f"]
    made = instantiate_problem(problem, {"D": 4, "N": 3, "S": 2, "f": 5})
    assert is_concrete(made)
    assert [g.rank for g in made.distributed.graphs] == [0, 1, 2]
    assert made.sequential.input("w1").shape == (4, 15)
    assert made.distributed.graphs[2].input("w1").shape == (4, 5)
    reduce = made.distributed.graphs[2].nodes[-1]
    assert (reduce.attrs["group"], reduce.attrs["group_size"]) == ((0, 1, 2), 3)
    starts = [n.attrs["start"] for n in made.relation[2].nodes if n.op == "slice"]
    assert starts == [10, 10]
    assert not replay_problem(made).differs(1e-12)


def test_a_missing_number_is_an_error() -> None:
    with pytest.raises(NotReplayable, match="has no number"):
        instantiate_problem(mlp().resolve(), {"D": 4, "N": 3, "S": 2})
    with pytest.raises(NotReplayable, match="instantiated first"):
        replay_problem(mlp().resolve())


def test_small_numbers_are_chosen_and_searched() -> None:
    problem = mlp().resolve()
    made = instantiate_small(problem, {"N": 4})
    assert len(made.distributed.graphs) == 4
    assert find_counterexample(problem) is None
    wrong = SPMD.replace('op="sum"', 'op="avg"')
    found = find_counterexample(mlp(wrong).resolve())
    assert found is not None
    assert found.ranks == [0, 1]
    assert found.relative_error == pytest.approx(0.5)


def test_rank_coordinates_in_attributes() -> None:
    """Sequence parallel: every rank cuts its own rows, on a mesh of two axes."""
    graph = parse_graph(
        "graph g\nmesh dp=2, tp=N\nsizes N, S\n%x = input f32[N*S, 2]\n"
        "%y = slice(%x) {dim=0, start=@tp*S, stop=@tp*S + S}\nreturn %y\n",
        infer_types,
    ).graph
    mesh = GraphMesh.of(dp=2, tp=3)
    numbers = {"N": 3, "S": 4}
    made = [instantiate_rank(graph, mesh, r, numbers) for r in range(6)]
    assert [g.nodes[0].attrs["start"] for g in made] == [0, 4, 8, 0, 4, 8]
    assert [g.nodes[0].attrs["stop"] for g in made] == [4, 8, 12, 4, 8, 12]


def test_kept_sizes_find_index_ranges() -> None:
    text = "%t = input f32[7, 2]\n%i = input i64[9]\n%y = take_rows(%t, %i)\nreturn %y\n"
    spec = Spec.from_graphs(
        sequential=f"graph s\n{text}",
        distributed=[f"graph d\nrank 0\nmesh tp=1\n{text}"],
        mesh=Mesh(tp=1),
        inputs={"*": Replicate()},
    )
    assert keep_sizes(spec.resolve()).ranges == {"i": 7}
    assert np.isfinite(replay_problem(spec.resolve()).comparisons[0].expected)
