"""Figures of the ElasticBSP part: ``python benchmarks/elastic.py --json FILE``.

(a) planner: agreement with brute force, and time beside the published one;
(b) simulation: waiting, throughput and staleness of every policy over workers and jitter;
(c) training on scikit-learn's digits with real processes, with BSP controls.

``--only planner|simulation|training`` runs one part; ``--quick`` shrinks all of them for a smoke
test. Everything is measured in this run; nothing is read back from earlier ones.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shardproof.elastic.errors import InfeasiblePlan
from shardproof.elastic.planner import (
    Caps,
    MinGap,
    Plan,
    WaitRate,
    arrivals_from_intervals,
    full_grid_scan,
    grid_scan,
    plan,
    zipline,
    zipline_opt,
    zipline_opt_bs,
    zipline_published,
)
from shardproof.elastic.planner.exhaustive import exhaustive
from shardproof.elastic.policies import POLICIES, make_policy
from shardproof.elastic.simulate import Cluster, simulate

# Microseconds, mean of 10, for (n, R): arXiv 2001.01347, Table II (C++, another machine).
PUBLISHED = {
    "zipline": {(10, 15): 149, (10, 150): 1320, (100, 15): 6370, (100, 150): 49900,
                (1000, 15): 253e3, (1000, 150): 2.38e6},
    "full-grid-scan": {(10, 15): 1540, (10, 150): 46700, (100, 15): 81300, (100, 150): 2.15e6,
                       (1000, 15): 4.04e6, (1000, 150): 2.07e8},
    "grid-scan": {(10, 15): 168, (10, 150): 5500, (100, 15): 1110, (100, 150): 43800,
                  (1000, 15): 7450, (1000, 150): 257e3},
}  # fmt: skip
SYNCHRONISING = (
    "bsp", "local-sgd", "time-budget", "dylu", "elastic-min-gap", "elastic-published",
)  # fmt: skip


def say(text: str) -> None:
    """Progress goes to standard error."""
    sys.stderr.write(text + "\n")


# -- (a) planner ---------------------------------------------------------------------------------


def random_case(rng: random.Random) -> list[list[float]]:
    """2 to 4 workers, up to 6 arrivals each; half of them periodic, a third on whole numbers."""
    width, whole = rng.randint(1, 6), rng.random() < 1 / 3
    rows = []
    for _ in range(rng.randint(2, 4)):
        steps = [rng.randint(1, 5) if whole else rng.uniform(0.5, 2.0) for _ in range(width)]
        if rng.random() < 0.5:
            steps = steps[:1] * width
        clock, row = (0.0 if whole else rng.random()), []
        for step in steps:
            clock += step
            row.append(clock)
        rows.append(row)
    return rows


def agreement(cases: int) -> dict[str, Any]:
    """How often each planner reaches the brute-force optimum, without and with caps."""
    planners: dict[str, Callable[[Any], Plan]] = {
        "plan": plan, "zipline": zipline, "zipline_published": zipline_published,
        "zipline_opt": zipline_opt, "zipline_opt_bs": zipline_opt_bs,
        "grid_scan": grid_scan, "full_grid_scan": full_grid_scan,
    }  # fmt: skip
    equal = dict.fromkeys(planners, 0)
    equal_capped = infeasible = 0
    for seed in range(cases):
        rng = random.Random(seed)
        rows = random_case(rng)
        best = exhaustive(rows).cost
        for name, planner in planners.items():
            equal[name] += abs(planner(rows).cost - best) < 1e-12
        caps = Caps(
            rng.choice([None, 1, 2, 4]), rng.choice([None, 3.0, 8.0]), rng.choice([None, 0, 1, 3])
        )
        objective = rng.choice([MinGap(), WaitRate(0.0), WaitRate(0.5)])
        outcomes = [_cost_or_none(f, rows, objective, caps) for f in (plan, exhaustive)]
        infeasible += outcomes[1] is None
        if None in outcomes:
            equal_capped += outcomes[0] is outcomes[1]
        else:
            equal_capped += abs(outcomes[0] - outcomes[1]) < 1e-12
    return {"cases": cases, "equal": equal, "plan_under_caps_and_objectives_equal": equal_capped,
            "of_which_infeasible": infeasible}  # fmt: skip


def _cost_or_none(planner: Any, rows: Any, objective: Any, caps: Caps) -> Any:
    try:
        return planner(rows, objective=objective, caps=caps).cost
    except InfeasiblePlan:
        return None


def planner_times(quick: bool) -> list[dict[str, Any]]:
    """Microseconds a plan on the published kind of input: intervals 1.0 to 1.5 s, n ms offsets."""
    planners: dict[str, Callable[[Any], Plan]] = {
        "plan (arrays)": plan, "plan wait-rate": partial(plan, objective=WaitRate(0.05)),
        "zipline (linked list)": zipline, "zipline (published)": zipline_published,
        "zipline_opt": zipline_opt, "zipline_opt_bs": zipline_opt_bs,
        "grid-scan": grid_scan, "full-grid-scan": full_grid_scan,
    }  # fmt: skip
    rows = []
    for n in (10, 100) if quick else (10, 100, 1000):
        for lookahead in (15, 150):
            rng = random.Random(n * lookahead)
            offsets = [rng.uniform(0, n / 1000) for _ in range(n)]
            intervals = [rng.uniform(1.0, 1.5) for _ in range(n)]
            arrivals = arrivals_from_intervals(offsets, intervals, lookahead)
            for name, planner in planners.items():
                if name == "full-grid-scan" and n * lookahead > 15000:
                    micros = None  # minutes; the published 207 s say enough
                else:
                    micros = _median_micros(lambda f=planner, a=arrivals: f(a))
                published = PUBLISHED.get(name.split(" ")[0], {}).get((n, lookahead))
                rows.append({"n": n, "R": lookahead, "planner": name, "microseconds": micros,
                             "published_microseconds": published})  # fmt: skip
    return rows


def _median_micros(call: Callable[[], object]) -> float:
    times: list[float] = []
    spent = 0.0
    while len(times) < 10 and (spent < 3.0 or not times):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
        spent += times[-1]
    return statistics.median(times) * 1e6


# -- (b) simulation ------------------------------------------------------------------------------


def one_cell(cell: tuple[str, int, float, int, int, float]) -> dict[str, Any]:
    """One simulation: policy, workers, jitter, steps cap, seed, seconds."""
    policy, workers, jitter, steps, seed, seconds = cell
    result = simulate(
        make_policy(policy, steps), Cluster(workers, jitter=jitter).times(seed),
        seconds=seconds, barrier_cost=0.05,
    )  # fmt: skip
    return {**result.summary(), "jitter": jitter, "steps": steps, "seed": seed}


def simulation(quick: bool) -> dict[str, Any]:
    """The grid, and the comparison of wait-rate with every synchronising baseline."""
    sizes = (4, 16) if quick else (4, 16, 64, 256)
    # Not the seeds 0 to 2 on which the policy's constants were chosen.
    seeds = range(100, 102) if quick else range(100, 105)
    length = {4: 300.0, 16: 300.0, 64: 300.0, 256: 120.0}
    cells = [
        (policy, n, jitter, steps, seed, 60.0 if quick else length[n])
        for n in sizes
        for policy in POLICIES
        for jitter in (0.0, 0.02, 0.1, 0.3)
        for steps in ((15,) if quick else (5, 15))
        for seed in seeds
    ]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        rows = pool.map(one_cell, cells, chunksize=4)
    means = _average(rows)
    return {"rows": means, "comparison": compare(means), "seeds": list(seeds),
            "simulated_seconds": length}  # fmt: skip


_MEASURES = (
    "idle_share", "barrier_share", "iterations_per_second", "staleness_mean", "superstep_seconds",
    "superstep_steps",
)  # fmt: skip


def _average(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = (row["policy"], row["workers"], row["jitter"], row["steps"])
        groups.setdefault(key, []).append(row)
    averaged = []
    for key, members in groups.items():
        found = dict(zip(("policy", "workers", "jitter", "steps"), key, strict=True))
        for measure in _MEASURES:
            found[measure] = statistics.fmean(row[measure] for row in members)
        idle = [row["idle_share"] for row in members]
        found["idle_min"], found["idle_max"] = min(idle), max(idle)
        found["difference_max"] = max(row["difference_max"] for row in members)
        averaged.append(found)
    return averaged


def compare(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Is wait-rate's mean idle share at most each baseline's at the same cap? Misses are listed."""
    index = {(r["policy"], r["workers"], r["jitter"], r["steps"]): r for r in rows}
    total = no_worse = cells = clean = 0
    misses, worse_than_bsp, longer = [], [], []
    for (policy, n, jitter, steps), row in index.items():
        if policy == "elastic-published":
            bsp = index["bsp", n, jitter, steps]["idle_share"]
            if row["idle_share"] > bsp:
                worse_than_bsp.append({"workers": n, "jitter": jitter, "steps": steps,
                                       "published": row["idle_share"], "bsp": bsp})  # fmt: skip
        if policy != "elastic":
            continue
        cells += 1
        before = len(misses)
        # An equal cap leaves the lengths free, and a longer superstep dilutes the same wait.
        deadline = index["time-budget", n, jitter, steps]
        waits = [r["idle_share"] * r["superstep_seconds"] for r in (row, deadline)]
        if waits[0] > waits[1]:
            longer.append({"workers": n, "jitter": jitter, "steps": steps, "elastic": waits[0],
                           "time_budget": waits[1]})  # fmt: skip
        for name in SYNCHRONISING:
            other = index[name, n, jitter, steps]
            total += 1
            if row["idle_share"] <= other["idle_share"]:
                no_worse += 1
            else:
                misses.append({"workers": n, "jitter": jitter, "steps": steps, "baseline": name,
                               "elastic": row["idle_share"],
                               "baseline_idle": other["idle_share"]})  # fmt: skip
        clean += len(misses) == before
    return {"comparisons": total, "no_worse": no_worse, "share": no_worse / total,
            "cells": cells, "cells_no_worse_than_all": clean, "misses": misses,
            "published_worse_than_bsp": worse_than_bsp,
            "idle_seconds_a_barrier_worse_than_time_budget": longer}  # fmt: skip


# -- (c) training --------------------------------------------------------------------------------

TARGET = 0.9
BATCH, LR, WORKERS, STEPS = 32, 0.1, 4, 8
# name -> policy, mode, learning rate factor, batch divisor (iterations are multiplied by it)
VARIANTS: dict[str, tuple[str, str, float, int]] = {
    "bsp": ("bsp", "local", 1, 1),
    "bsp, lr x 4": ("bsp", "local", WORKERS, 1),
    "bsp, update-matched": ("bsp", "local", 1, WORKERS),
    "local-sgd": ("local-sgd", "local", 1, 1),
    "local-sgd, lr x 4": ("local-sgd", "local", WORKERS, 1),
    "time-budget": ("time-budget", "local", 1, 1),
    "dylu": ("dylu", "local", 1, 1),
    "elastic": ("elastic", "local", 1, 1),
    "elastic, lr x 4": ("elastic", "local", WORKERS, 1),
    "elastic, immediate": ("elastic", "immediate", 1, 1),
    "elastic-published, immediate": ("elastic-published", "immediate", 1, 1),
    "ssp": ("ssp", "immediate", 1, 1),
    "dssp": ("dssp", "immediate", 1, 1),
    "asp": ("asp", "immediate", 1, 1),
}


def digits_job(config: Any, batch: int, lr: float, pace: Any) -> Any:
    """The job of one worker: a 64-64-10 network on the digits."""
    import torch
    from torch import nn

    from shardproof.elastic.train.api import Data, make_job
    from shardproof.elastic.train.optim import Average, Sgd

    (inputs, targets), _ = digits()
    torch.manual_seed(config.seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    source = Data((inputs, targets), batch, config.seed)
    loss = nn.functional.cross_entropy
    return make_job(model, source, loss, config, Sgd(lr), Average(), pace)


def digits() -> Any:
    """1400 training and 397 test images with labels."""
    import torch
    from sklearn.datasets import load_digits

    data = load_digits()
    images = torch.tensor(data.data, dtype=torch.float32) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return [(images[part], labels[part]) for part in (order[:1400], order[1400:])]


def train_once(variant: str, setting: str, seed: int, iterations: int) -> dict[str, Any]:
    """One training run with real processes; every iteration is padded to a set duration."""
    import torch
    from torch import nn

    from shardproof.elastic.events import read_events
    from shardproof.elastic.summary import summarise
    from shardproof.elastic.train.api import evaluate_snapshots
    from shardproof.elastic.train.config import Pace, TrainConfig
    from shardproof.elastic.train.local_cluster import run_on_this_machine
    from shardproof.elastic.train.optim import Sgd

    policy, mode, factor, divisor = VARIANTS[variant]
    factors = (1.0,) * WORKERS if setting == "homogeneous" else (1.0, 1.1, 1.4, 2.0)
    pace = Pace(seconds=0.02, factors=factors, jitter=0.1, seed=seed)
    lr = LR * factor
    with tempfile.TemporaryDirectory() as workdir:
        config = TrainConfig(
            workdir, mode=mode, policy=policy, steps=STEPS, workers=WORKERS,
            iterations=iterations * divisor, snapshot_every=24 * divisor, seed=seed,
            optimizer=Sgd(lr).to_json(),
        )  # fmt: skip
        make = partial(digits_job, batch=BATCH // divisor, lr=lr, pace=pace)
        config = run_on_this_machine(config, make, preload=["sklearn.datasets"])
        _, (images, labels) = digits()
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

        def accuracy(model: nn.Module) -> float:
            with torch.no_grad():
                return float((model(images).argmax(1) == labels).float().mean())

        history = evaluate_snapshots(model, config, accuracy)
        summary = summarise(read_events(Path(workdir)))
    reached = next((seconds for seconds, _, value in history if value >= TARGET), None)
    return {"variant": variant, "setting": setting, "seed": seed, "lr": lr, "history": history,
            "seconds_to_target": reached, "final": history[-1][2], "seconds": history[-1][0],
            "iterations": history[-1][1], "waiting_share": summary.waiting_share}  # fmt: skip


def training(quick: bool) -> dict[str, Any]:
    """All variants, settings and seeds, one run at a time."""
    seeds, iterations = (range(1), 120) if quick else (range(3), 1200)
    runs = []
    # Seeds in the outer loop: a busy spell of the machine then hits one seed of many variants
    # instead of all seeds of one.
    for seed in seeds:
        for setting in ("homogeneous", "stragglers"):
            for variant in VARIANTS:
                last = train_once(variant, setting, seed, iterations)
                runs.append({**last, "load": os.getloadavg()[0]})
                say(f"{seed} {setting} {variant}: {last['final']:.3f}, {last['seconds']:.1f} s")
    return {"target": TARGET, "batch": BATCH, "lr": LR, "workers": WORKERS, "steps": STEPS,
            "runs": runs, "table": training_table(runs)}  # fmt: skip


def training_table(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Median and range over the seeds. A run that never reaches the target counts as infinite."""
    table = []
    for setting in dict.fromkeys(run["setting"] for run in runs):
        for variant in dict.fromkeys(run["variant"] for run in runs):
            mine = [r for r in runs if (r["setting"], r["variant"]) == (setting, variant)]
            times = [r["seconds_to_target"] for r in mine]
            known = sorted(float("inf") if t is None else t for t in times)
            row: dict[str, Any] = {"setting": setting, "variant": variant,
                                   "reached": sum(t is not None for t in times)}  # fmt: skip
            middle = statistics.median(known)
            row["seconds_to_target"] = None if middle == float("inf") else middle
            row["seconds_to_target_range"] = [None if k == float("inf") else k
                                              for k in (known[0], known[-1])]  # fmt: skip
            for key in ("final", "seconds", "waiting_share"):
                values = [r[key] for r in mine]
                row[key] = statistics.median(values)
                row[f"{key}_range"] = [min(values), max(values)]
            table.append(row)
    return table


# -- all -----------------------------------------------------------------------------------------


def draw(report: dict[str, Any], folder: Path) -> None:
    """Figures of the report, as elastic_*.png."""
    from shardproof.elastic.figures import accuracy_curves, policy_panels

    if "simulation" in report:
        rows = report["simulation"]["rows"]
        for jitter in (0.0, 0.1, 0.3):
            chosen = [r for r in rows if r["jitter"] == jitter and r["steps"] == 15]
            path = folder / f"elastic_simulation_jitter{round(jitter * 100):02d}.png"
            policy_panels(chosen, path, title=f"jitter {jitter:.0%}, at most 15 steps")
    if "training" in report:
        for setting in ("homogeneous", "stragglers"):
            runs = [r for r in report["training"]["runs"] if r["setting"] == setting]
            curves: dict[str, list[Any]] = {}
            for run in runs:
                curves.setdefault(run["variant"], []).append(run["history"])
            accuracy_curves(curves, folder / f"elastic_training_{setting}.png", setting)


def main() -> None:
    """Measure, write the JSON, draw the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path, required=True, help="file to write; parts are merged")
    parser.add_argument("--only", choices=["planner", "simulation", "training"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figures", type=Path, help="folder for elastic_*.png")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    if options.only and options.json.exists():
        report = json.loads(options.json.read_text())
    report["machine"] = {"python": platform.python_version(), "cpus": os.cpu_count(),
                         "load_before": os.getloadavg()[0], "quick": options.quick}  # fmt: skip
    parts: dict[str, Callable[[], Any]] = {
        "planner": lambda: {"agreement": agreement(500 if options.quick else 10_000),
                            "times": planner_times(options.quick)},
        "simulation": lambda: simulation(options.quick),
        "training": lambda: training(options.quick),
    }  # fmt: skip
    for name, measure in parts.items():
        if options.only in (None, name):
            begin = time.perf_counter()
            report[name] = measure()
            report[name]["seconds_spent"] = time.perf_counter() - begin
            say(f"{name}: {report[name]['seconds_spent']:.0f} s")
    options.json.write_text(json.dumps(report, indent=1))
    if options.figures:
        options.figures.mkdir(parents=True, exist_ok=True)
        draw(report, options.figures)


if __name__ == "__main__":
    main()
