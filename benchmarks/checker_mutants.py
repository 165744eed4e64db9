"""Mutants of the checker of certificates: every one is one change of one place in its files.

A comparison, a condition, a part of one, a constant, a sign, a check or a statement left out.
"""

from __future__ import annotations

import ast
from collections import Counter
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
SMALL = ("constant", "any, all", "strict")
NONE = 1 << 30  # the number of no change


@dataclass(frozen=True, slots=True)
class Mutant:
    """The ``number``-th change of a file, what kind it is, and where. A change has the same
    ``name`` after edits elsewhere: the file, the function and what is changed to what (and which of
    equal changes of the function it is)."""

    file: str
    number: int
    kind: str
    line: int
    text: str
    name: str


class Change(ast.NodeTransformer):
    """Makes the ``number``-th change; with a number that there is not, it only counts."""

    def __init__(self, number: int = -1) -> None:
        self.number = number
        self.found: list[tuple[str, int, str]] = []
        self.inside: list[str] = []

    def hit(self, kind: str, node: ast.AST, before: ast.AST | str, after: ast.AST | str) -> bool:
        """Whether this change is to be made."""
        name = ""
        if self.number < 0:
            name = f"{'.'.join(self.inside) or '-'}: {_written(before)} -> {_written(after)}"
        self.found.append((kind, getattr(node, "lineno", 0), name))
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
        return self.named(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self.named(node)

    def named(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        self.inside.append(node.name)
        node.body = self.body(node.body)
        self.inside.pop()
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

    def left_out(self, kind: str, node: ast.stmt) -> bool:
        return self.hit(kind, node, node, "pass")

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if node.exc is None:
            return node
        out = self.left_out("check left out", node)
        return ast.copy_location(ast.Pass(), node) if out else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node
        if self.left_out("statement left out", node):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if self.left_out("statement left out", node):
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node
        negate = self.hit("condition negated", node, f"if {_written(node.test)}", "not")
        node = self.generic_visit(node)  # type: ignore[assignment]
        if negate:
            node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.Not | ast.USub) and self.hit("sign", node, node, node.operand):
            return node.operand
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [node.left, *node.comparators]
        for k, op in enumerate(node.ops):
            if type(op) not in COMPARED:
                continue
            new = COMPARED[type(op)]()
            one, other = (ast.Compare(sides[k], [x], [sides[k + 1]]) for x in (op, new))
            if self.hit("comparison", node, one, other):
                node.ops[k] = new
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        new = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        if self.hit("and, or", node, node, ast.BoolOp(new, node.values)):
            node.op = new
        for k, part in enumerate(node.values):
            left = ast.copy_location(ast.Constant(isinstance(node.op, ast.And)), part)
            if self.hit("part of a condition left out", part, part, left):
                node.values[k] = left
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if type(node.op) in COMPUTED:
            new = COMPUTED[type(node.op)]()
            if self.hit("arithmetic", node, node, ast.BinOp(node.left, new, node.right)):
                node.op = new
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg == "strict" and isinstance(node.value, ast.Constant):
            if self.hit("strict", node.value, "strict=True", "False"):
                node.value = ast.copy_location(ast.Constant(False), node.value)
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        new: int
        if isinstance(node.value, bool):
            new = not node.value
        elif isinstance(node.value, int):
            new = node.value + 1
        else:
            return node
        made = ast.copy_location(ast.Constant(new), node)
        return made if self.hit("constant", node, node, made) else node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in NAMES and isinstance(node.ctx, ast.Load):
            new = ast.copy_location(ast.Name(NAMES[node.id], ast.Load()), node)
            if self.hit("any, all", node, node, new):
                return new
        return node


def _written(x: ast.AST | str) -> str:
    return " ".join((x if isinstance(x, str) else ast.unparse(x)).split())


def mutants(only: list[str] | None = None) -> Iterator[Mutant]:
    """Every mutant of the checker's files."""
    for path in sorted(PACKAGE.glob("*.py")):
        if path.name in NOT_CHECKER or (only and path.stem not in only):
            continue
        source = path.read_text()
        lines = source.splitlines()
        counter = Change()
        counter.visit(_tree(source))
        seen = Counter[str]()
        for k, (kind, line, change) in enumerate(counter.found):
            text = lines[line - 1].strip() if line else ""
            # A constant is nothing without its line.
            name = f"{path.name} {change}" + (f" in {text}" if kind in SMALL else "")
            seen[name] += 1
            name += f" ({seen[name]})" if seen[name] > 1 else ""
            yield Mutant(path.name, k, kind, line, text, name)


def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def code_of(file: str, number: int = -1) -> CodeType:
    """The compiled module with a change; without one by default."""
    path = PACKAGE / file
    tree = Change(number if number >= 0 else NONE).visit(_tree(path.read_text()))
    code: CodeType = compile(ast.fix_missing_locations(tree), str(path), "exec")
    return code
