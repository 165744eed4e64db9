"""Results of asynchronous collectives that are used before they were waited for."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Replicate, Spec

EARLY = """graph ranks
mesh tp=2
%g = input f32[2]
%h = input f32[2]
%a = all_reduce(%g) {op="sum", group=("tp",), group_size=2, async=true}
%b = scale(%a) {by=1/1}
%w = wait(%a)
return %b
"""
EARLY_SEQUENTIAL = """graph sequential
%g = input f32[2]
%h = input f32[2]
%b = scale(%g) {by=2/1}
return %b
"""


def spec(ranks: str | list[str]) -> Spec:
    return Spec.from_graphs(
        sequential=EARLY_SEQUENTIAL, distributed=ranks, mesh=Mesh(tp=2),
        inputs={"*": Replicate()}, outputs={"b": Replicate()},
    )  # fmt: skip


WAITED = EARLY.replace("%b = scale(%a) {by=1/1}\n", "").replace(
    "return %b", "%b = scale(%w) {by=1/1}\nreturn %b"
)
ONE_BY_ONE = EARLY.replace("mesh tp=2\n", "").replace('("tp",), group_size=2', "(0, 1)")


@pytest.mark.parametrize(
    "ranks", [EARLY, [ONE_BY_ONE, ONE_BY_ONE + "\n"]], ids=["for all", "one by one"]
)
def test_an_early_read_is_refuted(ranks: str | list[str]) -> None:
    verdict = spec(ranks).check()
    assert verdict.status == "refuted"
    assert [f.code for f in verdict.findings] == ["SP103"]


def test_after_the_wait_it_refines() -> None:
    assert spec(WAITED).check().status == "refines"
