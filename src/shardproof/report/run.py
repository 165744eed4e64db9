"""One run of the command: a check, or a matrix of configurations, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shardproof.report.diagnostic import EXIT_CODES, INTERRUPTED, Finding, Uneven, Verdict

INPUT_ERROR = 2
_WORST = (INTERRUPTED, EXIT_CODES["refuted"], INPUT_ERROR, EXIT_CODES["unproved"], 0)
"""Exit codes, the worst first: the worst one of a run is that of the command."""

SHOWN = 3
"""Configurations that are named before a note."""


@dataclass(slots=True)
class Outcome:
    """What came out for one configuration: a verdict, or the ``error`` that prevented one.

    ``configuration`` maps mesh axes to their extents; it is empty for a single check.
    ``seconds`` is wall time, capture included.
    """

    configuration: dict[str, int] = field(default_factory=dict)
    verdict: Verdict | None = None
    error: str = ""
    seconds: float = 0.0

    @property
    def status(self) -> str:
        """The verdict's word, or ``error``."""
        return "error" if self.verdict is None else self.verdict.status

    @property
    def exit_code(self) -> int:
        return INPUT_ERROR if self.verdict is None else self.verdict.exit_code

    @property
    def label(self) -> str:
        """``tp=2 dp=1``; empty for a single check."""
        return " ".join(f"{axis}={n}" for axis, n in self.configuration.items())


@dataclass(slots=True)
class Run:
    """A target and its outcomes. ``file`` and ``line`` are those of the check function."""

    target: str
    outcomes: list[Outcome] = field(default_factory=list)
    file: str = ""
    line: int = 1

    @property
    def matrix(self) -> bool:
        """Whether the run is one over configurations."""
        return any(o.configuration for o in self.outcomes)

    @property
    def exit_code(self) -> int:
        """The worst exit code of the outcomes; that of an input error where there is none."""
        codes = {o.exit_code for o in self.outcomes}
        return next((c for c in _WORST if c in codes), INPUT_ERROR)

    def unequal(self) -> Iterator[tuple[str, Uneven]]:
        """The configurations (or the check) that do not refine with unequal counts."""
        for outcome in self.outcomes:
            u = outcome.verdict.uneven if outcome.verdict is not None else None
            if u is not None and u.status == "refuted":
                yield outcome.label or outcome.verdict.name, u  # type: ignore[union-attr]

    def notes(self) -> Iterator[tuple[str, str]]:
        """The notes on proofs, each once, with the configurations (or the check)."""
        found: dict[str, list[str]] = {}
        for outcome in self.outcomes:
            for note in outcome.verdict.notes if outcome.verdict is not None else ():
                label = outcome.label or outcome.verdict.name  # type: ignore[union-attr]
                found.setdefault(note, []).append(label)
        for note, labels in found.items():
            more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
            yield ", ".join(labels[:SHOWN]) + more, note

    def verdicts(self) -> Iterator[Verdict]:
        """The verdicts of the outcomes that have one."""
        return (o.verdict for o in self.outcomes if o.verdict is not None)


@dataclass(slots=True)
class Cause:
    """A finding, and the configurations in which it was found (none for a single check)."""

    finding: Finding
    check: str
    configurations: list[str] = field(default_factory=list)


def causes(run: Run) -> list[Cause]:
    """The findings of a run, each once, certain ones first."""
    found: dict[tuple[str, ...], Cause] = {}
    for outcome in run.outcomes:
        if outcome.verdict is None:
            continue
        for finding in outcome.verdict.findings:
            cause = found.setdefault(_identity(finding), Cause(finding, outcome.verdict.name))
            if outcome.label and outcome.label not in cause.configurations:
                cause.configurations.append(outcome.label)
            if finding.certain and not cause.finding.certain:
                cause.finding = finding
    return sorted(found.values(), key=lambda c: not c.finding.certain)


def _identity(finding: Finding) -> tuple[str, ...]:
    """What makes two findings the same: the code and the places, not the numbers of a mesh."""
    spans = [s for s in (finding.primary, finding.secondary) if s is not None]
    places = [part for s in spans for part in (s.file, str(s.line), s.function, s.node)]
    return (finding.code, *places) if places else (finding.code, finding.message)
