"""Reference pages of operators, written from their declarations."""

from __future__ import annotations

from dataclasses import fields

import shardproof.ops  # noqa: F401 - registers the operators that the pages are about
from shardproof.ir.graph import AttrValue
from shardproof.ops.base import Algebra, Contract, OpDef, Signature, known, lookup
from shardproof.ops.examples import Example, example


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
    parts = [f"# {name}", "", f"    {usage(op)}", "", op.doc, "", *_example_lines(op)]
    parts.append("Reference evaluation: " + ("yes." if op.evaluate else "no."))
    parts.append("Spelled with simpler operators: " + ("yes." if op.define else "no."))
    return "\n".join([*parts, ""])


def index() -> str:
    """One line an operator, in alphabetical order."""
    rows = [
        f"- `{usage(op)}`: {op.doc.split('. ')[0].rstrip('.')}."
        for _, op in sorted(known().items())
    ]
    return "\n".join(["# Core operators", "", *rows, ""])


def describe(algebra: Algebra) -> str:
    """An algebra as one line of text: what inference knows of an output.

    A whole axis is marked ``!``, as in ``i0 i1! -> i0 i1``.
    """
    if isinstance(algebra, Signature):
        text = f"{algebra.fn}: {_labels(algebra.operands, algebra.output, algebra.whole)}"
        text += f"; linear in operands {algebra.linear}" if algebra.linear else ""
        return text + (f"; does not read operands {algebra.unused}" if algebra.unused else "")
    if isinstance(algebra, Contract):
        text = f"sum of products: {_labels(algebra.operands, algebra.output, ())}"
        return text + ("; divided by the number of terms" if algebra.scale_by_count else "")
    shown = [f"{f.name}={_text(getattr(algebra, f.name))}" for f in fields(algebra)]
    return f"{type(algebra).__name__}({', '.join(shown)})"


def _labels(
    operands: tuple[tuple[str, ...], ...], output: tuple[str, ...], whole: tuple[str, ...]
) -> str:
    def words(names: tuple[str, ...]) -> str:
        return " ".join(n + "!" * (n in whole) for n in names) or "()"

    return f"{', '.join(map(words, operands))} -> {words(output)}"


def _example_lines(op: OpDef) -> list[str]:
    try:
        call = example(op)
    except KeyError:
        return []
    outputs = op.types(call.inputs, call.attrs)
    algebra = [f"    output {k}: {describe(a)}" for k, a in enumerate(_algebra(op, call))]
    left = f"{op.name}({', '.join(map(str, call.inputs))}){_attributes(call.attrs)}"
    right = ", ".join(map(str, outputs)) or "no output"
    return ["Example, and what inference knows of it:", "", f"    {left} -> {right}", *algebra, ""]


def _algebra(op: OpDef, call: Example) -> tuple[Algebra, ...]:
    return op.algebra(call.inputs, call.attrs)


def _attributes(attrs: dict[str, AttrValue]) -> str:
    return " {" + ", ".join(f"{k}={_text(v)}" for k, v in attrs.items()) + "}" if attrs else ""


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_text, value)) + ("," if len(value) == 1 else "") + ")"
    return str(value)
