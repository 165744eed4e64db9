"""The one object that every renderer prints: a verdict with its findings.

Plain data, serialisable by msgspec; no renderer computes anything that is not in here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Status = Literal["refines", "refuted", "unproved"]
EXIT_CODES: dict[str, int] = {"refines": 0, "refuted": 1, "unproved": 3}
INTERRUPTED = 130
"""Exit code of a check that was stopped before its end."""


@dataclass(slots=True)
class Span:
    """A place in the user's program. ``graph`` is "sequential" or "distributed"; ``node`` is
    the node's name in the captured graph. ``callers`` are the user's lines that called there,
    innermost first, each as ``file:line``."""

    graph: str
    node: str
    op: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    code: str = ""
    label: str = ""
    callers: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OperandMeaning:
    """What an operand of the blamed operator means in terms of sequential values."""

    name: str
    meaning: str


@dataclass(slots=True)
class Counterexample:
    """Concrete inputs on which the two programs differ, found by replay at reduced sizes.

    ``sizes`` maps original to reduced sizes as text; values are printed with full precision;
    ``relative_error`` is that of the worst element. ``kept_constants`` lists literals that were
    not scaled.
    """

    output: str
    ranks: list[int]
    sizes: dict[str, str]
    seed: int
    element: list[int]
    sequential_value: float
    distributed_values: dict[str, float]
    relative_error: float
    kept_constants: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Finding:
    """One cause. ``code`` is stable (``SP104``); ``certain`` separates "does not hold" from
    "might not hold". ``fix_verified``: with the fix, or any one of ``other_fixes``, made in the
    captured graph, what is ``affected`` is proved; ``fix_checked`` says what was checked of it.
    ``suggestion``: how the source might be changed, as a unified diff that nothing has checked."""

    code: str
    title: str
    message: str
    certain: bool
    primary: Span | None = None
    secondary: Span | None = None
    ranks: list[int] = field(default_factory=list)
    axes: list[str] = field(default_factory=list)
    collective: str = ""
    operands: list[OperandMeaning] = field(default_factory=list)
    expected: str = ""
    found: str = ""
    affected: list[str] = field(default_factory=list)
    counterexample: Counterexample | None = None
    fix: str = ""
    fix_verified: bool = False
    fix_checked: str = ""
    suggestion: list[str] = field(default_factory=list)
    other_fixes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class OutputRelation:
    """One proved (or open) obligation: how the sequential output is rebuilt."""

    seq_output: str
    expression: str
    status: Literal["proved", "refuted", "open"]
    placement: str = ""

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from shardproof.report.html import notebook

        return notebook.relation([self])


@dataclass(slots=True)
class Uneven:
    """What was found for the same program with unequal counts on the ranks. ``counts``: which;
    ``message``: the first finding, or why it was not tried."""

    counts: str
    status: Literal["refines", "refuted", "unproved", "not tried"]
    message: str = ""


@dataclass(slots=True)
class Verdict:
    """The result of one check.

    ``cached``: it was decided by an earlier run on the same content. ``interrupted``: the stage in
    which the check was stopped; what is missing then was not reached. ``target``: FILE.py:function
    of the check, where it was made from the command line. ``notes``: what a reader of a proof must
    know to take it for what it is.
    """

    name: str
    status: Status
    findings: list[Finding] = field(default_factory=list)
    outputs: list[OutputRelation] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    assumptions: list[tuple[str, str]] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    unknown_operators: dict[str, int] = field(default_factory=dict)
    lemmas: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    replay: str = ""
    certificate: str = "certificate not checked"
    certificate_note: str = ""
    cached: bool = False
    interrupted: str = ""
    uneven: Uneven | None = None
    target: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return INTERRUPTED if self.interrupted else EXIT_CODES[self.status]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from shardproof.report.html import notebook

        return notebook.verdict(self)
