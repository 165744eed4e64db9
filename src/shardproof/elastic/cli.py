"""``shardproof elastic``: plan, simulate, train, report. ``app`` is mounted by the main command.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once. Results go to
standard output, everything else to standard error; the main command turns errors into exit code 2.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from collections.abc import Callable

    from shardproof.elastic.simulate import IterationTimes, WhatIf

app = App(name="elastic", help="ElasticBSP: plan, simulate and train with elastic barriers.")

PolicyName = Literal[
    "bsp",
    "local-sgd",
    "time-budget",
    "dylu",
    "elastic",
    "elastic-min-gap",
    "elastic-published",
    "asp",
    "ssp",
    "dssp",
]
_ALL: tuple[PolicyName, ...] = get_args(PolicyName)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _intervals(step_times: Path | None, interval: list[float] | None) -> list[float]:
    from statistics import median

    from shardproof.elastic.errors import InvalidInput
    from shardproof.elastic.simulate import load_trace

    if (step_times is None) == (not interval):
        raise InvalidInput("give either --trace or at least one --interval")
    if step_times is None:
        return list(interval or [])
    trace = load_trace(step_times)
    draws = [[trace.draw(w, 0.0).seconds for _ in range(100)] for w in range(trace.workers)]
    return [median(row) for row in draws]


@app.command
def plan(
    *,
    interval: Annotated[list[float] | None, Parameter(negative=())] = None,
    trace: Path | None = None,
    objective: Literal["wait-rate", "min-gap"] = "wait-rate",
    lookahead: int = 15,
    staleness: int | None = None,
    seconds: float | None = None,
    difference: int | None = None,
    barrier_cost: float = 0.0,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Choose the next barrier: how many iterations each worker does before it.

    Parameters
    ----------
    interval
        Predicted seconds of one iteration; once for each worker.
    trace
        Instead: recorded iterations (CSV, JSON lines, or a run directory); their medians are used.
    objective
        wait-rate (waiting and barrier cost per unit time) or min-gap (as published).
    lookahead
        R, iterations predicted for each worker.
    staleness
        Most iterations of any worker.
    seconds
        Longest superstep.
    difference
        Largest difference between two workers' iterations.
    barrier_cost
        Seconds that a barrier takes.
    as_json
        Print JSON.
    """
    from shardproof.elastic.planner import Caps, arrivals_from_intervals, make_objective
    from shardproof.elastic.planner import plan as choose

    intervals = _intervals(trace, interval)
    rows = arrivals_from_intervals([0.0] * len(intervals), intervals, lookahead)
    goal = make_objective(objective, barrier_cost=barrier_cost)
    best = choose(rows, objective=goal, caps=Caps(staleness, seconds, difference))
    share = best.waiting / (len(intervals) * best.barrier)
    if as_json:
        _print(
            json.dumps(
                {
                    "counts": best.counts,
                    "ends": best.ends,
                    "barrier": best.barrier,
                    "gap": best.gap,
                    "waiting_share": share,
                    "cost": best.cost,
                }
            )
        )
        return
    for worker, (count, end) in enumerate(zip(best.counts, best.ends, strict=True)):
        _print(f"worker {worker}: {count} iterations, arrives at {end:.4g} s")
    _print(f"barrier at {best.barrier:.4g} s, gap {best.gap:.4g} s, {share:.2%} waiting")


@app.command
def simulate(
    *,
    policy: Annotated[list[PolicyName] | None, Parameter(negative=())] = None,
    workers: int = 8,
    steps: int = 15,
    seconds: float = 500.0,
    jitter: float = 0.1,
    fastest: float = 1.0,
    slowest: float = 1.5,
    tail: float = 0.0,
    slow_every: float = 0.0,
    fail_every: float = 0.0,
    repair: float = 30.0,
    barrier_cost: float = 0.05,
    trace: Path | None = None,
    seed: int = 0,
    what_if: Annotated[bool, Parameter(negative=())] = False,
    figure: Path | None = None,
    timeline: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Simulate policies on a synthetic cluster or a recorded trace.

    Parameters
    ----------
    policy
        Policy to simulate; may be repeated. Default: all.
    workers
        Number of workers (a trace brings its own).
    steps
        Cap on iterations between barriers (SSP: on the lead).
    seconds
        Simulated time.
    jitter
        Relative standard deviation of each iteration.
    fastest
        Least normal seconds of an iteration.
    slowest
        Greatest normal seconds of an iteration.
    tail
        Probability that an iteration stalls (heavy-tailed).
    slow_every
        Mean seconds between transient slow-downs of a worker; 0 for none.
    fail_every
        Mean seconds between failures of a worker; 0 for none. Worker 0 never fails.
    repair
        Mean seconds until a failed worker joins again.
    barrier_cost
        Seconds that a barrier takes.
    trace
        Recorded iterations (CSV, JSON lines, or a run directory) instead of a synthetic cluster.
    seed
        Seed of the cluster.
    what_if
        Also report the time lost to stragglers, by cause and by worker, for the first policy.
    figure
        Write a figure of the first policy's run.
    timeline
        Write the first policy's run as a trace for Perfetto.
    as_json
        Print JSON.
    """
    from shardproof.elastic.policies import make_policy
    from shardproof.elastic.simulate import Cluster, load_trace, random_faults
    from shardproof.elastic.simulate import simulate as run

    cluster = Cluster(workers, fastest, slowest, jitter, tail=tail, slow_every=slow_every)
    source: Callable[[], IterationTimes] = (
        (lambda: load_trace(trace)) if trace else (lambda: cluster.times(seed))
    )
    count = source().workers
    faults = (
        random_faults(count, seconds, between=fail_every, repair=repair, seed=seed)
        if fail_every
        else []
    )
    chosen = tuple(policy) if policy else _ALL
    results = [
        run(
            make_policy(name, steps),
            source(),
            seconds=seconds,
            barrier_cost=barrier_cost,
            faults=faults,
            record=index == 0 and bool(figure or timeline),
        )
        for index, name in enumerate(chosen)
    ]
    _write_views(results[0].events, timeline, figure)
    report: dict[str, Any] = {"results": [r.summary() for r in results]}
    analysis = None
    if what_if:
        from shardproof.elastic.simulate import what_if as analyse

        analysis = analyse(
            lambda: make_policy(chosen[0], steps),
            source,
            seconds=seconds,
            barrier_cost=barrier_cost,
        )
        report["what_if"] = {
            "policy": chosen[0],
            "by_cause": analysis.by_cause,
            "by_worker": analysis.by_worker,
            "waited_for_seconds": analysis.waited_for,
        }
    if as_json:
        _print(json.dumps(report))
    else:
        _show_results(report["results"])
        if analysis is not None:
            _show_what_if(chosen[0], analysis)


def _show_results(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("policy")
    for name in ("waiting", "barrier", "it/s", "staleness", "difference", "superstep s", "steps"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            str(row["policy"]),
            f"{row['idle_share']:.2%}",
            f"{row['barrier_share']:.2%}",
            f"{row['iterations_per_second']:.3f}",
            f"{row['staleness_mean']:.2f}",
            str(row["difference_max"]),
            f"{row['superstep_seconds']:.2f}",
            f"{row['superstep_steps']:.1f}",
        )
    Console().print(table)


def _show_what_if(policy: str, analysis: WhatIf) -> None:
    _print(f"time that {policy} would save without:")
    for cause, share in analysis.by_cause.items():
        _print(f"  {cause}: {share:.2%}")
    for worker, share in sorted(analysis.by_worker.items(), key=lambda item: -item[1])[:5]:
        waited = analysis.waited_for.get(worker, 0.0)
        _print(f"  slowness of worker {worker}: {share:.2%} (others waited {waited:.1f} s for it)")


def _write_views(events: list[Any], timeline: Path | None, figure: Path | None) -> None:
    if timeline is not None:
        from shardproof.elastic.timeline import write_timeline

        write_timeline(events, timeline)
    if figure is not None:
        from shardproof.elastic.figures import run_figure

        run_figure(events, figure)


@app.command
def train(
    script: Annotated[list[str], Parameter(allow_leading_hyphen=True)],
    /,
    *,
    processes: int = 1,
    server: str | None = None,
) -> int:
    """Run a training script that calls ``shardproof.elastic.train``, under torchrun.

    Parameters
    ----------
    script
        The script and its arguments; write ``--`` before arguments that begin with a hyphen.
    processes
        Processes to start on this host.
    server
        host:port of a running server: these processes join its run, and torchrun's numbering of
        them does not matter. Without it, the script's rank 0 starts a server.
    """
    import os
    import subprocess

    environment = dict(os.environ)
    environment.setdefault("OMP_NUM_THREADS", "1")
    if server is not None:
        environment["SHARDPROOF_SERVER"] = server
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={processes}",
        *script,
    ]
    return subprocess.run(command, env=environment, check=False).returncode


@app.command
def report(
    workdir: Path,
    /,
    *,
    live: Annotated[bool, Parameter(negative=())] = False,
    timeline: Path | None = None,
    figure: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Show what a run did, from its event logs.

    Parameters
    ----------
    workdir
        Directory of the run, or one event log.
    live
        Keep a table up to date until interrupted.
    timeline
        Write a trace that Perfetto (ui.perfetto.dev) opens.
    figure
        Write a figure of who computed and waited when (needs matplotlib).
    as_json
        Print JSON.
    """
    from rich.console import Console

    from shardproof.elastic.events import read_events
    from shardproof.elastic.monitor import follow, summary_table
    from shardproof.elastic.summary import summarise

    if live:
        follow(workdir, Console())
        return
    events = read_events(workdir)
    _write_views(events, timeline, figure)
    summary = summarise(events)
    if as_json:
        _print(json.dumps(summary.to_json()))
    else:
        Console().print(summary_table(summary))
