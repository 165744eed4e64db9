"""Each mutation of what flows where: what it changes, and that the result is refuted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.mutants import all_pairs

from shardproof.ir.graph import Graph, Node
from shardproof.testing.judge import Pair, judge
from shardproof.testing.mutate import Mutant, mutants


@pytest.fixture(scope="module")
def made() -> Callable[[str], Pair]:
    pairs: dict[str, Pair] = {}

    def get(name: str) -> Pair:
        if name not in pairs:
            pairs[name] = all_pairs()[name]()
        return pairs[name]

    return get


def find(pair: Pair, kind: str, start: str) -> Mutant:
    found = {m.description: m for m in mutants(pair.small.problem, kinds=(kind,))}
    hit = next((m for d, m in found.items() if d.startswith(start)), None)
    assert hit is not None, sorted(found)
    return hit


def nodes(m: Mutant, op: str, rank: int = 0) -> list[Node]:
    return [n for n in m.problem.distributed.graphs[rank].nodes if n.op == op]


def makes(graph: Graph, name: str) -> Node:
    return next(n for n in graph.nodes if any(v.name == name for v in n.outputs))


CASES = [
    ("micro_batches", "stale value", "y2: matmul reads %a1 in place of %a2"),
    ("micro_batches", "stale value", "lsum: add reads %l1 in place of %l2"),
    ("micro_batches", "drop a micro-batch", "gsum: %g2 left out"),
    ("micro_batches", "drop a micro-batch", "lsum1: %l0 counted twice"),
    ("micro_batches", "sum for mean", "l1: sum in place of mean"),
    ("micro_batches", "sum for mean", "part: not divided by 3"),
    ("micro_batches", "wrong rank offset", "x1: the rank's offset added to slice, on all"),
    ("symbolic_mlp_2", "swap reduction and activation", ""),
    ("grid_block", "wrong split sizes", "qh: dims 2 and 3 split"),
    ("jax_tensor_parallel_mlp-lowered", "wrong rank offset", "shard_map.12: the next rank's"),
    ("jax_ring_attention-lowered", "wrong peer", "ppermute.9: sent the other way round, on all"),
]


@pytest.mark.parametrize(("name", "kind", "start"), CASES)
def test_the_mutant_differs_and_is_refuted(
    made: Callable[[str], Pair], name: str, kind: str, start: str
) -> None:
    m = find(made(name), kind, start)
    j = judge(made(name), m)
    assert (j.wrong, j.status) == (True, "refuted"), m.description


def test_a_reduction_moves_before_the_activation(made: Callable[[str], Pair]) -> None:
    m = find(made("symbolic_mlp_2"), "swap reduction and activation", "")
    (reduce,) = nodes(m, "all_reduce")
    graph = m.problem.distributed.graphs[0]
    after = next(n for n in graph.nodes if reduce.output in n.inputs)
    assert after.op in m.description


def test_an_activation_moves_before_the_reduction(made: Callable[[str], Pair]) -> None:
    pair = made("gpt_tp2_layers1")
    m = find(pair, "swap reduction and activation", "log: log before the reduction")
    graph = m.problem.distributed.graphs[0]
    reduce = next(n for n in nodes(m, "all_reduce") if "#mutant" in n.inputs[0].name)
    assert makes(graph, reduce.inputs[0].name).op == "log"


def test_a_stale_value_was_made_before(made: Callable[[str], Pair]) -> None:
    m = find(made("micro_batches"), "stale value", "g1: matmul reads %at0 in place of %at1")
    graph = m.problem.distributed.graphs[m.ranks[0]]
    assert [v.name for v in makes(graph, "g1").inputs] == ["at0", "d1"]
    assert {"at0", "at1"} <= m.names


def test_a_micro_batch_is_left_out(made: Callable[[str], Pair]) -> None:
    m = find(made("micro_batches"), "drop a micro-batch", "gsum: %g2 left out")
    k = m.ranks[0]
    (reduce,) = [n for n in nodes(m, "all_reduce", k) if n.output.name == "g"]
    assert reduce.inputs[0].name == "gsum1"


def test_no_division_by_the_number_of_steps(made: Callable[[str], Pair]) -> None:
    m = find(made("micro_batches"), "sum for mean", "part: not divided by 3")
    reduce = makes(m.problem.distributed.graphs[m.ranks[0]], "loss")
    assert reduce.inputs[0].name == "lsum"


def test_heads_split_in_the_other_sizes(made: Callable[[str], Pair]) -> None:
    m = find(made("grid_block"), "wrong split sizes", "qh: dims 1 and 2 split")
    graph = m.problem.distributed.graphs[m.ranks[0]]
    turn = makes(graph, "qh")
    assert turn.op == "permute"
    assert turn.attrs["perm"] == (0, 2, 1, 3)
    view = makes(graph, turn.inputs[0].name).output.shape
    assert view == tuple(turn.output.shape[k] for k in (0, 2, 1, 3))


def test_parts_of_several_sizes_in_reverse(made: Callable[[str], Pair]) -> None:
    m = find(made("qwen2_tp2"), "wrong split sizes", "split_with_sizes")
    k = m.ranks[0]
    before = made("qwen2_tp2").small.problem.distributed.graphs[k]
    after = m.problem.distributed.graphs[k]
    changed = [
        (old, new)
        for old, new in zip(before.nodes, after.nodes, strict=True)
        if old.attrs != new.attrs
    ]
    assert len(changed) > 1
    for old, new in changed:
        whole = old.inputs[0].shape[old.attrs["dim"]]  # type: ignore[index]
        assert new.attrs["start"] == whole - old.attrs["stop"]  # type: ignore[operator]


def test_every_rank_has_the_offset_of_rank_0(made: Callable[[str], Pair]) -> None:
    pair = made("jax_tensor_parallel_mlp-lowered")
    found = mutants(pair.small.problem, kinds=("wrong rank offset",))
    m = next(m for m in found if "rank 0's" in m.description and len(m.ranks) == 4)

    def starts(graphs: list[Graph]) -> list[tuple[object, ...]]:
        return [tuple(n.attrs["start"] for n in g.nodes if n.op == "slice") for g in graphs]

    before = starts(pair.small.problem.distributed.graphs)
    after = starts(m.problem.distributed.graphs)
    changed = [k for k in range(2) if len({a[k] for a in after}) == 1]
    assert len({b[changed[0]] for b in before}) == 4
    assert len(changed) == 1


def test_messages_go_the_other_way_round(made: Callable[[str], Pair]) -> None:
    pair = made("jax_ring_attention-lowered")
    kinds = ("wrong peer",)
    everywhere = [
        m
        for m in mutants(pair.small.problem, kinds=kinds)
        if "other way round, on all ranks" in m.description
    ]
    m = everywhere[0]
    old = pair.small.problem.distributed.graphs[1]
    new = m.problem.distributed.graphs[1]
    pairs = [
        (a.attrs, b.attrs) for a, b in zip(old.nodes, new.nodes, strict=True) if a.attrs != b.attrs
    ]
    assert [(a.get("dst"), b.get("dst")) for a, b in pairs if "dst" in a] == [(2, 0)]
    assert [(a.get("src"), b.get("src")) for a, b in pairs if "src" in a] == [(0, 2)]


def test_ranks_that_run_different_programs_are_changed_one_by_one(
    made: Callable[[str], Pair],
) -> None:
    pair = made("jax_ring_product-compiled")
    graphs = pair.small.problem.distributed.graphs
    assert len({tuple(n.op for n in g.nodes) for g in graphs}) > 1
    found = list(mutants(pair.small.problem, kinds=("wrong peer", "stale value")))
    assert {m.kind for m in found} == {"wrong peer", "stale value"}
    for m in found:
        after = m.problem.distributed.graphs
        changed = [k for k, (a, b) in enumerate(zip(graphs, after, strict=True)) if a is not b]
        assert (*changed,) == m.ranks
        assert len(changed) == 1
