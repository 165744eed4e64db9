"""Lookups by labels of which some are ignored (-100), as cross entropy does them."""

from __future__ import annotations

import pytest
from tests.support.ignored import FAULTS, ignored_loss

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.errors import InputError
from shardproof.lemmas import names
from shardproof.verify import verify

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

VOCABULARY_RANKS = """graph ranks
mesh tp=2
%x = input f32[4, 4]
%y = input i64[4]
%i = compare(%y) {kind="eq", value=-100/1}
%z = masked_fill(%y, %i) {value=0/1}
%o = shift(%z) {by=-4*@tp}
%lt = compare(%o) {kind="lt", value=0/1}
%ge = compare(%o) {kind="ge", value=4/1}
%absent = logic(%lt, %ge) {kind="or"}
%local = masked_fill(%o, %absent) {value=0/1}
%t = take_along(%x, %local)
%f = masked_fill(%t, %absent) {value=0/1}
%r = all_reduce(%f) {op="sum", group=("tp",), group_size=2}
return %r as t
"""


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


@pytest.mark.parametrize("ignore", [-100, -1])
def test_loss_and_gradient_over_a_cut_vocabulary(ignore: int) -> None:
    verdict = ignored_loss(ignore).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked", verdict.certificate_note
    assert (names.THRESHOLD_MOVED in verdict.lemmas) == (ignore == -100)  # -1 is next to 0
    assert any(f"{ignore} <= y < {ignore + 1} or 0 <= y < 8" in t for _, t in verdict.assumptions)


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_losses_over_a_cut_vocabulary_are_refuted(fault: str) -> None:
    assert verify(ignored_loss(fault=fault).resolve(), fixes=False).status == "refuted"


def test_one_graph_for_all_ranks_is_retried_rank_by_rank() -> None:
    """Whether an ignored label, read as 0, is in a shard depends on the rank."""
    given = {"x": Shard(1), "y": Replicate()}
    one = Spec.from_graphs(
        sequential=SEQUENTIAL, distributed=VOCABULARY_RANKS, mesh=Mesh(tp=2), inputs=given,
        outputs={"t": Replicate()},
    )  # fmt: skip
    verdict = one.check()
    assert (verdict.status, verdict.certificate) == ("refines", "certificate checked")
    wrong = VOCABULARY_RANKS.replace("by=-4*@tp", "by=-3*@tp")
    other = Spec.from_graphs(
        sequential=SEQUENTIAL, distributed=wrong, mesh=Mesh(tp=2), inputs=given,
        outputs={"t": Replicate()},
    )  # fmt: skip
    assert other.check().status == "refuted"


UNMASKED = """graph ranks
mesh tp=2
%x = input f32[2, 8]
%y = input i64[2]
%t = take_along(%x, %y)
return %t
"""


def test_a_stated_bound_leaves_no_label_to_ignore() -> None:
    def bounded(**below: int) -> Spec:
        return Spec.from_graphs(
            sequential=SEQUENTIAL, distributed=UNMASKED, mesh=Mesh(tp=2), inputs={"*": Shard(0)},
            outputs={"t": Shard(0)}, below=below,
        )  # fmt: skip

    assert bounded().check().status != "refines"
    verdict = bounded(y=8).check()
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert bounded(y=9).check().status != "refines"
    for wrong in ({"x": 8}, {"z": 8}):
        with pytest.raises(InputError, match="no input of integers"):
            bounded(**wrong).resolve()
