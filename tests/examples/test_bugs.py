"""The corpus of reported bugs: right programs refine, faulty ones are refuted where they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import bugs as bench
from shardproof.examples.bugs import all_bugs
from shardproof.testing.cases import file_of, marks

pytestmark = pytest.mark.filterwarnings("ignore")

BUGS = all_bugs()
# One of each family, and the controls, which cost little.
SLICE = [
    "B001", "B025", "B032", "B041", "B074", "B077", "B067", "B100", "B113", "B125", "B154", "G2",
    *(n for n, b in BUGS.items() if b.kind == "control"),
]  # fmt: skip


def judge(name: str) -> None:
    record = bench.check_bug(name)
    assert record["correct_verdict"] == "refines", record["correct_findings"]
    assert [f["faulty_verdict"] for f in record["faulty"]] == ["refuted"] * len(record["faulty"])


@pytest.mark.parametrize("name", SLICE)
def test_a_slice_of_the_corpus(name: str) -> None:
    judge(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in BUGS if n not in SLICE])
def test_the_rest_of_the_corpus(name: str) -> None:
    judge(name)


def test_what_the_corpus_holds() -> None:
    reported = [n for n in BUGS if re.fullmatch(r"B\d{3}", n)]
    assert len(reported) >= 85
    assert sum(b.kind == "control" for b in BUGS.values()) >= 6
    # The inverse control looks unnecessary to some and is not: it has a fault.
    assert BUGS["N9"].case().twins


@pytest.mark.parametrize("name", [n for n, b in BUGS.items() if b.case().twins])
def test_every_fault_is_marked(name: str) -> None:
    for fault, make in BUGS[name].case().twins.items():
        assert marks(file_of(make), fault).planted


def test_the_product_knows_nothing_of_the_corpus() -> None:
    package = Path(bench.ROOT) / "src" / "shardproof"
    for file in package.rglob("*.py"):
        if "examples" not in file.parts:
            text = re.sub(r"# noqa: [A-Z0-9, ]+", "", file.read_text(encoding="utf-8"))
            assert not re.search(r"\b[BG]\d{3}\b|examples\.bugs", text), file
