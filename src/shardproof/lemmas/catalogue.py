"""All lemmas, by name, and the pages made from their declarations."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from shardproof.lemmas import guards, lookups, positions, ranks, rows, sums
from shardproof.lemmas.base import KINDS, PROOFS, Lemma, declared
from shardproof.lemmas.derived import DERIVED
from shardproof.lemmas.smt import GOALS

GROUPS = (
    ("Sums, partial sums, extrema", sums),
    ("Ranks, slices, names", ranks),
    ("Integers and guards", guards),
    ("Lookups and scatters", lookups),
    ("Masks of positions", positions),
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
    why = [] if lemma.proof == "algebra" and lemma.name in GOALS else [PROOFS[lemma.proof]]
    lines += [f"Proof: {_proof(lemma)}", *(x for y in why for x in _fill(y, width, "  ")), ""]
    for k, goal in enumerate(GOALS.get(lemma.name, ()), 1):
        lines += [f"Z3, goal {k} ({goal.about}): no values satisfy"]
        lines += [*(x for text in goal.lines for x in _fill(text, width, "    ")), ""]
    return [*lines, f"Source: {lemma.source}"]


def markdown() -> str:
    """The page of all lemmas with a table of how each is covered."""
    out = [
        "# Lemmas", "",
        "Generated from the declarations by `python -m shardproof.lemmas.catalogue`.", "",
        "All identities that inference may use. `shardproof explain lemma:NAME` prints one.", "",
        "Class: " + " ".join(f"*{k}*: {v}" for k, v in KINDS.items()), "",
        "Proof: " + " ".join(f"*{k}*: {v}" for k, v in PROOFS.items()), "",
        ("*Z3*: Z3 finds no values, of any size, for which the lemma fails; sums over intervals by "
        "induction. The goals are listed; a line marked `; condition` is a side condition, without "
        "which there are such values."), "",
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
    out += ["", "## Facts that several lemmas give together"]
    for name, goals in DERIVED.items():
        out += ["", f"### {name}"]
        for goal in goals:
            out += ["", f"Z3, {goal.about}:", "", *_indented(goal.lines)]
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
    for goal in GOALS.get(lemma.name, ()):
        out += ["", f"Z3, {goal.about}:", "", *_indented(goal.lines)]
    return out


def _proof(lemma: Lemma) -> str:
    cases, goals = lemma.prove(), len(GOALS.get(lemma.name, ()))
    text = f"{lemma.proof}, {cases} cases" if cases else lemma.proof
    if not goals:
        return text
    # What only the law of a function carries is proved from that law by Z3.
    shown = "" if lemma.proof == "algebra" else f"{text}; "
    return f"{shown}Z3 for any size, {goals} goal{'s' if goals > 1 else ''}"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {x}" for x in lines]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _fill(text: str, width: int, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)


if __name__ == "__main__":
    import sys

    sys.stdout.write(markdown())
