"""What a GitHub run shows: annotations on lines, and the summary of the step.

Both streams of a step are searched for annotations; they go to standard error, so that a report
on standard output stays one document.
"""

from __future__ import annotations

from shardproof.report.markdown import to_markdown
from shardproof.report.places import Places
from shardproof.report.run import Run, causes
from shardproof.report.sarif import level, message
from shardproof.report.text import unequal
from shardproof.report.words import OF_ITSELF

MAX_SUMMARY = 1_000_000
"""GitHub refuses more than a mebibyte a step."""


def commands(run: Run, places: Places) -> list[str]:
    """One workflow command a finding or error, certain ones first (GitHub shows ten of each)."""
    lines = []
    for cause in causes(run):
        f, place = cause.finding, places.of(cause.finding)
        lines.append(
            f"::{level(f)} file={_property(place.path)},line={place.line},"
            f"title={_property(f'{f.code} {f.title}')}::{_data(message(cause))}"
        )
    where = f"file={_property(places.check.path)},line={places.check.line}"
    for label, u in run.unequal():
        lines.append(f"::warning {where},title=unequal counts::{_data(f'{label}: {unequal(u)}')}")
    for label, note in run.notes():
        # What was asked for is worth knowing; that it may be nothing is worth a warning.
        how = "warning" if note == OF_ITSELF else "notice"
        lines.append(f"::{how} {where},title=a note on the proof::{_data(f'{label}: {note}')}")
    for outcome in run.outcomes:
        if outcome.verdict is None:
            text = f"{outcome.label}: {outcome.error}" if outcome.label else outcome.error
            lines.append(f"::error {where},title=shardproof could not check this::{_data(text)}")
    return lines


def summary(run: Run, places: Places) -> bytes:
    """The step summary, cut to what GitHub takes."""
    data = to_markdown(run, places)
    if len(data) <= MAX_SUMMARY:
        return data
    cut = data[:MAX_SUMMARY].decode("utf-8", "ignore")
    return f"{cut}\n\nThe rest is left out: the summary of a step is limited.\n".encode()


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
