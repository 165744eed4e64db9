"""Check the corpus of reported bugs: right programs must refine, faulty ones be refuted.

    python benchmarks/bugs.py --json FILE [--only ID ...]

Per bug: kind, verdict of the right and of the faulty program, blamed and planted line, code of the
finding, whether a fix was found that verifies again, seconds. See docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]


def check_bug(name: str) -> dict[str, Any]:
    """Everything about one bug."""
    from benchmarks.cases import check_twin

    from shardproof.examples.bugs import all_bugs

    warnings.simplefilter("ignore")
    bug = all_bugs()[name]
    case = bug.case()
    start = time.perf_counter()
    verdict = case.spec().named(name).check()
    twins = [check_twin(fault, make, fixes=True) for fault, make in case.twins.items()]
    return {
        "id": name,
        "kind": bug.kind,
        "title": bug.title,
        "correct_verdict": verdict.status,
        "certificate": verdict.certificate,
        "correct_findings": [f"{f.code} {f.message}" for f in verdict.findings],
        "faulty": [
            {
                "fault": t["name"],
                "faulty_verdict": t["verdict"],
                "blamed": t["blamed"],
                "planted": t["planted"],
                "carries": t["carries"],
                "blame_right": t["right"],
                "code": t["code"],
                "findings": t["findings"],
                "fix": t["fix"],
                "fix_found": t["fix_verified"],
            }
            for t in twins
        ],
        "seconds": time.perf_counter() - start,
    }


def row(r: dict[str, Any]) -> str:
    """One line a bug, and one a fault."""
    head = f"{r['id']:8}{r['kind']:8}{r['correct_verdict']:10}"
    lines = [f"{head}{r['seconds']:6.1f} s  {r['title']}"]
    for f in r["faulty"]:
        flags = ("blame right" if f["blame_right"] else f"blamed {f['blamed'] or '-'}",
                 "fix" if f["fix_found"] else "no fix")  # fmt: skip
        lines.append(f"    {f['fault']:20}{f['faulty_verdict']:10}{f['code']:7}{', '.join(flags)}")
    return "\n".join(lines)


def summary(records: list[dict[str, Any]]) -> dict[str, int]:
    """Counts over all bugs; controls have no faults. A bug counts where all its faults do."""
    bugs = [r for r in records if r["faulty"]]
    return {
        "bugs": len(bugs),
        "controls": len(records) - len(bugs),
        "right programs that refine": sum(r["correct_verdict"] == "refines" for r in records),
        "refuted": sum(all(f["faulty_verdict"] == "refuted" for f in r["faulty"]) for r in bugs),
        "wrongly refining": sum(
            any(f["faulty_verdict"] == "refines" for f in r["faulty"]) for r in bugs
        ),
        "blame right": sum(all(f["blame_right"] for f in r["faulty"]) for r in bugs),
        "one finding": sum(all(f["findings"] == 1 for f in r["faulty"]) for r in bugs),
        "fix found": sum(all(f["fix_found"] for f in r["faulty"]) for r in bugs),
    }


def main(argv: list[str] | None = None) -> int:
    """Check the corpus; the exit code is 1 where a verdict is not the expected one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where the figures are written")
    parser.add_argument("--only", nargs="*", help="ids; all by default")
    parser.add_argument("--jobs", type=int, default=2, help="processes, 2 by default")
    given = parser.parse_args(argv)
    from shardproof.examples.bugs import all_bugs

    names = [n for n in all_bugs() if not given.only or n in given.only]
    start = time.perf_counter()
    records = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for record in pool.map(check_bug, names):
            records.append(record)
            print(row(record), flush=True)
    counts = summary(records)
    wall = time.perf_counter() - start
    print("\n" + ", ".join(f"{n} {what}" for what, n in counts.items()) + f"; {wall:.0f} s in all")
    if given.json:
        from shardproof.report.files import write_whole

        result = {
            "schema": "shardproof-bugs/1", "bugs": records, "summary": counts, "seconds": wall,
        }  # fmt: skip
        write_whole(given.json, json.dumps(result, indent=1).encode() + b"\n")
    good = counts["right programs that refine"] == len(records)
    return 0 if good and counts["refuted"] == counts["bugs"] else 1


if __name__ == "__main__":
    sys.exit(main())
