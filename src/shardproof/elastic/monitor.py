"""Live terminal table of a run, from its event logs; reads only, so it can be started any time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.events import read_events
from shardproof.elastic.summary import Summary, summarise


def summary_table(summary: Summary, now: float | None = None) -> Table:
    """Table of a summary; ``now`` (seconds, the log's clock) adds the time to the next barrier."""
    title = f"{summary.iterations} iterations, {summary.waiting_share:.1%} waiting"
    if now is not None and summary.next_barrier is not None:
        title += f", next barrier in {max(summary.next_barrier - now, 0.0):.2f} s"
    table = Table(title=title)
    for name in ("worker", "state", "superstep"):
        table.add_column(name)
    for name in ("iterations", "since barrier", "computing s", "waiting s", "waiting"):
        table.add_column(name, justify="right")
    for worker in sorted(summary.workers.values(), key=lambda w: w.worker):
        table.add_row(
            str(worker.worker),
            worker.state,
            str(worker.superstep),
            str(worker.iterations),
            str(worker.steps),
            f"{worker.computing:.2f}",
            f"{worker.waiting:.2f}",
            f"{worker.waiting_share:.1%}",
        )
    return table


def follow(
    workdir: Path, console: Console, *, every: float = 0.5, until: Callable[[], bool] | None = None
) -> None:
    """Redraw the table every ``every`` seconds until ``until`` says so or the user interrupts."""
    with Live(Table(title="waiting for events"), console=console, auto_refresh=False) as live:
        try:
            while True:
                live.update(_current(workdir), refresh=True)
                if until is not None and until():
                    return
                time.sleep(every)
        except KeyboardInterrupt:
            return


def _current(workdir: Path) -> Table:
    try:
        return summary_table(summarise(read_events(workdir)), time.time())
    except InvalidInput as error:
        return Table(title=str(error))
