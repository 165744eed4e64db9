"""Waiting of the policies at an equal length of the superstep.

``benchmarks/elastic.py`` gives all policies one cap on staleness, which leaves their supersteps of
different length, and a longer superstep dilutes the same wait. Here each policy is simulated under
many caps, and its idle share is read, by linear interpolation, at the superstep length that
``elastic`` has. A policy that cannot make supersteps that long (or that short) has no entry.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from elastic import one_cell

POLICIES = ("local-sgd", "time-budget", "dylu", "elastic-published", "elastic-min-gap")
JITTERS = (0.0, 0.02, 0.1, 0.3)
CAPS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)
SECONDS = {4: 150.0, 16: 150.0, 64: 100.0, 256: 50.0}

Point = tuple[float, float]  # superstep length in seconds, idle share


def measured(policy: str, n: int, jitter: float, cap: int, seeds: Sequence[int]) -> Point:
    """Means over the seeds."""
    rows = [one_cell((policy, n, jitter, cap, seed, SECONDS[n])) for seed in seeds]
    return (
        statistics.fmean(r["superstep_seconds"] for r in rows),
        statistics.fmean(r["idle_share"] for r in rows),
    )


def at_length(points: Sequence[Point], length: float) -> float | None:
    """The idle share at a superstep length, between the two measured ones around it."""
    ordered = sorted(points)
    for (a, x), (b, y) in itertools.pairwise(ordered):
        if a <= length <= b:
            return x if a == b else x + (y - x) * (length - a) / (b - a)
    return None


def row(n: int, jitter: float, cap: int, seeds: Sequence[int]) -> dict[str, Any]:
    """One line of the table."""
    length, idle = measured("elastic", n, jitter, cap, seeds)
    found: dict[str, Any] = {"workers": n, "jitter": jitter, "superstep_seconds": length}
    found["elastic"] = idle
    for policy in POLICIES:
        points = [measured(policy, n, jitter, c, seeds) for c in CAPS]
        found[policy] = at_length(points, length)
    return found


def main() -> None:
    """Measure and write the JSON after every line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 16, 64, 256])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cap", type=int, default=6, help="most iterations of `elastic`")
    options = parser.parse_args()
    seeds = range(100, 100 + options.seeds)
    rows = []
    for n in options.workers:
        for jitter in JITTERS:
            rows.append(row(n, jitter, options.cap, seeds))
            options.json.write_text(json.dumps({"cap": options.cap, "rows": rows}, indent=1))
            shown = {k: v if v is None else round(v, 4) for k, v in rows[-1].items()}
            sys.stderr.write(f"{shown}\n")


if __name__ == "__main__":
    main()
