"""Captured graphs: the right ones replay equal at small sizes, every mutant differs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from shardproof.examples.layernorm_gradient import (
    declared_replicated,
    one_forgotten,
    reduced_later,
)
from shardproof.examples.megatron_gpt import gpt
from shardproof.ir.graph import Graph, Node
from shardproof.replay.compare import ReplayResult, replay_problem
from shardproof.replay.resize import Resized, Wish, resize
from shardproof.spec.problem import Problem

WISHES = (Wish(), Wish(first=(2, 3)), Wish(times=2))


def agree(problem: Problem, wish: Wish, fixed: dict[str, float], seeds: int = 5) -> bool:
    r = resize(problem, wish)
    assert r.report.exact
    assert r.report.kept == []
    assert r.report.ambiguous == []
    return not any(res.differs(1e-9) for res in informative(r, fixed, seeds))


def informative(r: Resized, fixed: dict[str, float], seeds: int) -> list[ReplayResult]:
    """Runs in which the sequential loss is defined: its divisor is truncated to an integer."""
    results = (replay_problem(r, seed, fixed) for seed in range(4 * seeds))
    found = list(islice((res for res in results if res.informative), seeds))
    assert len(found) == seeds
    return found


@pytest.mark.parametrize(("ranks", "layers"), [(2, 1), (2, 2), (2, 4), (2, 8), (8, 1), (8, 8)])
def test_gpt_replays_equal(ranks: int, layers: int) -> None:
    spec = gpt(ranks, layers)
    problem = spec.resolve()
    for wish in WISHES:
        assert agree(problem, wish, spec.fixed_values, 2 if layers == 8 else 5)
    assert resize(problem).report.largest < 50_000


def test_joint_graph_with_partial_gradients_replays_equal() -> None:
    spec = reduced_later()
    for wish in WISHES:
        assert agree(spec.resolve(), wish, spec.fixed_values)


# Gradients that are sums over ranks, by parameter; the key norm's bias has none: softmax ignores
# a shift, so its gradient is zero on both sides and no replay can witness it.
WITNESSED = {
    "add_24", "add_25", "add_15", "add_19", "add_20", "add_17", "add_13", "add_14", "add_8",
}  # fmt: skip


def test_replicated_declaration_differs_in_nine_gradients() -> None:
    spec = declared_replicated()
    r = resize(spec.resolve())
    for res in informative(r, spec.fixed_values, 3):
        assert {c.obligation.seq_output for c in res.comparisons if c.error > 1e-9} == WITNESSED


def test_one_forgotten_gradient() -> None:
    spec = one_forgotten()
    (res,) = informative(resize(spec.resolve()), spec.fixed_values, 1)
    wrong = {c.obligation.seq_output for c in res.comparisons if c.error > 1e-9}
    assert wrong == {"add_13"}
    assert {c.rank for c in res.comparisons if c.error > 1e-9} == {0, 1}


# ------------------------------------------------------------------------------ mutants

Edit = Callable[[Node], None]


def drop(node: Node) -> None:
    node.op, node.attrs = "wait", {}


def change(name: str, by: Any) -> Edit:
    def edit(node: Node) -> None:
        node.attrs[name] = node.attrs[name] + by

    return edit


def move(by: int) -> Edit:
    def edit(node: Node) -> None:
        change("start", by)(node)
        change("stop", by)(node)

    return edit


def halve(node: Node) -> None:
    node.attrs["by"] = node.attrs["by"] / 2  # type: ignore[operator]


def other_axis(node: Node) -> None:
    node.attrs["dim"] = node.attrs["dim"] - 1  # type: ignore[operator]


def mutations(graphs: list[Graph]) -> list[tuple[int, str, Edit]]:
    out: list[tuple[int, str, Edit]] = []
    for k, n in enumerate(graphs[0].nodes):
        edits: dict[str, Edit] = {}
        if n.op == "all_reduce":
            edits = {"dropped": drop}
        elif n.op == "compare" and "value" in n.attrs:
            edits = {"bound + 1": change("value", 1), "bound - 1": change("value", -1)}
        elif n.op == "shift":
            edits = {"offset + 1": change("by", 1), "offset - 1": change("by", -1)}
        elif n.op == "slice":
            bounds = [g.nodes[k].attrs["start"] for g in graphs]
            ends = [g.nodes[k].attrs["stop"] for g in graphs]
            if max(ends) < n.inputs[0].shape[n.attrs["dim"]]:  # type: ignore[index, operator, type-var]
                edits["one further"] = move(1)
            if min(bounds) > 0:  # type: ignore[operator, type-var]
                edits["one back"] = move(-1)
        elif n.op == "scale":
            edits = {"halved": halve}
        elif n.op == "softmax":
            edits = {"other axis": other_axis}
        out += [(k, f"{n.op} {n.source} {name}", edit) for name, edit in edits.items()]
    return out


def test_every_mutant_differs() -> None:
    """Each mutation is made on all ranks, at the original sizes, and must survive resizing."""
    spec = gpt(2, 1)
    problem = spec.resolve()
    graphs = problem.distributed.graphs
    survivors = []
    plan = mutations(graphs)
    assert len(plan) >= 25
    for k, name, edit in plan:
        before = [(g.nodes[k].op, dict(g.nodes[k].attrs)) for g in graphs]
        for g in graphs:
            edit(g.nodes[k])
        r = resize(problem)
        if not any(replay_problem(r, s, spec.fixed_values).differs(1e-9) for s in range(5)):
            survivors.append(name)
        for g, (op, attrs) in zip(graphs, before, strict=True):
            g.nodes[k].op, g.nodes[k].attrs = op, attrs
    assert survivors == []


def test_ranks_that_run_one_program_still_do() -> None:
    """Inference folds them into one graph; the small instance must not lose that."""
    graphs = resize(gpt(2, 2).resolve()).problem.distributed.graphs
    first, second = ([v.type for v in g.values()] for g in graphs)
    assert first == second
