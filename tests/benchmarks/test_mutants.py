"""A slice of the mutants benchmark: nothing wrong is called correct, and faults are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import mutants as bench
from shardproof.testing.judge import judge, judge_full_size
from shardproof.testing.mutate import mutants
from shardproof.testing.pairs import PAIRS
from shardproof.verify import verify

JAX_RING = "jax_ring_product-compiled"
SLICE = {"gpt_tp2_layers1": 14, "grid_block": 16, "grad_accumulation": 8, "layernorm_partial": 2}


@pytest.mark.parametrize("name", SLICE)
def test_no_wrong_mutant_is_called_correct(name: str) -> None:
    pair = PAIRS[name]()
    judged = [judge(pair, m) for m in mutants(pair.small.problem, seed=11, count=SLICE[name])]
    assert [j.description for j in judged if j.missed or "SP900" in j.codes] == []
    assert any(j.wrong for j in judged)
    refuted = [j for j in judged if j.wrong and j.status == "refuted"]
    unnamed = [(j.description, j.blamed) for j in refuted if not j.named]
    assert len(unnamed) <= len(refuted) / 10, unnamed


def test_full_size_and_reduced_sizes_agree() -> None:
    pair = PAIRS["gpt_tp2_layers1"]()
    for m in mutants(pair.original, seed=2, count=3):
        j = judge_full_size(pair, m)
        assert j.truth in ("differs", "same", "protocol")
        assert not j.missed


def test_the_figures_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mutants.json"
    options = ["--pairs", "grad_accumulation", "--count", "4", "--full-size", "1"]
    assert bench.main(["--json", str(out), *options]) == 0
    found = json.loads(out.read_text())
    assert found["schema"] == "shardproof-mutants/1"
    assert found["total"]["mutants"] == 4
    assert found["total"]["false_refines"] == 0
    assert len(found["mutants"]) == 4
    assert len(found["full_size_mutants"]) == 1
    assert "by kind" in capsys.readouterr().out


def test_small_and_stored_programs_are_correct() -> None:
    pairs = bench.all_pairs()
    made = [n for n in pairs if n.startswith("small_") or n in ("symbolic_mlp_3", JAX_RING)]
    assert len(made) == 14
    for name in made:
        pair = pairs[name]()
        assert verify(pair.small.problem, fixed=dict(pair.fixed)).status == "refines", name
