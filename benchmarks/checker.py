"""Time of the independent checker against that of the inference whose proof it checks.

    python benchmarks/checker.py [--json FILE] [--only NAME ...]

CPU seconds, the best of several runs: inference; writing the certificate and its size; reading
and checking it. The last column is the ratio of checking to inference.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

RUNS = 5
T = TypeVar("T")


def best(run: Callable[[], T]) -> tuple[float, T]:
    """The least CPU seconds of several runs, and what the last one returned."""
    seconds, out = float("inf"), None
    for _ in range(RUNS):
        start = time.process_time()
        out = run()
        seconds = min(seconds, time.process_time() - start)
    assert out is not None
    return seconds, out


def check_one(name: str, spec: Any) -> dict[str, Any]:
    """The times of one program that refines."""
    import msgspec

    from shardproof.certificate.document import Proof
    from shardproof.certificate.reading import check_proof
    from shardproof.certificate.write import proof_of
    from shardproof.infer.run import infer
    from shardproof.uncollected import uncollected

    problem, fixed = spec.resolve(), spec.fixed_values
    deep = not infer(problem, fixed=fixed).holds
    inference, inf = best(lambda: infer(problem, fixed=fixed, deep=deep))
    listed = {*inf.evaluator.lookups.assumed, *inf.evaluator.products.assumed}
    writing, data = best(lambda: msgspec.json.encode(proof_of(inf)))

    def check() -> Any:
        with uncollected():  # as it is in a check
            return check_proof(
                problem, inf.problem, msgspec.json.decode(data, type=Proof), fixed or {}, listed
            )

    checking, outcome = best(check)
    return {
        "name": name,
        "holds": inf.holds,
        "problem": outcome.problem,
        "inference": inference,
        "writing": writing,
        "checking": checking,
        "ratio": checking / inference,
        "bytes": len(data),
        "steps": outcome.steps,
        "layers_copied": len(inf.copied),
    }


def row(r: dict[str, Any]) -> str:
    """One line of the table."""
    return (
        f"{r['name']:28}{r['inference']:10.3f}{r['writing']:9.3f}{r['checking']:9.3f}"
        f"{r['ratio']:7.2f}{r['bytes'] // 1024:6} {r['problem']}"
    )


def main(argv: list[str] | None = None) -> int:
    """Time the pairs; the exit code is 1 if a proof is not checked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where the figures are written")
    parser.add_argument("--only", nargs="*", help="names of pairs, or parts of them")
    given = parser.parse_args(argv)
    from benchmarks.graphs import BUGS, EXAMPLES, PAIRS

    print(f"{'pair':28}{'inference':>10}{'writing':>9}{'checking':>9}{'ratio':>7}{'KiB':>6}")
    records = []
    for name, module, function, arguments in PAIRS:
        if name in BUGS or (given.only and not any(part in name for part in given.only)):
            continue
        make = getattr(importlib.import_module(f"{EXAMPLES}.{module}"), function)
        records.append(check_one(name, make(*arguments)))
        print(row(records[-1]), flush=True)
    if given.json:
        result = {"schema": "shardproof-checker/1", "pairs": records}
        given.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if any(r["problem"] for r in records) else 0


if __name__ == "__main__":
    sys.exit(main())
