"""The functions of a file that can be checked."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from types import FunctionType, ModuleType
from typing import Any

from shardproof.cli.returned import returns_spec
from shardproof.spec.spec import Spec


def functions(module: ModuleType) -> list[str]:
    """Names of the functions that a file defines, and of its Specs, in its order."""
    return [name for name, value in vars(module).items() if not name.startswith("_") and (
        isinstance(value, Spec) or _own(value, module))]  # fmt: skip


def checks(module: ModuleType) -> list[str]:
    """Of these the ones that make a Spec, by themselves or by each other, and return it, as far as
    can be told; nothing is called to find out."""
    found = {name: getattr(module, name) for name in functions(module)}
    may = {k: v for k, v in found.items() if isinstance(v, Spec) or returns_spec(v, module)}
    makes = {k for k, v in may.items() if isinstance(v, Spec) or "Spec" in _names(v)}
    before = -1
    while before != len(makes):
        before = len(makes)
        makes |= {k for k, v in may.items() if _names(v) & makes}
    return [k for k in found if k in makes]


def checkable(module: ModuleType, extents: Collection[str]) -> list[str]:
    """Of the checks the ones that can be called with these mesh extents."""
    return [k for k in checks(module) if _fits(getattr(module, k), extents)]


def takes_extents(module: ModuleType) -> list[str]:
    """The checks that must be given arguments, as ``forward(tp, dp)``."""
    names: dict[str, inspect.Signature] = {}
    for name in checks(module):
        value = getattr(module, name)
        if not _fits(value, ()):
            names[name] = inspect.signature(value)
    return [f"{name}({', '.join(s.parameters)})" for name, s in names.items()]


def _own(value: Any, module: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _names(value: Any) -> set[str]:
    """The global names that a function uses, the parts of its annotation of the result too."""
    made = inspect.unwrap(value)
    if not isinstance(made, FunctionType):
        return set()
    returns = made.__annotations__.get("return", "")
    said = returns if isinstance(returns, str) else getattr(returns, "__name__", "")
    return {*made.__code__.co_names, said.rpartition(".")[2].strip("'\"")}


def _fits(value: Any, extents: Collection[str]) -> bool:
    if isinstance(value, Spec):
        return not extents
    try:
        inspect.signature(value).bind(**dict.fromkeys(extents, 1))
    except TypeError:
        return False
    return True
