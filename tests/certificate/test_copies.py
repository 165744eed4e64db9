"""Layers that are copies of a checked one: nothing else is taken for a copy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from tests.certificate.corpus import as_data, inferred
from tests.certificate.forge import wrong
from tests.support.layers import STACK_FAULTS, stack
from tests.support.problems import all_ranks, even

from shardproof.certificate.document import Proof
from shardproof.certificate.reading import check_file, check_proof
from shardproof.certificate.write import proof_of, write
from shardproof.examples.megatron_gpt import gpt
from shardproof.infer.prepare import fold_problem
from shardproof.infer.run import Inference, infer
from shardproof.spec.problem import Problem

LAYERS = 6
MAKE: dict[str, Callable[..., Problem]] = {
    "2 ranks": lambda **how: stack(even(2, 2), LAYERS, **how),
    "all ranks": lambda **how: stack(all_ranks(), LAYERS, **how),
}


def right(name: str) -> tuple[Problem, Inference, Proof]:
    problem = MAKE[name]()
    inf = inferred(problem)
    assert inf.holds
    return problem, inf, proof_of(inf)


@pytest.mark.parametrize("name", MAKE)
def test_layers_are_copied(name: str) -> None:
    problem, inf, proof = right(name)
    assert len(proof.copies) >= LAYERS - 2
    assert check_proof(problem, inf.problem, proof, {}, []).problem == ""
    whole = proof_of(inf, copies=False)
    assert not whole.copies
    assert len(whole.meanings) > len(proof.meanings)
    assert check_proof(problem, inf.problem, whole, {}, []).problem == ""


@pytest.mark.parametrize("at", range(LAYERS))
@pytest.mark.parametrize("fault", STACK_FAULTS)
@pytest.mark.parametrize("name", MAKE)
def test_a_fault_in_one_layer_is_no_copy(name: str, fault: str, at: int) -> None:
    _, _, proof = right(name)
    problem = MAKE[name](fault=fault, at=at)
    folded = problem if problem.distributed.spmd else fold_problem(problem)
    assert not check_proof(problem, folded, proof, {}, []).agrees


@pytest.mark.parametrize("seed", range(6))
def test_other_weights_are_no_copy(seed: int) -> None:
    """A proof for one wiring of weights is none for another."""
    rng = Random(seed)
    wiring = [rng.randrange(3) for _ in range(LAYERS)]
    held = list(wiring)
    held[rng.randrange(LAYERS)] = rng.randrange(3)
    one = stack(even(2, 2), LAYERS, weights=wiring)
    other = stack(even(2, 2), LAYERS, weights=wiring, held=held)
    inf = inferred(one)
    found = check_proof(other, fold_problem(other), proof_of(inf), {}, [])
    assert found.agrees == (held == wiring)


FIELDS: list[tuple[str, int, Any]] = [
    ("templates", 1, lambda x: x + 1),  # at
    ("templates", 1, lambda x: x - 1),
    ("templates", 2, lambda x: x - 1),  # period
    ("templates", 2, lambda x: x + 1),
    ("templates", 3, lambda x: x[:-1]),  # made
    ("templates", 3, lambda x: x[::-1]),
    ("templates", 3, lambda x: x and [*x, x[-1]]),
    ("templates", 4, lambda x: x[:-1]),  # moved
    ("templates", 4, lambda x: []),
    ("copies", 0, lambda x: 1 - x),  # template
    ("copies", 1, lambda x: x + 1),  # at
    ("copies", 2, lambda x: x[:-1]),  # new
    ("copies", 2, lambda x: x[::-1]),
    ("copies", 2, lambda x: [x[0] for _ in x]),
    ("copies", 2, lambda x: [0, *x[1:]]),
    ("copies", 2, lambda x: [-1, *x[1:]]),
]


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize(("area", "field", "change"), FIELDS)
def test_edited_rows(name: str, area: str, field: int, change: Any) -> None:
    problem, inf, _ = right(name)
    good: Any = as_data(write(problem, inf))
    for k in range(len(good["proof"][area])):
        data = copy.deepcopy(good)
        row = data["proof"][area][k]
        old = row[field]
        row[field] = change(old)
        if row[field] != old:
            assert check_file(msgspec.json.encode(data))[0].problem.startswith("not checked: ")


def test_a_copy_that_follows_nothing() -> None:
    problem, inf, _ = right("2 ranks")
    data: Any = as_data(write(problem, inf))
    for row in data["proof"]["copies"]:
        row[3:] = []
    assert not check_file(msgspec.json.encode(data))[0].agrees


def test_a_copy_that_follows_another() -> None:
    problem, inf, _ = right("2 ranks")
    data: Any = as_data(write(problem, inf))
    rows = [r for r in data["proof"]["copies"] if len(r) == 4 and r[3] is not None]
    for row in rows:
        row[3] = rows[0][3]
    assert not check_file(msgspec.json.encode(data))[0].agrees


def test_a_claim_about_a_copy() -> None:
    problem, inf, _ = right("2 ranks")
    data: Any = as_data(write(problem, inf))
    rows = data["proof"]["sequential"]
    hole = max(k for k, x in enumerate(rows) if x is None)
    rows[hole] = next(x for x in rows if x is not None)
    assert not check_file(msgspec.json.encode(data))[0].agrees


def test_captured_layers() -> None:
    problem = gpt(2, 8).resolve()
    inf = infer(problem)
    listed = {*inf.evaluator.lookups.assumed, *inf.evaluator.products.assumed}
    proof = proof_of(inf)
    assert len(proof.copies) == 14
    assert check_proof(problem, inf.problem, proof, {}, listed).problem == ""


def test_the_faults_are_faults() -> None:
    for fault in STACK_FAULTS:
        assert wrong(MAKE["2 ranks"](fault=fault, at=3))
