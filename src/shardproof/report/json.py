"""The report for programs: JSON with a version, read back without loss."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from shardproof.report.diagnostic import EXIT_CODES, Verdict

SCHEMA = "shardproof-report/1"
"""Changes when a field changes its meaning or goes away; new fields keep it."""


class ReportError(ValueError):
    """A document that is not a report of a known version."""


def to_json(verdict: Verdict) -> bytes:
    """The verdict as one JSON document, ending in a line break."""
    document = {"schema": SCHEMA, "exit_code": verdict.exit_code}
    document |= _finite(msgspec.to_builtins(verdict))
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def from_json(data: bytes) -> Verdict:
    """The verdict in a document made by :func:`to_json`.

    Raises:
        ReportError: the document is of another kind or version.
    """
    try:
        document = msgspec.json.decode(data)
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA:
            raise ReportError(f"schema {schema!r}, expected {SCHEMA!r}")
        return msgspec.convert(document, Verdict, strict=False)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ReportError(f"not a report: {error}") from error


def json_schema() -> bytes:
    """The JSON Schema of a report, published as ``docs/report.schema.json``."""
    schema = msgspec.json.schema(Verdict)
    fields = schema["$defs"]["Verdict"]["properties"]
    fields |= {"schema": {"const": SCHEMA}, "exit_code": {"enum": sorted(EXIT_CODES.values())}}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


def _finite(value: Any) -> Any:
    """JSON has no infinities: they become texts, which reading turns back into numbers."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
