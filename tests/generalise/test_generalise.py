"""Proofs for every number of ranks from graphs captured at one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from shardproof.examples import llama_hlo, megatron_gpt, qwen2
from shardproof.generalise import NotGeneral, generalise, reproduces
from shardproof.generalise.instance import find_values
from shardproof.infer.run import infer
from shardproof.ir.graph import Node
from shardproof.replay.instantiate import instantiate_problem
from shardproof.spec.problem import Problem
from shardproof.verify import verify, verify_for_all

TP2 = megatron_gpt.tp2_layers1
TP8 = megatron_gpt.tp8_layers1
LLAMA2 = llama_hlo.tp2_layers1
LLAMA8 = llama_hlo.tp8_layers1


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


def test_llama_is_proved_for_every_number_of_ranks() -> None:
    verdict = verify_for_all(problem(LLAMA2), "tp")
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert verdict.conditions[0].startswith("for all integers N, u1")
    # Four query heads share a key head, by the shapes of the fused weight's parts.
    assert ("condition", "sizes kept at the captured number: 4") in verdict.assumptions
    assert "worst relative error" in verdict.replay


def test_llama_with_one_key_head_a_rank_says_so() -> None:
    verdict = verify_for_all(problem(LLAMA8), "tp")
    assert verdict.status == "refines"
    assert ("condition", "sizes kept at the captured number: 1, 4") in verdict.assumptions
    general = generalise(problem(LLAMA8), "tp")
    assert general.table[8] == ["N"]


def test_qwen_is_proved_for_every_number_of_ranks() -> None:
    """Its vocabulary offset is a number times a mask: a rank's share times the rank."""
    verdict = verify_for_all(problem(qwen2.tp2), "tp")
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert ("condition", "sizes kept at the captured number: 1, 6") in verdict.assumptions
    assert verdict.conditions[0].startswith("for all integers N, u1")


def test_a_vocabulary_offset_that_does_not_follow_the_rank_is_refuted() -> None:
    p = problem(qwen2.tp2)
    for g in p.distributed.graphs:
        offset = next(n for n in g.nodes if n.op == "scale")
        offset.attrs["by"] = Fraction(0)  # right on rank 0
    assert verify_for_all(p, "tp").status == "refuted"


def test_the_captures_of_llama_are_instances_where_they_have_that_shape() -> None:
    general, eight = generalise(problem(LLAMA2), "tp"), problem(LLAMA8)
    values = find_values(general.problem, eight, {"N": 8})
    assert values is not None
    assert reproduces(general.problem, eight, values)
    general, two = generalise(problem(LLAMA8), "tp"), problem(LLAMA2)
    values = find_values(general.problem, two, {"N": 2})
    assert values is not None
    assert not reproduces(general.problem, two, values)  # four key heads a rank


@pytest.mark.parametrize(("op", "holds"), [("sum", False), ("avg", True)])
def test_llama_with_an_average_over_ranks_written_as_a_number(op: str, holds: bool) -> None:
    p = problem(LLAMA2)
    for g in p.distributed.graphs:
        k, reduce = next((k, n) for k, n in enumerate(g.nodes) if n.op == "all_reduce")
        old = reduce.outputs[0]
        one, two = (type(old)(f"{old.name}_{x}", old.type) for x in "ab")
        reduce.outputs = (one,)
        again = {**reduce.attrs, "op": op}
        g.nodes.insert(k + 1, Node("all_reduce", (one,), again, (two,), reduce.origin, "again"))
        by = Fraction(1, 1 if holds else 2)
        g.nodes.insert(k + 2, Node("scale", (two,), {"by": by}, (old,), reduce.origin, "half"))
    assert verify(p).status == "refines"
    assert verify_for_all(p, "tp").status == ("refines" if holds else "unproved")


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


@pytest.mark.parametrize("spec", [TP8, LLAMA2, LLAMA8])
def test_an_instance_at_another_number_of_ranks_is_proved_by_itself(
    spec: Callable[[], object],
) -> None:
    general = generalise(problem(spec), "tp")
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
