"""All lemmas, by name, and the pages made from their declarations."""

from __future__ import annotations

import textwrap

from shardproof.lemmas import guards, lookups, ranks, rows, sums
from shardproof.lemmas.base import KINDS, PROOFS, Lemma, declared

GROUPS = (
    ("Sums, partial sums, extrema", sums),
    ("Ranks, slices, names", ranks),
    ("Integers and guards", guards),
    ("Lookups and scatters", lookups),
    ("Row algebra", rows),
)


def known() -> dict[str, Lemma]:
    """All lemmas by name, in the order of the page."""
    found = declared().values()
    modules = [module.__name__ for _, module in GROUPS]
    return {x.name: x for x in sorted(found, key=lambda x: modules.index(x.draw.__module__))}


def lookup(name: str) -> Lemma:
    """The declaration of ``name``.

    Raises:
        KeyError: there is none.
    """
    return known()[name]


def page(lemma: Lemma, width: int = 80) -> list[str]:
    """The explanation of one lemma as lines of text."""
    lines = [lemma.name, "", *_fill(_sentence(lemma.title), width), ""]
    lines += ["Statement", *_fill(lemma.statement, width, "    "), ""]
    lines += ["Example", *_fill(lemma.shapes, width, "    "), ""]
    if lemma.conditions:
        lines.append("Side conditions, and where they are checked")
        for c in lemma.conditions:
            lines += _fill(f"{c.text} ({c.where})", width, "  ")
        lines += ["", "Without the condition the sides differ", *_fill(lemma.instance, width, "  ")]
        lines.append("")
    lines += ["Why it is sound", *_fill(lemma.why, width, "  "), ""]
    lines += [f"Class {lemma.kind}", *_fill(KINDS[lemma.kind], width, "  "), ""]
    lines += [f"Proof: {_proof(lemma)}", *_fill(PROOFS[lemma.proof], width, "  "), ""]
    return [*lines, f"Source: {lemma.source}"]


def markdown() -> str:
    """The page of all lemmas with a table of how each is covered."""
    out = [
        "# Lemmas", "",
        "Generated from the declarations by `python -m shardproof.lemmas.catalogue`.", "",
        "All identities that inference may use. `shardproof explain lemma:NAME` prints one.", "",
        "Class: " + " ".join(f"*{k}*: {v}" for k, v in KINDS.items()), "",
        "Proof: " + " ".join(f"*{k}*: {v}" for k, v in PROOFS.items()), "",
        "| lemma | class | proof | random values | broken side condition |",
        "| --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for lemma in known().values():
        broken = lemma.instance if lemma.conditions else "no side condition"
        out.append(
            f"| [{lemma.name}](#{lemma.name}) | {lemma.kind} | {_proof(lemma)} | to 1e-9 "
            f"| {broken} |"
        )
    for title, module in GROUPS:
        out += ["", f"## {title}"]
        for lemma in known().values():
            if lemma.draw.__module__ == module.__name__:
                out += ["", *_section(lemma)]
    return "\n".join([*out, ""])


def _section(lemma: Lemma) -> list[str]:
    out = [
        f"### {lemma.name}", "",
        f"{_sentence(lemma.title)} ({lemma.kind}; {_proof(lemma)})", "",
        f"    {lemma.statement}", "",
        f"{lemma.why} Example: {lemma.shapes}. Source: {lemma.source}.",
    ]  # fmt: skip
    if lemma.conditions:
        out += ["", *(f"- {c.text} (`{c.where}`)" for c in lemma.conditions)]
        out += ["", f"Without this the sides differ: {lemma.instance}."]
    return out


def _proof(lemma: Lemma) -> str:
    cases = lemma.prove()
    return f"{lemma.proof}, {cases} cases" if cases else lemma.proof


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _fill(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)


if __name__ == "__main__":
    import sys

    sys.stdout.write(markdown())
