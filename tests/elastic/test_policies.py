"""Policies: bounds they promise, and the predictors they rely on."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.planner import Caps
from shardproof.elastic.policies import POLICIES, Action, Dssp, ElasticBsp, make_policy, published
from shardproof.elastic.predictors import Ewma, LastInterval, RunningMedian, make_predictor
from shardproof.elastic.simulate import Cluster, Fault, TraceTimes, simulate


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_difference_and_staleness_bounds(name: str) -> None:
    """Each policy keeps its promise under heavy jitter: no worker exceeds the cap."""
    steps = 5
    result = simulate(
        make_policy(name, steps), Cluster(6, jitter=0.3).times(1), seconds=120, barrier_cost=0.01
    )
    assert sum(result.iterations.values()) > 100
    if name == "bsp":
        assert result.difference_max == 0
        assert result.staleness_max == 0
    elif name == "local-sgd":
        assert result.difference_max == 0
        assert result.staleness_max == steps - 1
    elif name == "asp":
        assert result.idle_share == 0
    elif name in {"ssp", "dssp"}:
        # The lead is measured at the push, so the iteration that is then held still counts.
        assert result.difference_max <= steps + 1
    else:
        assert result.staleness_max <= steps - 1
        assert all(1 <= s.steps_min <= s.steps_max <= steps for s in result.supersteps)


def test_equal_constant_speeds_never_wait() -> None:
    for name in ("bsp", "local-sgd", "elastic", "dylu", "ssp"):
        result = simulate(make_policy(name, 4), TraceTimes([[1.0]] * 3), seconds=50.5)
        assert result.idle_share == pytest.approx(0.0, abs=1e-12), name


def test_bsp_waits_exactly_for_the_slowest() -> None:
    result = simulate(make_policy("bsp"), TraceTimes([[1.0], [2.0]]), seconds=20.0)
    assert result.waiting == {0: pytest.approx(10.0), 1: pytest.approx(0.0)}
    assert result.idle_share == pytest.approx(0.25)


def test_elastic_finds_the_common_multiple() -> None:
    """Intervals 2 and 3: a barrier every 6 s has no waiting at all."""
    policy = ElasticBsp(lookahead=6, caps=Caps(staleness=3))
    result = simulate(policy, TraceTimes([[2.0], [3.0]]), seconds=121.0)
    assert result.supersteps[-1].steps_max == 3
    assert sum(s.waiting for s in result.supersteps[2:]) == pytest.approx(0.0, abs=1e-9)


def test_published_policy_monitors_two_pushes() -> None:
    result = simulate(published(5), TraceTimes([[1.0], [1.0]]), seconds=30.0)
    # Two pushes for the intervals, then the earliest optimum, one push later.
    assert {s.steps_max for s in result.supersteps} == {3}


def test_published_rule_can_be_worse_than_bsp_under_jitter() -> None:
    """The critique of the last-interval predictor, reproduced."""
    cluster = Cluster(32, jitter=0.3)
    bsp = simulate(make_policy("bsp"), cluster.times(0), seconds=200)
    old = simulate(make_policy("elastic-published", 15), cluster.times(0), seconds=200)
    new = simulate(make_policy("elastic", 15), cluster.times(0), seconds=200)
    assert old.idle_share > bsp.idle_share > new.idle_share


def test_reaction_stops_a_worker_whose_prediction_missed() -> None:
    """Worker 1 becomes ten times slower; it must not be asked for its planned iterations."""
    rows = [[1.0], [1.0] * 12 + [10.0] * 20]
    reactive = ElasticBsp(lookahead=4, caps=Caps(staleness=4))
    fixed = ElasticBsp(lookahead=4, caps=Caps(staleness=4), reactive=False)
    waits = [
        max(s.waiting for s in simulate(p, TraceTimes(rows), seconds=60).supersteps)
        for p in (reactive, fixed)
    ]
    assert waits[0] < waits[1]


def test_replans_when_a_worker_leaves_and_joins() -> None:
    faults = [Fault(7.3, 2), Fault(20.0, 2, joins=True)]
    for name in sorted(POLICIES):
        result = simulate(
            make_policy(name, 4), TraceTimes([[1.0], [1.1], [3.0]]), seconds=60, faults=faults
        )
        assert result.iterations[0] > 25, name
        assert result.iterations[2] > 5, name


def test_dssp_controller_grants_the_aligned_iteration() -> None:
    policy = Dssp(1, 6)
    policy.begin([0, 1], 0.0)
    policy.finished(1, 4.0, 4.0)
    for k in range(1, 3):
        assert policy.finished(0, 4.0 + k, 1.0) is Action.RUN
    # Lead is now 2 > 1; the slow push at 8 s is 1 s after the next but one: credit is granted.
    assert policy.finished(0, 7.0, 1.0) is Action.RUN
    assert policy.finished(0, 8.0, 1.0) is Action.HOLD
    assert policy.released() == []
    policy.finished(1, 8.0, 4.0)
    policy.finished(1, 12.0, 4.0)
    assert policy.released() == [0]
    assert policy.released() == []


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_predictors_stay_within_what_they_saw(values: list[float]) -> None:
    for kind in ("last", "ewma", "median"):
        predictor = make_predictor(kind)
        assert predictor.estimate() is None
        for value in values:
            predictor.observe(value)
        known = predictor.estimate()
        assert known is not None
        assert min(values) - 1e-9 <= known.mean <= max(values) + 1e-9
        assert known.deviation >= 0


def test_predictor_values() -> None:
    ewma, median, last = Ewma(0.5), RunningMedian(3), LastInterval()
    for value in (1.0, 3.0, 100.0):
        for predictor in (ewma, median, last):
            predictor.observe(value)
    known = ewma.estimate()
    assert known is not None
    assert known.mean == pytest.approx(0.5 * (2.0 + 100.0))
    # Population variance of (1, 3) is 1; blending 100 in with weight 1/2 adds 98^2 / 4.
    assert known.deviation == pytest.approx(math.sqrt(0.5 * (1.0 + 0.5 * 98.0**2)))
    middle = median.estimate()
    assert middle is not None
    assert middle.mean == 3.0
    assert middle.deviation == pytest.approx(1.4826 * 2.0)
    newest = last.estimate()
    assert newest is not None
    assert newest.mean == 100.0


def test_bad_arguments() -> None:
    with pytest.raises(InvalidInput, match="unknown policy"):
        make_policy("bulk")
    with pytest.raises(InvalidInput, match="unknown predictor"):
        ElasticBsp(predictor="oracle")
    with pytest.raises(InvalidInput, match="empty"):
        Dssp(5, 2)
    with pytest.raises(InvalidInput, match="positive, finite"):
        Ewma().observe(0.0)
    policy = make_policy("bsp")
    with pytest.raises(InvalidInput, match="at least one worker"):
        policy.begin([], 0.0)
    policy.begin([0], 0.0)
    with pytest.raises(InvalidInput, match="no member"):
        policy.finished(3, 1.0, 1.0)
    with pytest.raises(InvalidInput, match="barriers only"):
        policy.join(1, 0.0)


def test_public_names_exist() -> None:
    import shardproof.elastic as package

    for name in package.__all__:
        assert getattr(package, name).__module__.startswith("shardproof.elastic"), name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        package.nonsense  # noqa: B018
