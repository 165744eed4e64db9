"""The report of a run for people: one verdict, or a table of configurations and its findings."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator
from typing import TextIO

from shardproof.report import text
from shardproof.report.run import Outcome, Run, causes

STYLES = {"refines": "green", "refuted": "bold red", "unproved": "yellow", "error": "bold red"}
_GAP = "  "


def lines(run: Run, *, width: int = 80, full: bool = False) -> list[text.Line]:
    """The report as styled lines of at most ``width`` columns where words allow it."""
    if not run.matrix:
        verdicts = list(run.verdicts())
        return text.render(verdicts[0], width=width, full=full) if verdicts else []
    parts = (_table(run, width), _beside(run, width), _findings(run, width, full))
    return [*itertools.chain(*parts), *_errors(run, width)]


def plain(run: Run, *, width: int = 80, full: bool = False) -> str:
    """The report without styles."""
    return "".join(f"{line}\n" for line, _ in lines(run, width=width, full=full))


def write(run: Run, file: TextIO, *, full: bool = False) -> None:
    """Print the report; colours only on a terminal, and not with NO_COLOR."""
    text.print_lines(lambda width: lines(run, width=width, full=full), file)


def _table(run: Run, width: int) -> Iterator[text.Line]:
    words = {s: sum(o.status == s for o in run.outcomes) for s in STYLES}
    counted = ", ".join(f"{n} {word}" for word, n in words.items() if n)
    worst = next(s for s in ("refuted", "error", "unproved", "refines") if words[s])
    noun = "configuration" if len(run.outcomes) == 1 else "configurations"
    yield f"{len(run.outcomes)} {noun}: {counted}", STYLES[worst]
    yield "", ""
    rows = [_row(o) for o in run.outcomes]
    axes = list(run.outcomes[0].configuration)
    head = (*axes, "verdict", "outputs", "findings", "seconds")
    widths = [max(len(r[k]) for r in [head, *rows]) for k in range(len(head))]
    yield _fit(head, widths, width), "bold"
    for outcome, row in zip(run.outcomes, rows, strict=True):
        yield _fit(row, widths, width), STYLES[outcome.status]


def _row(o: Outcome) -> tuple[str, ...]:
    extents = (str(n) for n in o.configuration.values())
    v = o.verdict
    if v is None:
        return (*extents, "error", "", "", f"{o.seconds:.1f}")
    proved = sum(x.status == "proved" for x in v.outputs)
    seconds = f"{o.seconds:.1f}" + (" (cached)" if v.cached else "")
    codes = ", ".join(dict.fromkeys(f.code for f in v.findings))
    return (*extents, v.status, f"{proved}/{len(v.outputs)}", codes, seconds)


def _fit(row: tuple[str, ...], widths: list[int], width: int) -> str:
    line = _GAP.join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
    return line if len(line) <= width else line[: width - 3] + "..."


def _beside(run: Run, width: int) -> Iterator[text.Line]:
    said = [f"{label}: {text.unequal(u)}" for label, u in run.unequal()]
    said += [f"{label}: note: {note}" for label, note in run.notes()]
    for k, line in enumerate(said):
        if k == 0:
            yield "", ""
        for part, _ in _wrapped(line, "    ", width):
            yield part, STYLES["unproved"]


def _findings(run: Run, width: int, full: bool) -> Iterator[text.Line]:
    for cause in causes(run):
        yield "", ""
        yield from text.render_finding(cause.finding, width=width, full=full)
        yield from _wrapped(f"   = with: {'; '.join(cause.configurations)}", " " * 8, width)


def _errors(run: Run, width: int) -> Iterator[text.Line]:
    for o in run.outcomes:
        if o.verdict is None:
            yield "", ""
            yield o.label, "bold"
            for line in o.error.split("\n"):
                yield from _wrapped(f"  {line}", " " * 6, width)


def _wrapped(line: str, rest: str, width: int) -> Iterator[text.Line]:
    for part in textwrap.wrap(line, width, subsequent_indent=rest, break_long_words=False):
        yield part, ""
