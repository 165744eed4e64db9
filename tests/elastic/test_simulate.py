"""Straggler models, traces, faults and the what-if analysis."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest

from shardproof.elastic.errors import InvalidInput, TooFewWorkers
from shardproof.elastic.policies import POLICIES, make_policy
from shardproof.elastic.simulate import (
    Cluster,
    Fault,
    TraceTimes,
    load_trace,
    random_faults,
    save_trace,
    simulate,
    what_if,
)


def draws(cluster: Cluster, worker: int = 0, count: int = 2000) -> list[float]:
    times = cluster.times(3)
    return [times.draw(worker, 0.0).seconds for _ in range(count)]


def test_jitter_and_tail_have_the_stated_statistics() -> None:
    plain = draws(Cluster(1, jitter=0.1))
    base = statistics.fmean(plain)
    assert 1.0 <= base <= 1.5
    assert statistics.stdev(plain) / base == pytest.approx(0.1, rel=0.1)
    heavy = draws(Cluster(1, tail=0.05, tail_shape=2.5, tail_scale=1.0))
    stalled = sum(t > 1.9 * min(heavy) for t in heavy) / len(heavy)
    assert stalled == pytest.approx(0.05, abs=0.02)
    assert max(heavy) > 4 * min(heavy)


def test_slow_downs_are_transient() -> None:
    times = Cluster(1, fastest=1.0, slowest=1.0, slow_every=50, slow_for=10).times(0)
    seconds = [times.draw(0, float(now)).seconds for now in range(2000)]
    share = sum(s > 1.5 for s in seconds) / len(seconds)
    assert set(seconds) == {1.0, 2.0}
    assert share == pytest.approx(10 / 60, abs=0.08)


def test_durations_do_not_depend_on_the_policy() -> None:
    """Policies are compared on the same draws: iteration k of a worker always takes as long."""
    ends = []
    for name in ("bsp", "asp"):
        result = simulate(
            make_policy(name), Cluster(3, jitter=0.2).times(5), seconds=30, record=True
        )
        mine = [e.seconds for e in result.events if e.kind == "iteration" and e.worker == 1]
        ends.append(mine[:10])
    assert ends[0] == pytest.approx(ends[1])


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_time_is_accounted_for(name: str) -> None:
    """Computing, waiting, barriers and lost time add up to the workers' presence."""
    result = simulate(
        make_policy(name, 5),
        Cluster(4, jitter=0.2, tail=0.02).times(2),
        seconds=100,
        barrier_cost=0.1,
    )
    assert result.presence == pytest.approx(400.0, abs=0.5)
    closed = sum(s.waiting for s in result.supersteps)
    assert closed <= sum(result.waiting.values()) + 1e-9


def test_failures_and_joins() -> None:
    faults = random_faults(6, 300, between=60, repair=20, seed=1, spare=2)
    assert {f.worker for f in faults} <= {2, 3, 4, 5}
    for name in sorted(POLICIES):
        result = simulate(
            make_policy(name, 4), Cluster(6, jitter=0.1).times(1), seconds=300, faults=faults
        )
        assert result.iterations[0] > 100, name
        assert sum(result.lost.values()) > 0, name
        assert result.presence < 6 * 300, name
    with pytest.raises(TooFewWorkers, match="all workers have left"):
        simulate(make_policy("bsp"), TraceTimes([[1.0]]), seconds=10, faults=[Fault(2.5, 0)])


def test_worker_that_joins_late() -> None:
    for name in ("elastic", "asp"):
        result = simulate(
            make_policy(name, 3),
            TraceTimes([[1.0], [1.0]]),
            seconds=40,
            faults=[Fault(20.0, 1, joins=True)],
        )
        assert result.iterations[0] > 35
        assert 15 <= result.iterations[1] <= 20


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_traces_round_trip(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    pairs = [(0, 1.5), (1, 2.0), (0, 1.25), (10, 3.0)]
    if suffix == ".csv":
        save_trace(path, pairs)
    else:
        path.write_text("\n".join(json.dumps({"worker": w, "seconds": s}) for w, s in pairs))
    trace = load_trace(path)
    assert trace.workers == 3
    assert [trace.draw(0, 0.0).seconds for _ in range(3)] == [1.5, 1.25, 1.5]
    assert trace.draw(2, 0.0).seconds == 3.0


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "rank,time\n0,1\n", "a.csv:1: expected the columns"),
        ("a.csv", "worker,seconds\n0,fast\n", "a.csv:2: 'fast' is no number"),
        ("a.csv", "worker,seconds\n0,-1\n", "non-positive"),
        ("a.csv", "worker,seconds\n", "holds no iteration"),
        ("a.jsonl", "{}\n", "a.jsonl:1: expected an object with a worker"),
        ("a.jsonl", "{\n", "a.jsonl:1: not JSON"),
        ("a.txt", "", "must end in"),
    ],
)
def test_malformed_traces(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InvalidInput, match=message):
        load_trace(path)


def test_what_if_names_the_slow_worker_and_the_stalls() -> None:
    rows = [[1.0] * 20, [1.0] * 20, [2.0] * 20, [1.0] * 9 + [11.0] + [1.0] * 10]
    found = what_if(lambda: make_policy("bsp"), lambda: TraceTimes(rows), seconds=400)
    assert set(found.by_worker) == {2}
    assert found.by_worker[2] > 0.25
    # One of 20 rounds takes 11 s instead of 2 s: 49 s become 40 s.
    assert found.by_cause["stalls and slow-downs"] == pytest.approx(9 / 49, abs=0.03)
    assert found.waited_for[2] > found.waited_for[3] > 0


@pytest.mark.slow
def test_a_thousand_workers() -> None:
    result = simulate(make_policy("elastic", 8), Cluster(1000, jitter=0.1).times(0), seconds=40)
    assert result.idle_share < 0.15
    assert len(result.supersteps) >= 2


def test_bad_arguments() -> None:
    for bad in (
        {"workers": 0},
        {"workers": 2, "jitter": 1.0},
        {"workers": 2, "fastest": 0.0},
        {"workers": 2, "tail_shape": 1.0},
        {"workers": 2, "slow_factor": 0.5},
    ):
        with pytest.raises(InvalidInput):
            Cluster(**bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="seconds"):
        simulate(make_policy("bsp"), TraceTimes([[1.0]]), seconds=0)
    with pytest.raises(InvalidInput, match="does not exist"):
        simulate(make_policy("bsp"), TraceTimes([[1.0]]), seconds=1, faults=[Fault(0.5, 9)])
