"""``shardproof verify-certificate``."""

from __future__ import annotations

import sys
from pathlib import Path

from shardproof.certificate.document import Document
from shardproof.certificate.reading import check_file
from shardproof.errors import InputError, shorten
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
    if outcome.agrees:
        lines += [*_statement(doc), f"{outcome.steps} steps were derived again"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if outcome.agrees else 3


def _statement(doc: Document) -> list[str]:
    """What was proved, and what it rests on."""
    out = ["", "Proved of the graphs in the file:"]
    for ob in doc.obligations:
        partial = f", summed over {', '.join(ob.partial_over)}" if ob.partial_over else ""
        out.append(f"  {ob.sequential} = {ob.distributed} on every rank that returns it{partial}")
    out += ["", "Rests on:"]
    out += [f"  {kind}: {text}" for kind, text in doc.assumptions]
    out += [f"  assumed: {text}" for text in doc.assumed]
    out += [f"  fixed: {name} = {value}" for name, value in doc.fixed.items()]
    out += [f"  left out: {name}" for name in doc.left_out]
    return [*out, ""]
