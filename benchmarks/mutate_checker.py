"""Mutation testing of the checker of certificates.

    python benchmarks/mutate_checker.py [--json FILE] [--only FILE ...] [--seconds S]

Every mutant (``checker_mutants.py``) is run in a fork of a process in which the tests of single
steps are collected and the certificates of ``tests/certificate/battery.py`` are read: the functions
that it changes get their changed code. It meets only the tests and certificates that run the
changed line, what killed its neighbours first, then the quickest, and the first that fails ends it;
one that survives for S seconds of them counts as a survivor. A change outside of functions is met
in a process of its own. FILE has one line a mutant, and a run goes on where the last one stopped.
Why survivors may survive stands in ``checker_survivors.toml``; those of which it says nothing are
printed as they are named there. With --report nothing is run.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import importlib
import importlib.machinery
import inspect
import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from benchmarks.checker_mutants import PACKAGE, Mutant, code_of, mutants  # noqa: E402
from benchmarks.checker_survivors import CLASSES, entries, explained, without_mutant  # noqa: E402

TESTS = (
    "test_refusals.py", "test_sums.py", "test_rules.py", "test_forged_steps.py", "test_fold.py",
    "test_roots.py", "test_over_ranks.py", "test_infinite.py", "test_numbers.py", "test_runs.py",
    "test_domains.py", "test_forged_atoms.py", "test_statement.py",
    "test_functions.py", "test_steps.py", "test_collectives.py", "test_coverage.py",
    "test_extrema.py", "test_schedules.py", "test_discrete.py", "test_members.py",
    "test_guards.py", "test_boxes.py", "test_check.py", "test_hostile.py", "test_data.py",
)  # fmt: skip
NAME = "shardproof.certificate."
FRESH_SECONDS = 300
MAX_CALLS = 500
"""Calls of one function in which the lines that a test runs are looked for."""


@dataclass(eq=False)
class Trial:
    """A test or a certificate: what kills a mutant in it (empty: nothing), the lines of the checker
    that it runs, and its CPU seconds."""

    name: str
    run: Callable[[], str]
    lines: set[tuple[str, int]] = field(default_factory=set)
    seconds: float = 0.0


# ------------------------------------------------------------------ tests and certificates


def tests(items: list[Any]) -> list[Trial]:
    """The collected tests."""
    from _pytest.runner import runtestprotocol

    def run(item: Any) -> str:
        reports = runtestprotocol(item, log=False, nextitem=None)
        return item.nodeid if any(r.failed for r in reports) else ""

    return [Trial(item.nodeid, functools.partial(run, item)) for item in items]


class Battery:
    """Right and altered certificates; the problems of many proofs are read once."""

    def __init__(self, path: Path) -> None:
        self.cases: list[Any] = pickle.loads(path.read_bytes())
        self.read: dict[bytes, Any] = {}

    def trials(self) -> list[Trial]:
        """One a certificate."""
        return [Trial(c[0], functools.partial(self.run, c)) for c in self.cases]

    def run(self, case: Any) -> str:
        """Whether the answer is another one than that of the checker."""
        import msgspec

        from shardproof.certificate.document import Proof, decode, problems
        from shardproof.certificate.reading import check_proof

        name, document, proof, accepted, assumed = case
        if document not in self.read:
            doc = decode(document)
            self.read[document] = doc, *problems(doc)
        doc, original, evaluated = self.read[document]
        claims = msgspec.json.decode(proof, type=Proof)
        outcome = check_proof(original, evaluated, claims, doc.fixed, doc.assumed)
        if outcome.agrees != accepted or (accepted and tuple(outcome.assumed) != assumed):
            return f"{name}: {outcome.problem or 'accepted'}"
        return ""


def make_battery(path: Path, alterations: int, programs: int) -> None:
    """Write the certificates as plain tuples, in a process of its own: pytest wants to import the
    package itself."""
    child = os.fork()
    if child == 0:  # an error ends this process, and the parent sees its status
        from tests.certificate.battery import battery

        rows = [_split(c) for c in battery(alterations, programs) if _is_proof(c.data)]
        path.write_bytes(pickle.dumps(rows))
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the certificates could not be made")


def _split(c: Any) -> tuple[str, bytes, bytes, bool, tuple[str, ...]]:
    """A case with its proof apart: the problem of many proofs is read once."""
    data = json.loads(c.data)
    proof = json.dumps(data["proof"]).encode()
    data["proof"] = {**data["proof"], **{k: [] for k in data["proof"]}}
    return c.name, json.dumps(data).encode(), proof, c.accepted, c.assumed


def _is_proof(data: bytes) -> bool:
    """Whether a certificate has the form that the checker works on."""
    from shardproof.certificate.document import decode
    from shardproof.certificate.exact import NotChecked

    try:
        decode(data)
    except NotChecked:
        return False
    return True


def measure(trials: list[Trial]) -> list[str]:
    """Run every trial on the checker as it is: lines and seconds. What fails is returned."""
    folder = str(PACKAGE) + os.sep

    def trace(
        lines: set[tuple[str, int]], calls: Counter[CodeType], frame: Any, event: str, _: Any
    ) -> Any:
        code = frame.f_code
        calls[code] += 1
        if calls[code] > MAX_CALLS or not code.co_filename.startswith(folder):
            return None
        file = code.co_filename.removeprefix(folder)

        def local(f: Any, what: str, _: Any) -> Any:
            if what == "line":
                lines.add((file, f.f_lineno))
            return local

        return local

    failed = []
    for t in trials:
        sys.settrace(functools.partial(trace, t.lines, Counter()))
        try:
            found = t.run()
        finally:
            sys.settrace(None)
        start = time.process_time()
        found = found or t.run()
        t.seconds = time.process_time() - start
        if found:
            failed.append(found)
    return failed


# ------------------------------------------------------------------ putting a mutant in place


def functions(module: Any) -> Iterator[FunctionType]:
    """All functions of a module and of its classes."""
    todo = [x for x in vars(module).values() if getattr(x, "__module__", "") == module.__name__]
    while todo:
        x = inspect.unwrap(todo.pop())
        if isinstance(x, FunctionType):
            yield x
        elif isinstance(x, staticmethod | classmethod):
            todo.append(x.__func__)
        elif isinstance(x, property):
            todo.append(x.fget)
        elif isinstance(x, functools.cached_property):
            todo.append(x.func)
        elif isinstance(x, type):
            todo += [y for y in vars(x).values() if not isinstance(y, type)]


def codes(code: CodeType) -> dict[str, CodeType]:
    """The code of every function by its qualified name; that of the rest is under ``""``."""
    out = {"": code}
    for c in code.co_consts:
        if isinstance(c, CodeType):
            # A function's flags say that it has its own locals on the stack; a class body does not.
            out |= (
                {c.co_qualname: c} if c.co_flags & inspect.CO_OPTIMIZED else codes(c) | {"": code}
            )
    return out


def _rest(code: CodeType) -> Any:
    """What a module or class body does beside defining functions."""
    inner = [_rest(c) for c in code.co_consts if _is_body(c)]
    plain = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, plain, inner


def _is_body(c: Any) -> bool:
    return isinstance(c, CodeType) and not c.co_flags & inspect.CO_OPTIMIZED


@functools.cache
def unchanged(file: str) -> CodeType:
    """The compiled module as it is."""
    return code_of(file)


def patches(m: Mutant) -> list[tuple[FunctionType, CodeType]] | None:
    """The functions that a mutant changes with their code; None if it changes something else."""
    before, after = unchanged(m.file), code_of(m.file, m.number)
    if _rest(before) != _rest(after):
        return None
    old, new = codes(before), codes(after)
    changed = {k for k in old if k and old[k] != new[k]}
    module = importlib.import_module(NAME + m.file.removesuffix(".py"))
    found = [(f, new[f.__qualname__]) for f in functions(module) if f.__qualname__ in changed]
    fits = all(f.__code__.co_freevars == c.co_freevars for f, c in found)
    return found if fits and {f.__qualname__ for f, _ in found} == changed else None


# ------------------------------------------------------------------ running one


class Runner:
    """Runs mutants on the trials that concern them."""

    def __init__(self, trials: list[Trial], battery: Battery, seconds: float) -> None:
        self.battery, self.seconds = battery, seconds
        self.trials = sorted(trials, key=lambda t: t.seconds)
        self.killers: dict[str, list[str]] = {}  # by file; the last ones first

    def killer(self, m: Mutant, lines: set[int]) -> str | None:
        """What kills a mutant; empty if nothing does, None if it changes more than functions.
        ``lines`` are those of its statement."""
        found = patches(m)
        if found is None:
            return None
        mine = [t for t in self.trials if any((m.file, k) in t.lines for k in lines)]
        if not mine:
            return ""
        killers = self.killers.setdefault(m.file, [])
        places = {name: k for k, name in enumerate(killers)}
        spent = Counter[str]()
        order = {}
        for t in mine:  # every file of tests, and the certificates, get the same time
            kind = t.name.split("::")[0] if "::" in t.name else ""
            spent[kind] += t.seconds  # type: ignore[assignment]
            order[t] = (places.get(t.name, 20), spent[kind])
        mine.sort(key=order.__getitem__)
        killer = in_fork(lambda: self._met(m, found, mine), 4 * self.seconds + 10)
        if killer:
            name = killer.split("\n")[0]
            self.killers[m.file] = [name, *(k for k in killers if k != name)][:20]
        return killer

    def _met(self, m: Mutant, found: list[tuple[FunctionType, CodeType]], mine: list[Trial]) -> str:
        for f, code in found:
            f.__code__ = code
        if m.file in ("document.py", "reading.py"):
            self.battery.read.clear()
        start = time.process_time()
        for t in mine:
            try:
                killer = t.run()
            except Exception as e:
                killer = type(e).__name__
            if killer:
                return f"{t.name}\n{killer}"
            if time.process_time() - start > self.seconds:
                break
        return ""


def in_fork(run: Callable[[], str], seconds: float) -> str:
    """The answer of a function that is run in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            signal.signal(signal.SIGPROF, _too_long)
            signal.setitimer(signal.ITIMER_PROF, seconds, 1)
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            found = run()
        except BaseException as e:
            found = type(e).__name__
        os.write(writing, found[:500].encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as f:
        found = f.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return found if status == 0 else f"ended by {status}"


class TooLong(BaseException):
    """More time than any certificate takes."""


def _too_long(*_: Any) -> None:
    raise TooLong


def fresh(m: Mutant) -> str:
    """What kills a mutant in a process that imports it."""
    command = [sys.executable, __file__, "--fresh", m.file, str(m.number)]
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=FRESH_SECONDS, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return "TooLong"
    return f"tests: {done.returncode}" if done.returncode else ""


def run_fresh(file: str, number: int) -> int:
    """The tests with a module that is imported changed."""
    import pytest

    code = code_of(file, number)
    name = NAME + file.removesuffix(".py")
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        return code if fullname == name else original(self, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    # pytest would load the package, which is a plugin, by itself to rewrite its assertions.
    return int(pytest.main([*_plain(), "-x", "--assert=plain"]))


def _plain() -> list[str]:
    files = [str(ROOT / "tests" / "certificate" / f) for f in TESTS]
    return ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o",
            "addopts=--import-mode=importlib", "-m", "not slow", *files]  # fmt: skip


# ------------------------------------------------------------------ all of them


class Session:
    """A plugin of pytest that runs the mutants where pytest would run the tests."""

    def __init__(self, given: argparse.Namespace, battery: Path) -> None:
        self.given, self.path, self.code = given, battery, 0

    def pytest_runtestloop(self, session: Any) -> bool:
        """Measure the trials, then run the mutants that have no answer yet."""
        battery = Battery(self.path)
        trials = [*tests(session.items), *battery.trials()]
        if failed := measure(trials):
            print("the checker itself fails:", *failed, sep="\n")
            self.code = 1
            return True
        gc.collect()
        gc.freeze()
        done = answers(self.given.json)
        todo = [m for m in mutants(self.given.only) if wanted(m, self.given)]
        todo = todo[self.given.first - 1 :: self.given.step]
        left = [m for m in todo if key(m) not in done]
        random.Random(1).shuffle(left)  # what a run does until it is stopped is a sample
        if self.given.only:  # of the files that are named first
            left.sort(key=lambda m: self.given.only.index(m.file.removesuffix(".py")))
        print(f"{len(trials)} tests and certificates, {sum(t.seconds for t in trials):.1f} s; "
              f"{len(todo)} mutants, {len(left)} to run", flush=True)  # fmt: skip
        runner = Runner(trials, battery, self.given.seconds)
        later = [m for m in left if not self.note(m, done, runner.killer(m, statement(m)))]
        for m in later:
            self.note(m, done, fresh(m))
        report(todo, done)
        return True

    def note(self, m: Mutant, done: dict[str, Any], killer: str | None) -> bool:
        """Note the answer for a mutant, if there is one."""
        if killer is None:
            return False
        done[key(m)] = {"key": key(m), **asdict(m), "killer": killer}
        if self.given.json:
            with self.given.json.open("a") as f:
                f.write(json.dumps(done[key(m)]) + "\n")
        if not killer:
            print(f"{m.line}: {m.name}", flush=True)
        return True


def wanted(m: Mutant, given: argparse.Namespace) -> bool:
    """Whether a mutant is one of those asked for."""
    kinds = not given.kinds or m.kind in given.kinds
    return kinds and (not given.lines or f"{m.file}:{m.line}" in given.lines)


@functools.cache
def digest(file: str) -> str:
    """What a file held when a mutant of it was run."""
    return hashlib.sha256((PACKAGE / file).read_bytes()).hexdigest()[:12]


def key(m: Mutant) -> str:
    """A mutant among those of all versions of its file."""
    return f"{m.file} {digest(m.file)} {m.number}"


def answers(path: Path | None) -> dict[str, Any]:
    """The mutants that have been run."""
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["key"]: row for row in rows}


@functools.cache
def statements(file: str) -> list[tuple[int, int]]:
    """The lines of every statement without those of its body."""
    import ast

    out = []
    for node in ast.walk(ast.parse((PACKAGE / file).read_text())):
        if isinstance(node, ast.stmt | ast.match_case | ast.ExceptHandler):
            body = getattr(node, "body", None)
            first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
            last = body[0].lineno - 1 if body else getattr(node, "end_lineno", first)
            out.append((first, max(first, last)))
    return out


def statement(m: Mutant) -> set[int]:
    """The lines of the smallest statement that a mutant changes."""
    found = [s for s in statements(m.file) if s[0] <= m.line <= s[1]]
    first, last = min(found, key=lambda s: s[1] - s[0], default=(m.line, m.line))
    return set(range(first, last + 1))


KILLED, UNEXPLAINED, LEFT = "killed", "unexplained", "not run"


def report(todo: list[Mutant], done: dict[str, Any]) -> None:
    """Mutants by file: killed, or of which class of survivors; then those without explanation."""
    whys = entries()
    found = explained(todo, whys)
    counts = Counter[tuple[str, str]]()
    loose = []
    for m in todo:
        row = done.get(key(m))
        why = found.get(m.name)
        kind = why.group if why else UNEXPLAINED
        kind = LEFT if row is None else KILLED if row["killer"] else kind
        counts[m.file, kind] += 1
        loose += [m.name] if kind == UNEXPLAINED else []
    columns = [KILLED, *CLASSES, UNEXPLAINED, LEFT]
    print(f"{'':20}" + "".join(f"{c:>14}" for c in columns))
    for f in [*sorted({f for f, _ in counts}), "all"]:
        row = [
            sum(n for (g, k), n in counts.items() if k == c and f in (g, "all")) for c in columns
        ]
        print(f"{f:20}" + "".join(f"{n:14}" for n in row))
    print(*loose, sep="\n")
    print(f"survivors without an explanation: {len(loose)}")
    if gone := without_mutant(list(mutants()), whys):
        print("explanations of mutants that there are not:", *gone, sep="\n")


def main(argv: list[str] | None = None) -> int:
    """Run the mutants; the exit code is 1 if the checker itself does not pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--json", type=Path, help="one line a mutant; those in it are not run again"
    )
    parser.add_argument("--only", nargs="*", help="names of files without .py")
    parser.add_argument("--share", default="1/1", help="every M-th mutant from the N-th")
    parser.add_argument("--kinds", nargs="*", help="kinds of changes")
    parser.add_argument("--lines", nargs="*", help="FILE:LINE of mutants to run")
    parser.add_argument("--seconds", type=float, default=1.0, help="for one survivor (1)")
    parser.add_argument("--alterations", type=int, default=400)
    parser.add_argument("--programs", type=int, default=6)
    parser.add_argument("--battery", type=Path, help="a file that keeps the certificates")
    parser.add_argument("--report", action="store_true", help="of the mutants in the file")
    parser.add_argument("--fresh", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.fresh:
        return run_fresh(given.fresh[0], int(given.fresh[1]))
    given.first, given.step = map(int, given.share.split("/"))
    if given.report:
        report([m for m in mutants(given.only) if wanted(m, given)], answers(given.json))
        return 0
    import pytest

    with tempfile.TemporaryDirectory() as folder:
        path = given.battery or Path(folder) / "battery"
        if not path.exists():
            make_battery(path, given.alterations, given.programs)
        session = Session(given, path)
        pytest.main([*_plain(), "-s"], plugins=[session])
    return session.code


if __name__ == "__main__":
    sys.exit(main())
