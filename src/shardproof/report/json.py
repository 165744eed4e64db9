"""The report for programs: JSON with a version, read back without loss."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from shardproof.report.diagnostic import EXIT_CODES, INTERRUPTED, Verdict
from shardproof.report.run import Outcome, Run

SCHEMA = "shardproof-report/1"
"""Changes when a field changes its meaning or goes away; new fields keep it."""

MATRIX_SCHEMA = "shardproof-configurations/1"


class ReportError(ValueError):
    """A document that is not a report of a known version."""


def to_json(verdict: Verdict) -> bytes:
    """The verdict as one JSON document, ending in a line break."""
    document = {"schema": SCHEMA, "exit_code": verdict.exit_code}
    document |= _finite(msgspec.to_builtins(verdict))
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def run_to_json(run: Run) -> bytes:
    """A single check as its report; a matrix as one document that holds a report for each."""
    verdicts = list(run.verdicts())
    if not run.matrix and verdicts:
        return to_json(verdicts[0])
    document = {
        "schema": MATRIX_SCHEMA,
        "target": run.target,
        "exit_code": run.exit_code,
        "configurations": [_outcome(o) for o in run.outcomes],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _outcome(o: Outcome) -> dict[str, Any]:
    report = msgspec.Raw(to_json(o.verdict)) if o.verdict is not None else None
    return {
        "configuration": o.configuration,
        "status": o.status,
        "exit_code": o.exit_code,
        "seconds": o.seconds,
        "error": o.error,
        "report": report,
    }


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
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise ReportError(f"not a report: {error}") from error


def json_schema() -> bytes:
    """The JSON Schema of a report, published as ``docs/report.schema.json``."""
    schema = msgspec.json.schema(Verdict)
    fields = schema["$defs"]["Verdict"]["properties"]
    codes = [*sorted(EXIT_CODES.values()), INTERRUPTED]
    fields |= {"schema": {"const": SCHEMA}, "exit_code": {"enum": codes}}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


def matrix_schema() -> bytes:
    """The JSON Schema of a matrix, published as ``docs/matrix.schema.json``."""
    report = msgspec.json.decode(json_schema())
    definitions = report.pop("$defs")
    outcome = {
        "type": "object",
        "required": ["configuration", "status", "exit_code", "seconds", "error", "report"],
        "properties": {
            "configuration": {"type": "object", "additionalProperties": {"type": "integer"}},
            "status": {"enum": [*EXIT_CODES, "error"]},
            "exit_code": {"type": "integer"},
            "seconds": {"type": "number"},
            "error": {"type": "string"},
            "report": {"anyOf": [report, {"type": "null"}]},
        },
    }
    schema = {
        "type": "object",
        "required": ["schema", "target", "exit_code", "configurations"],
        "properties": {
            "schema": {"const": MATRIX_SCHEMA},
            "target": {"type": "string"},
            "exit_code": {"type": "integer"},
            "configurations": {"type": "array", "items": outcome},
        },
        "$defs": definitions,
    }
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
