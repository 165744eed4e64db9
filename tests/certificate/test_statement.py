"""What a certificate is said to prove comes from its graphs, not from what it says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.certificate.corpus import as_data, certificate

from shardproof.cli.app import run_tokens


def statement(data: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What is proved, and what the file says of itself."""
    path = tmp_path / "proof.json"
    path.write_bytes(msgspec.json.encode(data))
    assert run_tokens(["verify-certificate", str(path)]) == 0
    _, proved, said, *_ = capsys.readouterr().out.split("\n\n")
    return proved, said


def test_words_about_the_relation_do_not_change_the_statement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data: Any = as_data(certificate("mlp"))
    proved, _ = statement(data, tmp_path, capsys)
    data["assumptions"] = [("relation", "w1: R")]
    data["obligations"][0]["placement"] = "S(7)"
    data["left_out"] = ["nothing"]
    again, said = statement(data, tmp_path, capsys)
    assert again == proved
    assert "w1: R" in said


def test_the_statement_names_every_rank_and_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proved, _ = statement(as_data(certificate("mlp", symbolic_ranks=False)), tmp_path, capsys)
    assert "the same on every rank" in proved
    assert "on rank 0 = slice(" in proved
    assert "on rank 1 = slice(" in proved
