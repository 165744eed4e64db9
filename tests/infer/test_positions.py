"""Masks of positions: blocks of keys that are hidden, seen, or on the diagonal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.causal import FAULTS, MASK, NO_MASK, causal_ring
from tests.support.programs import builder

from shardproof import Mesh, Shard, Spec
from shardproof.infer.run import infer
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Value
from shardproof.lemmas import names
from shardproof.report.diagnostic import Verdict
from shardproof.verify import verify

PAST = {"masked": MASK, "not masked": NO_MASK}


@pytest.mark.parametrize("past", PAST)
def test_causal_attention_in_blocks(past: str) -> None:
    spec = causal_ring(PAST[past])
    verdict = verify(spec.resolve())
    assert verdict.status == "refines"
    assert verdict.certificate == "certificate checked"
    assert {names.MASKED_EXP, names.MASKED_SUM} <= set(verdict.lemmas)


@pytest.mark.parametrize("past", PAST)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_mask(fault: str, past: str) -> None:
    problem = causal_ring(PAST[past], fault).resolve()
    assert not infer(problem, deep=True).holds
    assert verify(problem, fixes=False).status == "refuted"


Compare = Callable[[Builder, Value, Value], Value]


def masked(compare: Compare, offset: int, rows: int) -> Graph:
    """``x`` where a comparison of its row and column says so, else 0."""
    b = builder("masked")
    x = b.input("x", "f32", (rows, 6))
    i = b.emit("iota", size=rows, start=offset, step=1, dtype="i64")
    j = b.emit("iota", size=6, start=0, step=1, dtype="i64")
    i, j = b.emit("reshape", i, shape=(rows, 1)), b.emit("reshape", j, shape=(1, 6))
    return b.returns(b.emit("masked_fill", x, compare(b, i, j), value=0), names=("y",))


def compare(kind: str, left: int, right: int, swap: bool = False, no: bool = False) -> Compare:
    """``row + left`` against ``column + right``, the other way round with ``swap``."""

    def run(b: Builder, i: Value, j: Value) -> Value:
        i, j = b.emit("shift", i, by=left), b.emit("shift", j, by=right)
        found = b.emit("compare", *((j, i) if swap else (i, j)), kind=kind)
        return b.emit("logic", found, kind="not") if no else found

    return run


SPELLINGS = {  # column > row
    "row < column": compare("lt", 0, 0),
    "row + 1 <= column": compare("le", 1, 0),
    "row <= column - 1": compare("le", 0, -1),
    "column > row": compare("gt", 0, 0, swap=True),
    "column >= row + 1": compare("ge", 1, 0, swap=True),
    "column + 3 >= row + 4": compare("ge", 4, 3, swap=True),
    "not row >= column": compare("ge", 0, 0, no=True),
    "not row > column - 1": compare("gt", 0, -1, no=True),
    "not column <= row": compare("le", 0, 0, swap=True, no=True),
}
OTHERS = {
    "row <= column": compare("le", 0, 0),
    "column >= row + 2": compare("ge", 2, 0, swap=True),
    "not row > column": compare("gt", 0, 0, no=True),
    "column < row": compare("lt", 0, 0, swap=True),
}


def spelled(other: Compare) -> Verdict:
    """A mask of rows that are cut over two ranks against one of all rows."""
    ranks: list[Graph] = []
    for r in range(2):
        ranks.append(masked(other, 3 * r, 3))
        ranks[r].rank = r
    return Spec.from_graphs(
        sequential=masked(compare("lt", 0, 0), 0, 6), distributed=ranks,
        mesh=Mesh(tp=2), inputs={"x": Shard(0)}, outputs={"y": Shard(0)},
    ).check()  # fmt: skip


@pytest.mark.parametrize("other", SPELLINGS)
def test_comparisons_of_positions_that_say_the_same(other: str) -> None:
    verdict = spelled(SPELLINGS[other])
    assert (verdict.status, verdict.certificate) == ("refines", "certificate checked")


@pytest.mark.parametrize("other", OTHERS)
def test_comparisons_of_positions_that_say_something_else(other: str) -> None:
    assert spelled(OTHERS[other]).status == "refuted"
