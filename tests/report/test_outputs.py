"""SARIF, JUnit, Markdown and GitHub commands: the formats' own rules, and those of GitHub."""

from __future__ import annotations

import json
import lzma
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from tests.report import verdicts

from shardproof.report import matrix as report
from shardproof.report.diagnostic import Finding, Span, Uneven, Verdict
from shardproof.report.github import MAX_SUMMARY, commands, summary
from shardproof.report.junit import to_junit
from shardproof.report.markdown import to_markdown
from shardproof.report.places import Places, repository_root
from shardproof.report.run import Outcome, Run, causes
from shardproof.report.sarif import MAX_RESULTS, MAX_TEXT, to_sarif

SCHEMA = Path(__file__).parent / "data" / "sarif-2.1.0.json.xz"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "trainer.py").write_text("\n")
    (tmp_path / "check mine.py").write_text("\n")
    monkeypatch.chdir(tmp_path)
    return Places(tmp_path, str(tmp_path / "check mine.py"), 7)


def single(verdict: Verdict) -> Run:
    return Run("check mine.py:f", [Outcome({}, verdict, "", 1.5)], "check mine.py", 7)


def matrix() -> Run:
    outcomes = [
        Outcome({"tp": 1, "dp": 1}, verdicts.refines()),
        Outcome({"tp": 2, "dp": 1}, verdicts.refuted()),
        Outcome({"tp": 2, "dp": 2}, verdicts.refuted()),
        Outcome({"tp": 4, "dp": 1}, verdicts.unproved()),
        Outcome({"tp": 4, "dp": 2}, None, "error: heads do not divide\n  where: model.py:3"),
    ]
    return Run("check mine.py:f", outcomes, "check mine.py", 7)


RUNS = [single(verdicts.refines()), single(verdicts.refuted()), single(verdicts.unproved())]
RUNS += [matrix(), Run("x.py:f", [Outcome(error="error: no file")], "x.py")]


def sarif(run: Run, places: Places) -> dict:
    return json.loads(to_sarif(run, places))


# ---------------------------------------------------------------- SARIF


@pytest.mark.parametrize("run", RUNS)
def test_sarif_fits_the_official_schema(run: Run, places: Places) -> None:
    schema = json.loads(lzma.decompress(SCHEMA.read_bytes()))
    jsonschema.Draft4Validator(schema).validate(sarif(run, places))


def test_the_schema_test_can_fail(places: Places) -> None:
    schema = json.loads(lzma.decompress(SCHEMA.read_bytes()))
    log = sarif(RUNS[1], places)
    log["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft4Validator(schema).validate(log)


def test_sarif_follows_the_rules_of_github(places: Places) -> None:
    run = sarif(matrix(), places)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert re.fullmatch(
            r"[0-9a-f]{16}:[0-9]+", result["partialFingerprints"]["primaryLocationLineHash"]
        )
        place = result["locations"][0]["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        uri = place["artifactLocation"]["uri"]
        assert not uri.startswith(("/", "file:"))
        assert ".." not in uri
        assert len(result["message"]["text"]) <= MAX_TEXT
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert max(len(rule["help"]["markdown"]), len(rule["fullDescription"]["text"])) <= MAX_TEXT


def test_a_finding_of_several_configurations_is_one_alert(places: Places) -> None:
    results = sarif(matrix(), places)["runs"][0]["results"]
    assert [r["ruleId"] for r in results] == ["SP111", "SP200"]
    assert [r["level"] for r in results] == ["error", "warning"]
    assert "with tp=2 dp=1; tp=2 dp=2." in results[0]["message"]["text"]


def test_a_line_of_the_repository_is_shown_else_the_check(places: Places) -> None:
    inside = sarif(RUNS[1], places)["runs"][0]["results"][0]
    where = inside["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "transformers/trainer.py"
    assert where["region"]["startLine"] == 3612
    assert [r["id"] for r in inside["relatedLocations"]] == [0, 1]
    assert "See [distributed program](0), [sequential program](1)." in inside["message"]["text"]
    flow = inside["codeFlows"][0]["threadFlows"][0]["locations"]
    lines = [s["location"]["physicalLocation"]["region"]["startLine"] for s in flow]
    assert lines == [98, 3612]
    outside = sarif(RUNS[2], places)["runs"][0]["results"][0]
    where = outside["locations"][0]["physicalLocation"]
    assert where["artifactLocation"]["uri"] == "check%20mine.py"
    assert where["region"]["startLine"] == 7
    assert "relatedLocations" not in outside


def test_a_fingerprint_outlives_a_shift_of_lines(places: Places) -> None:
    def prints(verdict: Verdict) -> list[str]:
        results = sarif(single(verdict), places)["runs"][0]["results"]
        return [r["partialFingerprints"]["primaryLocationLineHash"] for r in results]

    first = prints(verdicts.refuted())
    shifted, changed = verdicts.refuted(), verdicts.refuted()
    assert shifted.findings[0].primary
    assert changed.findings[0].primary
    shifted.findings[0].primary.line += 10
    changed.findings[0].primary.code = "return loss"
    assert prints(shifted) == first
    assert prints(changed) != first


def test_two_findings_on_one_line_are_two_alerts(places: Places) -> None:
    verdict = verdicts.refuted()
    span = verdict.findings[0].primary
    assert span
    other = replace(verdict.findings[0], primary=replace(span, node="add_9"))
    verdict.findings.append(other)
    results = sarif(single(verdict), places)["runs"][0]["results"]
    prints = [r["partialFingerprints"]["primaryLocationLineHash"] for r in results]
    assert len(set(prints)) == 2


def test_results_are_limited_and_certain_ones_come_first(places: Places) -> None:
    found = [
        Finding("SP201", "t", f"m{k}", k % 2 == 0, Span("distributed", f"n{k}"))
        for k in range(MAX_RESULTS + 10)
    ]
    results = sarif(single(Verdict("v", "refuted", found)), places)["runs"][0]["results"]
    assert len(results) == MAX_RESULTS
    assert results[0]["level"] == "error"


def test_a_run_that_failed_says_so(places: Places) -> None:
    run = sarif(RUNS[4], places)["runs"][0]
    assert run["results"] == []
    assert not run["invocations"][0]["executionSuccessful"]
    assert run["invocations"][0]["exitCode"] == 2


# ---------------------------------------------------------------- places


def test_files_outside_the_repository_have_no_place(places: Places, tmp_path: Path) -> None:
    assert places.relative("/etc/hostname") == ""
    assert places.relative("../x.py") == ""
    assert places.relative("a\0b") == ""
    assert places.relative(str(tmp_path / "transformers" / "trainer.py")) == (
        "transformers/trainer.py"
    )
    assert places.span(Span("distributed", "n", file="transformers/trainer.py", line=0)) is None


def test_the_root_is_the_workspace_or_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert repository_root(tmp_path / "a" / "b", {}) == tmp_path
    assert repository_root(tmp_path, {"GITHUB_WORKSPACE": str(tmp_path / "a")}) == tmp_path / "a"
    assert repository_root(tmp_path, {"GITHUB_WORKSPACE": "/nowhere"}) == tmp_path


# ---------------------------------------------------------------- JUnit


@pytest.mark.parametrize("run", RUNS)
def test_junit_counts_what_it_holds(run: Run) -> None:
    root = ElementTree.fromstring(to_junit(run))
    for name, path in [("tests", ""), ("failures", "/failure"), ("errors", "/error")]:
        assert int(root.get(name, "")) == len(root.findall(f"testsuite/testcase{path}"))
        for suite in root:
            assert int(suite.get(name, "")) == len(suite.findall(f"testcase{path}"))


def test_junit_passes_only_what_is_proved() -> None:
    refines, refuted, unproved, _, broken = (ElementTree.fromstring(to_junit(r)) for r in RUNS)
    assert refines.get("failures") == "0"
    cases = {c.get("name"): c.find("failure") for c in refuted.iter("testcase")}
    assert cases["other"] is None
    assert cases["add_1"] is not None
    assert cases["add_1"].get("type") == "refuted"
    assert "SP111" in cases["verdict"].get("message", "")  # type: ignore[union-attr]
    assert {f.get("type") for f in unproved.iter("failure")} == {"unproved", "open"}
    assert broken.get("errors") == "1"


def test_junit_says_the_configuration() -> None:
    suites = ElementTree.fromstring(to_junit(matrix())).findall("testsuite")
    found = [{p.get("name"): p.get("value") for p in s.iter("property")} for s in suites]
    assert found[3] == {"tp": "4", "dp": "1"}


def test_junit_holds_only_what_xml_can() -> None:
    verdict = verdicts.refuted()
    verdict.findings[0].message = "a\x00b\x1b[1m<&>\ud800"
    ElementTree.fromstring(to_junit(single(verdict)))


# ---------------------------------------------------------------- GitHub


def test_annotations(places: Places) -> None:
    lines = commands(matrix(), places)
    assert lines[0].startswith(
        "::error file=transformers/trainer.py,line=3612,title=SP111 value too large by a whole "
        "factor::Value too large"
    )
    assert lines[1].startswith("::warning file=check mine.py,line=7,title=SP200 unproved%3A ")
    assert lines[2].endswith("::tp=4 dp=2: error: heads do not divide%0A  where: model.py:3")
    assert all("\n" not in line for line in lines)


def test_annotations_escape_what_is_read_as_a_command(places: Places) -> None:
    verdict = verdicts.refuted()
    verdict.findings[0].title = "a:b,c%d"
    verdict.findings[0].message = "100%\r\n::error::injected"
    (line,) = commands(single(verdict), places)
    assert "title=SP111 a%3Ab%2Cc%25d::" in line
    assert "100%25%0D%0A::error::injected" in line


def test_the_summary_is_a_table_and_the_findings(places: Places) -> None:
    text = summary(matrix(), places).decode()
    assert "| tp=2 dp=1 | ❌ refuted | 1 of 2 outputs proved; 1 finding |" in text
    assert "| tp=4 dp=2 | ⛔ error | error: heads do not divide |" in text
    assert "### SP111 value too large by a whole factor" in text
    assert "`transformers/trainer.py:3612` (distributed program)" in text
    assert text.count("### SP111") == 1


def test_unequal_counts_are_said_in_every_run(places: Places) -> None:
    run = matrix()
    assert run.outcomes[0].verdict
    run.outcomes[0].verdict.uneven = Uneven("x: 3 + 1 over dp", "refuted", "SP112 wrong factor")
    said = "tp=1 dp=1: but not with unequal counts (x: 3 + 1 over dp): SP112 wrong factor"
    assert f"\n\n{said}\n" in report.plain(run, width=100)
    assert f"::warning file=check mine.py,line=7,title=unequal counts::{said}" in commands(
        run, places
    )
    assert "but not with unequal counts" in summary(run, places).decode()
    run.outcomes[0].verdict.uneven.status = "refines"
    assert "unequal" not in report.plain(run)


def test_the_summary_is_cut_to_what_github_takes(places: Places) -> None:
    verdict = verdicts.refuted()
    verdict.findings[0].message = "ä" * MAX_SUMMARY
    assert len(summary(single(verdict), places)) < 1024 * 1024


def test_markdown_does_not_read_a_program_as_markup(places: Places) -> None:
    verdict = verdicts.refuted()
    f = verdict.findings[0]
    f.message, f.expected = "<img src=x> [a](b) | *c*", "a ``b`` `c"
    assert f.primary
    f.primary.code = "x = '```' # <b>"
    text = to_markdown(single(verdict), places).decode()
    assert "\\<img src=x\\> \\[a\\](b) \\| \\*c\\*" in text
    assert "```a ``b`` `c```" in text
    assert "````python\nx = '```' # <b>\n````" in text


# ---------------------------------------------------------------- runs


def test_the_worst_configuration_decides() -> None:
    assert [r.exit_code for r in RUNS] == [0, 1, 3, 1, 2]
    run = matrix()
    run.outcomes = [o for o in run.outcomes if o.status != "refuted"]
    assert run.exit_code == 2
    run.outcomes.pop()
    assert run.exit_code == 3
    assert Run("x").exit_code == 2


def test_causes_name_the_configurations() -> None:
    found = causes(matrix())
    assert [(c.finding.code, c.configurations) for c in found] == [
        ("SP111", ["tp=2 dp=1", "tp=2 dp=2"]),
        ("SP200", ["tp=4 dp=1"]),
    ]
