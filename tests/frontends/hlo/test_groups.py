"""Every printed form of replica_groups, and what its numbers mean."""

from __future__ import annotations

import pytest

from shardproof.frontends.hlo.context import Facts
from shardproof.frontends.hlo.shapes import HloSyntaxError
from shardproof.frontends.hlo.topology import listed_groups, own_group, own_pairs


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{}", ()),
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{3,1}}", ((3, 1),)),
        ("[2,4]<=[8]", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("[4,2]<=[2,4]T(1,0)", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("[2,4]<=[2,2,2]T(1,0,2)", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['a'=2,'b'=4] {'b'}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=2,'b'=4] {'a'}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=2,'b'=2] {'a','b'}", ((0, 1, 2, 3),)),
        ("mesh['a'=2,'b'=2] {'b','a'}", ((0, 2, 1, 3),)),
        (
            "mesh['a'=4,'b'=1,'c'=2], device_ids=([2,4]T(1,0)) {'a'}",
            ((0, 1, 2, 3), (4, 5, 6, 7)),
        ),
        ("mesh['a'=2,'b'=2], device_ids=(3,2,1,0) {'b'}", ((3, 2), (1, 0))),
        ("mesh['a'=8] {'a':(2)4}", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("mesh['a'=8] {'a':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
    ],
)
def test_forms(text: str, groups: object) -> None:
    assert listed_groups(text) == groups


@pytest.mark.parametrize(
    "text",
    ["[2,4]<=[7]", "[2,2,2]<=[8]", "[2,4]<=[2,4]T(0,0)", "mesh['a'=2] {'b'}", "x", "{{0,1}",
     "[999999999,2]<=[1999999998]"],
)  # fmt: skip
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(HloSyntaxError):
        listed_groups(text)


def facts(rank: int) -> Facts:
    """Two replicas of three partitions."""
    return Facts(rank, 2, 3)


def test_numbers_are_replicas_without_a_channel() -> None:
    assert own_group({"replica_groups": "{{0,1}}"}, facts(4)) == (1, 4)
    assert own_group({}, facts(5)) == (2, 5)


def test_numbers_are_replicas_of_all_partitions_with_a_channel() -> None:
    attrs = {"replica_groups": "{{0},{1}}", "channel_id": "1"}
    assert own_group(attrs, facts(4)) == (3, 4, 5)


def test_numbers_are_global_ranks() -> None:
    attrs = {
        "replica_groups": "{{0,5},{1,4},{2,3}}", "channel_id": "1",
        "use_global_device_ids": "true",
    }  # fmt: skip
    assert own_group(attrs, facts(4)) == (1, 4)
    assert own_group({**attrs, "replica_groups": "{}"}, facts(4)) == (0, 1, 2, 3, 4, 5)


def test_numbers_are_partitions_where_there_is_no_other_form() -> None:
    attrs = {"replica_groups": "{{0,2},{1}}", "channel_id": "1"}
    assert own_group(attrs, facts(5), permutes=True) == (3, 5)


def test_a_rank_without_group() -> None:
    with pytest.raises(HloSyntaxError, match="has rank 1"):
        own_group({"replica_groups": "{{0}}"}, facts(4))
    with pytest.raises(HloSyntaxError, match="does not fit"):
        own_group({"replica_groups": "{{0,1,7}}"}, facts(4))


def test_pairs() -> None:
    attrs = {"source_target_pairs": "{{0,1},{1,2},{2,0}}", "channel_id": "1"}
    assert own_pairs(attrs, facts(4)) == ([3], [5])
    assert own_pairs({"source_target_pairs": "{{0,1}}"}, facts(4)) == ([1], [])
    with pytest.raises(HloSyntaxError, match="several"):
        own_pairs({"source_target_pairs": "{{0,1},{1,1}}"}, facts(4))
