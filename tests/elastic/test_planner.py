"""The planners against brute force, on random periodic and irregular arrivals."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.elastic.errors import InfeasiblePlan, InvalidInput
from shardproof.elastic.planner import (
    Caps,
    MinGap,
    WaitRate,
    arrivals_from_intervals,
    as_arrivals,
    full_grid_scan,
    grid_scan,
    make_objective,
    plan,
    zipline,
    zipline_opt,
    zipline_opt_bs,
    zipline_published,
)
from shardproof.elastic.planner.exhaustive import exhaustive


def random_rows(rng: random.Random) -> list[list[float]]:
    """Small instance: periodic rows half of the time, integer ties a third of the time."""
    n, width = rng.randint(1, 4), rng.randint(1, 6)
    integral = rng.random() < 0.33
    rows = []
    for _ in range(n):
        length = rng.randint(1, width)
        steps = [rng.randint(1, 5) if integral else rng.uniform(0.5, 2.0) for _ in range(length)]
        if rng.random() < 0.5:
            steps = [steps[0]] * length
        clock = 0.0 if integral else rng.uniform(0, 1)
        row = []
        for step in steps:
            clock += step
            row.append(clock)
        rows.append(row)
    return rows


def random_caps(rng: random.Random) -> Caps:
    return Caps(
        staleness=rng.choice([None, 1, 2, 3, 5]),
        seconds=rng.choice([None, 2.0, 4.0, 8.0]),
        difference=rng.choice([None, 0, 1, 2, 4]),
    )


def check_against_brute_force(seed: int) -> bool:
    """Compare one random case; True if a feasible plan existed."""
    rng = random.Random(seed)
    rows, caps = random_rows(rng), random_caps(rng)
    objective = rng.choice([MinGap(), WaitRate(0.0), WaitRate(0.7)])
    try:
        expected = exhaustive(rows, objective=objective, caps=caps)
    except InfeasiblePlan:
        with pytest.raises(InfeasiblePlan):
            plan(rows, objective=objective, caps=caps)
        return False
    got = plan(rows, objective=objective, caps=caps)
    assert got.cost == pytest.approx(expected.cost, abs=1e-12), (seed, rows, caps)
    assert got.barrier <= expected.barrier + 1e-9, (seed, rows, caps)
    assert got.ends == tuple(row[c - 1] for row, c in zip(rows, got.counts, strict=True))
    assert caps.staleness is None or max(got.counts) <= caps.staleness
    assert caps.difference is None or max(got.counts) - min(got.counts) <= caps.difference
    assert caps.seconds is None or got.barrier <= caps.seconds
    return True


def test_plan_equals_brute_force_under_caps() -> None:
    feasible = sum(check_against_brute_force(seed) for seed in range(1500))
    assert feasible > 500


@pytest.mark.parametrize(
    "planner", [zipline, zipline_published, zipline_opt, zipline_opt_bs], ids=lambda f: f.__name__
)
def test_zipline_forms_equal_brute_force(planner: object) -> None:
    for seed in range(400):
        rows = random_rows(random.Random(seed))
        expected = exhaustive(rows)
        got = planner(rows)  # type: ignore[operator]
        assert got.cost == pytest.approx(expected.cost, abs=1e-12)
        assert got.barrier == pytest.approx(expected.barrier)


def test_grid_scans_are_heuristics() -> None:
    """Never better than the optimum, and really worse somewhere: neither is an exact baseline."""
    worse = {"grid": 0, "full": 0}
    for seed in range(1500):
        rng = random.Random(seed)
        n, width = rng.randint(3, 4), rng.randint(3, 6)
        rows = arrivals_from_intervals(
            [rng.random() for _ in range(n)], [rng.uniform(0.5, 2) for _ in range(n)], width
        )
        best = zipline(rows).cost
        grid, full = grid_scan(rows).cost, full_grid_scan(rows).cost
        assert grid >= best - 1e-12
        assert full >= best - 1e-12
        assert full <= grid + 1e-12
        worse["grid"] += grid > best + 1e-9
        worse["full"] += full > best + 1e-9
    assert worse["grid"] > worse["full"] > 0


@given(
    st.lists(st.floats(0.01, 10.0), min_size=1, max_size=8),
    st.integers(1, 12),
)
@settings(max_examples=80, deadline=None)
def test_wait_rate_is_never_worse_than_the_min_gap_plan(intervals: list[float], width: int) -> None:
    rows = arrivals_from_intervals([0.0] * len(intervals), intervals, width)
    published, rate = zipline(rows), plan(rows, objective=WaitRate(0.0))
    share = published.waiting / (len(intervals) * published.barrier)
    assert rate.cost <= share + 1e-9


def test_min_gap_prefers_a_short_wasteful_superstep() -> None:
    """The published objective's weakness on the smallest example: it ignores the length."""
    rows = arrivals_from_intervals([0.0, 0.0], [1.0, 1.4], 10)
    short, long = plan(rows), plan(rows, objective=WaitRate(0.0))
    assert short.gap <= long.gap
    rows3 = arrivals_from_intervals([0.0] * 3, [1.0, 1.13, 1.37], 12)
    share = [p.waiting / (3 * p.barrier) for p in (plan(rows3), plan(rows3, objective=WaitRate()))]
    assert share[1] < share[0]


def test_done_counts_towards_caps() -> None:
    rows = [[1.0, 2.0, 3.0], [1.5, 3.0, 4.5]]
    got = plan(rows, objective=WaitRate(), caps=Caps(staleness=4), done=[3, 0])
    assert got.counts[0] == 1
    # The iteration in flight cannot be unstarted, but no further one is added to the lead.
    got = plan(rows, objective=WaitRate(), caps=Caps(difference=1), done=[3, 0])
    assert got.counts[0] == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one worker"),
        ([[1.0], []], "row 1 has no finite"),
        ([[1.0, float("nan")]], "NaN"),
        ([[1.0, 1.0]], "ascend strictly"),
        ([[2.0, 1.0]], "ascend strictly"),
    ],
)
def test_malformed_rows(rows: list[list[float]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        as_arrivals(rows)


def test_bad_arguments() -> None:
    with pytest.raises(InvalidInput, match="lookahead"):
        arrivals_from_intervals([0.0], [1.0], 0)
    with pytest.raises(InvalidInput, match="positive"):
        arrivals_from_intervals([0.0], [-1.0], 3)
    with pytest.raises(InvalidInput, match="unknown objective"):
        make_objective("fastest")
    with pytest.raises(InvalidInput, match="before the start"):
        plan([[1.0]], start=2.0)
    with pytest.raises(InvalidInput, match="barrier cost"):
        WaitRate(-1.0)
    for bad in ({"staleness": 0}, {"seconds": 0.0}, {"difference": -1}):
        with pytest.raises(InvalidInput):
            Caps(**bad)  # type: ignore[arg-type]
