"""The graphs benchmark on the pairs with one layer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import graphs as bench
from shardproof.data import GRAPHS

QUICK = ["gpt_tp2_layers1", "gpt_tp8_layers1", "grad_accumulation"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    out = tmp_path_factory.mktemp("graphs") / "graphs.json"
    assert bench.main(["--json", str(out), "--only", *QUICK]) == 0
    found: dict[str, object] = json.loads(out.read_text())
    return found


def test_verdicts_and_replay_of_the_small_version(result: dict[str, object]) -> None:
    records = {r["name"]: r for r in result["pairs"]}  # type: ignore[attr-defined]
    assert [records[n]["verdict"] for n in QUICK] == ["refines", "refines", "refuted"]
    for r in records.values():
        assert r["small"]["agrees"]
        assert r["small"]["verdict"] == r["verdict"]
        assert r["unproved_operators"] == {}
    (blamed,) = records["grad_accumulation"]["findings"]
    assert blamed["source"].endswith(".py:100")
    assert "twice too large" in blamed["message"]


def test_figures_of_cost(result: dict[str, object]) -> None:
    for r in result["pairs"]:  # type: ignore[attr-defined]
        assert r["inference_best"] > 0
        assert 0 < r["peak_mib"] < 500
    assert set(result["growth"]) == {"inference, tp8 / tp2, 1 layer"}  # type: ignore[call-overload]


def test_a_missing_graph_is_reported(tmp_path: Path) -> None:
    record = bench.check_one("gpt_tp2_layers1", tmp_path)
    assert record["verdict"] == "not checked"
    assert "in the given folder" in record["reason"]


def test_graphs_of_another_folder(tmp_path: Path) -> None:
    import lzma

    for packed in (GRAPHS / "bugs" / "grad_accumulation").rglob("*.xz"):
        plain = tmp_path / packed.relative_to(GRAPHS).with_suffix("")
        plain.parent.mkdir(parents=True)
        plain.write_bytes(lzma.decompress(packed.read_bytes()))
    assert bench.check_one("grad_accumulation", tmp_path)["verdict"] == "refuted"
