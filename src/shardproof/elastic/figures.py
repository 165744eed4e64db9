"""Figures of simulations and runs by matplotlib (optional; imported when a figure is drawn)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardproof.elastic.errors import ElasticError
from shardproof.elastic.events import Event
from shardproof.elastic.summary import summarise

_PANELS = (
    ("idle_share", "share of worker time waiting"),
    ("iterations_per_second", "iterations per second"),
    ("staleness_mean", "mean staleness (iterations per peer)"),
    ("superstep_seconds", "superstep length (s)"),
)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise ElasticError("figures need matplotlib; install it or leave out --figures") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot

    return matplotlib.pyplot


def policy_panels(
    rows: Sequence[Mapping[str, Any]], path: Path, *, x: str = "workers", title: str = ""
) -> None:
    """Four panels (waiting, throughput, staleness, length), one line a policy, over ``x``.

    rows: summaries as of ``Result.summary`` with the key ``x``; equal policies and x are averaged.
    """
    plt = _pyplot()
    figure, axes = plt.subplots(2, 2, figsize=(10, 7), constrained_layout=True)
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    for axis, (key, label) in zip(axes.flat, _PANELS, strict=True):
        for policy in policies:
            mine = [row for row in rows if row["policy"] == policy]
            points = sorted({row[x] for row in mine})
            values = [_mean([row[key] for row in mine if row[x] == p]) for p in points]
            axis.plot(points, values, marker="o", markersize=3, label=policy)
        axis.set_xlabel(x)
        axis.set_ylabel(label)
        if x == "workers":
            axis.set_xscale("log", base=2)
        if key == "iterations_per_second":
            axis.set_yscale("log")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize="small")
    if title:
        figure.suptitle(title)
    figure.savefig(path)
    plt.close(figure)


def accuracy_curves(
    curves: Mapping[str, Sequence[Sequence[tuple[float, int, float]]]], path: Path, title: str = ""
) -> None:
    """Accuracy over time and over iterations; one colour a policy, one line a seed.

    curves: policy -> per seed the history of ``TrainResult`` (seconds, iterations, accuracy).
    """
    plt = _pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(13, 5), constrained_layout=True, sharey=True)
    for number, (policy, seeds) in enumerate(curves.items()):
        for index, whole in enumerate(seeds):
            history = [point for point in whole if point[0] > 0 and point[1] > 0]
            for axis, column in zip(axes, (0, 1), strict=True):
                axis.plot(
                    [point[column] for point in history],
                    [point[2] for point in history],
                    color=f"C{number % 10}",
                    alpha=0.8,
                    linewidth=1,
                    linestyle="-" if number < 10 else "--",
                    label=None if index else policy,
                )
    for axis, label in zip(axes, ("seconds", "iterations of all workers"), strict=True):
        axis.set_xlabel(label)
        axis.set_xscale("log")  # the slowest variant would squeeze all others together
    axes[0].set_ylabel("test accuracy")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize="small")
    if title:
        figure.suptitle(title)
    figure.savefig(path)
    plt.close(figure)


def run_figure(events: Sequence[Event], path: Path) -> None:
    """A run: who computed and waited when, and the shares of each worker's time."""
    plt = _pyplot()
    summary = summarise(events)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), constrained_layout=True, width_ratios=[3, 1])
    colours = {"iteration": "C0", "wait": "C1", "hold": "C1", "barrier": "C2", "checkpoint": "C3"}
    for kind, colour in colours.items():
        for worker in summary.workers:
            spans = [
                (e.start - summary.first, e.seconds)
                for e in events
                if e.kind == kind and e.worker == worker
            ]
            axes[0].broken_barh(spans, (worker - 0.4, 0.8), facecolors=colour)
    axes[0].set_xlabel("seconds")
    axes[0].set_ylabel("worker")
    left = [0.0] * len(summary.workers)
    workers = sorted(summary.workers.values(), key=lambda w: w.worker)
    for name, colour in (("computing", "C0"), ("waiting", "C1"), ("barrier", "C2")):
        shares = [getattr(w, name) / w.total if w.total else 0.0 for w in workers]
        axes[1].barh([w.worker for w in workers], shares, left=left, color=colour, label=name)
        left = [a + b for a, b in zip(left, shares, strict=True)]
    axes[1].set_xlabel("share of time")
    axes[1].legend(fontsize="small")
    figure.savefig(path)
    plt.close(figure)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
