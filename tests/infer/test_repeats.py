"""Repeated layers: meanings taken over from an evaluated layer are those of evaluating it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.support.claims import check_claims
from tests.support.layers import STACK_FAULTS, stack
from tests.support.problems import Cut, all_ranks, even, uneven

from shardproof.examples.megatron_gpt import gpt
from shardproof.infer import repeat
from shardproof.infer.blocks import Cell, Val
from shardproof.infer.meanings import Meanings
from shardproof.infer.run import Inference, Runner, fold_problem
from shardproof.ir.graph import Graph, Node
from shardproof.lemmas import names
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.numeric import replay, sample

LAYERS = 6
SIZES = {"N": 2, "w": 2}


class Comparison:
    """Equality of the meanings of two inferences up to a one-to-one renaming of atoms."""

    def __init__(self, a: Inference, b: Inference) -> None:
        self.a, self.b = a.evaluator.table, b.evaluator.table
        self.there: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.compared = 0

    def graph(self, graph: Graph, a: Meanings, b: Meanings, twin: Graph) -> None:
        for v, w in zip(graph.values(), twin.values(), strict=True):
            assert (v in a) == (w in b), v.name
            if v in a:
                self.value(v.name, a[v], b[w])
                self.compared += 1

    def value(self, where: str, a: Val, b: Val) -> None:
        assert a.dims == b.dims, where
        assert (a.index is None) == (b.index is None), where
        if a.index is not None and b.index is not None:
            assert a.index.pieces == b.index.pieces, where
            self.value(where, a.index.base, b.index.base)
        assert len(a.cells) == len(b.cells), where
        for x, y in zip(a.cells, b.cells, strict=True):
            assert (x.lo, x.hi) == (y.lo, y.hi), where
            self.cell(where, x, y)

    def cell(self, where: str, x: Cell, y: Cell) -> None:
        mine = sorted(x.lin, key=lambda tc: self.seen(self.a, *tc))
        other = sorted(y.lin, key=lambda tc: self.seen(self.b, *tc))
        assert len(mine) == len(other), where
        for (t, c), (u, k) in zip(mine, other, strict=True):
            assert self.seen(self.a, t, c) == self.seen(self.b, u, k), where
            assert self.there.setdefault(t.atom, u.atom) == u.atom, where
            assert self.back.setdefault(u.atom, t.atom) == t.atom, where

    @staticmethod
    def seen(table: Any, t: Any, c: Any) -> tuple[str, ...]:
        atom = table.atoms[t.atom]
        spans = [(label[0], lo, hi) for label, lo, hi in t.restr]
        flags = (atom.foreign, atom.boolean, atom.guard)
        return (atom.name, str(flags), str(c), str(t.ax), str(t.off), str(spans))


def without_memo(problem: Problem, monkeypatch: pytest.MonkeyPatch, **how: Any) -> Inference:
    with monkeypatch.context() as m:
        m.setattr(repeat, "find_repeats", lambda nodes: None)
        found = Runner(problem, **how).run()
    assert not found.evaluator.copied_layers
    return found


def agree(problem: Problem, monkeypatch: pytest.MonkeyPatch, *, copies: bool = True) -> Inference:
    """Assert that inference with and without copied layers says the same of every value."""
    short = Runner(problem).run()
    long = without_memo(problem, monkeypatch)
    assert bool(short.evaluator.copied_layers) == copies
    assert [j.holds for j in short.judged] == [j.holds for j in long.judged]
    comparison = Comparison(short, long)
    sequential = problem.sequential
    comparison.graph(sequential, short.sequential, long.sequential, sequential)
    for k, graph in enumerate(problem.distributed.graphs):
        comparison.graph(graph, short.env[k], long.env[k], graph)
    values = [sequential, *problem.distributed.graphs]
    assert comparison.compared == sum(len(list(g.values())) for g in values)
    return short


# ------------------------------------------------------------------ correct programs


@pytest.mark.parametrize(("ranks", "layers"), [(2, 4), (2, 8), (8, 8)])
def test_captured_gpt(ranks: int, layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    folded = fold_problem(gpt(ranks, layers).resolve())
    found = agree(folded, monkeypatch)
    assert found.holds
    assert found.evaluator.fired[names.REPEATED_LAYER] == found.evaluator.copied_layers


def test_captured_gpt_rank_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    assert agree(gpt(2, 4).resolve(), monkeypatch).holds


STACKS = {
    "index": lambda fault, at: fold_problem(stack(even(2, 2), LAYERS, fault, at)),
    "rank by rank": lambda fault, at: stack(even(3, 2), LAYERS, fault, at),
    "uneven": lambda fault, at: stack(uneven(0, 2, 5), LAYERS, fault, at),
    "all ranks": lambda fault, at: stack(all_ranks(), LAYERS, fault, at),
}


@pytest.mark.parametrize("make", STACKS.values(), ids=STACKS)
def test_stack(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make("", 0)
    found = agree(problem, monkeypatch)
    assert found.holds
    sizes = SIZES if problem.distributed.spmd and problem.distributed.mesh.size != 2 else None
    if problem.distributed.spmd and sizes is None:
        return
    values, report = check_claims(problem, found, np.random.default_rng(0), sizes)
    assert values.equal
    assert not report.wrong, report.wrong


def test_almost_every_layer_is_copied() -> None:
    found = Runner(stack(all_ranks(), 24)).run()
    assert found.holds
    assert found.evaluator.copied_layers >= 2 * 20


# ------------------------------------------------------------------ a bug in one layer


PLACES = [(kind, at) for kind in ("index", "all ranks") for at in (0, 3, LAYERS - 1)]
PLACES += [("rank by rank", 3), ("uneven", 4)]


@pytest.mark.parametrize(("kind", "at"), PLACES)
@pytest.mark.parametrize("fault", STACK_FAULTS)
def test_a_bug_in_one_layer_is_seen(
    kind: str, fault: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = STACKS[kind](fault, at)
    short = Runner(problem).run()
    assert not short.holds
    assert not without_memo(problem, monkeypatch).holds


@pytest.mark.parametrize("fault", STACK_FAULTS)
def test_the_bugs_make_a_difference(fault: str) -> None:
    problem = stack(even(2, 2), LAYERS, fault, 3)
    rng = np.random.default_rng(0)
    assert not replay(problem, sample(problem.sequential, rng), rng).equal


@pytest.mark.parametrize("fault", STACK_FAULTS)
def test_claims_about_a_stack_with_a_bug_are_true(fault: str) -> None:
    problem = stack(even(2, 2), LAYERS, fault, 3)
    found = Runner(problem).run()
    values, report = check_claims(problem, found, np.random.default_rng(0))
    assert not values.equal
    assert not report.wrong, report.wrong


# ------------------------------------------------------------------ weights used again

WIRINGS = {
    "one set for all": [0] * LAYERS,
    "two sets in turn": [0, 1] * (LAYERS // 2),
    "backwards": list(range(LAYERS))[::-1],
    "first half, second half": [0] * 3 + [1] * 3,
}


@pytest.mark.parametrize("wiring", WIRINGS.values(), ids=WIRINGS)
@pytest.mark.parametrize("cut", [even(2, 2), all_ranks()], ids=["2 ranks", "all ranks"])
def test_shared_weights(cut: Cut, wiring: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    problem = stack(cut, LAYERS, weights=wiring)
    for case in [problem] if cut.symbolic else [problem, fold_problem(problem)]:
        assert Runner(case).run().holds
        assert without_memo(case, monkeypatch).holds


@pytest.mark.parametrize("seed", range(12))
def test_a_program_that_shares_other_weights_is_refused(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    sets = int(rng.integers(2, 4))
    wiring = [int(k) for k in rng.integers(0, sets, size=LAYERS)]
    held = list(wiring)
    at = int(rng.integers(LAYERS))
    held[at] = (held[at] + 1) % sets
    for ranks, holds in ((wiring, True), (held, False)):
        problem = stack(even(2, 2), LAYERS, weights=wiring, held=ranks)
        for case in (problem, fold_problem(problem)):
            assert Runner(case).run().holds == holds, (wiring, ranks)
            assert without_memo(case, monkeypatch).holds == holds


# ------------------------------------------------------------------ a bug in a captured program

Change = Callable[[Sequence[Node], int], list[Node]]


def edited(problem: Problem, change: Change) -> Problem:
    """The problem with every rank's nodes passed through ``change``."""
    program = problem.distributed
    graphs = [replace(g, nodes=change(g.nodes, r)) for r, g in enumerate(program.graphs)]
    return replace(problem, distributed=replace(program, graphs=graphs))


def middle(nodes: Sequence[Node], op: str) -> int:
    found = [k for k, n in enumerate(nodes) if n.op == op]
    return found[len(found) // 2]


def with_node(nodes: Sequence[Node], at: int, op: str, attrs: dict[str, Any]) -> list[Node]:
    n = nodes[at]
    new = Node(op, n.inputs, attrs, n.outputs, n.origin, n.source)
    return [*nodes[:at], new, *nodes[at + 1 :]]


def unreduced(nodes: Sequence[Node], rank: int) -> list[Node]:
    """One reduction in the middle is left out: the rank keeps its rows of its own part."""
    at = middle(nodes, "reduce_scatter")
    dim = nodes[at].attrs["dim"]
    assert isinstance(dim, int)
    width = nodes[at].outputs[0].shape[dim]
    attrs = {"dim": dim, "start": rank * width, "stop": rank * width + width}
    return with_node(nodes, at, "slice", attrs)


def other_eps(nodes: Sequence[Node], rank: int) -> list[Node]:
    at = middle(nodes, "layer_norm_affine")
    return with_node(nodes, at, "layer_norm_affine", {**nodes[at].attrs, "eps": Fraction(2)})


def linear(nodes: Sequence[Node], rank: int) -> list[Node]:
    return with_node(nodes, middle(nodes, "gelu"), "scale", {"by": Fraction(2)})


@pytest.mark.parametrize("change", [unreduced, other_eps, linear], ids=lambda f: f.__name__)
def test_captured_gpt_with_a_bug_in_one_layer(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = edited(gpt(2, 8).resolve(), change)
    for case in (problem, fold_problem(problem)):
        assert not Runner(case).run().holds
        assert not without_memo(case, monkeypatch).holds


def test_captured_gpt_with_weights_of_another_layer() -> None:
    problem = gpt(2, 8).resolve()
    for relation in problem.relation:
        outs = relation.outputs
        # A weight of layer 3 and that of layer 4.
        i, j = (relation.output_names.index(f"primals_{k}") for k in (46, 58))
        assert outs[i].type == outs[j].type  # type: ignore[union-attr]
        outs[i], outs[j] = outs[j], outs[i]
    for case in (problem, fold_problem(problem)):
        assert not Runner(case).run().holds
