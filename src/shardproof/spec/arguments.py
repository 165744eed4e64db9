"""Checks of what users pass, at the place where they pass it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from shardproof.errors import InputError, shorten
from shardproof.ir.sizes import Poly, Size


def argument_error(what: str, where: str, expected: str) -> InputError:
    """The error for an argument of an unusable kind."""
    return InputError(what, where=where, expected=expected, next_step="correct this argument")


def whole(value: Any, where: str, name: str) -> int:
    """A whole number such as a dim.

    Raises:
        InputError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise argument_error(f"{name} is {shorten(repr(value), 40)}", where, "a whole number")
    return value


def size_tuple(values: Any, where: str, name: str, *, least: int = 0) -> tuple[Size, ...]:
    """A tuple of sizes: whole numbers from ``least`` on, or symbolic sizes.

    Raises:
        InputError: it is something else.
    """
    expected = f"a list of whole numbers of at least {least}, or of symbolic sizes"
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise argument_error(f"{name} is {shorten(repr(values), 40)}", where, expected)
    out = tuple(values)
    for v in out:
        number = isinstance(v, int) and not isinstance(v, bool) and v >= least
        if not number and not isinstance(v, Poly):
            raise argument_error(f"{name} has {shorten(repr(v), 40)}", where, expected)
    return out


def mapping(value: Any, where: str) -> dict[str, Any]:
    """A mapping from names; None is the empty one.

    Raises:
        InputError: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise argument_error(
            f"{where} is {shorten(repr(value), 60)}", where, "a mapping from names"
        )
    return dict(value)


def values_of_kind(value: Any, where: str, kinds: Callable[[Any], bool], expected: str) -> Any:
    """A mapping from names to values of one kind; None is the empty one.

    Raises:
        InputError: it is something else.
    """
    found = mapping(value, where)
    for key, entry in found.items():
        if not kinds(entry):
            raise argument_error(
                f"{shorten(repr(entry), 40)} is of no use here", f"{where}[{key!r}]", expected
            )
    return found


def name_list(value: Any, where: str) -> tuple[str, ...]:
    """A list of names.

    Raises:
        InputError: it is something else.
    """
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Iterable) or not all(isinstance(n, str) for n in names):
        raise argument_error(f"{where} is {shorten(repr(value), 60)}", where, "a list of names")
    return tuple(names)
