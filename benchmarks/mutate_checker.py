"""Mutation testing of the checker of certificates.

    python benchmarks/mutate_checker.py [--json FILE] [--share N/M] [--only FILE ...]

Every mutant is one change of one place in the checker's files: a comparison, a condition, a
constant, a sign, a check or statement left out. It is run in a process of its own on the tests of
single steps and on the battery of certificates of ``tests/certificate/battery.py``: it is killed
if a test fails, or if it answers another thing than the checker does, crashes, or takes far longer.
Survivors are listed; what is known of them stands in docs/certificate.md.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.machinery
import json
import os
import pickle
import resource
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
PACKAGE = ROOT / "src" / "shardproof" / "certificate"
NOT_CHECKER = ("__init__.py", "agree.py", "write.py")
TESTS = ("test_refusals.py", "test_sums.py", "test_forged_steps.py", "test_fold.py")
COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {"any": "all", "all": "any", "min": "max", "max": "min", "smin": "smax", "smax": "smin"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """The ``number``-th change of a file, what kind it is, and where."""

    file: str
    number: int
    kind: str
    line: int
    text: str


# ------------------------------------------------------------------ making mutants


class Change(ast.NodeTransformer):
    """Makes the ``number``-th change; with a number that there is not, it only counts."""

    def __init__(self, number: int = -1) -> None:
        self.number = number
        self.found: list[tuple[str, int]] = []

    def hit(self, kind: str, node: ast.AST) -> bool:
        self.found.append((kind, getattr(node, "lineno", 0)))
        return len(self.found) - 1 == self.number

    # Nothing that is only read by people or by the type checker is changed.
    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.body = self.body(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = self.body(node.body)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        limits = isinstance(node.targets[0], ast.Name) and node.targets[0].id.startswith("MAX_")
        return node if limits else self.generic_visit(node)

    def body(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for s in body:
            made = self.visit(s)
            out += made if isinstance(made, list) else [made]
        return out

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if node.exc is None:
            return node
        return ast.copy_location(ast.Pass(), node) if self.hit("check left out", node) else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node
        if self.hit("statement left out", node):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if self.hit("statement left out", node):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node
        negate = self.hit("condition negated", node)
        node = self.generic_visit(node)  # type: ignore[assignment]
        if negate:
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.Not | ast.USub) and self.hit("sign", node):
            return node.operand
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        for k, op in enumerate(node.ops):
            if type(op) in COMPARED and self.hit("comparison", node):
                node.ops[k] = COMPARED[type(op)]()
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if self.hit("and, or", node):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        for k in range(len(node.values)):
            if self.hit("part of a condition left out", node.values[k]):
                node.values[k] = ast.copy_location(
                    ast.Constant(isinstance(node.op, ast.And)), node.values[k]
                )
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if type(node.op) in COMPUTED and self.hit("arithmetic", node):
            node.op = COMPUTED[type(node.op)]()
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, bool):
            if self.hit("constant", node):
                return ast.copy_location(ast.Constant(not node.value), node)
        elif isinstance(node.value, int) and self.hit("constant", node):
            return ast.copy_location(ast.Constant(node.value + 1), node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in NAMES and isinstance(node.ctx, ast.Load) and self.hit("any, all", node):
            return ast.copy_location(ast.Name(NAMES[node.id], ast.Load()), node)
        return node


def mutants(only: list[str] | None = None) -> Iterator[Mutant]:
    """Every mutant of the checker's files."""
    for path in sorted(PACKAGE.glob("*.py")):
        if path.name in NOT_CHECKER or (only and path.stem not in only):
            continue
        source = path.read_text()
        lines = source.splitlines()
        counter = Change()
        counter.visit(_tree(source))
        for k, (kind, line) in enumerate(counter.found):
            yield Mutant(path.name, k, kind, line, lines[line - 1].strip() if line else "")


def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def code_of(m: Mutant) -> Any:
    """The compiled module with the change."""
    path = PACKAGE / m.file
    tree = Change(m.number).visit(copy.deepcopy(_tree(path.read_text())))
    return compile(ast.fix_missing_locations(tree), str(path), "exec")


# ------------------------------------------------------------------ running one


def run(m: Mutant | None, cases: list[Any], seconds: float) -> str:
    """What kills a mutant (empty: nothing), found in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.signal(signal.SIGPROF, _too_long)
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
            found = _killed_by(m, cases)
        except BaseException as e:
            found = f"{type(e).__name__}"
        os.write(writing, found[:500].encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as f:
        found = f.read().decode()
    _, status = os.waitpid(child, 0)
    return found if status == 0 else f"ended by {status}"


class TooLong(BaseException):
    """More time than any certificate takes."""


def _too_long(*_: Any) -> None:
    raise TooLong


def _killed_by(m: Mutant | None, cases: list[Any]) -> str:
    if m is not None:
        code = code_of(m)
        name = f"shardproof.certificate.{m.file.removesuffix('.py')}"
        original = importlib.machinery.SourceFileLoader.get_code

        def get_code(self: Any, fullname: str) -> Any:
            return code if fullname == name else original(self, fullname)

        importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    import msgspec

    if failed := _tests():
        return failed
    from shardproof.certificate.document import Proof, decode, problems
    from shardproof.certificate.reading import check_proof

    read: dict[bytes, Any] = {}
    for name, document, proof, accepted, assumed in cases:
        if document not in read:
            doc = decode(document)
            read[document] = doc, *problems(doc)
        doc, original, evaluated = read[document]
        claims = msgspec.json.decode(proof, type=Proof)
        outcome = check_proof(original, evaluated, claims, doc.fixed, doc.assumed)
        if outcome.agrees != accepted or (accepted and tuple(outcome.assumed) != assumed):
            return f"{name}: {outcome.problem or 'accepted'}"
    return ""


def _tests() -> str:
    """The tests of single steps; what they print is dropped."""
    import pytest

    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    files = [str(ROOT / "tests" / "certificate" / f) for f in TESTS]
    plain = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = pytest.main([*plain, "-o", "addopts=--import-mode=importlib", *files])
    return f"tests: {code}" if code else ""


def battery(path: Path, alterations: int, programs: int) -> list[Any]:
    """The cases as plain tuples. They are made in a process of its own, so that the checker is
    not imported here: every mutant imports it anew."""
    if not path.exists():
        child = os.fork()
        if child == 0:  # an error ends this process, and the parent sees its status
            from tests.certificate.battery import battery as make

            made = make(alterations, programs)
            rows = [_split(c) for c in made if _is_proof(c.data)]
            path.write_bytes(pickle.dumps(rows))
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the certificates could not be made")
    rows: list[Any] = pickle.loads(path.read_bytes())
    return rows


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


def main(argv: list[str] | None = None) -> int:
    """Run the mutants; the exit code is 1 if the checker itself does not pass."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="where the survivors are written")
    parser.add_argument("--only", nargs="*", help="names of files without .py")
    parser.add_argument("--share", default="1/1", help="every M-th mutant from the N-th")
    parser.add_argument("--kinds", nargs="*", help="kinds of changes")
    parser.add_argument("--lines", nargs="*", help="FILE:LINE of mutants to run again")
    parser.add_argument("--alterations", type=int, default=900)
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--battery", type=Path, help="a file that keeps the certificates")
    given = parser.parse_args(argv)
    first, step = map(int, given.share.split("/"))
    import msgspec  # noqa: F401 - the children need it; it is loaded once
    import pytest  # noqa: F401

    import shardproof.ops
    import shardproof.spec.problem  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        path = given.battery or Path(folder) / "battery"
        cases = battery(path, given.alterations, given.programs)
    start = os.times().children_user
    if found := run(None, cases, 600):
        print(f"the checker itself fails: {found}")
        return 1
    limit = max(10.0, 5 * (os.times().children_user - start))
    todo = [m for m in mutants(given.only) if not given.kinds or m.kind in given.kinds]
    if given.lines:
        todo = [m for m in todo if f"{m.file}:{m.line}" in given.lines]
    todo = todo[first - 1 :: step]
    print(f"{len(cases)} certificates, {len(todo)} mutants, {limit / 5:.1f} s for one", flush=True)
    survivors, counts = [], Counter[tuple[str, bool]]()
    for k, m in enumerate(todo):
        killer = run(m, cases, limit)
        # What killed one mutant is likely to kill the next.
        cases.sort(key=lambda c, killer=killer: not killer.startswith(f"{c[0]}: "))
        counts[m.file, bool(killer)] += 1
        if not killer:
            survivors.append(m)
            print(f"{k}: {m.file}:{m.line} {m.kind}: {m.text[:90]}", flush=True)
    report(counts)
    if given.json:
        table = [[f, killed, n] for (f, killed), n in sorted(counts.items())]
        left = [asdict(m) for m in survivors]
        rows = {"schema": "shardproof-mutants/1", "survivors": left, "counts": table}
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def report(counts: Counter[tuple[str, bool]]) -> None:
    """Killed mutants by file."""
    files = sorted({f for f, _ in counts})
    for f in [*files, "all"]:
        killed = sum(n for (g, k), n in counts.items() if k and f in (g, "all"))
        total = sum(n for (g, _), n in counts.items() if f in (g, "all"))
        print(f"{f:20}{killed:6} of {total:5} killed, {100 * killed / max(total, 1):5.1f} %")


if __name__ == "__main__":
    sys.exit(main())
