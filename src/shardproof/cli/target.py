"""Finds the Spec that ``FILE.py:function`` names."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from shardproof.cli.listing import checkable, checks, functions, takes_extents
from shardproof.errors import INSTALL_TORCH, InputError, hole, shorten
from shardproof.spec.spec import Spec

_HINT = "name file and function"
_FORM = "FILE.py:function, where the function takes no arguments and returns a Spec"


@dataclass(frozen=True, slots=True)
class Target:
    """What a target names: a function that returns a Spec, or a Spec."""

    text: str
    path: Path
    name: str
    found: Any

    @property
    def line(self) -> int:
        """The line of the function, 1 where it is not known."""
        code = getattr(inspect.unwrap(self.found) if callable(self.found) else None, "__code__", 0)
        return int(getattr(code, "co_firstlineno", 1))

    def require(self, extents: Mapping[str, int]) -> None:
        """Refuse what cannot be called with ``extents``.

        Raises:
            InputError: it is no function, or one of other arguments.
        """
        if not callable(self.found):
            where = f"{self.path}:{self.name}"
            raise _error(f"{self.name} is no function", where, _FORM, "name a function")
        try:
            inspect.signature(self.found).bind(**extents)
        except TypeError as error:
            raise _misfit(self, extents, error) from error
        except ValueError:
            pass  # no signature is known; calling will tell

    def make(self, extents: Mapping[str, int] | None = None) -> Spec:
        """The Spec; ``extents`` are the mesh extents that the function is called with.

        Raises:
            InputError: the function fails, or returns something else.
        """
        if isinstance(self.found, Spec) and not extents:
            return self.found.named(self.name)
        spec = _call(self, extents or {})
        if not isinstance(spec, Spec):
            raise _error(
                f"{self.name} returned {shorten(repr(spec), 60)}",
                self.text,
                "a Spec",
                "end it with: return Spec(...), or for printed graphs Spec.from_graphs(...)",
            )
        return spec.named(self.name)


def load_target(target: str) -> Spec:
    """Import the file and call the function.

    Raises:
        InputError: there is no such file or function, it fails, or it returns something else.
    """
    return find_target(target).make()


def find_target(target: str, extents: Collection[str] = ()) -> Target:
    """Import the file and find the function. A file alone names the only one in it that can be
    checked with these mesh extents.

    Raises:
        InputError: there is no such file or function.
    """
    file, _, name = (target, "", "") if target.endswith(".py") else target.rpartition(":")
    path = Path(file)
    if not file or not (name or file == target):
        raise _error(f"{shorten(target)!r} does not name a function", target, _FORM, _HINT)
    if not path.is_file():
        raise _error(f"there is no file {shorten(file)}", target, _FORM, "check the path")
    if not name:
        return _only(path, extents)
    module = _import(path)
    found = getattr(module, name, None)
    if found is None:
        raise _error(
            f"{path.name} has no function {name!r}", target, _one_of(module), _closest(name, module)
        )
    return Target(target, path, name, found)


def _only(path: Path, extents: Collection[str]) -> Target:
    """The only function of a file that can be checked."""
    module = _import(path)
    names = checkable(module, extents)
    if len(names) == 1:
        return Target(f"{path}:{names[0]}", path, names[0], getattr(module, names[0]))
    if names:
        raise _error(
            f"{path.name} has {len(names)} functions to check",
            str(path),
            f"one of: {', '.join(f'{path}:{name}' for name in names)}",
            "name one of them",
        )
    others = takes_extents(module)
    with_axes = f" with {', '.join(extents)}" if extents else ""
    raise _error(
        f"{path.name} has no function that can be checked{with_axes}",
        str(path),
        f"one of {', '.join(others)} and a --matrix of its arguments" if others else _FORM,
        _next_step(path, others, extents),
    )


def _next_step(path: Path, others: list[str], extents: Collection[str]) -> str:
    if not others or extents:
        return f"write one, and name it: {path}:NAME"
    if len(others) > 1:
        return f"name one, and the axes that it takes: {path}:NAME --matrix tp=1,2"
    name, _, rest = others[0].removesuffix(")").partition("(")
    return f"shardproof check {path}:{name} --matrix {_axes(rest)}"


def _axes(takes: str) -> str:
    return " ".join(f"{axis}=1,2" for axis in takes.split(", "))


def _import(path: Path) -> ModuleType:
    name = f"_shardproof_target_{path.stem}"
    loader = importlib.util.spec_from_file_location(name, path)
    if loader is None or loader.loader is None:
        raise _error(f"{path.name} is no Python file", str(path), _FORM, "name a .py file")
    module = importlib.util.module_from_spec(loader)
    sys.modules[name] = module
    # The file may import its neighbours, as it could when run by Python.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        loader.loader.exec_module(module)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise hole(error) or _failed(f"{path.name} cannot be imported", error, path) from error
    finally:
        sys.path.pop(0)
    return module


def _call(target: Target, extents: Mapping[str, int]) -> object:
    target.require(extents)
    try:
        return target.found(**extents)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise hole(error) or _failed(f"{target.name} failed", error, target.path) from error


def _misfit(target: Target, extents: Mapping[str, int], error: TypeError) -> InputError:
    """The function cannot be called with what there is."""
    where, name = f"{target.path}:{target.name}", target.name
    takes = ", ".join(inspect.signature(target.found).parameters)
    if extents and not takes:
        return _error(
            f"{name} takes no arguments, so that --matrix has nothing to vary",
            where,
            f"a function of the mesh extents: def {name}({', '.join(extents)})",
            f"give it arguments and use them: mesh=Mesh("
            f"{', '.join(f'{axis}={axis}' for axis in extents)}); or leave --matrix out",
        )
    if extents:
        return _wrong_axes(target, extents)
    return _error(
        f"{name} needs arguments: {error}",
        where,
        _FORM,
        f"wrap it: def {name}_4(): return {name}(4); or, for mesh extents, use "
        f"--matrix {_axes(takes)}",
    )


def _wrong_axes(target: Target, extents: Mapping[str, int]) -> InputError:
    """The axes of the matrix are not the arguments of the function."""
    takes = inspect.signature(target.found).parameters
    missing = [n for n, p in takes.items() if n not in extents and p.default is p.empty]
    unknown = next((axis for axis in extents if axis not in takes), "")
    near = difflib.get_close_matches(unknown, [n for n in takes if n not in extents], n=1)
    if not unknown:
        what = f"{target.name} needs {', '.join(missing)} as well"
        step = f"add them: --matrix {' '.join(f'{axis}=1,2' for axis in missing)}"
    else:
        what = f"{target.name} takes no {unknown!r}"
        step = (
            f"did you mean {near[0]}=...?"
            if near
            else f"name the axes as {target.name} names its arguments, or give it this one too"
        )
    expected = f"the axes that {target.name} takes: {', '.join(takes)}"
    return _error(what, f"--matrix, for {target.path}:{target.name}", expected, step)


def _failed(what: str, error: BaseException, path: Path) -> InputError:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).name == path.name and f.lineno]
    line = error.lineno if isinstance(error, SyntaxError) else (lines[-1] if lines else None)
    no_torch = isinstance(error, ModuleNotFoundError) and error.name == "torch"
    return _error(
        f"{what}: {type(error).__name__}: {shorten(str(error))}",
        f"{path}:{line}" if line else str(path),
        "Python that runs to its end",
        INSTALL_TORCH if no_torch else "correct the file; --debug shows the traceback",
    )


def _one_of(module: ModuleType) -> str:
    names = checks(module)
    return f"one of: {shorten(', '.join(names))}" if names else "a function that returns a Spec"


def _closest(name: str, module: ModuleType) -> str:
    near = difflib.get_close_matches(name, checks(module) or functions(module), n=1)
    return f"did you mean {near[0]}?" if near else "check the name of the function"


def _error(what: str, where: str, expected: str, next_step: str) -> InputError:
    return InputError(what, where=where, expected=expected, next_step=next_step)
