"""Declared sizes of collectives in programs written once for all ranks."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Replicate, Shard, Spec

SEQUENTIAL = """graph sequential
%x = input f32[6, 3]
return %x
"""
RANKS = """graph ranks
mesh tp=3
%x = input f32[2, 3]
%y = all_gather(%x) {dim=0, group=("tp",), group_size=3, sizes=SIZES}
return %y as x
"""
ONE = RANKS.replace("mesh tp=3\n", "").replace('("tp",), group_size=3', "(0, 1, 2)")


def status(sizes: str, one_by_one: bool) -> str:
    text = (ONE if one_by_one else RANKS).replace("SIZES", sizes)
    ranks = [text + "\n" * k for k in range(3)] if one_by_one else text
    return (
        Spec.from_graphs(
            sequential=SEQUENTIAL, distributed=ranks, mesh=Mesh(tp=3),
            inputs={"x": Shard(0)}, outputs={"x": Replicate()},
        )
        .check()
        .status
    )  # fmt: skip


@pytest.mark.parametrize("one_by_one", [False, True])
def test_sizes_that_members_do_not_bring(one_by_one: bool) -> None:
    assert status("(2, 1, 3)", one_by_one) == "refuted"
    assert status("(2, 2, 2)", one_by_one) == "refines"
