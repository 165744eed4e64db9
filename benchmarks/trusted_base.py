"""What has to be right for a verdict to be right: the modules, with their lines.

    python benchmarks/trusted_base.py [--write]

The modules are those that the checker of certificates imports, directly or not, found in the
source. ``--write`` puts the tables in docs/soundness.md.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "soundness.md"
BEGIN, END = "<!-- trusted base: generated -->", "<!-- end of the trusted base -->"

CHECKER = ("shardproof.certificate.reading",)
"""What ``verify-certificate`` calls."""
STATEMENT = (
    ("frontends", "printed FX graphs, HLO and live PyTorch programs to graphs"),
    ("spec", "the Spec to relation graphs, obligations and assumptions"),
)
UNCHECKED = (
    ("collectives", "which calls meet, and what they give"),
    ("infer", "relation inference"),
    ("lemmas", "declarations of lemmas: names, statements, checks; nothing runs in a proof"),
)


@dataclass(frozen=True)
class Module:
    """One source file: its name under ``src/shardproof``, its lines, and those of code (neither
    blank nor comment nor docstring)."""

    name: str
    lines: int
    code: int
    about: str


def path_of(name: str) -> Path | None:
    """The file of a module of ours."""
    base = SOURCE.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules of ours that a module imports, those for type checkers apart."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names)
        else:
            yield from imports(node)


def closure(roots: tuple[str, ...]) -> list[str]:
    """The modules of ours that ``roots`` import, directly or not, with themselves."""
    found: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        path = path_of(name)
        if name in found or path is None or not name.startswith("shardproof."):
            continue
        found.add(name)
        todo.extend(imports(ast.parse(path.read_text())))
    return sorted(found)


def code_lines(text: str) -> int:
    """Lines that are neither blank, nor a comment, nor part of a docstring."""
    docs: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            docs.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(x.strip()) and not x.strip().startswith("#") and k not in docs for k, x in lines
    )


def module(path: Path) -> Module:
    text = path.read_text()
    doc = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    about = " ".join(doc.split()).split(". ")[0].rstrip(".")
    name = path.relative_to(SOURCE / "shardproof").as_posix()
    return Module(name, len(text.splitlines()), code_lines(text), about)


def trusted() -> list[Module]:
    """The files that a checked proof rests on; empty ones are left out."""
    paths = [path_of(name) for name in closure(CHECKER)]
    found = [module(p) for p in paths if p is not None]
    return sorted((m for m in found if m.code), key=lambda m: m.name)


def package(name: str) -> Module:
    """All files of a package as one."""
    files = [module(p) for p in sorted((SOURCE / "shardproof" / name).rglob("*.py"))]
    return Module(f"{name}/", sum(m.lines for m in files), sum(m.code for m in files), "")


def tables() -> str:
    """The page's tables."""
    found = trusted()
    groups: dict[str, list[Module]] = {}
    for m in found:
        groups.setdefault(m.name.split("/")[0], []).append(m)
    out = ["| package | files | lines | of code |", "| --- | --- | --- | --- |"]
    for name, files in groups.items():
        out.append(_sums(f"`{name}/`", files))
    out += [_sums("**all**", found), "", "| file | lines | of code | what it is |"]
    out += ["| --- | --- | --- | --- |"]
    out += [f"| `{m.name}` | {m.lines} | {m.code} | {m.about} |" for m in found]
    for title, packages in (
        ("What makes the statement that is proved:", STATEMENT),
        ("What a verdict rests on besides where its certificate was not checked:", UNCHECKED),
    ):
        out += ["", title, "", "| package | lines | of code | |", "| --- | --- | --- | --- |"]
        for name, about in packages:
            m = package(name)
            out.append(f"| `{m.name}` | {m.lines} | {m.code} | {about} |")
    return "\n".join(out)


def _sums(title: str, files: list[Module]) -> str:
    return (
        f"| {title} | {len(files)} | {sum(m.lines for m in files)} | {sum(m.code for m in files)} |"
    )


def written(page: str) -> str:
    """The page with the tables of today."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n\n{tables()}\n\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(written(PAGE.read_text()))
    else:
        print(tables())
