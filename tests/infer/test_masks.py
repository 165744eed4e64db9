"""Vocabulary masks: parallel lookup and cross entropy equal the plain ones, for concrete ranks
with even and uneven shards and for all numbers of ranks."""

from __future__ import annotations

import pytest
from tests.support.judging import proved, refused
from tests.support.problems import Cut, all_ranks, even, uneven
from tests.support.vocabulary import LOOKUP_FAULTS, LOSS_FAULTS, cross_entropy, masked_lookup

from shardproof.infer.run import Runner, infer
from shardproof.ir.sizes import symbol
from shardproof.lemmas import names

CUTS = {
    "1 rank": even(1, 4),
    "2 ranks": even(2, 3),
    "3 ranks": even(3, 2),
    "4 ranks": even(4, 2),
    "uneven": uneven(0, 2, 4, 7),
    "uneven, 4 ranks": uneven(0, 4, 6, 8, 11),
    "all ranks": all_ranks(),
}
FAULTY = {k: CUTS[k] for k in ("2 ranks", "uneven", "all ranks")}
SIZES = {"N": 3, "w": 2, "T": 5, "h": 2}


@pytest.fixture(params=CUTS.values(), ids=CUTS)
def cut(request: pytest.FixtureRequest) -> Cut:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=FAULTY.values(), ids=FAULTY)
def some_cut(request: pytest.FixtureRequest) -> Cut:
    return request.param  # type: ignore[no-any-return]


def about(cut: Cut) -> dict[str, dict[str, object]]:
    """Sizes of a symbolic problem and the range of ids."""
    if not cut.symbolic:
        return {"ranges": {"ids": (0, cut.total)}}
    return {"sizes": dict(SIZES), "ranges": {"ids": (0, SIZES["N"] * SIZES["w"])}}


def tokens(cut: Cut) -> object:
    return symbol("T") if cut.symbolic else 5


def hidden(cut: Cut) -> object:
    return symbol("h") if cut.symbolic else 2


def test_masked_lookup_is_the_lookup(cut: Cut) -> None:
    used = proved(masked_lookup(cut, tokens(cut), hidden(cut)), **about(cut))
    if cut.mesh.size != 1:
        assert used[names.LOOKUP_PIECES]
        assert used[names.GUARD_OF_SUM]
        assert used[names.RANK_TILES] or used[names.PARTIAL_SUMS]


@pytest.mark.parametrize("fault", LOOKUP_FAULTS)
def test_faulty_lookups_are_refused(some_cut: Cut, fault: str) -> None:
    problem = masked_lookup(some_cut, tokens(some_cut), hidden(some_cut), fault)
    refused(problem, **about(some_cut))


@pytest.mark.parametrize("fused", [False, True], ids=["parts", "fused"])
def test_parallel_cross_entropy_is_cross_entropy(cut: Cut, fused: bool) -> None:
    used = proved(cross_entropy(cut, tokens(cut), fused=fused), deep=fused, **about(cut))
    if cut.mesh.size != 1:
        assert used[names.EXTREMA] or used[names.RANK_TILES]
    if fused:
        assert used[names.ONEHOT_TOTAL]
        assert used[names.EXP_OF_SUM]


def test_any_shift_will_do(cut: Cut) -> None:
    proved(cross_entropy(cut, tokens(cut), fused=True, shift=False), deep=True, **about(cut))


@pytest.mark.parametrize("fused", [False, True], ids=["parts", "fused"])
@pytest.mark.parametrize("fault", LOSS_FAULTS)
def test_faulty_cross_entropies_are_refused(some_cut: Cut, fault: str, fused: bool) -> None:
    problem = cross_entropy(some_cut, tokens(some_cut), fault, fused=fused)
    refused(problem, deep=fused, **about(some_cut))


def test_the_range_of_ids_is_an_assumption_of_the_verdict() -> None:
    cut = all_ranks()
    plain = infer(masked_lookup(cut, symbol("T"), symbol("h")))
    assert plain.evaluator.lookups.assumed == ["0 <= ids < N*w (it indexes a table of N*w rows)"]
    masked = infer(cross_entropy(cut, symbol("T")))
    assert masked.holds
    assert not masked.evaluator.lookups.assumed


@pytest.mark.parametrize("borders", [(0, 1, 3, 6), (0, 1, 2, 3)], ids=["one short", "all short"])
def test_shards_of_one_row(borders: tuple[int, ...]) -> None:
    assert Runner(masked_lookup(uneven(*borders), 2, 2)).run().holds


def test_a_lookup_in_an_empty_shard_does_not_hold() -> None:
    """Masked ids read row 0, which a shard without rows does not have: the program stops."""
    assert not Runner(masked_lookup(uneven(0, 3, 3, 5), 4, 2)).run().holds
