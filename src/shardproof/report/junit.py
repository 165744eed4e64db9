"""The report for test dashboards: JUnit XML, one suite a configuration, one case an output."""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from shardproof.report import text
from shardproof.report.diagnostic import Finding, OutputRelation, Verdict
from shardproof.report.run import Outcome, Run

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS = {"refuted": "does not hold", "open": "not proved"}


def to_junit(run: Run) -> bytes:
    """The run as JUnit XML. Only what is proved passes: *unproved* is a failure too."""
    root = Element("testsuites", name="shardproof")
    suites = [_suite(root, run, outcome) for outcome in run.outcomes]
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(s.get(key, "0")) for s in suites)))
    root.set("time", f"{sum(o.seconds for o in run.outcomes):.3f}")
    indent(root)
    data: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _suite(root: Element, run: Run, outcome: Outcome) -> Element:
    verdict = outcome.verdict
    name = verdict.name if verdict is not None else run.target.rpartition(":")[2]
    suite = SubElement(root, "testsuite", name=_text(name), time=f"{outcome.seconds:.3f}")
    if outcome.configuration:
        properties = SubElement(suite, "properties")
        for axis, n in outcome.configuration.items():
            SubElement(properties, "property", name=axis, value=str(n))
    if verdict is None:
        case = _case(suite, run, name, "verdict")
        SubElement(case, "error", type="error", message=_text(_first(outcome.error))).text = _text(
            outcome.error
        )
    else:
        _cases(suite, run, verdict)
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", str(len(suite.findall("testcase/error"))))
    return suite


def _cases(suite: Element, run: Run, verdict: Verdict) -> None:
    """A case for the verdict, which fails unless it is *refines*, and one for every output."""
    case = _case(suite, run, verdict.name, "verdict")
    if verdict.status != "refines":
        titles = [f"{f.code} {f.title}" for f in verdict.findings]
        said = _text(f"{verdict.status}: {'; '.join(titles) or 'no finding'}")
        failure = SubElement(case, "failure", type=verdict.status, message=said)
        failure.text = _text(text.plain(verdict))
    for output in verdict.outputs:
        case = _case(suite, run, verdict.name, output.seq_output)
        if output.status != "proved":
            _fail(case, output, [f for f in verdict.findings if output.seq_output in f.affected])
    out = SubElement(suite, "system-out")
    out.text = _text(text.plain(verdict))


def _fail(case: Element, output: OutputRelation, findings: list[Finding]) -> None:
    why = "; ".join(f"{f.code} {f.message}" for f in findings)
    said = _text(f"{output.seq_output} {_WORDS[output.status]}" + (f": {why}" if why else ""))
    SubElement(case, "failure", type=output.status, message=said).text = said


def _case(suite: Element, run: Run, name: str, output: str) -> Element:
    return SubElement(
        suite, "testcase", classname=_text(f"shardproof.{name}"), name=_text(output),
        file=_text(run.file), line=str(run.line),
    )  # fmt: skip


def _first(error: str) -> str:
    return error.split("\n", 1)[0]


def _text(value: str) -> str:
    """Without the characters that XML cannot hold."""
    return _NOT_XML.sub("\ufffd", value)
