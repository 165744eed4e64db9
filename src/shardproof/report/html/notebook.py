"""What notebooks show of a Spec, a verdict and an output relation: parts of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardproof.report.diagnostic import OutputRelation, Verdict
from shardproof.report.html.page import fragment, prepared

LONG = 120


@dataclass(frozen=True, slots=True)
class SpecShown:
    """A Spec as the template prints it."""

    title: str
    rows: list[tuple[str, str]]
    inputs: list[tuple[str, str]]


def verdict(v: Verdict) -> str:
    """The verdict with findings and output relation."""
    return fragment("verdict", r=prepared(v))


def relation(lines: list[OutputRelation]) -> str:
    """Lines of an output relation as a table."""
    return fragment("relation", lines=lines)


def spec(name: str, fields: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """A Spec by its fields, each shortened; nothing is captured for it."""
    rows = [(label, shortened(value)) for label, value in fields.items() if value not in (None, "")]
    shown = [(str(k), shortened(x)) for k, x in inputs.items()]
    return fragment("spec", spec=SpecShown(name or "Spec", rows, shown))


def shortened(value: Any) -> str:
    """A value on one line: functions by name, lists by their number, long texts cut."""
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    if isinstance(value, list | tuple) and len(value) > 1:
        return f"{len(value)} graphs"
    text = " ".join((value[0] if isinstance(value, list) and value else str(value)).split())
    return text if len(text) <= LONG else text[: LONG - 1] + "…"
