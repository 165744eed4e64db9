"""Checks as tests, for pytest.

    from shardproof.pytest_plugin import assert_refines

    @pytest.mark.shardproof_matrix(tp=[1, 2], dp=[1, 2])
    def test_model(tp, dp):
        assert_refines(check(tp, dp))

Loading the plugin imports nothing heavy, neither torch nor the verifier. Results travel with the
reports of the tests, so that they arrive from the workers of pytest-xdist too.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from shardproof.diagnose.evidence import Evidence
    from shardproof.report.diagnostic import Verdict
    from shardproof.spec.spec import Spec

MARK = "shardproof_matrix"
PROPERTY = "shardproof"
SHOWN = 3
"""Findings in the text of a failure; the report has all."""

_STYLES = {"refines": "green", "refuted": "red", "unproved": "yellow"}


class NotRefined(AssertionError):
    """A Spec that was to refine does not, or is not proved to. ``verdict`` says why."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(_text(verdict))


class _Current:
    """The test that runs, and what has been checked in it."""

    item: pytest.Item | None = None
    count = 0


def assert_refines(spec: Spec, *, replay: bool = True, for_all: str | None = None) -> Verdict:
    """Fail the test unless the distributed program of ``spec`` is proved to refine its sequential
    one; *unproved* fails too. Returns the verdict.

    Args:
        replay: replay small instances, see :meth:`shardproof.Spec.check`.
        for_all: a mesh axis, to prove it for every number of ranks along it.

    Raises:
        NotRefined: the verdict is not *refines*.
        InputError: the Spec cannot be read, or does not fit its programs.
    """
    __tracebackhide__ = True
    item = _Current.item
    if item is not None and not spec.name:
        spec = spec.named(item.name)
    folder = None if item is None else item.config.getoption("shardproof_report", None)
    if folder is None or item is None:
        verdict = spec.check(replay=replay, for_all=for_all)
    else:
        verdict = _reported(spec, replay, for_all, _folder(Path(folder), item))
    if item is not None:
        _Current.count += 1
        item.user_properties.append((PROPERTY, _summary(verdict)))
    if verdict.status != "refines":
        raise NotRefined(verdict)
    return verdict


@pytest.fixture(name="assert_refines")
def _assert_refines() -> Any:
    """The function :func:`assert_refines`."""
    return assert_refines


# ---------------------------------------------------------------- texts


def _text(verdict: Verdict) -> str:
    """The verdict and its first findings, without the lists of a whole report."""
    from shardproof.report import text

    lines = [f"{text.headline(verdict)}: {verdict.name}: {text.counts(verdict)}"]
    for finding in verdict.findings[:SHOWN]:
        lines += ["", *(line for line, _ in text.render_finding(finding))]
    if len(verdict.findings) > SHOWN:
        lines += ["", f"and {len(verdict.findings) - SHOWN} more findings"]
    open_ = [o.seq_output for o in verdict.outputs if o.status == "open"]
    if open_ and not verdict.findings:
        lines += ["", f"not proved: {', '.join(open_[:8])}"]
    return "\n".join(lines)


def _summary(verdict: Verdict) -> str:
    from shardproof.report import text

    codes = list(dict.fromkeys(f.code for f in verdict.findings))
    return json.dumps(
        {
            "name": verdict.name,
            "status": verdict.status,
            "counts": text.counts(verdict),
            "codes": codes,
        }
    )


# ---------------------------------------------------------------- reports


def _folder(root: Path, item: pytest.Item) -> Path:
    """A folder for one check of one test, named after both."""
    name = re.sub(r"[^\w.=-]+", "_", item.nodeid).strip("_")
    return root / (name if _Current.count == 0 else f"{name}_{_Current.count + 1}")


def _reported(spec: Spec, replay: bool, for_all: str | None, folder: Path) -> Verdict:
    """Check, and write what ``shardproof check --report`` writes."""
    from shardproof.present.build import build
    from shardproof.report.folder import write

    seen: list[Evidence] = []
    verdict = spec.check(replay=replay, for_all=for_all, observe=seen.append)
    write(folder, verdict, build(verdict, seen[-1]) if seen else None)
    return verdict


# ---------------------------------------------------------------- hooks


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("shardproof")
    group.addoption(
        "--shardproof-report",
        metavar="DIR",
        help="write the report of every check (JSON and HTML) into a folder of this one",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(axis=[...], ...): run the test for every combination of mesh extents, which are "
        "its arguments",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for mark in metafunc.definition.iter_markers(MARK):
        _parametrise(metafunc, mark)


def _parametrise(metafunc: pytest.Metafunc, mark: pytest.Mark) -> None:
    name, axes = metafunc.definition.name, mark.kwargs
    if mark.args or not axes:
        raise pytest.UsageError(f"{name}: write @pytest.mark.{MARK}(tp=[1, 2], dp=[1, 2])")
    for axis, extents in axes.items():
        if axis not in metafunc.fixturenames:
            raise pytest.UsageError(f"{name}: {MARK} names {axis}, which is no argument of it")
        if not extents or not all(type(n) is int and n >= 1 for n in extents):
            raise pytest.UsageError(f"{name}: {MARK}: {axis} is {extents!r}, not mesh extents")
    rows = list(itertools.product(*axes.values()))
    ids = ["-".join(f"{a}={n}" for a, n in zip(axes, row, strict=True)) for row in rows]
    metafunc.parametrize(list(axes), rows, ids=ids)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _Current.item, _Current.count = item, 0
    try:
        return (yield)
    finally:
        _Current.item = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What is wrong is in the user's programs, not in the frames of a check: no traceback."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, _quiet()):
        path, line = _place(item, call.excinfo)
        first, _, rest = str(call.excinfo.value).partition("\n")
        report.longrepr = f"{first}\n  at {path}:{line} in {item.name}\n{rest}".rstrip()
    return report


def _quiet() -> tuple[type[BaseException], ...]:
    from shardproof.errors import InputError

    return NotRefined, InputError


def _place(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException]) -> tuple[str, int]:
    """The line of the test that checks."""
    entries = [e for e in excinfo.traceback if Path(str(e.path)) == item.path]
    path, line, _ = item.reportinfo()
    number = entries[-1].lineno + 1 if entries else (line or 0) + 1
    try:
        return str(Path(path).relative_to(item.config.rootpath)), number
    except ValueError:
        return str(path), number


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = list(_found(terminalreporter))
    if not found:
        return
    terminalreporter.section("shardproof")
    for nodeid, check in found:
        status = check["status"]
        codes = f" [{', '.join(check['codes'])}]" if check["codes"] else ""
        terminalreporter.write(f"{status:<9}", **{_STYLES.get(status, "red"): True})
        terminalreporter.write_line(f"{nodeid}{codes}: {check['counts']}")
    folder = terminalreporter.config.getoption("shardproof_report", None)
    if folder:
        terminalreporter.write_line(f"reports: {folder}")


def _found(reporter: pytest.TerminalReporter) -> Iterator[tuple[str, dict[str, Any]]]:
    """The checks of all tests, also of those that ran in another process."""
    for reports in reporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for name, value in report.user_properties:
                if name == PROPERTY:
                    yield report.nodeid, json.loads(value)
