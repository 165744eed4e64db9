"""docs/soundness.md: the trusted base is the one of today, and every assumption kind is there."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import trusted_base
from shardproof.spec.problem import Assumption

PAGE = trusted_base.PAGE.read_text()
ROW = re.compile(r"\| `([\w/.]+\.py)` \| (\d+) \| (\d+) \|")


def test_the_files_are_those_that_the_checker_imports() -> None:
    listed = {name for name, _, _ in ROW.findall(PAGE)}
    stale = "run: python benchmarks/trusted_base.py --write"
    assert listed == {m.name for m in trusted_base.trusted()}, stale


def test_the_lines_are_about_those_of_today() -> None:
    today = {m.name: m for m in trusted_base.trusted()}
    for name, lines, code in ROW.findall(PAGE):
        for said, actual in ((int(lines), today[name].lines), (int(code), today[name].code)):
            assert abs(said - actual) <= max(20, actual / 10), (
                f"{name}: {said}, now {actual}; run: python benchmarks/trusted_base.py --write"
            )


def test_the_checker_imports_neither_engine_nor_torch() -> None:
    packages = {name.split(".")[1] for name in trusted_base.closure(trusted_base.CHECKER)}
    assert packages <= {"certificate", "ir", "ops", "spec", "errors"}


def test_every_kind_of_assumption_is_explained() -> None:
    assert Assumption.__doc__ is not None
    kinds = re.findall(
        r"[a-z]+", Assumption.__doc__.split("one of")[1].replace("given by the user", "")
    )
    table = PAGE.split("## What a verdict rests on")[1].split("##")[0]
    assert len(kinds) > 10
    assert [k for k in kinds if f"`{k}`" not in table] == []


def test_the_page_names_files_that_exist() -> None:
    root = Path(trusted_base.ROOT)
    for name in re.findall(r"`((?:tests|benchmarks)/[\w/.]+)`", PAGE):
        assert (root / name).exists(), name
    assert "FIGURES" not in PAGE
    assert "KINDS" not in PAGE
