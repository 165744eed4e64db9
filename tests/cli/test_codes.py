"""The declarations of finding codes and the page made from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardproof.diagnose import codes

PAGE = Path(__file__).parents[2] / "docs" / "codes.md"


def test_codes_are_complete() -> None:
    found = codes.known()
    assert len(found) >= 22
    for c in found:
        assert re.fullmatch(r"SP\d{3}", c.code)
        assert all((c.title, c.what, c.why, c.example, c.fix))
        assert c.title[0].islower()
        assert not c.title.endswith(".")
        assert c.what.endswith(".")


def test_the_page_is_that_of_the_declarations() -> None:
    assert PAGE.read_text() == codes.markdown(), "run: python -m shardproof.diagnose.codes"


def test_lookup() -> None:
    assert codes.lookup("sp110").code == "SP110"
    with pytest.raises(KeyError):
        codes.lookup("SP999")
    with pytest.raises(ValueError, match="declared twice"):
        codes._declare("SP110", "t", what="w.", why="w", example="e", fix="f")


def test_every_code_that_is_used_is_declared() -> None:
    source = Path(__file__).parents[2] / "src" / "shardproof"
    used = {
        code
        for path in source.rglob("*.py")
        if path.name != "codes.py"
        for code in re.findall(r"\"(SP\d{3})\"", path.read_text())
    }
    assert used <= {c.code for c in codes.known()}
