"""Mutants are well-formed, deterministic, and change one thing."""

from __future__ import annotations

from random import Random

import pytest
from benchmarks.mutants import all_pairs

from shardproof.ir.check import check_graph, check_program
from shardproof.ir.graph import Graph
from shardproof.ir.text import print_graph
from shardproof.ops.base import infer_types
from shardproof.spec.problem import Problem
from shardproof.testing.judge import Pair, judge
from shardproof.testing.mutate import KINDS, PROTOCOL, SHARDS, Mutant, candidates, mutants
from shardproof.testing.pairs import PAIRS


@pytest.fixture(scope="module")
def grid() -> Pair:
    return PAIRS["grid_block"]()


@pytest.fixture(scope="module")
def gpt() -> Pair:
    return PAIRS["gpt_tp2_layers1"]()


def text(problem: Problem) -> list[str]:
    return [print_graph(g) for g in (*problem.distributed.graphs, *problem.relation)]


def find(pair: Pair, kind: str, start: str) -> Mutant:
    made = mutants(pair.small.problem, kinds=(kind,))
    return next(m for m in made if m.description.startswith(start))


def test_the_same_seed_gives_the_same_mutants(grid: Pair) -> None:
    first, again, other = (
        [(m.description, text(m.problem)) for m in mutants(grid.small.problem, seed=s, count=40)]
        for s in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_every_mutant_is_well_formed_and_differs(grid: Pair) -> None:
    original = text(grid.small.problem)
    for m in mutants(grid.small.problem, count=100):
        assert check_program(m.problem.distributed, infer_types) == []
        assert [f for g in m.problem.relation for f in check_graph(g, infer_types)] == []
        assert text(m.problem) != original, m.description


def test_only_the_named_ranks_change(grid: Pair) -> None:
    before = [print_graph(g) for g in grid.small.problem.distributed.graphs]
    for m in mutants(grid.small.problem, count=100):
        if m.kind != SHARDS:
            after = [print_graph(g) for g in m.problem.distributed.graphs]
            changed = {k for k, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
            assert changed <= set(m.ranks), m.description


def test_the_original_is_left_as_it_was(grid: Pair) -> None:
    before = text(grid.small.problem)
    assert len(list(mutants(grid.small.problem, count=60))) == 60
    assert text(grid.small.problem) == before


def test_every_kind_occurs(grid: Pair, gpt: Pair) -> None:
    others = [all_pairs()[name]() for name in ("micro_batches", "jax_ring_attention-lowered")]
    found = {c.kind for p in (grid, gpt, *others) for c in candidates(p.small.problem, Random(0))}
    assert found == set(KINDS)


def test_a_dropped_collective_leaves_its_operand(gpt: Pair) -> None:
    m = find(gpt, "drop a collective", "all_reduce_3")
    graph = m.problem.distributed.graphs[0]
    assert "all_reduce_3" not in graph.by_name()
    (wait,) = [n for n in graph.nodes if n.source == "wait_tensor_8"]
    assert wait.inputs[0].name == "sum_1"
    assert {"all_reduce_3", "sum_1"} <= m.names


def test_a_reduction_over_the_other_mesh_axis(grid: Pair) -> None:
    m = find(grid, "change a group", "rows: all_reduce over mesh axis dp")
    groups = [group_of(g, "rows") for g in m.problem.distributed.graphs]
    assert groups == [(0, 2), (1, 3), (0, 2), (1, 3)]


def group_of(graph: Graph, name: str) -> object:
    return next(n for n in graph.nodes if n.outputs[0].name == name).attrs["group"]


def test_a_collective_changed_on_one_rank_is_a_matter_of_the_protocol(grid: Pair) -> None:
    for m in mutants(grid.small.problem, kinds=(PROTOCOL,), count=12):
        j = judge(grid, m)
        assert len(m.ranks) == 1
        assert j.status != "refines"
        if j.truth == "protocol":
            assert j.status == "refuted"
            assert j.codes[0].startswith("SP10")


def test_swapped_shards_are_what_the_other_rank_had(grid: Pair) -> None:
    m = find(grid, SHARDS, "%w1: parts of ranks 2 and 3")
    slices = [
        (n.attrs["start"], n.attrs["stop"])
        for k in (2, 3)
        for n in m.problem.relation[k].nodes
        if n.outputs[0] is m.problem.relation[k].output("w1")
    ]
    straight = [
        (n.attrs["start"], n.attrs["stop"])
        for k in (3, 2)
        for n in grid.small.problem.relation[k].nodes
        if n.outputs[0] is grid.small.problem.relation[k].output("w1")
    ]
    assert slices == straight
