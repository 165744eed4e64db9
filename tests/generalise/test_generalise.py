"""Proofs for every number of ranks from graphs captured at one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardproof.examples import megatron_gpt
from shardproof.generalise import NotGeneral, generalise, reproduces
from shardproof.generalise.instance import find_values
from shardproof.infer.run import infer
from shardproof.ir.graph import Node
from shardproof.replay.instantiate import instantiate_problem
from shardproof.spec.problem import Problem
from shardproof.verify import verify, verify_for_all

TP2 = megatron_gpt.tp2_layers1
TP8 = megatron_gpt.tp8_layers1


def problem(spec: Callable[[], object]) -> Problem:
    return spec().resolve()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize(("spec", "ranks"), [(TP2, 2), (TP8, 8)])
def test_gpt_is_proved_for_every_number_of_ranks(spec: Callable[[], object], ranks: int) -> None:
    general = generalise(problem(spec), "tp")
    assert general.values["N"] == ranks
    verdict = verify(general.problem)
    assert verdict.status == "refines"
    assert verdict.conditions[0].startswith("for all integers N, u1")
    assert "worst relative error" in verdict.replay


@pytest.mark.parametrize(("one", "other", "ranks"), [(TP2, TP8, 8), (TP8, TP2, 2)])
def test_another_capture_is_an_instance(
    one: Callable[[], object], other: Callable[[], object], ranks: int
) -> None:
    general = generalise(problem(one), "tp")
    captured = problem(other)
    values = find_values(general.problem, captured, {"N": ranks})
    assert values is not None
    assert reproduces(general.problem, captured, values)
    values["u1"] += 1
    assert not reproduces(general.problem, captured, values)


def test_an_instance_at_another_number_of_ranks_is_proved_by_itself() -> None:
    general = generalise(problem(TP8), "tp")
    values = {**general.values, "N": 3}
    assert infer(instantiate_problem(general.problem, values)).holds


def _change(p: Problem, op: str, attr: str, change: Callable[[Node], object]) -> Problem:
    for g in p.distributed.graphs:
        node = next(n for n in g.nodes if n.op == op)
        node.attrs[attr] = change(node)  # type: ignore[assignment]
    return p


def test_a_fault_is_not_proved_for_all() -> None:
    p = _change(problem(TP2), "softmax", "dim", lambda n: 2)
    verdict = verify_for_all(p, "tp")
    assert verdict.status == "refuted"


def test_a_constant_that_fits_one_number_of_ranks_only_is_not_proved() -> None:
    """A factor that happens to be right at two ranks must not be read as right for all."""
    p = problem(TP2)
    for g in p.distributed.graphs:
        reduce = next(n for n in g.nodes if n.op == "all_reduce" and n.attrs["op"] == "sum")
        reduce.attrs["op"] = "avg"
        k = g.nodes.index(reduce)
        old = reduce.outputs[0]
        new = type(old)(old.name + "_avg", old.type)
        reduce.outputs = (new,)
        g.nodes.insert(k + 1, Node("scale", (new,), {"by": 2}, (old,), reduce.origin, "twice"))
    assert verify(p).status == "refines"
    verdict = verify_for_all(p, "tp")
    assert verdict.status == "unproved"
    assert any(f.code == "SP202" for f in verdict.findings)


def test_one_rank_is_no_instance() -> None:
    p = problem(TP2)
    with pytest.raises(NotGeneral, match="at least two ranks"):
        generalise(
            Problem(
                p.name,
                p.sequential,
                type(p.distributed)(type(p.distributed.mesh).of(tp=1), p.distributed.graphs[:1]),
                p.relation[:1],
                p.obligations,
            ),
            "tp",
        )
