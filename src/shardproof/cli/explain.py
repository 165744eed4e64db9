"""``shardproof explain``: finding codes, operators and lemmas."""

from __future__ import annotations

import sys
import textwrap

from shardproof.diagnose.codes import Code, known, lookup
from shardproof.errors import InputError


def explain_topic(topic: str) -> int:
    """Print the explanation of a code, of ``op:NAME`` or of ``lemma:NAME``; without a topic, the
    list of codes."""
    if not topic:
        lines = [f"{c.code}  {c.title}" for c in known()]
    elif topic.lower().startswith("op:"):
        lines = _operator(topic[3:])
    elif topic.lower().startswith("lemma:"):
        lines = _lemma(topic[6:])
    else:
        lines = _code(topic)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _code(topic: str) -> list[str]:
    try:
        code = lookup(topic)
    except KeyError:
        raise InputError(
            f"there is no code {topic!r}",
            where="explain",
            expected="a code such as SP110, op:NAME or lemma:NAME",
            next_step="`shardproof explain` lists all codes",
        ) from None
    return [f"{code.code}: {code.title}", "", *_parts(code)]


def _parts(code: Code) -> list[str]:
    example = [f"    {line}".rstrip() for line in code.example.split("\n")]
    return [
        *_fill(code.what), "",
        "Why it hurts", *_fill(code.why, "  "), "",
        "Example", *example, "",
        "Usual fix", *_fill(code.fix, "  "),
    ]  # fmt: skip


def _operator(name: str) -> list[str]:
    import shardproof.ops  # noqa: F401 - declares the operators
    from shardproof.ops.base import known as known_operators
    from shardproof.spec.patterns import unknown_name

    operators = known_operators()
    if name not in operators:
        raise unknown_name(name, operators, "operator", f"op:{name}")
    op = operators[name]
    lines = [op.name, "", *_fill(" ".join(op.doc.split()))]
    if op.define is not None:
        lines += ["", "Also defined by simpler operators."]
    return lines


def _lemma(name: str) -> list[str]:
    from shardproof.lemmas.catalogue import known as known_lemmas
    from shardproof.lemmas.catalogue import page
    from shardproof.spec.patterns import unknown_name

    lemmas = known_lemmas()
    if name not in lemmas:
        raise unknown_name(name, lemmas, "lemma", f"lemma:{name}")
    return page(lemmas[name])


def _fill(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, 80, initial_indent=indent, subsequent_indent=indent)
