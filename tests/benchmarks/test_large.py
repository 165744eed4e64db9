"""The large benchmark's program with two small layers, right and wrong."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.live import llama_8b

from benchmarks import large
from shardproof.testing.cases import blame, file_of, marks


def test_the_right_program_is_proved() -> None:
    verdict = llama_8b.llama(ranks=4).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert verdict.nodes["ranks"] == 4
    assert {o.status for o in verdict.outputs} == {"proved"}


def test_a_forgotten_gradient_is_blamed_and_mended() -> None:
    verdict = llama_8b.llama(forgotten=1).check()
    assert verdict.status == "refuted"
    assert blame(verdict, marks(file_of(llama_8b.llama), llama_8b.BUG))
    assert "grad.layers.1.norm1.weight" in verdict.findings[0].affected
    assert verdict.findings[0].fix_verified


def record(layers: int, ranks: int, **more: Any) -> dict[str, Any]:
    seconds = {s: float(layers * ranks) for s in large.STAGES}
    return {"layers": layers, "ranks": ranks, "captured": ranks, "seconds": seconds,
            "wall_seconds": 10.0, "peak_mib": 100.0, "verdict": "refines",
            "certificate": "certificate checked", **more}  # fmt: skip


def test_growth_is_told_by_ratios() -> None:
    (ratio,) = large.growth([record(4, 8), record(2, 8)], "layers")
    assert ratio["layers"] == "2 -> 4"
    assert ratio["inference"] == 2.0
    assert ratio["peak"] == 1.0


@pytest.mark.parametrize(
    "worse",
    [
        {"verdict": "unproved"},
        {"certificate": "certificate not checked"},
        {"captured": 1},
        {"wall_seconds": 301.0},
        {"peak_mib": 5000.0},
    ],
)
def test_claims_that_are_not_met(worse: dict[str, Any]) -> None:
    twin = record(2, 8, verdict="refuted", right=True)
    good = record(2, 8)
    assert all(large.claims(good, twin).values())
    assert not all(large.claims({**good, **worse}, twin).values())
    assert not all(large.claims(good, {**twin, "right": False}).values())
