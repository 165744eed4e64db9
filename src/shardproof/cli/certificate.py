"""``shardproof verify-certificate``."""

from __future__ import annotations

import sys
from pathlib import Path

from shardproof.certificate import statement
from shardproof.certificate.document import Document
from shardproof.certificate.reading import check_file
from shardproof.errors import InputError, shorten
from shardproof.spec.problem import Problem
from shardproof.uncollected import uncollected


def verify_certificate(path: str) -> int:
    """Check the certificate in a file, print what it proves, and return 0, else 3."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {Path(path).name}: {error.strerror}",
            where="verify-certificate",
            expected="a file written by `shardproof check --certificate FILE`",
            next_step="give the path of such a file",
        ) from error
    with uncollected():
        outcome, doc = check_file(data)
    if doc is None:
        raise InputError(
            shorten(outcome.problem),
            where=path,
            expected="a file written by `shardproof check --certificate FILE`",
            next_step="write it again",
        )
    word = "refines (certificate checked)" if outcome.agrees else outcome.problem
    lines = [f"{shorten(doc.name)}: {word}"]
    if outcome.agrees and outcome.stated is not None:
        lines += [*_statement(doc, outcome.stated), f"{outcome.steps} steps were derived again"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if outcome.agrees else 3


def _statement(doc: Document, problem: Problem) -> list[str]:
    """What was proved, by the graphs in the file; then what the file says of itself."""
    out = ["", "Proved, of the graphs in the file, where the inputs are"]
    out += [f"  {line}" for line in statement.relation_lines(problem)]
    out += ["that"]
    out += [f"  {line}" for line in statement.obligation_lines(problem)]
    left = statement.not_stated(problem)
    out += [f"  (nothing about {', '.join(left)})"] if left else []
    if doc.assumed or doc.fixed:
        out += ["", "Assuming"]
        out += [f"  {shorten(text)}" for text in doc.assumed]
        out += [
            f"  {shorten(name)} = {value} in every element" for name, value in doc.fixed.items()
        ]
    if doc.assumptions:
        out += ["", "The file says of how the graphs were made, which no checker can see:"]
        out += [f"  {shorten(kind)}: {shorten(text)}" for kind, text in doc.assumptions]
    return [*out, ""]
