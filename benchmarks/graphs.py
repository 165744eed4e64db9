"""Check every captured pair: verdicts, times, memory, and the same verdict at small sizes.

    python benchmarks/graphs.py [DIR] --json FILE [--only NAME ...]

DIR is a folder of captured graphs laid out like the packaged ones (files may be uncompressed).
Every pair is checked in a process of its own, so that its peak of memory is its own. See
docs/benchmarks.md for what is measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

EXAMPLES = "shardproof.examples"
# Name, module of the examples, function and arguments.
PAIRS: list[tuple[str, str, str, tuple[Any, ...]]] = [
    *(
        (f"gpt_tp{n}_layers{layers}", "megatron_gpt", "gpt", (n, layers))
        for n, layers in ((2, 1), (2, 2), (2, 4), (2, 8), (8, 1), (8, 8))
    ),
    ("grad_accumulation", "grad_accumulation", "accumulate", ()),
    ("layernorm_replicated", "layernorm_gradient", "declared_replicated", ()),
    ("layernorm_partial", "layernorm_gradient", "reduced_later", ()),
    ("layernorm_forgotten", "layernorm_gradient", "one_forgotten", ()),
    ("qwen2_tp2", "qwen2", "tp2", ()),
    *(
        (f"llama_hlo_tp{n}_layers{layers}", "llama_hlo", "llama", (n, layers))
        for n, layers in ((2, 1), (2, 8), (8, 1), (8, 8))
    ),
]
# What is known about each pair: the ones that must not refine.
BUGS = ("grad_accumulation", "layernorm_replicated", "layernorm_forgotten")
RUNS = 7
TOLERANCE = 1e-9


# ---------------------------------------------------------------- one pair, in its own process


def check_one(name: str, root: Path | None) -> dict[str, Any]:
    """Everything about one pair."""
    _, module, function, arguments = next(p for p in PAIRS if p[0] == name)
    try:
        spec = getattr(importlib.import_module(f"{EXAMPLES}.{module}"), function)(*arguments)
        spec = relocated(spec, root) if root is not None else spec
    except (ImportError, FileNotFoundError) as e:
        return {"name": name, "verdict": "not checked", "reason": f"no frontend or no graph: {e}"}
    verdict = spec.check()
    out: dict[str, Any] = {
        "name": name,
        "title": verdict.name,
        "verdict": verdict.status,
        "expected": "refuted" if name in BUGS else "refines",
        "nodes": verdict.nodes,
        "unproved_operators": verdict.unknown_operators,
        "findings": [finding(f) for f in verdict.findings],
        "outputs": {o.seq_output: o.status for o in verdict.outputs},
        "seconds": verdict.seconds,
        "total_cpu_seconds": time.process_time(),
        "peak_mib": peak_mib(),
        "lemmas": verdict.lemmas,
        "replay": verdict.replay,
    }
    # Only now, so that time and memory above are those of the check alone.
    out["inference_best"] = best_inference(spec)
    out["small"] = small(spec)
    return out


def peak_mib() -> float:
    """The most memory this process held. Of the kernel's two counts the one that exec resets: the
    other one starts from what the parent held."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def relocated(spec: Any, root: Path) -> Any:
    """The same check with the graphs of another folder."""
    from shardproof.data import GRAPHS

    def moved(path: Path) -> Path:
        relative = path.relative_to(GRAPHS)
        for candidate in (root / relative, (root / relative).with_suffix("")):
            if candidate.exists():
                return candidate
        raise FileNotFoundError(f"no {relative.with_suffix('')} in the given folder")

    given = spec.distributed
    several = [moved(p) for p in given] if isinstance(given, list | tuple) else moved(given)
    return replace(spec, sequential=moved(spec.sequential), distributed=several)


def finding(f: Any) -> dict[str, Any]:
    """What a finding blames."""
    span = f.primary
    return {
        "code": f.code,
        "message": f.message,
        "operator": f"{span.op} {span.node}" if span is not None else "",
        "source": f"{span.file}:{span.line}" if span is not None and span.file else "",
        "ranks": f.ranks,
        "affected": f.affected,
        "counterexample": f.counterexample is not None,
    }


def best_inference(spec: Any) -> float:
    """CPU seconds of inference, the best of several runs."""
    from shardproof.infer.run import infer

    times = []
    for _ in range(RUNS):
        start = time.process_time()
        infer(spec.resolve(), fixed=spec.fixed_values)
        times.append(time.process_time() - start)
    return min(times)


def small(spec: Any) -> dict[str, Any]:
    """The pair at reduced sizes: its verdict, and whether replay agrees with it."""
    from shardproof.replay.compare import replay_problem
    from shardproof.replay.errors import NotReplayable
    from shardproof.replay.instantiate import is_concrete
    from shardproof.replay.resize import resize
    from shardproof.replay.search import instantiate_small
    from shardproof.verify import verify

    problem = spec.resolve()
    try:
        problem = problem if is_concrete(problem) else instantiate_small(problem, {})
        resized = resize(problem)
        runs = [replay_problem(resized, seed, spec.fixed_values) for seed in range(5)]
    except NotReplayable as e:
        return {"verdict": "not run", "reason": str(e)}
    verdict = verify(resized.problem, fixed=spec.fixed_values)
    differs = any(r.differs(TOLERANCE) for r in runs)
    return {
        "verdict": verdict.status,
        "differs": differs,
        "worst_error": max((r.worst.error for r in runs if r.worst is not None), default=None),
        "agrees": differs == (verdict.status == "refuted"),
        "sizes": resized.report.sizes,
    }


# ---------------------------------------------------------------- all pairs


def check_all(names: Sequence[str], root: Path | None) -> list[dict[str, Any]]:
    """One record a pair; each in its own process."""
    out = []
    for name in names:
        command = [sys.executable, __file__, "--one", name, *([str(root)] if root else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            error = done.stderr.strip().splitlines()
            out.append({"name": name, "verdict": "error", "reason": error[-1] if error else ""})
        else:
            out.append(json.loads(done.stdout))
        print(row(out[-1]), flush=True)
    return out


def ratios(records: list[dict[str, Any]]) -> dict[str, float]:
    """How inference grows with layers and ranks, and the largest pair in all."""
    by_name = {r["name"]: r for r in records if "seconds" in r}
    out = {}
    for what, a, b in (
        ("inference, 8 layers / 1 layer, tp2", "gpt_tp2_layers8", "gpt_tp2_layers1"),
        ("inference, 8 layers / 1 layer, tp8", "gpt_tp8_layers8", "gpt_tp8_layers1"),
        ("inference, tp8 / tp2, 1 layer", "gpt_tp8_layers1", "gpt_tp2_layers1"),
        ("inference, tp8 / tp2, 8 layers", "gpt_tp8_layers8", "gpt_tp2_layers8"),
    ):
        if a in by_name and b in by_name:
            out[what] = by_name[a]["inference_best"] / by_name[b]["inference_best"]
    largest = by_name.get("gpt_tp8_layers8")
    if largest is not None:
        out["gpt tp8, 8 layers: total CPU seconds"] = largest["total_cpu_seconds"]
        out["gpt tp8, 8 layers: peak MiB"] = largest["peak_mib"]
    return out


def header() -> str:
    """Column titles of :func:`row`."""
    return (
        f"{'pair':24}{'verdict':>12}{'seq':>6}{'dist':>7}{'unkn':>5}{'parse s':>9}{'infer s':>9}"
        f"{'CPU s':>7}{'MiB':>6}  small   blamed"
    )


def row(r: dict[str, Any]) -> str:
    """One line of the table."""
    if "seconds" not in r:
        return f"{r['name']:24}{r['verdict']:>12}  {r['reason']}"
    s = r["seconds"]
    agrees = f"{r['small']['verdict']}{'' if r['small'].get('agrees') else ' (replay differs)'}"
    blamed = ", ".join(dict.fromkeys(f"{f['code']} {f['operator']}" for f in r["findings"]))
    return (
        f"{r['name']:24}{r['verdict']:>12}{r['nodes']['sequential']:6}"
        f"{r['nodes']['distributed']:7}{sum(r['unproved_operators'].values()):5}"
        f"{s.get('reading', 0):9.3f}{r['inference_best']:9.3f}{r['total_cpu_seconds']:7.2f}"
        f"{r['peak_mib']:6.0f}  {agrees:8}{blamed}"
    )


def main(argv: list[str] | None = None) -> int:
    """Check the pairs; the exit code is 1 if one has another verdict than expected."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, help="folder of graphs; packaged by default")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    parser.add_argument("--only", nargs="*", help="names of pairs; all by default")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.one:
        print(json.dumps(check_one(given.one, given.dir)))
        return 0
    names = [p[0] for p in PAIRS if not given.only or p[0] in given.only]
    print(header())
    records = check_all(names, given.dir)
    growth = ratios(records)
    print()
    for what, value in growth.items():
        print(f"{what:42}{value:8.2f}")
    if given.json:
        from shardproof.report.files import write_whole

        result = {"schema": "shardproof-graphs/1", "pairs": records, "growth": growth}
        write_whole(given.json, json.dumps(result, indent=1).encode() + b"\n")
    wrong = [r for r in records if r["verdict"] not in (r.get("expected"), "not checked")]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
