"""Fused operators against their parts over a cut axis, in deep evaluation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support import fused
from tests.support.judging import proved, refused
from tests.support.problems import Cut, all_ranks, even, uneven

from shardproof.infer.run import Runner
from shardproof.ir.sizes import Size, symbol
from shardproof.lemmas import names
from shardproof.spec.problem import Problem
from shardproof.verify import verify

Make = Callable[[Cut, Size, str], Problem]
SIZES = {"N": 2, "w": 3, "R": 2}
CUTS = {
    "1 rank": even(1, 4),
    "3 ranks": even(3, 2),
    "uneven": uneven(0, 2, 4, 7),
    "all ranks": all_ranks(),
}
FAULTY = {k: CUTS[k] for k in ("3 ranks", "uneven", "all ranks")}
CASES: dict[str, tuple[Make, tuple[str, ...]]] = {
    "softmax": (lambda c, t, f: fused.softmax(c, t, f), fused.SOFTMAX_FAULTS),
    "log_softmax": (
        lambda c, t, f: fused.softmax(c, t, f, log=True),
        fused.SOFTMAX_FAULTS,
    ),
    "layer_norm": (fused.layer_norm, (*fused.NORM_FAULTS, "local mean")),
    "rms_norm + silu": (fused.rms_norm, fused.NORM_FAULTS),
    "layer_norm_grad": (fused.layer_norm_grad, fused.GRADIENT_FAULTS),
    "silu": (lambda c, t, f: fused.activation(c, t, "silu", f), fused.ACTIVATION_FAULTS),
    "gelu": (lambda c, t, f: fused.activation(c, t, "gelu", f), fused.ACTIVATION_FAULTS),
}
FAULTS = [(name, fault) for name, (_, faults) in CASES.items() for fault in faults]
RSTD = {"r": (1, 2)}  # a reciprocal deviation is positive


def rows(cut: Cut) -> Size:
    return symbol("R") if cut.symbolic else 2


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("name", CASES)
def test_parts_over_a_cut_axis_equal_the_fused_operator(name: str, cut: Cut) -> None:
    make, _ = CASES[name]
    sizes = SIZES if cut.symbolic else None
    used = proved(make(cut, rows(cut), ""), deep=True, sizes=sizes, ranges=RSTD)
    assert used[names.OPENED]


@pytest.mark.parametrize("cut", FAULTY.values(), ids=FAULTY)
@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_faulty_parts_are_refused(name: str, fault: str, cut: Cut) -> None:
    make, _ = CASES[name]
    sizes = SIZES if cut.symbolic else None
    refused(make(cut, rows(cut), fault), deep=True, sizes=sizes, ranges=RSTD)


@pytest.mark.parametrize("name", CASES)
def test_without_deep_evaluation_fused_operators_stay_closed(name: str) -> None:
    make, _ = CASES[name]
    assert not Runner(make(even(2, 2), 2, "")).run().holds


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm + silu", "layer_norm_grad", "gelu"])
def test_empty_shards(name: str) -> None:
    make, _ = CASES[name]
    proved(make(uneven(0, 3, 3, 5), 2, ""), deep=True, ranges=RSTD)


@pytest.mark.parametrize("borders", [(0, 1, 3, 6), (0, 2, 3), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("name", [n for n in CASES if n not in ("silu", "gelu")])
def test_shards_of_one_column(name: str, borders: tuple[int, ...]) -> None:
    make, _ = CASES[name]
    verdict = verify(make(uneven(*borders), 2, ""))
    assert (verdict.status, verdict.certificate) == ("refines", "certificate checked")


@pytest.mark.parametrize("fault", fused.SOFTMAX_FAULTS)
def test_faults_over_shards_of_one_column(fault: str) -> None:
    make, _ = CASES["softmax"]
    refused(make(uneven(0, 1, 3, 6), 2, fault), deep=True, ranges=RSTD)
