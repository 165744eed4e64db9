"""Differential fuzzing: random programs, random correct distributions of them, random mutants.

    python benchmarks/fuzz.py --programs N --mutants M --seed S --json FILE [--seconds T]
    python benchmarks/fuzz.py --summary FILE ...

The generator (:mod:`shardproof.testing.fuzz`) shares no code with inference; whether a program is
right is for a replay on random inputs to say. The programs of a run are the seeds S, S + 1, ...
Results are appended to FILE chunk by chunk, one JSON object a line; a run that was stopped goes on
where it ended. Exits with 1 if a wrong program was called correct, or a right one is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from shardproof.certificate.agree import certify  # noqa: E402
from shardproof.collectives.match import COLLECTIVE_OPS  # noqa: E402
from shardproof.infer.run import Inference, infer  # noqa: E402
from shardproof.spec.problem import Problem  # noqa: E402
from shardproof.testing.fuzz.build import live_problem  # noqa: E402
from shardproof.testing.fuzz.generate import Generator, Rng  # noqa: E402
from shardproof.testing.fuzz.mutate import NoMutant, mutant  # noqa: E402
from shardproof.testing.fuzz.numeric import Ranges, replay, sample  # noqa: E402
from shardproof.testing.fuzz.programs import any_program  # noqa: E402

CHUNK = 200
SAMPLES = 3  # inputs on which a mutant may show that it differs
CERTIFY = 10  # the proof of every tenth program goes through the checker
Truth = Literal["differs", "same", "undefined"]


@dataclass
class Counts:
    """What one chunk found. ``wrong`` must stay empty; ``missed`` are correct programs without a
    proof. ``equal`` are mutants that no input showed to differ."""

    programs: int = 0
    proved: int = 0
    mutants: int = 0
    differs: int = 0
    equal: int = 0
    equal_proved: int = 0
    undefined: int = 0
    certificates: int = 0
    certificates_checked: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    missed: list[dict[str, Any]] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)
    operators: Counter[str] = field(default_factory=Counter)
    collectives: Counter[str] = field(default_factory=Counter)
    placements: Counter[str] = field(default_factory=Counter)
    meshes: Counter[str] = field(default_factory=Counter)
    lemmas: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)

    def spend(self, stage: str, start: float) -> float:
        """Book the CPU time since ``start``; the time now."""
        now = time.process_time()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - start
        return now

    def add(self, other: Counts) -> None:
        for name, mine in vars(self).items():
            theirs = getattr(other, name)
            if isinstance(mine, Counter):
                mine.update(theirs)
            elif isinstance(mine, dict):
                setattr(self, name, dict(Counter(mine) + Counter(theirs)))
            else:
                setattr(self, name, mine + theirs)


def check_seed(counts: Counts, seed: int, mutants: int) -> None:
    """The program of a seed and some mutants of it."""
    start = time.process_time()
    g, problem, rng = any_program(seed)
    start = counts.spend("generation", start)
    values = replay(problem, sample(problem.sequential, rng, g.ranges), rng)
    if not values.equal:
        counts.wrong.append(f"seed {seed}: the generator is wrong: {values.wrong} {values.fault}")
    start = counts.spend("replay", start)
    found = decide(problem)
    start = counts.spend("inference", start)
    counts.programs += 1
    counts.proved += found.holds
    cover(counts, g, problem, found)
    if not found.holds:
        counts.missed.append(missed(seed, problem, found))
    elif seed % CERTIFY == 0:
        check_certificate(counts, seed, problem, found)
        counts.spend("certificate", start)
    check_mutants(counts, seed, problem, g, rng, mutants)


def decide(problem: Problem) -> Inference:
    """What the verdict of a check rests on: inference, and where that fails, deep inference."""
    found = infer(problem)
    if not found.holds and not found.schedule.errors:
        deep = infer(problem, deep=True)
        found = deep if deep.holds else found
    return found


def missed(seed: int, problem: Problem, found: Inference) -> dict[str, Any]:
    """A correct program that was not proved, and where inference stopped."""
    made = problem.sequential.producers()
    owed = [j.obligation.seq_output for j in found.judged if not j.holds]
    values = [problem.sequential.output(n) for n in dict.fromkeys(owed)]
    return {
        "seed": seed,
        "mesh": str(problem.distributed.mesh),
        "outputs": sorted({made[v].op for v in values if v is not None and v in made}),
        "operators": [n.op for n in problem.sequential.nodes],
    }


def check_certificate(counts: Counts, seed: int, problem: Problem, found: Inference) -> None:
    """Have the independent checker follow the proof."""
    listed = {*found.evaluator.lookups.assumed, *found.evaluator.products.assumed}
    outcome = certify(problem, found, None, listed)
    counts.certificates += 1
    counts.certificates_checked += outcome.agrees
    if not outcome.agrees:
        counts.not_checked.append(f"seed {seed}: {outcome.problem}")


def check_mutants(
    counts: Counts, seed: int, problem: Problem, g: Generator, rng: Rng, mutants: int
) -> None:
    """Random mutants of one problem: refines only if no input shows a difference."""
    done = 0
    for _ in range(12 * mutants):
        if done == mutants:
            return
        start = time.process_time()
        try:
            kind, changed = mutant(problem, rng)
        except NoMutant:
            counts.spend("generation", start)
            continue
        done += 1
        start = counts.spend("generation", start)
        truth = judge(changed, rng, g.ranges)
        start = counts.spend("replay", start)
        holds = decide(changed).holds
        counts.spend("inference", start)
        book(counts, f"seed {seed} mutant {done} {kind}", kind, truth, holds)


def book(counts: Counts, what: str, kind: str, truth: Truth, holds: bool) -> None:
    counts.mutants += 1
    counts.mutations[f"{kind.split('/')[0]} {truth}"] += 1
    if truth == "differs":
        counts.differs += 1
        if holds:
            counts.wrong.append(f"{what}: called correct, but it differs")
    elif truth == "same":
        counts.equal += 1
        counts.equal_proved += holds
    else:
        counts.undefined += 1


def judge(problem: Problem, rng: Rng, ranges: Ranges) -> Truth:
    """Whether some random input shows that the two sides differ. Inputs on which a value is not
    defined (a division by zero) show nothing; a lookup out of range counts where an output
    depends on it."""
    shown: Truth = "undefined"
    for _ in range(SAMPLES):
        inputs = sample(problem.sequential, rng, ranges)
        values = replay(problem, inputs, rng)
        if "is outside" in values.fault:
            values = replay(live_problem(problem), inputs, rng)
            if values.fault and "is outside" not in values.fault:
                continue  # without its dead code one rank lacks a collective: cannot be told
        if not values.defined:
            continue
        if not values.equal:
            return "differs"
        shown = "same"
    return shown


# ------------------------------------------------------------------ coverage


def cover(counts: Counts, g: Generator, problem: Problem, found: Inference) -> None:
    """Count what a correct program is made of, and the lemmas of its proof."""
    sides = (problem.sequential, *problem.distributed.graphs)
    for n in (n for graph in sides for n in graph.nodes):
        if n.op in COLLECTIVE_OPS:
            counts.collectives[collective(n.op, n.attrs)] += 1
        else:
            counts.operators[n.op] += 1
    for lay in g.places.values():
        counts.placements.update(placements(lay, g))
    for ob in problem.obligations:
        counts.placements["partial output" if ob.partial_over else "output"] += 1
    uneven = ", uneven " + " ".join(g.axes[a] for a in sorted(g.uneven)) if g.uneven else ""
    counts.meshes[f"{g.mesh}{uneven}"] += 1
    counts.lemmas.update(dict.fromkeys(found.evaluator.fired, 1) if found.holds else {})


def collective(op: str, attrs: Any) -> str:
    kind = f" {attrs['op']}" if "op" in attrs else ""
    uneven = " uneven" if "sizes" in attrs or "send_sizes" in attrs else ""
    alone = " alone" if attrs["group_size"] == 1 else ""
    return f"{op}{kind}{uneven}{alone}"


def placements(lay: Sequence[int | str], g: Generator) -> list[str]:
    cut = [w for w in lay if w != "R"]
    if not cut:
        return ["replicated"]
    twice = ["two axes cut one dim"] if len(set(cut)) < len(cut) else []
    uneven = [f"uneven shard of dim {w}" for a, w in enumerate(lay) if w != "R" and a in g.uneven]
    return [*(f"shard of dim {w}" for w in cut), *twice, *uneven]


# ------------------------------------------------------------------ runs


def commit() -> str:
    """The commit of the checkout; marked where the tree was changed since."""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
            check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def run_chunk(first: int, count: int, mutants: int) -> Counts:
    """The seeds ``first`` up to ``first + count``."""
    counts = Counts()
    for seed in range(first, first + count):
        check_seed(counts, seed, mutants)
    return counts


def run(args: argparse.Namespace) -> Counts:
    """All chunks that the file does not have yet, until the time is over."""
    total, done = read(args.json) if args.json else (Counts(), set())
    end = time.monotonic() + args.seconds
    version = commit()
    for first in range(args.seed, args.seed + args.programs, CHUNK):
        count = min(CHUNK, args.seed + args.programs - first)
        if (first, count) in done:
            continue
        if time.monotonic() > end:
            break
        counts = run_chunk(first, count, args.mutants)
        total.add(counts)
        if args.json:
            head = {"first": first, "count": count, "per_program": args.mutants, "commit": version}
            with Path(args.json).open("a") as f:
                f.write(json.dumps({**head, **vars(counts)}) + "\n")
        print(line(total), file=sys.stderr, flush=True)
    return total


def read(path: str) -> tuple[Counts, set[tuple[int, int]]]:
    """The sum of the chunks in a file, and which they are."""
    total, done = Counts(), set()
    if Path(path).exists():
        for text in Path(path).read_text().splitlines():
            record = json.loads(text)
            done.add((record["first"], record["count"]))
            counts = Counts()
            for name, mine in vars(counts).items():
                setattr(counts, name, type(mine)(record[name]))
            total.add(counts)
    return total, done


def line(c: Counts) -> str:
    share = 100 * c.proved / max(c.programs, 1)
    return (
        f"{c.programs} programs, {c.proved} proved ({share:.2f} %); {c.mutants} mutants: "
        f"{c.differs} differ, {c.equal} do not ({c.equal_proved} proved), {c.undefined} undefined; "
        f"{c.certificates_checked} of {c.certificates} certificates checked; {len(c.wrong)} wrong"
    )


def summary(c: Counts) -> str:
    """The figures, what is covered, and everything that is wrong or missed."""
    groups = {
        "operators": c.operators, "collectives": c.collectives, "placements": c.placements,
        "meshes": c.meshes, "lemmas": c.lemmas, "mutations": c.mutations,
    }  # fmt: skip
    out = [line(c), *c.wrong]
    for name, counter in groups.items():
        out.append(
            f"{name} ({len(counter)}): " + ", ".join(f"{k} {n}" for k, n in counter.most_common())
        )
    out.append("CPU seconds: " + ", ".join(f"{k} {s:.1f}" for k, s in c.seconds.items()))
    out += [
        f"missed: seed {m['seed']} on {m['mesh']}: {' '.join(m['operators'])}" for m in c.missed
    ]
    out += [f"not checked: {t}" for t in c.not_checked]
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--mutants", type=int, default=5, help="mutants of each program")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--json", default="", help="append results here, one chunk a line")
    parser.add_argument("--summary", nargs="+", help="print what these files hold, and run nothing")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    args = parser.parse_args()
    total = Counts()
    for path in args.summary or ():
        total.add(read(path)[0])
    if not args.summary:
        total = run(args)
    print(summary(total))
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
