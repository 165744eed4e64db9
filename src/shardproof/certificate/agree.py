"""Have a proof checked: write its certificate, read that back, and check what was read."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from shardproof.certificate.check import Outcome
from shardproof.certificate.document import Proof
from shardproof.certificate.reading import check_proof
from shardproof.certificate.write import proof_of
from shardproof.infer.run import Inference
from shardproof.spec.problem import Problem
from shardproof.uncollected import uncollected


def certify(
    problem: Problem, inf: Inference, fixed: dict[str, float] | None, listed: Collection[str]
) -> Outcome:
    """Whether the independent checker agrees that ``inf`` proves ``problem``. ``listed`` are the
    assumptions that the verdict prints."""
    outcome = _certify(problem, inf, fixed, listed, copies=True)
    if outcome.agrees or not inf.copied:
        return outcome
    return _certify(problem, inf, fixed, listed, copies=False)


def _certify(
    problem: Problem,
    inf: Inference,
    fixed: dict[str, float] | None,
    listed: Collection[str],
    *,
    copies: bool,
) -> Outcome:
    try:
        data = msgspec.json.encode(proof_of(inf, copies=copies))
        proof = msgspec.json.decode(data, type=Proof)
    except (KeyError, msgspec.MsgspecError, TypeError, ValueError) as e:
        return Outcome(f"not checked: the certificate was not written ({type(e).__name__})")
    with uncollected():  # nothing that the checker makes refers to itself
        return check_proof(problem, inf.problem, proof, fixed or {}, listed)
