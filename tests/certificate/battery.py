"""Certificates with the answer that the checker must give, made once and kept as bytes.

Right proofs, altered proofs, and altered programs under the claims of the right one or under what
the engine finds for them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from tests.certificate.alter import AREAS, altered
from tests.certificate.corpus import PROBLEMS, as_data, certificate, inferred
from tests.certificate.forge import forged, wrong

from shardproof.certificate.reading import check_file
from shardproof.certificate.write import document_of, proof_of, write
from shardproof.examples import layernorm_gradient, megatron_gpt, qwen2
from shardproof.infer.run import infer
from shardproof.testing.mutate import mutants


@dataclass(frozen=True, slots=True)
class Case:
    """A certificate; whether it is accepted, and the assumptions that it rests on."""

    name: str
    data: bytes
    accepted: bool
    assumed: tuple[str, ...] = ()


def battery(alterations: int, programs: int, seed: int = 1) -> list[Case]:
    """All cases: the right ones first, then wrong ones in random order."""
    rng = random.Random(seed)
    good = list(right())
    bad = [*altered_proofs(good, alterations, rng), *altered_programs(programs, seed)]
    rng.shuffle(bad)
    return [*good, *bad]


def right() -> Iterator[Case]:
    """Proofs of programs that refine."""
    for name in PROBLEMS:
        for symbolic_ranks in (True, False):
            data = certificate(name, symbolic_ranks=symbolic_ranks)
            yield _accepted(f"{name} {symbolic_ranks}", data)
    for spec in (megatron_gpt.tp2_layers1(), qwen2.tp2(), layernorm_gradient.reduced_later()):
        problem, fixed = spec.resolve(), spec.fixed_values
        yield _accepted(problem.name, write(problem, infer(problem, fixed=fixed), fixed))


def _accepted(name: str, data: bytes) -> Case:
    outcome, _ = check_file(data)
    assert outcome.agrees, outcome.problem
    return Case(name, data, True, tuple(outcome.assumed))


def altered_proofs(good: list[Case], count: int, rng: random.Random) -> Iterator[Case]:
    """Proofs with one thing changed that say something else, and are refused."""
    small = [c for c in good if len(c.data) < 20_000]
    for k in range(count):
        case = small[k % len(small)]
        data: Any = as_data(case.data)
        found = altered(data, rng, rng.choice(AREAS))
        if found is None:
            continue
        text = msgspec.json.encode(found[0])
        if not check_file(text)[0].agrees:
            yield Case(f"{case.name}: {found[1]}", text, False)


def altered_programs(count: int, seed: int) -> Iterator[Case]:
    """Programs that a replay shows to be wrong, under two proofs each."""
    for name in PROBLEMS:
        if name.endswith("for all"):
            continue
        problem = PROBLEMS[name]()
        plain = inferred(problem, symbolic_ranks=False)
        proof = proof_of(plain)
        for m in mutants(problem, seed=seed, count=count):
            if wrong(m.problem) is False:
                continue
            own = infer(m.problem, symbolic_ranks=False)
            if own.schedule.errors:
                continue
            document = document_of(m.problem, own)
            for claims in (forged(plain, proof, m.problem), document.proof):
                data = msgspec.json.encode(msgspec.structs.replace(document, proof=claims))
                yield Case(f"{name}: {m.description}", data, False)
