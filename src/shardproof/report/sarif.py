"""The report for code scanning: SARIF 2.1.0, within the limits that GitHub sets.

GitHub shows the first location only, wants paths relative to the repository and lines of at least
1, tells alerts apart by ``primaryLocationLineHash``, keeps 5,000 results, and cuts texts of rules
at 1,024 characters.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from shardproof import __version__
from shardproof.diagnose.codes import Code, lookup
from shardproof.report.diagnostic import Finding, Span
from shardproof.report.places import Place, Places
from shardproof.report.run import Cause, Run, causes

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MAX_RESULTS = 5_000
MAX_TEXT = 1_024

Json = dict[str, Any]


def to_sarif(run: Run, places: Places) -> bytes:
    """The run as a SARIF log, ending in a line break."""
    found = causes(run)[:MAX_RESULTS]
    codes = sorted({c.finding.code for c in found})
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(codes)},
                "automationDetails": {"id": f"shardproof/{run.target.rpartition(':')[2]}/"},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    "SRCROOT": {"description": {"text": "The root of the repository."}}
                },
                "invocations": [_invocation(run)],
                "results": _results(found, codes, places),
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(log), indent=2) + b"\n"


def _driver(codes: list[str]) -> Json:
    return {
        "name": "Shardproof",
        "semanticVersion": __version__,
        "rules": [_rule(lookup(code)) for code in codes],
    }


def _rule(code: Code) -> Json:
    certain = not code.code.startswith("SP2")
    markdown = (
        f"{code.what}\n\n**Why it hurts.** {code.why}\n\n**Usual fix.** {code.fix}\n\n"
        f"`shardproof explain {code.code}` prints an example."
    )
    return {
        "id": code.code,
        "name": "".join(word.capitalize() for word in _words(code.title)),
        "shortDescription": {"text": _cut(code.title[:1].upper() + code.title[1:])},
        "fullDescription": {"text": _cut(code.what)},
        "help": {"text": _cut(f"{code.what} {code.fix}"), "markdown": _cut(markdown)},
        "defaultConfiguration": {"level": "error" if certain else "warning"},
        "properties": {
            "tags": ["correctness", "distributed"],
            "precision": "very-high" if certain else "medium",
            "problem.severity": "error" if certain else "warning",
        },
    }


def _words(title: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in title).split()


def _invocation(run: Run) -> Json:
    errors = [o for o in run.outcomes if o.verdict is None]
    return {
        "executionSuccessful": not errors,
        "exitCode": run.exit_code,
        "toolExecutionNotifications": [
            {"level": "error", "message": {"text": _cut(f"{o.label}: {o.error}".strip(": "))}}
            for o in errors
        ],
    }


def _results(found: list[Cause], codes: list[str], places: Places) -> list[Json]:
    """One result a cause; a second one of the same fingerprint gets the next number."""
    seen: dict[str, int] = {}
    out = []
    for cause in found:
        place = places.of(cause.finding)
        print_ = fingerprint(cause.finding, place)
        seen[print_] = seen.get(print_, 0) + 1
        result = _result(cause, place, places)
        result["ruleIndex"] = codes.index(cause.finding.code)
        result["partialFingerprints"] = {"primaryLocationLineHash": f"{print_}:{seen[print_]}"}
        out.append(result)
    return out


def _result(cause: Cause, place: Place, places: Places) -> Json:
    f = cause.finding
    related = [_related(k, s, places) for k, s in enumerate(_spans(f)) if places.span(s)]
    result: Json = {
        "ruleId": f.code,
        "level": level(f),
        "message": {"text": _cut(message(cause, [r["id"] for r in related]))},
        "locations": [_location(place)],
    }
    if related:
        result["relatedLocations"] = related
        steps = [{"location": {k: v for k, v in r.items() if k != "id"}} for r in reversed(related)]
        result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    return result


def message(cause: Cause, related: list[int] | None = None) -> str:
    """What a finding says in one paragraph; ``related`` numbers the linked locations."""
    f = cause.finding
    title = f.title[:1].upper() + f.title[1:]
    parts = [title + ("" if f.certain else " (might not hold)"), f.message]
    parts += [f"expected: {f.expected}"] if f.expected else []
    parts += [f"found: {f.found}"] if f.found else []
    parts += [f"fix: {f.fix}"] if f.fix else []
    parts += [f"checked: {f.fix_checked}"] if f.fix_checked else []
    parts += [f"or: {other}" for other in f.other_fixes]
    if cause.configurations:
        parts.append(f"with {'; '.join(cause.configurations)}")
    links = [f"[{_side(s)}]({k})" for k, s in enumerate(_spans(f)) if k in (related or [])]
    parts += [f"See {', '.join(links)}"] if links else []
    return ". ".join(p.rstrip(".") for p in parts if p) + "."


def level(f: Finding) -> str:
    """``error`` for what does not hold, and for failures of the tool; ``warning`` else."""
    return "error" if f.certain or f.code == "SP900" else "warning"


def fingerprint(f: Finding, place: Place) -> str:
    """Stays the same while the code and the text of the line do, wherever the line moves to."""
    span = f.primary or f.secondary
    code = span.code.strip() if span else ""
    text = "\0".join((f.code, place.path, span.function if span else "", code))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _spans(f: Finding) -> list[Span]:
    return [s for s in (f.primary, f.secondary) if s is not None]


def _side(s: Span) -> str:
    return f"{s.graph} program"


def _related(k: int, s: Span, places: Places) -> Json:
    place = places.span(s)
    assert place is not None
    label = f": {s.label}" if s.label else ""
    text = f"{_side(s)}, node {s.node}{label}"
    return {"id": k, **_location(place), "message": {"text": _cut(text)}}


def _location(place: Place) -> Json:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(place.path), "uriBaseId": "SRCROOT"},
            "region": {"startLine": place.line, "endLine": place.line},
        }
    }


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
