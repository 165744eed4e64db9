"""Reference pages of operators, written from their declarations."""

from __future__ import annotations

import shardproof.ops  # noqa: F401 - registers the operators that the pages are about
from shardproof.ops.base import OpDef, known, lookup


def usage(op: OpDef) -> str:
    """One line such as ``softmax(x) {dim}``; ``?`` marks what may be left out."""
    words = [w for w in op.attributes.split() if w != "*"]
    attributes = f" {{{', '.join(words)}}}" if words else ""
    return f"{op.name}({', '.join(op.operands.split())}){attributes}"


def page(name: str) -> str:
    """The Markdown page of an operator.

    Raises:
        KeyError: there is no such operator.
    """
    op = lookup(name)
    facts = [
        "- reference evaluation: " + ("yes" if op.evaluate else "no, it cannot run on one rank"
                                      if name in _communicating() else "no"),
        "- spelled with simpler operators: " + ("yes" if op.define else "no"),
    ]  # fmt: skip
    return "\n".join([f"# {name}", "", f"    {usage(op)}", "", op.doc, "", *facts, ""])


def _communicating() -> frozenset[str]:
    return frozenset("all_reduce all_gather reduce_scatter all_to_all broadcast send recv".split())


def index() -> str:
    """One line an operator, in alphabetical order."""
    rows = [f"- `{usage(op)}`: {op.doc.split('. ')[0].rstrip('.')}." for op in _sorted()]
    return "\n".join(["# Core operators", "", *rows, ""])


def _sorted() -> list[OpDef]:
    return sorted(known().values(), key=lambda op: op.name)
