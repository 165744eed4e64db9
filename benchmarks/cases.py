"""Check live PyTorch programs and their faulty twins.

    python benchmarks/cases.py --json FILE [--only NAME ...] [--jobs N]

Every case is checked in a process of its own, so that its peak of memory is its own. For the
correct program: verdict, replay error, nodes, CPU seconds of capture and inference, peak MiB. For
each twin: verdict, the blamed line and the planted one. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

TOLERANCE = 1e-9


def check_one(module: str, name: str) -> dict[str, Any]:
    """Everything about one case and its twins."""
    from benchmarks.graphs import peak_mib
    from benchmarks.live import cases_of

    from shardproof.readings import Readings

    case = cases_of(module)[name]
    start = time.process_time()
    spec = case.spec().named(name)
    problem = spec.resolve()
    captured = time.process_time()
    readings = Readings(
        problem, spec.fixed_values, False, lambda text: None, lambda: None, lambda name: None
    )
    holds = readings.best().holds
    inferred = time.process_time()
    peak = peak_mib()
    verdict = spec.check()
    return {
        "name": name,
        "verdict": verdict.status,
        "expected": case.expected,
        "inference_holds": holds,
        "findings": [f"{f.code} {f.message}" for f in verdict.findings],
        "certificate": verdict.certificate,
        "unequal_counts": verdict.uneven.status if verdict.uneven is not None else "",
        "ranks": problem.distributed.mesh.size,
        "nodes": verdict.nodes,
        "replay_error": replay_error(spec),
        "seconds": {"capture": captured - start, "inference": inferred - captured},
        "check_seconds": time.process_time() - inferred,
        "peak_mib": peak,
        "twins": [check_twin(twin, make) for twin, make in case.twins.items()],
    }


def replay_error(spec: Any) -> float | None:
    """Largest relative difference of the ranks and the sequential program, in float64."""
    from shardproof.replay.compare import replay_problem

    result = replay_problem(spec.resolve(), 1, spec.fixed_values)
    return result.worst.error if result.worst is not None else None


def check_twin(name: str, make: Any, *, fixes: bool = False) -> dict[str, Any]:
    """Verdict of a faulty program and what is blamed for it."""
    from shardproof.errors import InputError
    from shardproof.testing.cases import blame, file_of, marks

    start = time.process_time()
    try:
        verdict = make().named(name).check(fixes=fixes)
    except InputError as e:  # a twin that does not run is no silent fault
        return {"name": name, "verdict": "error", "code": "", "message": str(e), "blamed": "",
                "planted": [], "right": False}  # fmt: skip
    fault = marks(file_of(make), name)
    first = verdict.findings[0] if verdict.findings else None
    span = first.primary if first is not None else None
    return {
        "name": name,
        "verdict": verdict.status,
        "code": first.code if first is not None else "",
        "message": first.message if first is not None else "",
        "blamed": f"{relative(span.file)}:{span.line}" if span is not None else "",
        "planted": [f"{relative(fault.file)}:{r.start}" for r in fault.planted],
        "carries": [f"{relative(fault.file)}:{r.start}" for r in fault.carries],
        "right": blame(verdict, fault),
        "findings": len(verdict.findings),
        "fix": first.fix if first is not None else "",
        "fix_verified": first.fix_verified if first is not None else False,
        "check_seconds": time.process_time() - start,
    }


def relative(file: str) -> str:
    """A path as seen from the root of the project, where it is inside."""
    path = Path(file).resolve()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else file


def check_all(names: list[tuple[str, str]], jobs: int = 1) -> Iterator[dict[str, Any]]:
    """One record a case (module and name), in their order; each in its own process."""
    with ThreadPoolExecutor(jobs) as pool:
        for record in pool.map(in_process, names):
            print(row(record), flush=True)
            yield record


def in_process(case: tuple[str, str]) -> dict[str, Any]:
    """The record of a case from a process of its own; one that dies is a record as well."""
    command = [sys.executable, __file__, "--one", *case]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        error = done.stderr.strip().splitlines()
        return {"name": case[1], "verdict": "error", "reason": error[-1] if error else ""}
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def row(r: dict[str, Any]) -> str:
    """One line of the table, and one for each twin that is not as it should be."""
    if "twins" not in r:
        return f"{r['name']:34}{r['verdict']:>10}  {r['reason']}"
    twins = r["twins"]
    refuted = sum(t["verdict"] == "refuted" for t in twins)
    right = sum(t["right"] for t in twins)
    error = f"{r['replay_error']:.1e}" if r["replay_error"] is not None else "-"
    s = r["seconds"]
    first = (
        f"{r['name']:34}{r['verdict']:>10}{r['ranks']:4}{r['nodes']['distributed']:7}{error:>9}"
        f"{s['capture']:8.1f}{s['inference']:8.2f}{r['peak_mib']:6.0f}"
        f"{len(twins):5}{refuted:5}{right:5}"
    )
    lines = [first]
    for t in twins:
        if t["verdict"] != "refuted" or not t["right"]:
            lines.append(
                f"    {t['name']}: {t['verdict']} {t['code']}, blamed {t['blamed'] or '-'}, "
                f"planted {', '.join(t['planted'])}"
            )
    return "\n".join(lines)


def summary(records: list[dict[str, Any]]) -> dict[str, int]:
    """Counts over all cases and twins."""
    twins = [t for r in records for t in r.get("twins", [])]
    return {
        "cases": len(records),
        "as expected": sum(r["verdict"] == r.get("expected") for r in records),
        "twins": len(twins),
        "refuted": sum(t["verdict"] == "refuted" for t in twins),
        "wrongly refining": sum(t["verdict"] == "refines" for t in twins),
        "blame right": sum(t["right"] for t in twins),
    }


def write(file: Path, records: list[dict[str, Any]], counts: dict[str, int]) -> None:
    """The figures so far, written after each case so that an end before the last loses none."""
    from shardproof.report.files import write_whole

    result = {"schema": "shardproof-cases/1", "cases": records, "summary": counts}
    write_whole(file, json.dumps(result, indent=1).encode() + b"\n")


def main(argv: list[str] | None = None) -> int:
    """Check the cases; the exit code is 1 if a correct one has another verdict than expected or a
    twin is not refuted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where the figures are written")
    parser.add_argument("--only", nargs="*", help="names of cases, or parts of them")
    parser.add_argument("--modules", nargs="*", help="modules of benchmarks/live; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time (1)")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    if given.one:
        print(json.dumps(check_one(*given.one)))
        return 0
    from benchmarks.live import MODULES, cases_of

    names = [
        (module, name)
        for module in given.modules or MODULES
        for name in cases_of(module)
        if not given.only or any(part in name for part in given.only)
    ]
    print(
        f"{'case':34}{'verdict':>10}{'rank':>4}{'nodes':>7}{'replay':>9}{'capt s':>8}{'infer s':>8}"
        f"{'MiB':>6}{'twin':>5}{'ref':>5}{'blam':>5}"
    )
    records: list[dict[str, Any]] = []
    counts = summary(records)
    for record in check_all(names, given.jobs):
        records.append(record)
        counts = summary(records)
        if given.json:
            write(given.json, records, counts)
    print("\n" + ", ".join(f"{value} {what}" for what, value in counts.items()))
    good = counts["as expected"] == counts["cases"] and counts["refuted"] == counts["twins"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
