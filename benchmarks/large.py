"""Llama 3 with 8 billion weights at its real sizes: one training step on eight ranks.

    python benchmarks/large.py --json FILE [--layers N] [--no-growth]

The program is `benchmarks/live/llama_8b.py`: tensor and sequence parallelism written by hand,
AdamW, no weights in memory. Every rank is captured; nothing is taken from one rank for another.
Each run has a process of its own, so that its peak of memory is its own. Reported are ranks
captured, classes of ranks that inference evaluated, nodes, CPU seconds by stage, wall seconds,
peak MiB and the verdict; then the growth over layers and over ranks; then a wrong twin.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

LAYERS, RANKS = 32, 8
GROWTH_LAYERS = (1, 2, 4, 8, 16)
GROWTH_RANKS = (2, 4)
RANK_LAYERS = 8
WALL, INFERENCE, MEMORY = 300.0, 20.0, 4096.0
STAGES = ("capture", "inference", "certificate", "replay")


def check(layers: int, ranks: int, forgotten: int | None) -> dict[str, Any]:
    """One run, in this process."""
    from benchmarks.graphs import peak_mib
    from benchmarks.live.llama_8b import BUG, Config, llama

    from shardproof.testing.cases import blame, file_of, marks
    from shardproof.verify import verify

    seen: list[Any] = []
    begin, start = time.perf_counter(), time.process_time()
    spec = llama(Config(layers=layers), ranks, forgotten)
    problem = spec.resolve()
    captured, wall = time.process_time(), time.perf_counter()
    verdict = verify(
        problem, fixed=spec.fixed_values, fixes=False, observe=lambda e: seen.append(e.inference)
    )
    evaluated = seen[0].problem.distributed
    out = {
        "layers": layers,
        "ranks": ranks,
        "captured": len(problem.distributed.graphs),
        "rank_classes": len(evaluated.graphs),
        "nodes": verdict.nodes,
        "collectives": sum("group" in n.attrs for n in problem.distributed.graphs[0].nodes),
        "verdict": verdict.status,
        "certificate": verdict.certificate,
        "replay": verdict.replay,
        "seconds": {"capture": captured - start, **verdict.seconds},
        "capture_wall_seconds": wall - begin,
        "wall_seconds": time.perf_counter() - begin,
        "peak_mib": peak_mib(),
    }
    if forgotten is not None:
        first = verdict.findings[0] if verdict.findings else None
        span = first.primary if first is not None else None
        out["twin"] = BUG
        out["finding"] = f"{first.code} {first.message}" if first is not None else ""
        out["blamed"] = f"{Path(span.file).name}:{span.line}" if span is not None else ""
        out["affected"] = first.affected if first is not None else []
        out["right"] = blame(verdict, marks(file_of(llama), BUG))
    return out


def run(layers: int, ranks: int, forgotten: int | None = None) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, "--one", str(layers), str(ranks)]
    command += [str(forgotten)] if forgotten is not None else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"layers={layers} ranks={ranks}: {done.stderr.strip()[-2000:]}")
    record: dict[str, Any] = json.loads(done.stdout)
    show(record)
    return record


def show(r: dict[str, Any]) -> None:
    seconds = "".join(f"{r['seconds'].get(s, 0.0):>9.1f}" for s in STAGES)
    print(
        f"{r['layers']:>6}{r['ranks']:>6}{r['captured']:>9}{r['rank_classes']:>8}"
        f"{r['nodes']['distributed']:>8}{seconds}{r['wall_seconds']:>8.0f}{r['peak_mib']:>7.0f}"
        f"  {r['verdict']}, {r['certificate']}",
        flush=True,
    )


def growth(records: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Ratios of the costs of each run to the run before, in the order of ``by``."""
    records = sorted(records, key=lambda r: r[by])
    return [
        {
            by: f"{a[by]} -> {b[by]}",
            **{s: b["seconds"][s] / a["seconds"][s] for s in STAGES},
            "peak": b["peak_mib"] / a["peak_mib"],
        }
        for a, b in itertools.pairwise(records)
    ]


def claims(largest: dict[str, Any], twin: dict[str, Any]) -> dict[str, bool]:
    """What the large run has to show."""
    return {
        "refines, every rank captured, certificate checked": largest["verdict"] == "refines"
        and largest["captured"] == RANKS
        and largest["certificate"] == "certificate checked",
        "under 5 minutes": largest["wall_seconds"] < WALL,
        "inference under 20 s": largest["seconds"]["inference"] < INFERENCE,
        "under 4 GiB": largest["peak_mib"] < MEMORY,
        "the twin is refuted, with the right line": twin["verdict"] == "refuted" and twin["right"],
    }


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--one", nargs="+", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        warnings.simplefilter("ignore")
        layers, ranks, *forgotten = given.one
        print(json.dumps(check(layers, ranks, forgotten[0] if forgotten else None)))
        return 0
    print(f"{'layers':>6}{'ranks':>6}{'captured':>9}{'classes':>8}{'nodes':>8}"
          + "".join(f"{s[:7] + ' s':>9}" for s in STAGES) + f"{'wall s':>8}{'MiB':>7}")  # fmt: skip
    largest = run(given.layers, RANKS)
    twin = run(given.layers, RANKS, given.layers // 2)
    result: dict[str, Any] = {"schema": "shardproof-large/1", "largest": largest, "twin": twin}
    if not given.no_growth:
        deep = [*(run(n, RANKS) for n in GROWTH_LAYERS if n < given.layers), largest]
        wide = [*(run(RANK_LAYERS, n) for n in GROWTH_RANKS),
                *(r for r in deep if r["layers"] == RANK_LAYERS)]  # fmt: skip
        result["layers"], result["ranks"] = deep, wide
        result["growth"] = {"layers": growth(deep, "layers"), "ranks": growth(wide, "ranks")}
    result["claims"] = claims(largest, twin)
    print("\n" + "\n".join(f"{what}: {'yes' if met else 'NO'}"
                           for what, met in result["claims"].items()))  # fmt: skip
    if given.json:
        from shardproof.report.files import write_whole

        write_whole(given.json, json.dumps(result, indent=1).encode() + b"\n")
    return 0 if all(result["claims"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
