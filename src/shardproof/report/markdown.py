"""The report as Markdown: a table of configurations, then the findings with their lines."""

from __future__ import annotations

from collections.abc import Iterator

from shardproof.report import text
from shardproof.report.diagnostic import Span
from shardproof.report.places import Places
from shardproof.report.run import Cause, Outcome, Run, causes

_MARKS = {"refines": "✅", "refuted": "❌", "unproved": "⚠️", "error": "⛔"}
SHOWN = 20


def to_markdown(run: Run, places: Places) -> bytes:
    """The run as Markdown; everything that comes from a program is quoted as code."""
    lines = [f"## Shardproof: {_code(run.target)}", "", *_table(run)]
    for label, u in run.unequal():
        lines += ["", f"{_prose(label)}: {_prose(text.unequal(u))}"]
    for label, note in run.notes():
        lines += ["", f"{_prose(label)}: note: {_prose(note)}"]
    found = causes(run)
    for cause in found[:SHOWN]:
        lines += ["", *_finding(cause, places)]
    if len(found) > SHOWN:
        lines += ["", f"and {len(found) - SHOWN} more findings."]
    for outcome in run.outcomes:
        if outcome.verdict is None:
            lines += ["", f"### Not checked: {outcome.label or 'see the message'}"]
            lines += ["", *_block(outcome.error)]
    return ("\n".join(lines) + "\n").encode()


def _table(run: Run) -> Iterator[str]:
    yield "| configuration | verdict | |"
    yield "| --- | --- | --- |"
    for o in run.outcomes:
        name = o.label or (o.verdict.name if o.verdict is not None else run.target)
        yield f"| {_prose(name)} | {_MARKS[o.status]} {_word(o)} | {_prose(_counts(o))} |"


def _word(o: Outcome) -> str:
    return text.headline(o.verdict) if o.verdict is not None else "error"


def _counts(o: Outcome) -> str:
    return text.counts(o.verdict) if o.verdict is not None else o.error.split("\n", 1)[0]


def _finding(cause: Cause, places: Places) -> Iterator[str]:
    f = cause.finding
    sure = "" if f.certain else " (might not hold)"
    yield f"### {f.code} {f.title}{sure}"
    yield ""
    yield _prose(f.message)
    if cause.configurations:
        yield ""
        yield f"With {_code('; '.join(cause.configurations))}."
    for span in (f.primary, f.secondary):
        if span is not None:
            yield ""
            yield from _span(span, places)
    facts = [("expected", f.expected), ("found", f.found), ("collective", f.collective)]
    facts += [("fix", f.fix), ("checked", f.fix_checked)]
    facts += [("or", f"{other} (checked too)") for other in f.other_fixes]
    for label, value in facts:
        if value:
            yield ""
            yield f"* {label}: {_code(value)}"
    if f.suggestion:
        yield ""
        yield f"In the source ({text.SUGGESTED}):"
        yield ""
        yield from _block("\n".join(f.suggestion), "diff")


def _span(span: Span, places: Places) -> Iterator[str]:
    place = places.span(span)
    where = f"{place.path}:{place.line}" if place else f"{span.file}:{span.line}"
    yield f"{_code(where) if span.file else 'no source line known'} ({span.graph} program)"
    if span.code:
        yield ""
        yield from _block(span.code.strip(), "python")


def _code(value: str) -> str:
    """A code span whatever the text holds."""
    flat = " ".join(value.split())
    ticks = "`" * (_longest(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{ticks}{pad}{flat}{pad}{ticks}" if flat else ""


def _block(value: str, language: str = "") -> list[str]:
    fence = "`" * max(3, _longest(value) + 1)
    return [f"{fence}{language}", value.rstrip("\n"), fence]


def _longest(value: str) -> int:
    """The longest run of backticks."""
    run = best = 0
    for c in value:
        run = run + 1 if c == "`" else 0
        best = max(best, run)
    return best


def _prose(value: str) -> str:
    """Text in which no character is read as markup."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|~" else c for c in " ".join(value.split()))
