"""What runs of ``make fuzz`` found: faults, kept as tests, and kinds of programs without a proof.

The kinds are those that docs/soundness.md lists; where one is proved, it leaves that list.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.fuzz import decide
from tests.support.programs import group, problem, shard, whole

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.numeric import replay, sample
from shardproof.testing.fuzz.programs import any_program
from shardproof.verify import verify

PAGE = Path(__file__).parents[2] / "docs" / "soundness.md"


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


# ------------------------------------------------------------------ proved since


def partial_times_whole(wrong: bool) -> Problem:
    """A partial sum times the complete one (or itself, if ``wrong``), where the sequential
    program squares the sum."""

    def distributed(b: Builder, rank: int, x: Value) -> Value:
        s = b.emit("sum", x, dims=(0,))
        other = s if wrong else b.emit("all_reduce", s, op="sum", **group(2))
        return b.emit("all_reduce", b.emit("mul", s, other), op="sum", **group(2))

    def sequential(b: Builder, x: Value) -> Value:
        s = b.emit("sum", x, dims=(0,))
        return b.emit("mul", s, s)

    cut = {"x": shard(0, 0, 2, 4)}
    return problem(2, {"x": ("f32", (4, 3))}, sequential, distributed, cut, whole)


def test_a_partial_sum_times_the_whole() -> None:
    verdict = verify(partial_times_whole(wrong=False))
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert verify(partial_times_whole(wrong=True)).status == "refuted"


def product_of_a_concatenation() -> Problem:
    """A product over an axis that is a concatenation; each rank has some of its columns."""

    def sequential(b: Builder, x: Value, y: Value) -> Value:
        return b.emit("prod", b.emit("concat", x, b.emit("tanh", y), dim=0), dims=(0,))

    def distributed(b: Builder, rank: int, x: Value, y: Value) -> Value:
        return sequential(b, x, y)

    cut = shard(1, 0, 2, 4)
    inputs = {"x": ("f32", (3, 4)), "y": ("f32", (3, 4))}
    return problem(2, inputs, sequential, distributed, {"x": cut, "y": cut}, shard(0, 0, 2, 4))


def test_a_whole_axis_in_pieces() -> None:
    assert decide(product_of_a_concatenation()).holds


def sums_of_single_rows(wrong: bool) -> Problem:
    """A sum over rows of sums over columns; every rank has one row, whose sum it also returns.
    The rows are not added up if ``wrong``."""

    def sequential(b: Builder, x: Value) -> tuple[Value, Value]:
        rows = b.emit("sum", x, dims=(1,), keepdim=True)
        return b.emit("sum", rows, dims=(0, 1)), rows

    def distributed(b: Builder, rank: int, x: Value) -> tuple[Value, Value]:
        total, rows = sequential(b, x)
        return total if wrong else b.emit("all_reduce", total, op="sum", **group(2)), rows

    cut = shard(0, 0, 1, 2)
    inputs = {"x": ("f32", (2, 3))}
    return problem(2, inputs, sequential, distributed, {"x": cut}, [whole, cut])


def test_sums_of_single_rows() -> None:
    verdict = verify(sums_of_single_rows(wrong=False))
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert verify(sums_of_single_rows(wrong=True)).status == "refuted"


# ------------------------------------------------------------------ correct, without a proof


def missed() -> list[int]:
    """Seeds whose programs had no proof in the run of docs/soundness.md."""
    text = PAGE.read_text().split("without a proof, by kind")[1]
    return [int(n) for row in re.findall(r"\| seeds ([\d, ]+)", text) for n in row.split(",")]


@pytest.mark.parametrize("seed", missed())
def test_a_program_without_a_proof(seed: int) -> None:
    g, made, rng = any_program(seed)
    assert replay(made, sample(made.sequential, rng, g.ranges), rng).equal
    if not decide(made).holds:
        pytest.xfail("no proof yet")
