"""Mutants of correct programs: is a wrong one ever called correct, and is the fault named?

    python benchmarks/mutants.py --json FILE [--count N] [--seconds S] [--seed K] [--full-size K]

See docs/benchmarks.md for what is measured.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from shardproof.examples.jax_programs import PROGRAMS
from shardproof.replay.resize import resize
from shardproof.replay.search import instantiate_small
from shardproof.report.files import write_whole
from shardproof.spec.problem import Problem
from shardproof.spec.spec import Spec
from shardproof.testing.judge import Judgement, Pair, judge, judge_full_size
from shardproof.testing.mutate import KINDS, Mutant, mutants
from shardproof.testing.pairs import PAIRS, pair

WIDTHS = (8, 7, 9, 9, 9, 7, 7)
EACH = 100  # the file is written after so many mutants
ROOT = Path(__file__).parents[1]
SYMBOLIC = ROOT / "examples" / "symbolic_block.py"
SUPPORT = ROOT / "tests" / "support"
STORED = ROOT / "tests" / "frontends" / "hlo" / "fixtures"  # modules that JAX printed


def symbolic(function: str, ranks: int) -> Pair:
    """A hand-written symbolic example at small sizes on some ranks."""
    found = importlib.util.spec_from_file_location("symbolic_block", SYMBOLIC)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    spec: Spec = getattr(module, function)()
    problem = instantiate_small(spec.resolve(), {"N": ranks})
    return Pair(f"{problem.name} = {ranks}", resize(problem), problem, spec.fixed_values)


def stored_jax(name: str, compiled: bool, texts: tuple[Path, Path]) -> Pair:
    """A JAX program on several devices against its plain version, as JAX printed both."""
    way = "compiled" if compiled else "lowered"
    plain, spread = (t.read_text() for t in texts)
    return pair(PROGRAMS[name].spec_of(name, plain, spread, compiled), f"JAX: {name}, {way}")


def small_programs() -> dict[str, Callable[[], Pair]]:
    """The hand-written programs that the tests use as well, some cut into unequal parts."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    problems, layers, fused = (
        importlib.import_module(f"tests.support.{name}") for name in ("problems", "layers", "fused")
    )
    even, uneven = problems.even(2, 3), problems.uneven(0, 2, 5)
    made = {
        "mlp": partial(problems.mlp, even, 4, 5),
        "mlp_uneven": partial(problems.mlp, uneven, 4, 5),
        "data_parallel": partial(problems.data_parallel, even, 4),
        "data_parallel_uneven": partial(problems.data_parallel, uneven, 4),
        "pipeline": partial(layers.pipeline, 2, 2),
        "softmax": partial(fused.softmax, even, 4),
        "softmax_uneven": partial(fused.softmax, uneven, 4),
        "layer_norm": partial(fused.layer_norm, even, 4),
        "layer_norm_grad": partial(fused.layer_norm_grad, even, 4),
        "rms_norm": partial(fused.rms_norm, even, 4),
        "silu": partial(fused.activation, even, 4, "silu"),
        "gelu": partial(fused.activation, even, 4, "gelu"),
    }
    return {f"small_{name}": partial(small, name, build) for name, build in made.items()}


def small(name: str, build: Callable[[], Problem]) -> Pair:
    """The pair of one of them, named after it."""
    problem = build()
    return Pair(f"Small: {name.replace('_', ' ')}", resize(problem), problem)


def all_pairs() -> dict[str, Callable[[], Pair]]:
    """Every correct pair: captured, repaired, and hand-written."""
    pairs = dict(PAIRS)
    if SYMBOLIC.exists():
        for name, n in product(("mlp", "block_tp", "block_tp_sp"), (2, 3, 4)):
            pairs[f"symbolic_{name}_{n}"] = lambda name=name, n=n: symbolic(name, n)  # type: ignore[misc]
    for name, compiled in product(PROGRAMS, (False, True)):
        stem = f"{name}-{'compiled' if compiled else 'lowered'}".replace(" ", "_").lower()
        texts = (STORED / f"{stem}.plain.hlo.txt", STORED / f"{stem}.spread.hlo.txt")
        if texts[0].exists():
            pairs[f"jax_{stem}"] = partial(stored_jax, name, compiled, texts)
    if SUPPORT.exists():
        pairs.update(small_programs())
    return pairs


def run(
    pairs: dict[str, Pair], count: int, seed: int, seconds: float,
    say: Callable[[str, list[Judgement]], None],
) -> list[Judgement]:  # fmt: skip
    """Judge mutants of all pairs, until there are ``count`` or the time is over.

    Every pair gets about the same work: those with few operators have more mutants judged.
    """
    started = time.monotonic()
    queues: dict[str, Iterator[Mutant]] = {
        name: mutants(p.small.problem, seed=seed) for name, p in pairs.items()
    }
    work = dict.fromkeys(queues, 0)
    out: list[Judgement] = []
    while queues and len(out) < count and time.monotonic() - started < seconds:
        name = min(queues, key=work.__getitem__)
        mutant = next(queues[name], None)
        if mutant is None:
            del queues[name]
            continue
        out.append(judge(pairs[name], mutant))
        work[name] += sum(len(g.nodes) for g in pairs[name].small.problem.distributed.graphs)
        say(f"{len(out)} mutants, {name}: {mutant.description}", out)
    return out


def run_full_size(pairs: dict[str, Pair], each: int, seed: int) -> list[Judgement]:
    """Judge some mutants of every pair at the captured sizes."""
    return [
        judge_full_size(p, m)
        for p in pairs.values()
        for m in mutants(p.original, seed=seed + 1, count=each)
    ]


def counts(judged: list[Judgement]) -> dict[str, Any]:
    """How many, of which wrong, with which verdicts, and named."""
    wrong = [j for j in judged if j.wrong]
    refuted = [j for j in wrong if j.status == "refuted"]
    named = sum(j.named for j in refuted)
    return {
        "mutants": len(judged),
        "truth": dict(Counter(j.truth for j in judged)),
        "wrong": len(wrong),
        "wrong_verdicts": dict(Counter(j.status for j in wrong)),
        "right_verdicts": dict(Counter(j.status for j in judged if not j.wrong)),
        "false_refines": sum(j.missed for j in judged),
        # A proof that the verifier's own replay contradicts is reported as unproved (SP900).
        "contradicted_proofs": sum("SP900" in j.codes for j in judged),
        "refuted": len(refuted),
        "named": named,
        "named_share": named / len(refuted) if refuted else None,
        "pointed": sum(j.pointed for j in refuted),
    }


def document(judged: list[Judgement], full: list[Judgement], seed: int) -> dict[str, Any]:
    """Everything that was measured."""
    return {
        "schema": "shardproof-mutants/1",
        "seed": seed,
        "total": counts(judged),
        "kinds": {k: counts(g) for k in KINDS if (g := [j for j in judged if j.kind == k])},
        "pairs": {p: counts([j for j in judged if j.pair == p]) for p in _order(judged)},
        "full_size": counts(full),
        "mutants": [asdict(j) for j in judged],
        "full_size_mutants": [asdict(j) for j in full],
    }


def _order(judged: list[Judgement]) -> list[str]:
    return list(dict.fromkeys(j.pair for j in judged))


def table(rows: dict[str, dict[str, Any]]) -> Iterator[str]:
    """One line a row."""
    titles = zip(
        ("mutants", "wrong", "refuted", "unproved", "refines", "named", "at"), WIDTHS, strict=True
    )
    yield f"{'':38}" + "".join(f"{t:>{w}}" for t, w in titles)
    for name, c in rows.items():
        v = c["wrong_verdicts"]
        share, at = (_share(c[key], c["refuted"]) for key in ("named", "pointed"))
        yield (
            f"{name:38}{c['mutants']:8}{c['wrong']:7}{v.get('refuted', 0):9}"
            f"{v.get('unproved', 0):9}{v.get('refines', 0):9}{share:>7}{at:>7}"
        )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else ""


def main(argv: list[str] | None = None) -> int:
    """Run the benchmark; the exit code is 1 if a wrong mutant is called, or was proved, correct."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", type=Path, help="where the figures are written")
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--seconds", type=float, default=1800, help="stop after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full-size", type=int, default=3, help="mutants a pair at full size")
    parser.add_argument("--pairs", nargs="*", help="names of pairs; all by default")
    given = parser.parse_args(argv)
    made = all_pairs()
    pairs = {name: made[name]() for name in given.pairs or made}

    def say(text: str, judged: list[Judgement]) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text[:100]}", end="", file=sys.stderr, flush=True)
        if given.json and len(judged) % EACH == 0:
            _write(given.json, document(judged, [], given.seed))

    judged = run(pairs, given.count, given.seed, given.seconds, say)
    full = run_full_size(pairs, given.full_size, given.seed)
    result = document(judged, full, given.seed)
    if given.json:
        _write(given.json, result)
    print("by kind, at reduced sizes")
    print(*table({**result["kinds"], "all": result["total"]}), sep="\n")
    print("\nby pair")
    print(*table({**result["pairs"], "at full size": result["full_size"]}), sep="\n")
    for j in judged + full:
        if j.missed or (j.wrong and j.status == "refuted" and not j.named):
            print(f"{'MISSED' if j.missed else 'not named'}: {j.pair}: {j.description}")
    return 1 if any(j.missed or "SP900" in j.codes for j in judged + full) else 0


def _finite(x: Any) -> Any:
    """JSON knows no infinity."""
    if isinstance(x, float) and x == float("inf"):
        return "inf"
    if isinstance(x, dict):
        return {k: _finite(v) for k, v in x.items()}
    return [_finite(v) for v in x] if isinstance(x, list | tuple) else x


def _write(path: Path, result: dict[str, Any]) -> None:
    write_whole(path, json.dumps(_finite(result), indent=1).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
