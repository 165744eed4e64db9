"""Check the certificate in a file, which may hold anything."""

from __future__ import annotations

from collections.abc import Collection

from shardproof.certificate.check import Outcome, check
from shardproof.certificate.document import Document, Proof, claims, decode, problems
from shardproof.certificate.exact import NotChecked
from shardproof.ir.sizes import Undecided
from shardproof.spec.problem import Problem

BAD = (
    NotChecked, Undecided, ValueError, KeyError, IndexError, TypeError, AttributeError,
    ArithmeticError, RecursionError,
)  # fmt: skip
MAX_BYTES = 1 << 29


def check_file(data: bytes) -> tuple[Outcome, Document | None]:
    """Check a certificate. Nothing that it says is taken for granted but the problem it states,
    which is returned to be shown."""
    if len(data) > MAX_BYTES:
        return Outcome("not checked: the file is too large"), None
    doc: Document | None = None
    try:
        doc = decode(data)
        original, evaluated = problems(doc)
    except BAD as e:
        return Outcome(f"not checked: {_reason(e)}"), doc
    out = check_proof(original, evaluated, doc.proof, doc.fixed, doc.assumed)
    out.stated = original
    return out, doc


def check_proof(
    original: Problem,
    evaluated: Problem,
    proof: Proof,
    fixed: dict[str, float],
    listed: Collection[str],
) -> Outcome:
    """Check a proof; what it rests on must be among the ``listed`` assumptions."""
    try:
        out = check(original, evaluated, claims(proof, evaluated), fixed)
    except BAD as e:
        return Outcome(f"not checked: {_reason(e)}")
    missing = [a for a in out.assumed if a not in listed]
    if out.agrees and missing:
        out.problem = f"not checked: it rests on an assumption that is not listed: {missing[0]}"
    return out


def _reason(e: BaseException) -> str:
    return str(e) if isinstance(e, NotChecked | Undecided) else f"malformed ({type(e).__name__})"
