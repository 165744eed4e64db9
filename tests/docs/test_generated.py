"""Generated pages say what the declarations say; SHARDPROOF_UPDATE=1 writes them anew."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.docs.pages import ROOT

from shardproof.diagnose import codes
from shardproof.frontends import coverage
from shardproof.frontends.aten.registry import registered
from shardproof.lemmas import catalogue
from shardproof.ops.base import known

PAGES: list[tuple[str, Callable[[], str]]] = [
    ("codes.md", codes.markdown),
    ("lemmas.md", catalogue.markdown),
    ("operators.md", coverage.page),
]


@pytest.mark.parametrize(("name", "make"), PAGES, ids=[n for n, _ in PAGES])
def test_a_generated_page_is_fresh(name: str, make: Callable[[], str]) -> None:
    path = ROOT / "docs" / name
    if os.environ.get("SHARDPROOF_UPDATE"):
        path.write_text(make())
    assert path.read_text() == make()


def test_the_page_of_operators_has_all_of_them() -> None:
    text = (ROOT / "docs" / "operators.md").read_text()
    assert all(f"\n### {name}\n" in text for name in known())
    names = {t.partition(".")[2].removesuffix(".default") for t in registered()}
    assert all(f"`{name}`" in text for name in names)
