"""Lookups by labels of which some are ignored (-100), as cross entropy does them."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Shard, Spec

SEQUENTIAL = """graph sequential
%x = input f32[4, 8]
%y = input i64[4]
%i = compare(%y) {kind="eq", value=-100/1}
%z = masked_fill(%y, %i) {value=0/1}
%t = take_along(%x, %z)
return %t
"""
RANKS = SEQUENTIAL.replace("[4", "[2").replace("sequential", "ranks\nmesh tp=2")
SELECTED = RANKS.replace(
    "%z = masked_fill(%y, %i) {value=0/1}",
    '%o = full() {value=0/1, shape=(), dtype="i64"}\n%z = where(%i, %o, %y)',
)


def spec(ranks: str) -> Spec:
    return Spec.from_graphs(
        sequential=SEQUENTIAL, distributed=ranks, mesh=Mesh(tp=2), inputs={"*": Shard(0)},
        outputs={"t": Shard(0)},
    )  # fmt: skip


@pytest.mark.parametrize("ranks", [RANKS, SELECTED], ids=["filled", "selected"])
def test_labels_cut_over_the_batch(ranks: str) -> None:
    verdict = spec(ranks).check()
    assert verdict.status == "refines"
    # What the sequential lookup needs is listed: other labels index nothing.
    assert any("-100 <= y < -99 or 0 <= y < 8" in text for _, text in verdict.assumptions)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("value=-100/1", "value=-1/1"),
        ("value=-100/1", "value=3/1"),
        ("{value=0/1}", "{value=1/1}"),
        ('kind="eq"', 'kind="ne"'),
        ('kind="eq"', 'kind="ge"'),
        ("take_along(%x, %z)", "take_along(%x, %y)"),
    ],
)
def test_another_mask_is_not_proved(right: str, wrong: str) -> None:
    assert right in RANKS
    assert spec(RANKS.replace(right, wrong)).check().status != "refines"
