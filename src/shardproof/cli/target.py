"""Finds the Spec that ``FILE.py:function`` names."""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from shardproof.errors import InputError, shorten
from shardproof.spec.spec import Spec

_FORM = "FILE.py:function, where the function takes no arguments and returns a Spec"


def load_target(target: str) -> Spec:
    """Import the file and call the function.

    Raises:
        InputError: there is no such file or function, it fails, or it returns something else.
    """
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise _error(f"{shorten(target)!r} does not name a function", target, _FORM, _hint(target))
    path = Path(file)
    if not path.is_file():
        raise _error(f"there is no file {shorten(file)}", target, _FORM, "check the path")
    module = _import(path)
    found = getattr(module, name, None)
    if found is None:
        raise _error(
            f"{path.name} has no function {name!r}", target, _one_of(module), _closest(name, module)
        )
    spec = found if isinstance(found, Spec) else _call(found, path, name)
    if not isinstance(spec, Spec):
        raise _error(
            f"{name} returned {shorten(repr(spec), 60)}",
            target,
            "a Spec",
            "return Spec.from_graphs(...)",
        )
    return spec.named(name)


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
        raise _failed(f"{path.name} cannot be imported", error, path) from error
    finally:
        sys.path.pop(0)
    return module


def _call(found: Any, path: Path, name: str) -> object:
    if not callable(found):
        raise _error(f"{name} is no function", f"{path}:{name}", _FORM, "name a function")
    try:
        inspect.signature(found).bind()
    except TypeError as error:
        raise _error(
            f"{name} needs arguments: {error}", f"{path}:{name}", _FORM,
            f"wrap it: def {name}_4(): return {name}(4)",
        ) from error  # fmt: skip
    except ValueError:
        pass  # no signature is known; calling will tell
    try:
        return found()
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(f"{name} failed", error, path) from error


def _failed(what: str, error: BaseException, path: Path) -> InputError:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f.lineno for f in frames if Path(f.filename).name == path.name and f.lineno]
    line = error.lineno if isinstance(error, SyntaxError) else (lines[-1] if lines else None)
    return _error(
        f"{what}: {type(error).__name__}: {shorten(str(error))}",
        f"{path}:{line}" if line else str(path),
        "Python that runs to its end",
        "correct the file; --debug shows the traceback",
    )


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (isinstance(value, Spec) or getattr(value, "__module__", None) == module.__name__)
        and (isinstance(value, Spec) or inspect.isfunction(value))
    ]


def _one_of(module: ModuleType) -> str:
    names = _functions(module)
    return f"one of: {shorten(', '.join(names))}" if names else "a function that returns a Spec"


def _closest(name: str, module: ModuleType) -> str:
    near = difflib.get_close_matches(name, _functions(module), n=1)
    return f"did you mean {near[0]}?" if near else "check the name of the function"


def _hint(target: str) -> str:
    return (
        f"add the function: {target}:NAME" if target.endswith(".py") else "name file and function"
    )


def _error(what: str, where: str, expected: str, next_step: str) -> InputError:
    return InputError(what, where=where, expected=expected, next_step=next_step)
