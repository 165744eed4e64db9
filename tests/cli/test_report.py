"""``check --report``, ``--model-explorer`` and ``report``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.report import verdicts as made

from shardproof.cli.app import main
from shardproof.report.folder import write

TARGETS = Path(__file__).with_name("targets.py")
EXAMPLE = Path(__file__).parents[2] / "examples" / "grad_accumulation.py"


def test_a_check_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, explorer = tmp_path / "deep" / "report", tmp_path / "explorer"
    code = main(["check", f"{EXAMPLE}:accumulate", "--report", str(out), "--no-cache",
                 "--model-explorer", str(explorer)])  # fmt: skip
    assert code == 1
    printed = capsys.readouterr()
    assert "refuted" in printed.out
    assert str(out / "index.html") in printed.err
    assert json.loads((out / "report.json").read_text())["exit_code"] == 1
    page = (out / "index.html").read_text()
    assert "SP111" in page
    assert (explorer / "graphs.json").is_file()
    (out / "index.html").unlink()
    assert main(["report", str(out)]) == 0
    assert (out / "index.html").read_text() == page


def test_a_verdict_from_the_cache_is_decided_again_for_a_report(tmp_path: Path) -> None:
    cache, out = tmp_path / "cache", tmp_path / "report"
    check = ["check", f"{EXAMPLE}:accumulate", "--cache", str(cache)]
    assert main(check) == 1
    assert main([*check, "--report", str(out)]) == 1
    assert (out / "view.json").is_file()


@pytest.mark.parametrize("option", ["--report", "--model-explorer"])
def test_a_file_is_no_folder(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert main(["check", f"{TARGETS}:refines", option, str(file), "--no-cache"]) == 2
    assert option in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_a_folder_without_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "report.json" in capsys.readouterr().err


def test_a_stopped_check_leaves_an_earlier_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "earlier", made.refines(), None)
    before = (tmp_path / "earlier" / "index.html").read_bytes()
    for name in ("earlier", "new"):
        code = main(["check", f"{TARGETS}:interrupted", "--no-cache",
                     "--report", str(tmp_path / name)])  # fmt: skip
        assert code == 130
    assert (tmp_path / "earlier" / "index.html").read_bytes() == before
    assert "left as it is" in capsys.readouterr().err
    assert "was stopped" in (tmp_path / "new" / "index.html").read_text()


def test_a_matrix_has_a_table_and_a_report_for_each(tmp_path: Path) -> None:
    out = tmp_path / "report"
    code = main(["check", f"{TARGETS}:of_extents", "--matrix", "tp=1,2", "--no-cache",
                 "--report", str(out)])  # fmt: skip
    assert code in (0, 1, 3)
    assert (out / "matrix.json").is_file()
    assert {p.name for p in out.iterdir() if p.is_dir()} == {"tp=1", "tp=2"}
    assert (out / "tp=2" / "index.html").is_file()
