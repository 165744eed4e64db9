"""Every lemma is used by inference in a problem that it proves, and not to prove a faulty one."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.lemmas.small import SMALL
from tests.support.causal import causal_ring
from tests.support.fused import layer_norm
from tests.support.ignored import ignored_loss
from tests.support.judging import proved, refused
from tests.support.layers import stack
from tests.support.problems import Cut, all_ranks, even, mlp, uneven
from tests.support.vocabulary import cross_entropy, masked_lookup

from shardproof.infer.run import Runner
from shardproof.ir.sizes import symbol
from shardproof.lemmas import names
from shardproof.lemmas.catalogue import known

CUTS = {"3 ranks": even(3, 2), "all ranks": all_ranks()}
SIZES = {"N": 3, "w": 2, "R": 2}
DEEP = {names.EXP_PRODUCT, names.EXP_OF_SUM}
RANGES = {"ids": (0, 3)}


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize("name", SMALL)
def test_a_problem_that_needs_the_lemma(name: str, kind: str) -> None:
    cut = CUTS[kind]
    rows = symbol("R") if cut.symbolic else 2
    sizes = SIZES if cut.symbolic else None
    used = proved(SMALL[name](cut, rows, False), deep=name in DEEP, sizes=sizes, ranges=RANGES)
    assert used[name]


@pytest.mark.parametrize("kind", CUTS)
@pytest.mark.parametrize("name", SMALL)
def test_its_faulty_twin(name: str, kind: str) -> None:
    cut = CUTS[kind]
    rows = symbol("R") if cut.symbolic else 2
    sizes = SIZES if cut.symbolic else None
    refused(SMALL[name](cut, rows, True), deep=name in DEEP, sizes=sizes, ranges=RANGES)


def fired(cut: Cut) -> Counter[str]:
    rows = symbol("R") if cut.symbolic else 2
    found: Counter[str] = Counter()
    plain = [masked_lookup(cut, rows, rows), cross_entropy(cut, rows), stack(cut, 4)]
    deep = [cross_entropy(cut, rows, fused=True), layer_norm(cut, rows)]
    for problem in [*plain, *deep]:
        inference = Runner(problem, deep=problem in deep).run()
        assert inference.holds
        found.update(inference.evaluator.fired)
    return found


def test_every_lemma_is_used_in_a_problem() -> None:
    used = set(SMALL) | {k for cut in CUTS.values() for k in fired(cut)}
    narrow = Runner(mlp(uneven(0, 1, 3, 6), 2, 2)).run()
    used |= set(narrow.evaluator.fired)
    used |= set(Runner(ignored_loss().resolve(), deep=True).run().evaluator.fired)
    used |= set(Runner(causal_ring().resolve(), deep=True).run().evaluator.fired)
    assert used == set(known())


def test_every_lemma_has_a_near_miss() -> None:
    """A program that breaks it and is refused, or numbers for which it fails without its side
    condition."""
    for name, lemma in known().items():
        assert lemma.wrong is not None or name in SMALL, name
