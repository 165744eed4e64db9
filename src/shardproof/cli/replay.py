"""``shardproof replay``: the counterexample of a finding once more."""

from __future__ import annotations

import sys
from pathlib import Path

from shardproof.cache.store import Cache
from shardproof.cli.check import Options, check_spec
from shardproof.cli.target import find_target
from shardproof.cli.values import side_by_side
from shardproof.errors import InputError
from shardproof.replay.again import OutputValue, replay_again
from shardproof.replay.compare import ReplayResult
from shardproof.replay.errors import NotReplayable
from shardproof.report.diagnostic import Counterexample, Finding, Verdict
from shardproof.report.json import ReportError, from_json
from shardproof.report.progress import progress
from shardproof.spec.spec import Spec

TOLERANCE = 1e-9


def replay_finding(source: str, *, finding: int, rank: int | None, cache: str) -> int:
    """Replay, print, and return 1 where the programs differ."""
    verdict = _report(source)
    target = verdict.target if verdict is not None else source
    if not target:
        raise InputError(
            "this report does not say what it is about",
            where=source,
            expected="a report that `shardproof check FILE.py:function` has written",
            next_step="name the function instead: shardproof replay FILE.py:function",
        )
    spec = find_target(target).make()
    if verdict is None:
        with progress(sys.stderr) as show:
            options = Options(cache=Cache(Path(cache)))
            verdict = check_spec(spec, options, show or (lambda stage: None))
    number, chosen, c = _chosen(verdict, finding, source)
    return _run(spec, number, chosen, c, rank)


def _report(source: str) -> Verdict | None:
    """The report that ``source`` names, None where it names a function."""
    path = Path(source)
    path = path / "report.json" if path.is_dir() else path
    if path.suffix != ".json":
        return None
    try:
        return from_json(path.read_bytes())
    except (OSError, ReportError) as error:
        raise InputError(
            f"the report cannot be read: {error}",
            where=source,
            expected="a report of one check, written by `shardproof check --json`",
            next_step="check the path, or name the function: FILE.py:function",
        ) from error


def _chosen(verdict: Verdict, number: int, source: str) -> tuple[int, Finding, Counterexample]:
    """The finding of a number, or the first with a counterexample."""
    found = [(k, f, f.counterexample) for k, f in enumerate(verdict.findings, 1)
             if f.counterexample is not None]  # fmt: skip
    for k, f, c in found:
        if number in (0, k):
            return k, f, c
    have = ", ".join(str(k) for k, _, _ in found)
    raise InputError(
        f"finding {number} has no counterexample" if number else "there is no counterexample",
        where=source,
        expected=f"one of the findings with a counterexample: {have}" if found else
        f"a refuted program; this one {'is unproved' if verdict.findings else 'refines'}",
        next_step=f"--finding {found[0][0]}" if found else "see `shardproof check`",
    )  # fmt: skip


def _run(spec: Spec, number: int, finding: Finding, c: Counterexample, rank: int | None) -> int:
    """Print one replay."""
    try:
        result, values = replay_again(spec.resolve(), c, spec.fixed_values)
    except NotReplayable as error:
        raise InputError(
            str(error),
            where=f"finding {number}",
            expected="the program that the report is about",
            next_step="check it again",
        ) from error
    sizes = ", ".join(f"{a} -> {b}" for a, b in c.sizes.items()) or "as given"
    lines = [f"finding {number}: {finding.code} {finding.title}", finding.message, ""]
    lines += [f"output {c.output}, seed {c.seed}, sizes: {sizes}", ""]
    lines += _stopped(result) or _tables(values, rank)
    differs = result.differs(TOLERANCE)
    lines.append("the programs differ" if differs else "the programs agree on these inputs")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if differs else 0


def _stopped(result: ReplayResult) -> list[str]:
    if result.invalid:
        return [result.invalid]
    if result.fault is not None:
        return [f"the distributed program stops: {result.fault}"]
    return []


def _tables(values: list[OutputValue], rank: int | None) -> list[str]:
    """The result of one rank beside the sequential one."""
    ranks = sorted(v.rank for v in values)
    if rank is not None and rank not in ranks:
        raise InputError(
            f"rank {rank} does not return this output",
            where=f"--rank {rank}",
            expected=f"one of the ranks {', '.join(map(str, ranks))}",
            next_step="leave --rank out",
        )
    chosen = next((v for v in values if rank in (None, v.rank)), None)
    return [] if chosen is None else [*side_by_side(chosen, TOLERANCE), ""]
