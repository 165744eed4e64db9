"""A run over configurations as text and as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest
from tests.report import verdicts
from tests.report.test_outputs import matrix, single

from shardproof.report import matrix as report
from shardproof.report import text
from shardproof.report.json import from_json, matrix_schema, run_to_json, to_json

DOCS = Path(__file__).parents[2] / "docs"


def test_a_single_check_is_printed_as_ever() -> None:
    assert report.plain(single(verdicts.refuted())) == text.plain(verdicts.refuted())
    assert run_to_json(single(verdicts.refuted())) == to_json(verdicts.refuted())


def test_the_table_comes_first() -> None:
    lines = report.plain(matrix()).split("\n")
    assert lines[:8] == [
        "5 configurations: 1 refines, 2 refuted, 1 unproved, 1 error",
        "",
        "tp  dp  verdict   outputs  findings  seconds",
        "1   1   refines   1/1                0.0",
        "2   1   refuted   1/2      SP111     0.0",
        "2   2   refuted   1/2      SP111     0.0",
        "4   1   unproved  0/1      SP200     0.0",
        "4   2   error                        0.0",
    ]


def test_a_finding_of_several_configurations_is_printed_once() -> None:
    found = report.plain(matrix())
    assert found.count("SP111 value too large") == 1
    assert "   = with: tp=2 dp=1; tp=2 dp=2\n" in found
    assert "tp=4 dp=2\n  error: heads do not divide\n    where: model.py:3\n" in found


@pytest.mark.parametrize("width", [60, 80, 100])
def test_lines_fit(width: int) -> None:
    assert all(len(line) <= width for line, _ in report.lines(matrix(), width=width))


def test_json_holds_a_report_for_each() -> None:
    document = json.loads(run_to_json(matrix()))
    assert document["schema"] == "shardproof-configurations/1"
    assert document["exit_code"] == 1
    statuses = [c["status"] for c in document["configurations"]]
    assert statuses == ["refines", "refuted", "refuted", "unproved", "error"]
    assert document["configurations"][4]["report"] is None
    kept = json.dumps(document["configurations"][1]["report"]).encode()
    assert from_json(kept) == verdicts.refuted()


def test_the_published_schema() -> None:
    page = DOCS / "matrix.schema.json"
    if os.environ.get("SHARDPROOF_UPDATE"):
        page.write_bytes(matrix_schema())
    assert page.read_bytes() == matrix_schema()
    validator = jsonschema.Draft202012Validator(json.loads(page.read_bytes()))
    validator.validate(json.loads(run_to_json(matrix())))
    broken = json.loads(run_to_json(matrix()))
    broken["configurations"][0]["report"]["status"] = "perhaps"
    assert not validator.is_valid(broken)
