"""Pipeline stages times tensor parallelism: one evaluation a class of ranks."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.claims import check_claims
from tests.support.layers import PIPELINE_FAULTS, pipeline

from shardproof.infer.prepare import class_problem, fold_problem
from shardproof.infer.run import Runner, infer
from shardproof.infer.spmd import NotUniform
from shardproof.lemmas import names
from shardproof.testing.fuzz.numeric import replay, sample
from shardproof.verify import verify

MESHES = [(2, 2), (2, 3), (3, 2), (4, 1)]


@pytest.mark.parametrize(("stages", "tp"), MESHES)
def test_a_pipeline_is_proved_once_a_stage(stages: int, tp: int) -> None:
    problem = pipeline(stages, tp)
    with pytest.raises(NotUniform):
        fold_problem(problem)
    found = infer(problem)
    assert found.holds
    inner = found.problem.distributed.inner
    if tp == 1:
        assert inner is None
        return
    assert inner is not None
    assert [a for a, _ in inner.axes] == ["tp"]
    assert len(found.problem.distributed.graphs) == stages
    assert found.evaluator.fired[names.RANK_TILES] == stages


@pytest.mark.parametrize(("stages", "tp"), MESHES)
def test_rank_by_rank_agrees_and_every_claim_is_true(stages: int, tp: int) -> None:
    problem = pipeline(stages, tp)
    found = Runner(problem).run()
    assert found.holds
    values, report = check_claims(problem, found, np.random.default_rng(0))
    assert values.equal
    assert not report.wrong, report.wrong


def test_classes_of_a_pipeline_name_whom_they_talk_to() -> None:
    folded = class_problem(pipeline(3, 2)).distributed
    assert [g.rank for g in folded.graphs] == [0, 1, 2]
    sends = [(g.rank, n.attrs["dst"]) for g in folded.graphs for n in g.nodes if n.op == "send"]
    assert sends == [(0, 1), (1, 2)]
    groups = {n.attrs["group"] for g in folded.graphs for n in g.nodes if n.op == "all_reduce"}
    assert groups == {("tp",)}


@pytest.mark.parametrize("fault", PIPELINE_FAULTS)
@pytest.mark.parametrize(("stages", "tp"), [(2, 2), (3, 2), (2, 3)])
def test_faulty_pipelines_are_refused(stages: int, tp: int, fault: str) -> None:
    problem = pipeline(stages, tp, fault)
    for symbolic_ranks in (True, False):
        assert not infer(problem, symbolic_ranks=symbolic_ranks).holds
    rng = np.random.default_rng(0)
    assert not replay(problem, sample(problem.sequential, rng), rng).equal


def test_the_verdicts() -> None:
    assert verify(pipeline(2, 2)).status == "refines"
    assert verify(pipeline(2, 2, "sent too early")).status == "refuted"


def test_one_rank_that_differs_keeps_its_stage_from_folding() -> None:
    problem = pipeline(2, 2)
    graph = problem.distributed.graphs[3]
    at = next(k for k, n in enumerate(graph.nodes) if n.op == "exp")
    node = graph.nodes[at]
    graph.nodes[at] = type(node)("tanh", node.inputs, {}, node.outputs, node.origin, node.source)
    with pytest.raises(NotUniform):
        class_problem(problem)
    assert not infer(problem).holds


def test_classes_need_messages_over_equal_groups_with_both_ends() -> None:
    """What stands for a message between classes has no group of ranks."""
    for group in ((0, 1, 2), (1, 3), (0, 1)):
        problem = pipeline(2, 2)
        node = next(n for n in problem.distributed.graphs[0].nodes if n.op == "send")
        node.attrs = {**node.attrs, "group": group, "group_size": len(group)}
        with pytest.raises(NotUniform, match="group"):
            class_problem(problem)
        assert not infer(problem).holds
        assert verify(problem).status == "refuted"
