"""Whether a function may return a Spec: by its annotation, else by what it returns."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from shardproof.spec.spec import Spec

_ANYTHING = frozenset({"Any", "object"})
_NO_SPEC = (
    ast.Constant, ast.JoinedStr, ast.Compare, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Lambda,
    ast.BinOp, ast.UnaryOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip


def returns_spec(value: Any, module: ModuleType) -> bool:
    """False only where the function says, by annotation or code, that it returns another thing."""
    made = inspect.unwrap(value)
    if not isinstance(made, FunctionType):
        return True
    if inspect.isgeneratorfunction(made) or inspect.iscoroutinefunction(made):
        return False
    said = made.__annotations__.get("return", inspect.Signature.empty)
    if said is not inspect.Signature.empty:
        words = re.findall(r"\w+", said if isinstance(said, str) else _shown(said))
        if not _ANYTHING & set(words):
            return any(_is_spec(w, module) for w in words)
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(made))).body
    except (OSError, SyntaxError, ValueError):
        return True
    return any(_may_be(r.value) for r in _returns(tree))


def _shown(said: object) -> str:
    return said.__name__ if isinstance(said, type) else repr(said)


def _is_spec(word: str, module: ModuleType) -> bool:
    found = getattr(module, word, None)
    return word == "Spec" or (isinstance(found, type) and issubclass(found, Spec))


def _returns(node: ast.AST) -> Iterator[ast.Return]:
    """The return statements of a function, without those of functions inside."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _returns(child)


def _may_be(node: ast.expr | None) -> bool:
    if isinstance(node, ast.IfExp):
        return _may_be(node.body) or _may_be(node.orelse)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        # A method of what another call returns: one of Spec that gives no Spec is the end of it.
        method = getattr(Spec, node.func.attr, None)
        gives = getattr(method, "__annotations__", {}).get("return", "Spec")
        return not isinstance(node.func.value, ast.Call) or gives == "Spec"
    return node is not None and not isinstance(node, _NO_SPEC)
