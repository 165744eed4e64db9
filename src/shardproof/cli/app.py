"""The ``shardproof`` command. Commands import what they need when they run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from shardproof import __version__
from shardproof.errors import InputError

_CODES = "Exit codes: 0 refines, 1 refuted, 3 unproved, 2 input, usage or internal error."
Debug = Annotated[bool, Parameter(negative="", help="Show the traceback of an error.")]

app = App(
    name="shardproof",
    version=__version__,
    help=f"Decide whether a distributed tensor program refines its sequential model.\n\n{_CODES}",
)


@app.command
def check(
    target: str,
    /,
    *,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    full: Annotated[bool, Parameter(negative="")] = False,
    replay: bool = True,
    for_all: str | None = None,
    certificate: str | None = None,
    output: Annotated[Sequence[str], Parameter(negative="")] = (),
    github: bool | None = None,
    matrix: Annotated[Sequence[str], Parameter(negative="")] = (),
    cache: Annotated[str, Parameter(negative="")] = ".shardproof_cache",
    no_cache: Annotated[bool, Parameter(negative="")] = False,
    report: str | None = None,
    model_explorer: str | None = None,
    debug: Debug = False,
) -> int:
    """Check one Spec, or one for every configuration of a matrix, and report the verdict.

    Exit codes: 0 refines, 1 refuted, 3 unproved, 2 input, usage or internal error, 130 stopped.
    The exit code of a matrix is that of its worst configuration.

    Args:
        target: FILE.py:function, where the function returns a Spec; FILE.py alone names the only
            one in it.
        json: Write the report as JSON to this file; - prints it in place of the text.
        full: Show lists in full.
        replay: Replay on small concrete inputs; without it nothing can be refuted by value.
        for_all: A mesh axis: prove it for every number of ranks along it, and for all sizes.
        certificate: Write the certificate of a proof to this file.
        output: FORMAT=FILE, also several times: json, junit, markdown, sarif or text; - as the
            file prints it in place of the text.
        github: Annotate lines and write the step summary; by default in a GitHub run.
        matrix: AXIS=N,N,... for several axes: check every combination; the function takes the
            extents as arguments.
        cache: The folder in which verdicts are kept by the content of what they are about.
        no_cache: Decide everything anew, and keep nothing.
        report: Write the report to this folder: report.json and the page index.html.
        model_explorer: Write both graphs to this folder for Model Explorer.
    """
    from shardproof.cli.check import check_target

    return check_target(
        target, json=json, full=full, replay=replay, for_all=for_all, certificate=certificate,
        output=output, github=github, matrix=matrix, cache=None if no_cache else cache,
        report=report, model_explorer=model_explorer,
    )  # fmt: skip


@app.command
def verify_certificate(file: str, /, *, debug: Debug = False) -> int:
    """Check the certificate of a proof without the engine that found it.

    Exit codes: 0 it proves what it states, 3 a step was not checked, 2 no certificate.

    Args:
        file: A file written by `shardproof check --certificate`.
    """
    from shardproof.cli.certificate import verify_certificate as verify

    return verify(file)


@app.command
def replay(
    source: str,
    /,
    *,
    finding: int = 0,
    rank: int | None = None,
    cache: Annotated[str, Parameter(negative="")] = ".shardproof_cache",
    debug: Debug = False,
) -> int:
    """Run both programs again on the counterexample of a finding, and print both results.

    Exit codes: 0 they agree, 1 they differ, 2 input, usage or internal error.

    Args:
        source: FILE.py:function, or a report that `shardproof check` has written for one
            (report.json, or its folder).
        finding: Its number in the report, from 1; by default the first with a counterexample.
        rank: Print the result of this rank; by default of one that differs.
        cache: The folder in which `shardproof check` keeps verdicts.
    """
    from shardproof.cli.replay import replay_finding

    return replay_finding(source, finding=finding, rank=rank, cache=cache)


@app.command
def trace(
    target: str,
    /,
    *,
    rank: int | None = None,
    value: str | None = None,
    meanings: bool = True,
    debug: Debug = False,
) -> int:
    """Print a graph of a Spec in the text form, with what its values mean.

    Args:
        target: FILE.py:function, where the function returns a Spec.
        rank: Print the distributed graph of this rank; without it the sequential graph.
        value: Print only this value: its operator, its uses, its source.
        meanings: Say what each distributed value is in terms of sequential values.
    """
    from shardproof.cli.trace import trace_target

    return trace_target(target, rank=rank, value=value, meanings=meanings)


@app.command
def report(folder: str, /, *, debug: Debug = False) -> int:
    """Make the pages of a report again from its JSON files.

    Args:
        folder: A folder written by `shardproof check --report`.
    """
    from shardproof.cli.report import render_report

    return render_report(folder)


@app.command
def explain(topic: str = "", /, *, debug: Debug = False) -> int:
    """Explain a finding code (SP110) or an operator (op:matmul); alone, list the codes.

    Args:
        topic: A code, op:NAME or lemma:NAME.
    """
    from shardproof.cli.explain import explain_topic

    return explain_topic(topic)


@app.command
def init(
    folder: str = ".",
    /,
    *,
    output: str = "check_first.py",
    force: Annotated[bool, Parameter(negative="")] = False,
    debug: Debug = False,
) -> int:
    """Look at a repository, without running anything of it, and write a first check file.

    Args:
        folder: The root of the repository.
        output: The name of the file that is written there.
        force: Write over a file that is there already.
    """
    from shardproof.cli.init import init as run

    return run(folder, output, force=force)


@app.command
def demo(*, debug: Debug = False) -> int:
    """Verify a captured Megatron GPT at 8 ranks, then find the bug in a captured training step."""
    from shardproof.cli.demo import run

    return run()


if find_spec("shardproof.elastic") and find_spec("shardproof.elastic.cli"):
    app.command(
        "shardproof.elastic.cli:app",
        name="elastic",
        help="Plan, simulate and train with elastic synchronisation barriers.",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Where the reader of a pipe goes away it is
    that of the finished command, else what a command ended by SIGPIPE has."""
    tokens = list(sys.argv[1:] if arguments is None else arguments)
    code = 128 + 13
    try:
        code = run_tokens(tokens)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def run_tokens(tokens: list[str]) -> int:
    """Run the command line; every failure becomes one message and exit code 2."""
    from shardproof.cli.matrix import spread

    try:
        result = app(spread(tokens), exit_on_error=False, result_action="return_value")
        return result if isinstance(result, int) else 0
    except CycloptsError:
        return 2  # the message is printed already
    except BrokenPipeError:
        raise
    except InputError as error:
        _show_traceback(tokens)
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130
    except Exception as error:
        from shardproof.cli.internal import describe

        _show_traceback(tokens)
        sys.stderr.write(f"error: {error}\n" if _is_elastic(error) else describe(error))
        return 2


def _is_elastic(error: Exception) -> bool:
    """Whether the elastic half raised it on purpose; its errors exist only once it is imported."""
    module = sys.modules.get("shardproof.elastic.errors")
    return module is not None and isinstance(error, module.ElasticError)


def _show_traceback(tokens: list[str]) -> None:
    if "--debug" in tokens:
        import traceback

        traceback.print_exc(file=sys.stderr)
