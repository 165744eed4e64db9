"""The packaged examples resolve; their verdicts are tested with the verifier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from shardproof import Spec
from shardproof.data import GRAPHS, graph_files
from shardproof.examples import grad_accumulation, layernorm_gradient, megatron_gpt

SPECS: list[tuple[Callable[[], Spec], int, int]] = [
    (megatron_gpt.tp2_layers1, 2, 1),
    (megatron_gpt.tp8_layers1, 8, 1),
    (grad_accumulation.accumulate, 1, 1),
    (layernorm_gradient.declared_replicated, 2, 21),
    (layernorm_gradient.one_forgotten, 2, 21),
]


@pytest.mark.parametrize(
    ("make", "ranks", "obligations"), SPECS, ids=[s[0].__name__ for s in SPECS]
)
def test_examples_resolve(make: Callable[[], Spec], ranks: int, obligations: int) -> None:
    problem = make().resolve()
    assert len(problem.distributed.graphs) == ranks
    assert len(problem.obligations) == obligations
    for graph, relation in zip(problem.distributed.graphs, problem.relation, strict=True):
        assert relation.output_names == [v.name for v in graph.inputs]


def test_only_the_ten_gradients_are_partial() -> None:
    problem = layernorm_gradient.reduced_later().resolve()
    partial = [o.seq_output for o in problem.obligations if o.partial_over]
    assert len(partial) == 10
    one = layernorm_gradient.one_forgotten().resolve()
    assert set(partial) - {o.seq_output for o in one.obligations if o.partial_over} == {"add_13"}


def test_examples_can_be_reached_from_the_repository() -> None:
    folder = Path(__file__).parents[2] / "examples"
    for name in ("megatron_gpt", "grad_accumulation", "layernorm_gradient"):
        assert (folder / f"{name}.py").read_text().startswith('"""')


def test_packaged_graphs_come_with_their_licence() -> None:
    assert "Apache License" in (GRAPHS / "LICENSE-APACHE-2.0.txt").read_text()
    assert "ByteDance" in (GRAPHS / "NOTICE.txt").read_text()
    assert [p.name[6:8] for p in graph_files("gpt/tp8_layers1")][::7] == ["r0", "r7"]
    with pytest.raises(FileNotFoundError):
        graph_files("nothing")
