"""Proofs of programs that refine have certificates that the checker accepts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.certificate.corpus import PROBLEMS, certificate

from shardproof import Spec
from shardproof.certificate.agree import certify
from shardproof.certificate.reading import check_file
from shardproof.examples import (
    grad_accumulation,
    layernorm_gradient,
    llama_hlo,
    megatron_gpt,
    qwen2,
)
from shardproof.infer.run import infer
from shardproof.verify import verify

EXAMPLES: dict[str, Callable[[], Spec]] = {
    "gpt tp2": megatron_gpt.tp2_layers1,
    "gpt tp8, 8 layers": megatron_gpt.tp8_layers8,
    "ten partial gradients": layernorm_gradient.reduced_later,
    "llama tp8": llama_hlo.tp8_layers1,
    "qwen2 tp2": qwen2.tp2,
}


@pytest.mark.parametrize("symbolic_ranks", [True, False], ids=["folded", "rank by rank"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_file_is_accepted(name: str, symbolic_ranks: bool) -> None:
    outcome, doc = check_file(certificate(name, symbolic_ranks=symbolic_ranks))
    assert outcome.problem == ""
    assert doc is not None
    assert set(outcome.assumed) <= set(doc.assumed)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_accepted(name: str) -> None:
    spec = EXAMPLES[name]()
    verdict = verify(spec.resolve(), fixed=spec.fixed_values, replay=False)
    assert verdict.certificate_note == ""
    assert verdict.certificate == "certificate checked"


def test_an_assumption_that_is_not_listed_is_missed() -> None:
    problem = megatron_gpt.tp2_layers1().resolve()
    outcome = certify(problem, infer(problem), {}, [])
    assert "an assumption that is not listed" in outcome.problem


def test_what_does_not_hold_is_not_accepted() -> None:
    for spec in (grad_accumulation.accumulate(), layernorm_gradient.one_forgotten()):
        problem = spec.resolve()
        inf = infer(problem, fixed=spec.fixed_values)
        listed = [*inf.evaluator.lookups.assumed, *inf.evaluator.products.assumed]
        outcome = certify(problem, inf, spec.fixed_values, listed)
        assert outcome.problem.startswith("not checked: output")
