"""A slice of the fuzz run of ``make fuzz``, and what it rests on."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fuzz
from shardproof.ir.graph import Program
from shardproof.ir.text import print_graph
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.mutate import NoMutant, mutant
from shardproof.testing.fuzz.numeric import replay, sample
from shardproof.testing.fuzz.pipeline import pipeline_program
from shardproof.testing.fuzz.programs import STEPS, any_program


@pytest.mark.parametrize("first", [50_000, 50_030])
def test_no_wrong_program_is_called_correct(first: int) -> None:
    counts = fuzz.run_chunk(first, 30, mutants=3)
    assert not counts.wrong, counts.wrong
    assert counts.proved >= 0.95 * counts.programs, counts.missed
    assert counts.mutants > 80
    assert counts.differs > counts.mutants // 2
    assert counts.certificates_checked == counts.certificates, counts.not_checked


def text(problem: Problem) -> list[str]:
    graphs = (problem.sequential, *problem.distributed.graphs, *problem.relation)
    return [print_graph(g) for g in graphs]


def test_programs_and_mutants_depend_on_the_seed_alone() -> None:
    for seed in range(12):
        one, two = any_program(seed), any_program(seed)
        assert text(one[1]) == text(two[1])
        for _ in range(5):
            try:
                changed = mutant(one[1], one[2])
            except NoMutant:
                with pytest.raises(NoMutant):
                    mutant(two[1], two[2])
            else:
                assert text(changed[1]) == text(mutant(two[1], two[2])[1])


def test_every_step_is_drawn() -> None:
    drawn = {step.__name__ for step, _ in STEPS}
    assert len(drawn) == len(STEPS) >= 45


def test_a_pipeline_sends_every_piece() -> None:
    _, problem, _ = pipeline_program(17)
    graphs = problem.distributed.graphs
    sent = sum(n.op == "send" for g in graphs for n in g.nodes)
    assert sent == sum(n.op == "recv" for g in graphs for n in g.nodes) > 0


def faulty(problem: Problem) -> Problem:
    """One rank of a correct program returns twice the first output."""
    from fractions import Fraction

    from shardproof.testing.edit import Chain, apply

    graph = problem.distributed.graphs[0]
    value = next(v for v in graph.outputs if v is not None)
    node = graph.producers()[value]
    chain = Chain(node)
    v = chain.emit(node.op, *node.inputs, **node.attrs)
    graph = apply(graph, chain.finish("scale", v, by=Fraction(2)))
    graphs = [graph, *problem.distributed.graphs[1:]]
    return replace(problem, distributed=Program(problem.distributed.mesh, graphs))


def test_the_judge_sees_a_fault_and_no_fault() -> None:
    g, problem, rng = any_program(11)
    assert fuzz.judge(problem, rng, g.ranges) == "same"
    assert fuzz.judge(faulty(problem), rng, g.ranges) == "differs"
    values = replay(problem, sample(problem.sequential, np.random.default_rng(0)), rng)
    assert values.equal
    assert values.defined


def test_a_wrong_verdict_would_be_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Yes:
        holds = True

    real = fuzz.decide
    monkeypatch.setattr(
        fuzz, "decide", lambda problem: real(problem) if real(problem).holds else Yes()
    )
    counts = fuzz.run_chunk(0, 5, mutants=4)
    assert counts.wrong
    assert all("called correct, but it differs" in text for text in counts.wrong)


def test_a_run_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz, "CHUNK", 4)
    path = tmp_path / "fuzz.json"
    options = {"seed": 0, "mutants": 1, "json": str(path), "seconds": float("inf")}
    fuzz.run(Namespace(programs=4, **options))
    total = fuzz.run(Namespace(programs=8, **options))
    assert total.programs == 8
    lines = [json.loads(x) for x in path.read_text().splitlines()]
    assert [(x["first"], x["count"]) for x in lines] == [(0, 4), (4, 4)]
    fresh = fuzz.Counts()
    for first in (0, 4):
        fresh.add(fuzz.run_chunk(first, 4, 1))
    assert fresh.operators == total.operators
    assert fresh.mutations == total.mutations
    assert "8 programs" in fuzz.summary(total)
