"""Z3 proves the lemmas for any size, and finds where they fail without their side conditions."""

from __future__ import annotations

import pytest
import z3

from shardproof.lemmas import base, catalogue, names
from shardproof.lemmas.derived import DERIVED
from shardproof.lemmas.smt import GOALS, Goal, ints, shows

MILLISECONDS = 60_000
UNSAID = {
    names.REPEATED_LAYER: "normal form",  # about derivations, not about numbers
    names.OPENED: "algebra",  # the definition is compared with the reference, operator by operator
}
ALL = {**GOALS, **DERIVED}
EVERY = [(name, k) for name, goals in ALL.items() for k in range(len(goals))]


def answer(script: str, milliseconds: int = MILLISECONDS) -> str:
    solver = z3.Solver(ctx=z3.Context())
    solver.set("timeout", milliseconds)
    solver.from_string(script)
    return str(solver.check())


@pytest.mark.parametrize(("name", "k"), EVERY)
def test_a_goal_has_no_model(name: str, k: int) -> None:
    assert answer(ALL[name][k].script) == "unsat"


@pytest.mark.parametrize("name", ALL)
def test_the_assumptions_of_a_goal_have_models(name: str) -> None:
    """No goal is proved by assumptions that contradict each other. Where quantified laws keep Z3
    from building a model it must at least not find a contradiction."""
    for goal in ALL[name]:
        kept = [x for x in goal.lines if not x.startswith("(assert (not ")]
        negated = [x for x in goal.lines if x.startswith("(assert (not ")]
        # The claim itself is the last of them; others are side conditions.
        kept += negated[:-1]
        assert answer("\n".join(kept), 700) in ("sat", "unknown"), goal.about


@pytest.mark.parametrize(
    "name", [n for n, goals in ALL.items() if any(g.without_conditions() for g in goals)]
)
def test_without_its_side_condition_the_proof_fails(name: str) -> None:
    texts = [t for g in ALL[name] if (t := g.without_conditions()) is not None]
    assert any(answer(t, 700) != "unsat" for t in texts)


def test_every_lemma_is_proved_for_any_size() -> None:
    for name, lemma in catalogue.known().items():
        assert (name in GOALS) != (name in UNSAID), name
        if name in UNSAID:
            assert lemma.proof == UNSAID[name]


def test_the_page_shows_every_goal() -> None:
    text = catalogue.markdown()
    for name, goals in ALL.items():
        for goal in goals:
            assert all(f"    {line}\n" in text for line in goal.lines), name


def test_a_false_claim_is_not_proved() -> None:
    false = shows(ints("a b"), "(= (+ a b) (- a b))")
    assert answer(false.script) == "sat"
    assert false.without_conditions() is None
    assert isinstance(false, Goal)
    assert base.PROOFS["normal form"]
