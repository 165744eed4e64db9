"""What runs of ``make fuzz`` found: faults, kept as tests, and kinds of programs without a proof.

The kinds are those that docs/soundness.md lists; where one is proved, it leaves that list.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.fuzz import decide
from tests.support.programs import group, problem, shard, whole

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.numeric import replay, sample
from shardproof.verify import verify


def exchange(wrong: bool) -> Problem:
    """Columns cut unevenly, rows joined. Rank 0 returns what it gets, from rank 1 a piece of
    another width if ``wrong``; rank 1 returns its columns of a gathered copy."""

    def distributed(b: Builder, rank: int, x: Value) -> Value:
        rows = b.emit("all_gather", x, dim=0, **group(2))
        send = (6, 2) if wrong and rank == 1 else (2, 6)
        y = b.emit(
            "all_to_all", x, split_dim=1, concat_dim=0, send_sizes=send, recv_sizes=(1, 1),
            extent=(2, 6)[rank], **group(2),
        )  # fmt: skip
        return y if rank == 0 else b.emit("slice", rows, dim=1, start=2, stop=8)

    def sequential(b: Builder, x: Value) -> Value:
        return b.emit("scale", x, by=1)

    return problem(
        2, {"x": ("f32", (2, 8))}, sequential, distributed, {"x": shard(0, 0, 1, 2)},
        shard(1, 0, 2, 8),
    )  # fmt: skip


def test_an_exchange_whose_senders_cut_alike() -> None:
    assert decide(exchange(wrong=False)).holds
    assert verify(exchange(wrong=False)).status == "refines"


def test_an_exchange_whose_senders_cut_in_other_places() -> None:
    assert not decide(exchange(wrong=True)).holds
    verdict = verify(exchange(wrong=True))
    assert verdict.status == "refuted"
    assert "rank 1 into (6, 2)" in verdict.findings[0].message


# ------------------------------------------------------------------ correct, without a proof


def partial_times_whole() -> Problem:
    """A partial sum times the complete one, where the sequential program squares the sum."""

    def distributed(b: Builder, rank: int, x: Value) -> Value:
        s = b.emit("sum", x, dims=(0,))
        y = b.emit("mul", s, b.emit("all_reduce", s, op="sum", **group(2)))
        return b.emit("all_reduce", y, op="sum", **group(2))

    def sequential(b: Builder, x: Value) -> Value:
        s = b.emit("sum", x, dims=(0,))
        return b.emit("mul", s, s)

    return problem(
        2, {"x": ("f32", (4, 3))}, sequential, distributed, {"x": shard(0, 0, 2, 4)}, whole
    )


KINDS = [partial_times_whole]


@pytest.mark.parametrize("make", KINDS)
def test_a_kind_without_a_proof(make) -> None:
    made = make()
    rng = np.random.default_rng(0)
    assert replay(made, sample(made.sequential, rng), rng).equal
    assert not decide(made).holds, "proved now: take it off the list in docs/soundness.md"
