"""Every lemma's declaration: numbers, small sizes, side conditions, pages."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shardproof.lemmas import base, catalogue, names
from shardproof.lemmas.base import Lemma, all_cuts, cuts, error, identical
from shardproof.lemmas.rows import SAMPLED, opened_sides

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "lemmas.md"
LEMMAS = list(catalogue.known().values())
TOLERANCE = 1e-9


def conditional() -> list[Lemma]:
    return [x for x in LEMMAS if x.conditions]


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda x: x.name)
@pytest.mark.parametrize("seed", range(3))
def test_both_sides_agree_on_random_values(lemma: Lemma, seed: int) -> None:
    assert lemma.check(np.random.default_rng(seed)) < TOLERANCE


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda x: x.name)
def test_both_sides_agree_in_every_small_case(lemma: Lemma) -> None:
    cases = lemma.prove()
    assert (cases > 0) == (lemma.cases is not None)
    if lemma.proof == "exhaustive":
        assert cases >= 5


@pytest.mark.parametrize("lemma", conditional(), ids=lambda x: x.name)
@pytest.mark.parametrize("seed", range(3))
def test_the_side_condition_matters(lemma: Lemma, seed: int) -> None:
    assert lemma.broken(np.random.default_rng(seed)) > 1e-4


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda x: x.name)
def test_declarations_are_complete(lemma: Lemma) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", lemma.name)
    texts = (lemma.title, lemma.statement, lemma.why, lemma.source, lemma.shapes)
    assert all(texts)
    assert lemma.kind in base.KINDS
    assert lemma.proof in base.PROOFS
    assert lemma.why.endswith(".")
    assert bool(lemma.conditions) == (lemma.wrong is not None) == bool(lemma.instance)


def test_guards_and_blocks_are_proved_exhaustively() -> None:
    for lemma in LEMMAS:
        if lemma.draw.__module__.rsplit(".", 1)[1] in ("guards", "lookups"):
            assert lemma.proof == "exhaustive", lemma.name
    proved = {x.name for x in LEMMAS if x.proof == "exhaustive"}
    assert {
        names.PARTIAL_SUMS, names.SPLIT_CONTRACTION, names.RANK_TILES, names.REPLICAS,
        names.GATHERED, names.SUM_OF_SUMS, names.FACTOR_OUT, names.CONSTANT_SUM, names.EXTREMA,
    } <= proved  # fmt: skip


def test_every_name_is_declared_once() -> None:
    listed = [v for k, v in vars(names).items() if k.isupper()]
    assert sorted(listed) == sorted(catalogue.known())
    with pytest.raises(ValueError, match="declared twice"):
        base.declare(LEMMAS[0])
    assert catalogue.lookup("guard-meet").title
    with pytest.raises(KeyError):
        catalogue.lookup("guard-meets")


def fire_arguments() -> Iterator[ast.expr]:
    for path in (ROOT / "src" / "shardproof" / "infer").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == "fire" and node.args:
                yield node.args[0]


def test_inference_fires_declared_names_only() -> None:
    used = set()
    for arg in fire_arguments():
        for part in ast.walk(arg):
            assert not isinstance(part, ast.Constant) or not isinstance(part.value, str)
            if isinstance(part, ast.Attribute) and part.attr.isupper():
                used.add(getattr(names, part.attr))
    assert used == set(catalogue.known())


def test_conditions_point_at_code_that_exists() -> None:
    for lemma in conditional():
        for c in lemma.conditions:
            for place in c.where.split("; "):
                file, _, rest = place.partition(": ")
                if not file.endswith(".py"):
                    continue
                text = (ROOT / "src" / "shardproof" / file).read_text()
                for word in re.sub(r" \(.*\)", "", rest).split(", "):
                    assert re.search(rf"def {re.escape(word)}\b", text), (lemma.name, place)


@pytest.mark.parametrize("name", SAMPLED)
def test_every_sampled_operator_equals_its_definition(name: str) -> None:
    for seed in range(8):
        left, right = opened_sides(name, np.random.default_rng(seed))
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


# ------------------------------------------------------------------ the tools themselves


def test_error_sees_every_difference() -> None:
    assert error([1.0, 2.0], [1.0, 2.0]) == 0.0
    assert error([1.0], [1.0, 1.0]) == float("inf")
    assert error([np.nan], [1.0]) == float("inf")
    assert error([np.nan], [np.nan]) == 0.0
    assert error([np.inf], [1.0]) == float("inf")
    assert error([np.inf], [np.inf]) == 0.0
    assert error([1e-30], [2e-30]) == pytest.approx(0.5)


def test_identical_compares_polynomials() -> None:
    x = base.entries("x", 2)
    assert identical(x + x, 2 * x)
    assert not identical(x, x[::-1])
    assert not identical(x, x[:1])


def test_cuts_cover_uneven_and_empty_shards() -> None:
    assert list(all_cuts(2, 2)) == [[0, 0, 2], [0, 1, 2], [0, 2, 2]]
    assert len(list(all_cuts(3, 3))) == 10
    found = [cuts(np.random.default_rng(k), 5, 3) for k in range(60)]
    assert all(at[0] == 0 and at[-1] == 5 and at == sorted(at) for at in found)
    assert any(a == b for at in found for a, b in itertools.pairwise(at))


def test_a_false_identity_is_not_provable() -> None:
    right = catalogue.lookup(names.PARTIAL_SUMS)
    x = base.entries("x", 3)
    false = replace(right, cases=lambda: iter([(x[:2].sum(), x.sum())]))
    with pytest.raises(AssertionError, match="fails in case 1"):
        false.prove()
    with pytest.raises(ValueError, match="no side condition"):
        catalogue.lookup(names.EXP_OF_SUM).broken(np.random.default_rng(0))


# ------------------------------------------------------------------ pages


def test_the_page_is_that_of_the_declarations() -> None:
    stale = "run: python -m shardproof.lemmas.catalogue > docs/lemmas.md"
    assert PAGE.read_text() == catalogue.markdown(), stale


def test_a_page_says_everything() -> None:
    lines = "\n".join(catalogue.page(catalogue.lookup(names.GUARD_OF_SUM)))
    for part in ("Statement", "Side conditions", "Why it is sound", "Proof: exhaustive", "Source"):
        assert part in lines
    plain = "\n".join(catalogue.page(catalogue.lookup(names.EXP_OF_SUM)))
    assert "Side conditions" not in plain
    assert max(map(len, lines.split("\n"))) <= 80


def test_explain_prints_a_lemma(capsys: pytest.CaptureFixture[str]) -> None:
    from shardproof.cli.explain import explain_topic
    from shardproof.errors import InputError

    assert explain_topic("lemma:guard-of-sum") == 0
    assert capsys.readouterr().out.startswith("guard-of-sum\n")
    with pytest.raises(InputError):
        explain_topic("lemma:guard-of-nothing")
