"""The captured Llama modules: all refine, and modules with a fault do not."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from shardproof.data import graph_files
from shardproof.examples import llama_hlo
from shardproof.report.diagnostic import Verdict


@pytest.mark.parametrize(("ranks", "layers"), [(2, 1), (8, 1), (2, 8), (8, 8)])
def test_refines(ranks: int, layers: int) -> None:
    verdict = llama_hlo.llama(ranks, layers).check()
    assert verdict.status == "refines", verdict.findings
    assert not verdict.unknown_operators
    assert verdict.replay.startswith("replayed")
    assert len(verdict.outputs) == 1 + 2 * layers
    said = dict(verdict.assumptions)
    assert "assumed the same on both sides" in said["constant"]
    assert sum(kind == "kernel" for kind, _ in verdict.assumptions) == 2


def test_one_evaluation_stands_for_all_ranks() -> None:
    verdict = llama_hlo.llama(8, 1).check(replay=False)
    assert verdict.nodes["evaluated"] * 8 == verdict.nodes["distributed"]


def faulty(change: Callable[[str], str]) -> Verdict:
    (file,) = graph_files("llama_hlo/tp2_layers1")
    text = lzma.decompress(file.read_bytes()).decode()
    changed = change(text)
    assert changed != text
    return replace(llama_hlo.llama(2, 1), distributed=changed).check()


def swap(old: str, new: str, count: int = 1) -> Callable[[str], str]:
    return lambda text: text.replace(old, new, count)


FAULTS: dict[str, Callable[[str], str]] = {
    "no sum after attention": swap("add(%all-reduce.127,", "add(%reshape.126,"),
    "no sum after the MLP": swap("add(%all-reduce.146,", "add(%reshape.145,"),
    "maximum for sum": lambda t: re.sub(
        r"(all-reduce.127.Reducer.*?ROOT %add.131 = f16\[\] )add", r"\1maximum", t, flags=re.S
    ),
    "residual in the sum": swap("all-reduce(%reshape.145)", "all-reduce(%add.133)"),
    "groups of one": swap("replica_groups={{0,1}}", "replica_groups={{0},{1}}"),
    "keys for values": swap("reshape(%slice.55)", "reshape(%slice.54)"),
    "values from the wrong columns": swap("[1280:1536]", "[1024:1280]"),
    "another scale": swap("constant(8)", "constant(16)"),
    "another mask": swap("direction=GE", "direction=GT"),
    "another epsilon": swap("constant(1e-05)", "constant(1e-06)"),
    "no rotation": swap("concatenate(%subtract.67, %add.70)", "concatenate(%slice.63, %slice.64)"),
    "gate for up": swap("multiply(%multiply.140, %dot.141)", "multiply(%multiply.140, %dot.138)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_refuted(name: str) -> None:
    verdict = faulty(FAULTS[name])
    assert verdict.status == "refuted", (verdict.status, verdict.findings)


def test_any_shift_of_a_softmax_is_right() -> None:
    shifted = swap("subtract(%select.96, %broadcast.105)", "add(%select.96, %broadcast.105)")
    assert faulty(shifted).status == "refines"
