"""Reports as folders: written whole, made again, never half of an earlier one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.html import small
from tests.report import verdicts as made

from shardproof.report import folder as folders
from shardproof.report.folder import Configuration, FolderError, Matrix


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_report_is_made_again_from_its_data(tmp_path: Path) -> None:
    verdict, view = small.checked(small.block(total=False))
    folders.write(tmp_path / "r", verdict, view)
    before = contents(tmp_path / "r")
    assert set(before) == {"report.json", "view.json", "index.html"}
    (tmp_path / "r" / "index.html").unlink()
    assert folders.render_again(tmp_path / "r") == [tmp_path / "r" / "index.html"]
    assert contents(tmp_path / "r") == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_a_failure_leaves_the_earlier_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    folders.write(tmp_path, made.refines(), None)
    before = contents(tmp_path)

    def fails(*_: object) -> str:
        raise stop

    monkeypatch.setattr(folders, "render", fails)
    with pytest.raises(stop):
        folders.write(tmp_path, made.refuted(), None)
    assert contents(tmp_path) == before


def test_a_report_without_drawings_does_not_keep_those_of_another(tmp_path: Path) -> None:
    verdict, view = small.checked(small.block())
    folders.write(tmp_path, verdict, view)
    folders.write(tmp_path, made.refuted(), None)
    assert set(contents(tmp_path)) == {"report.json", "index.html"}


def test_the_table_of_a_matrix_links_its_reports(tmp_path: Path) -> None:
    lines = [
        Configuration("tp=1", "refines", "tp=1", counts="1 of 1 outputs proved", seconds=0.1),
        Configuration("tp=2", "error", error="no such mesh"),
    ]
    folders.write(tmp_path / "tp=1", made.refines(), None)
    folders.write_matrix(tmp_path, Matrix("check.py:all", lines))
    text = (tmp_path / "index.html").read_text()
    assert 'href="tp%3D1/index.html"' in text
    assert "no such mesh" in text
    before = contents(tmp_path)
    (tmp_path / "index.html").unlink()
    assert len(folders.render_again(tmp_path)) == 2
    assert contents(tmp_path) == before


def test_a_matrix_cannot_reach_out_of_its_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    folders.write(outside, made.refines(), None)
    (outside / "index.html").write_text("untouched")
    inside = tmp_path / "inside"
    lines = [Configuration("a", "refines", "../outside"), Configuration("b", "refines", "..")]
    folders.write_matrix(inside, Matrix("x", lines))
    folders.render_again(inside)
    assert (outside / "index.html").read_text() == "untouched"


@pytest.mark.parametrize(
    ("name", "data"),
    [("report.json", b"{}"), ("report.json", b"nothing"), ("matrix.json", b"[1]"),
     ("matrix.json", b'{"target": "x", "configurations": [], "schema": "other"}')],
)  # fmt: skip
def test_what_is_no_report_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FolderError):
        folders.render_again(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        (b'"layout":0', b'"layout":99'),
        (b'"state":4', b'"state":99'),
        (b'"op":"add"', b'"op":7'),
        (b'"rows":', b'"row":'),
    ],
)
def test_a_view_that_leads_nowhere_is_refused(tmp_path: Path, change: tuple[bytes, bytes]) -> None:
    folders.write(tmp_path, *small.checked(small.block(total=False)))
    data = (tmp_path / "view.json").read_bytes()
    before = (tmp_path / "index.html").read_bytes()
    changed = data.replace(*change)
    (tmp_path / "view.json").write_bytes(changed)
    assert changed != data
    with pytest.raises(FolderError, match=r"view\.json|not a view"):
        folders.render_again(tmp_path)
    assert (tmp_path / "index.html").read_bytes() == before


def test_an_empty_folder_is_no_report(tmp_path: Path) -> None:
    assert not folders.is_report(tmp_path)
    with pytest.raises(FolderError, match=r"report\.json"):
        folders.render_again(tmp_path)
