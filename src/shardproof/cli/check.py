"""``shardproof check``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardproof.cache.store import Cache
from shardproof.cli import outputs
from shardproof.cli.certificate_file import CertificateFile
from shardproof.cli.matrix import configurations, no_argument
from shardproof.cli.report import Folders
from shardproof.cli.target import Target, find_target
from shardproof.diagnose.evidence import Evidence
from shardproof.errors import InputError
from shardproof.partial import Interrupted
from shardproof.report.diagnostic import Verdict
from shardproof.report.progress import progress
from shardproof.report.run import Outcome, Run
from shardproof.spec.shared import shared_captures
from shardproof.spec.spec import Spec

Show = Callable[[str], None] | None
NO_REST = "not checked: the run was interrupted before"


@dataclass(frozen=True, slots=True)
class Options:
    """How to check; the same for every configuration."""

    replay: bool = True
    for_all: str | None = None
    certificate: Callable[[bytes], object] | None = None
    cache: Cache | None = None
    folders: Folders | None = None

    @property
    def observe(self) -> Callable[[Evidence], object] | None:
        """Takes what a verdict is made from, where a report wants it."""
        return self.folders.observe if self.folders is not None and self.folders.wanted else None


def check_target(
    target: str, *, json: str | None, full: bool, replay: bool, for_all: str | None = None,
    certificate: str | None = None, output: Sequence[str] = (), github: bool | None = None,
    matrix: Sequence[str] = (), cache: str | None = None, report: str | None = None,
    model_explorer: str | None = None,
) -> int:  # fmt: skip
    """Check, report, and return the exit code of the run."""
    to = outputs.destinations(output, json)
    folders = Folders(report, model_explorer)
    keep = None if certificate is None else CertificateFile(Path(certificate))
    if matrix and keep is not None:
        raise no_argument("--certificate")
    wanted = configurations(matrix)
    on_github = outputs.on_github(github)
    options = Options(replay, for_all, keep, Cache(Path(cache) if cache else None), folders)
    run = Run(target, file=target.rpartition(":")[0] or target)
    try:
        found = find_target(target, wanted[0] if wanted else ())
        run.target = found.text
        run.file, run.line = str(found.path), found.line
        with progress(sys.stderr) as show:
            if matrix:
                found.require(wanted[0])
                _matrix(run, found, wanted, options, show)
            else:
                run.outcomes.append(_outcome(found, {}, options, show))
                _write(options, run.outcomes[0], show)
    except InputError as error:
        run.outcomes.append(Outcome(error=str(error)))
        outputs.report_error(error, run, to, on_github)
        raise
    outputs.report(run, to, full=full, github=on_github)
    folders.finish(run)
    if keep is not None:
        sys.stderr.write(f"{keep.said(run.outcomes[0].status)}\n")
    return run.exit_code


def check_spec(spec: Spec, options: Options, show: Callable[[str], None]) -> Verdict:
    """Decide one Spec, or take its verdict from the cache."""

    own = type(spec).check is not Spec.check  # a user's way of deciding, of unknown content
    if options.cache is None or options.certificate or options.observe or own:
        return spec.check(
            replay=options.replay, for_all=options.for_all, certificate=options.certificate,
            observe=options.observe, progress=show,
        )  # fmt: skip

    def decide() -> Verdict:
        return spec.check_as_given(replay=options.replay, for_all=options.for_all, progress=show)

    show("reading graphs")
    start = time.process_time()
    problem = spec.resolve()
    reading = time.process_time() - start
    asked = (options.replay, options.for_all)
    verdict = options.cache.verdict(problem, spec.fixed_values, asked, decide)
    verdict.seconds = {**verdict.seconds, "reading": reading}
    if options.for_all is not None:
        return verdict
    # What holds for unequal counts does not follow from the content of these graphs.
    return spec.tried_unevenly(verdict, replay=options.replay, progress=show)


def _matrix(
    run: Run, target: Target, wanted: list[dict[str, int]], options: Options, show: Show
) -> None:
    """Check every configuration; one that cannot be checked does not keep the others from it."""
    with shared_captures() as captures:
        for k, extents in enumerate(wanted):
            captures.last = k == len(wanted) - 1
            label = " ".join(f"{axis}={n}" for axis, n in extents.items())
            say = None if show is None else _labelled(show, f"{k + 1}/{len(wanted)} {label}: ")
            try:
                outcome = _outcome(target, extents, options, say)
            except InputError as error:
                outcome = Outcome(extents, error=str(error))
            run.outcomes.append(outcome)
            if outcome.verdict is not None:
                outcome.verdict.name = f"{outcome.verdict.name} {label}"
                _write(options, outcome, say)
                if outcome.verdict.interrupted:
                    run.outcomes += [Outcome(rest, error=NO_REST) for rest in wanted[k + 1 :]]
                    return


def _labelled(show: Callable[[str], None], label: str) -> Callable[[str], None]:
    return lambda stage: show(label + stage)


def _outcome(target: Target, extents: dict[str, int], options: Options, show: Show) -> Outcome:
    """Check one configuration; Ctrl-C leaves what was found until then."""
    stage = "building the Spec"

    def say(text: str) -> None:
        nonlocal stage
        stage = text
        if show is not None:
            show(text)

    start = time.perf_counter()
    try:
        verdict = check_spec(target.make(extents), options, say)
    except Interrupted as stop:
        verdict = stop.verdict
    except KeyboardInterrupt:
        verdict = Verdict(target.name, "unproved", interrupted=stage)
    verdict.target = target.text
    return Outcome(extents, verdict, "", time.perf_counter() - start)


def _write(options: Options, outcome: Outcome, show: Show) -> None:
    """Write the report of a configuration, where one is wanted."""
    if options.observe is not None and options.folders is not None:
        if show is not None:
            show("writing the report")
        options.folders.write(outcome)
