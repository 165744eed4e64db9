"""Altered certificates and altered programs are rejected.

An altered *proof* of the same problem is accepted only if its claims have the values of those of
the original at random inputs. A
certificate of an altered *program*, with the claims of the right one or with what the engine finds
for it, is never accepted where a replay shows that the program is wrong.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from tests.certificate.alter import AREAS, altered
from tests.certificate.corpus import PROBLEMS, as_data, certificate, inferred
from tests.certificate.forge import forged, wrong
from tests.certificate.values import same, values

from shardproof.certificate.reading import check_file, check_proof
from shardproof.certificate.write import proof_of, write
from shardproof.examples import megatron_gpt
from shardproof.infer.run import infer
from shardproof.testing.mutate import mutants

CONCRETE = [n for n in PROBLEMS if not n.endswith("for all")]


def alter_proofs(name: str, symbolic_ranks: bool, count: int, seed: int) -> tuple[int, int]:
    """How many altered proofs were tried, and how many said the same in other words."""
    data: Any = as_data(certificate(name, symbolic_ranks=symbolic_ranks))
    right = values(msgspec.json.encode(data))
    rng = Random(f"{name} {symbolic_ranks} {seed}")
    tried = kept = 0
    for _ in range(count):
        found = altered(data, rng, rng.choice(AREAS))
        if found is None:
            continue
        tried += 1
        text = msgspec.json.encode(found[0])
        outcome, _ = check_file(text)
        assert not outcome.problem or outcome.problem.startswith("not checked: ")
        if outcome.agrees:
            assert same(values(text), right), found[1]
            kept += 1
    return tried, kept


def forge_programs(name: str, count: int, seed: int) -> tuple[int, int]:
    """How many altered programs were tried, and how many a replay calls wrong."""
    problem = PROBLEMS[name]()
    plain, folded = inferred(problem, symbolic_ranks=False), inferred(problem)
    proofs = proof_of(plain), proof_of(folded)
    tried = bad = 0
    for m in mutants(problem, seed=seed, count=count):
        listed = {*plain.evaluator.lookups.assumed, *plain.evaluator.products.assumed}
        found = [
            check_proof(m.problem, m.problem, forged(plain, proofs[0], m.problem), {}, listed),
            check_proof(m.problem, folded.problem, proofs[1], {}, listed),
        ]
        for symbolic_ranks in (True, False):
            own = infer(m.problem, symbolic_ranks=symbolic_ranks)
            mine = {*own.evaluator.lookups.assumed, *own.evaluator.products.assumed}
            if own.schedule is None or not own.schedule.errors:
                found.append(check_proof(m.problem, own.problem, proof_of(own), {}, mine))
        tried += len(found)
        if wrong(m.problem) is not False:
            bad += 1
            assert not any(o.agrees for o in found), m.description
    return tried, bad


@pytest.mark.parametrize("symbolic_ranks", [True, False], ids=["folded", "rank by rank"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_altered_proofs(name: str, symbolic_ranks: bool) -> None:
    tried, kept = alter_proofs(name, symbolic_ranks, 30, 1)
    assert tried > 10
    assert kept < tried / 3


@pytest.mark.parametrize("name", CONCRETE)
def test_altered_programs(name: str) -> None:
    tried, bad = forge_programs(name, 8, 1)
    assert tried
    assert bad


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PROBLEMS)
def test_many_altered_proofs(name: str) -> None:
    for symbolic_ranks in (True, False):
        alter_proofs(name, symbolic_ranks, 500, 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CONCRETE)
def test_many_altered_programs(name: str) -> None:
    forge_programs(name, 120, 2)


# ------------------------------------------------------------------ the statement


def statement(edit: Any, name: str = "mlp") -> str:
    """The outcome for a certificate whose statement was edited."""
    data: Any = as_data(certificate(name))
    edit(data)
    return check_file(msgspec.json.encode(data))[0].problem


def in_texts(old: str, new: str, count: int = -1) -> Any:
    def edit(data: Any) -> None:
        before = list(data["texts"])
        data["texts"] = [t.replace(old, new, count) for t in before]
        assert data["texts"] != before

    return edit


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gelu", "tanh"),
        ('op="sum"', 'op="avg"'),
        ("group=(0, 1, 2)", "group=(0, 2, 1)"),
        ("add(%matmul#1, %x)", "add(%x, %x)"),
    ],
)
def test_edited_texts(old: str, new: str) -> None:
    def edit(data: Any) -> None:
        texts = data["texts"]
        hits = [k for k, t in enumerate(texts) if old in t]
        for k in hits[1:] or hits:
            texts[k] = texts[k].replace(old, new)

    assert statement(edit).startswith("not checked")


def test_a_shard_of_another_rank() -> None:
    def edit(data: Any) -> None:
        rows = data["relation"]
        rows[0], rows[1] = rows[1], rows[0]

    assert statement(edit).startswith("not checked")


def test_an_obligation_that_the_folded_problem_lacks() -> None:
    def edit(data: Any) -> None:
        data["evaluated"]["expected"] = []

    assert statement(edit) == "not checked: an obligation is missing"


def test_nothing_to_prove() -> None:
    def edit(data: Any) -> None:
        data["obligations"] = data["evaluated"]["expected"] = []

    assert statement(edit) == "not checked: ranks: there is nothing to prove"


def test_an_output_that_fewer_ranks_return() -> None:
    def edit(data: Any) -> None:
        data["obligations"][0]["expected"][1] = None

    assert statement(edit).startswith("not checked")


def test_another_mesh() -> None:
    def edit(data: Any) -> None:
        data["mesh"] = [["tp", 4]]

    assert statement(edit).startswith("not checked")


def test_removed_assumption() -> None:
    problem = megatron_gpt.tp2_layers1().resolve()
    data: Any = as_data(write(problem, infer(problem)))
    assert check_file(msgspec.json.encode(data))[0].agrees
    del data["assumed"][0]
    assert "not listed" in check_file(msgspec.json.encode(data))[0].problem
