"""The JSON report: round trip, version, numbers that JSON does not have; whole files."""

from __future__ import annotations

import io
import json
import math
import os
from pathlib import Path

import pytest
from tests.report import verdicts
from tests.report.test_text import Terminal

from shardproof.report.files import write_whole
from shardproof.report.json import SCHEMA, ReportError, from_json, json_schema, to_json
from shardproof.report.progress import progress


@pytest.mark.parametrize("make", [verdicts.refines, verdicts.refuted, verdicts.unproved])
def test_round_trip(make) -> None:
    data = to_json(make())
    assert from_json(data) == make()
    document = json.loads(data)
    assert document["schema"] == SCHEMA
    assert document["exit_code"] == make().exit_code
    assert data.endswith(b"}\n")


def test_infinities_and_nan() -> None:
    verdict = verdicts.refuted()
    found = verdict.findings[0].counterexample
    assert found is not None
    found.sequential_value, found.relative_error = math.inf, math.nan
    back = from_json(to_json(verdict)).findings[0].counterexample
    assert back is not None
    assert back.sequential_value == math.inf
    assert math.isnan(back.relative_error)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a report"),
        (b"[]", "schema None"),
        (b'{"schema": "other/2"}', "schema 'other/2', expected 'shardproof-report/1'"),
        (b'{"schema": "shardproof-report/1"}', "not a report"),
    ],
)
def test_other_documents(data: bytes, message: str) -> None:
    with pytest.raises(ReportError, match=message):
        from_json(data)


def test_the_published_schema_is_that_of_the_data() -> None:
    page = Path(__file__).parents[2] / "docs" / "report.schema.json"
    if os.environ.get("SHARDPROOF_UPDATE"):
        page.write_bytes(json_schema())
    assert page.read_bytes() == json_schema()
    fields = json.loads(json_schema())["$defs"]["Verdict"]["properties"]
    assert set(fields) == set(json.loads(to_json(verdicts.refuted())))


def test_files_are_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    with pytest.raises(TypeError):
        write_whole(path, "text")  # type: ignore[arg-type]
    assert path.read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    with progress(io.StringIO()) as show:
        assert show is None
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with progress(terminal) as show:
        assert show is not None
        show("infer")
    assert "infer ..." in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_progress_stays_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for columns in (20, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        terminal = Terminal()
        with progress(terminal) as show:
            assert show is not None
            show("obligation 1 of 3:\nnew.layers.0." + "x" * 100)
            show("too soon to be read")
        line = terminal.getvalue().removesuffix("\r\x1b[K").removeprefix("\r\x1b[K")
        assert len(line) < columns
        assert "\n" not in line
        assert "too soon" not in line


def test_a_dumb_terminal_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with progress(Terminal()) as show:
        assert show is None
