"""Mutants of the checker of certificates: every one is one change of one place in its files.

A comparison, a condition, a part of one, a constant, a sign, a check or a statement left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "shardproof" / "certificate"
NOT_CHECKER = ("__init__.py", "agree.py", "write.py")
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


def code_of(file: str, number: int = -1) -> CodeType:
    """The compiled module with a change; without one by default."""
    path = PACKAGE / file
    tree = Change(number).visit(_tree(path.read_text()))
    code: CodeType = compile(ast.fix_missing_locations(tree), str(path), "exec")
    return code
