"""Captures that several Specs share: in a matrix the sequential program is captured once.

Two Specs share a capture where they name the same function (or the same code with equal closed
over values) with the same inputs and the same step. That such a function builds the same program
again is assumed, is listed in the verdict, and is tested once more in the last configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any

from shardproof.errors import InputError

if TYPE_CHECKING:
    from shardproof.frontends.torch_capture import Captured

SHARED = "the sequential program was captured once for all configurations of the matrix"
_PLAIN = (int, float, str, bytes, bool, type(None))


@dataclass(slots=True)
class Captures:
    """Captures by what they were made from; ``last`` is set for the last configuration."""

    made: dict[Any, Captured] = field(default_factory=dict)
    last: bool = False

    def get(self, key: Any, make: Callable[[], Captured]) -> Captured:
        """The capture for ``key``; in the last configuration a second one must be the same.

        Raises:
            InputError: it is not.
        """
        if key not in self.made:
            self.made[key] = make()
        elif self.last and not _same(self.made[key], make()):
            raise InputError(
                "the sequential program is not the same in all configurations",
                where="--matrix",
                expected="a sequential function that does not depend on the mesh extents",
                next_step="build it from its arguments only, or check each configuration alone",
            )
        return self.made[key]


_current: ContextVar[Captures | None] = ContextVar("captures", default=None)


@contextmanager
def shared_captures() -> Iterator[Captures]:
    """Specs that are resolved inside share their sequential captures."""
    captures = Captures()
    token = _current.set(captures)
    try:
        yield captures
    finally:
        _current.reset(token)


def sequential(parts: tuple[Any, ...], make: Callable[[], Captured]) -> Captured:
    """The sequential capture made from ``parts`` (functions and plain values)."""
    captures = _current.get()
    if captures is None:
        return make()
    return captures.get(tuple(_identity(p) for p in parts), make)


def active() -> bool:
    """Whether sequential captures are shared with other configurations."""
    return _current.get() is not None


def _identity(part: Any) -> Any:
    """Equal for parts that mean the same. Objects that are not known to be plain are themselves,
    and are kept alive by the key."""
    if isinstance(part, FunctionType):
        cells = [_cell(c) for c in part.__closure__ or ()]
        extra = (part.__defaults__ or (), part.__kwdefaults__ or {})
        return (part.__code__, id(part.__globals__), _Kept(part), *map(_identity, [*cells, extra]))
    if isinstance(part, tuple | list):
        return (type(part), *map(_identity, part))
    if isinstance(part, dict):
        return (dict, *((k, _identity(v)) for k, v in part.items()))
    if isinstance(part, _PLAIN):
        return (type(part), part)
    return _Same(part)


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


class _Same:
    """Equal to itself alone: an object compared by identity."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


class _Kept(_Same):
    """Equal to every other: only keeps an object, and so the identities of its parts, alive."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Kept)

    def __hash__(self) -> int:
        return 0


def _same(a: Captured, b: Captured) -> bool:
    from shardproof.ir.content import digest

    def content(c: Captured) -> list[Any]:
        low = c.lowered
        return [low.graph, low.random, low.assumptions, sorted(low.casts), _described(c)]

    return digest(content(a)) == digest(content(b))


def _described(c: Captured) -> list[Any]:
    kinds = (c.inputs, c.parameters, c.states, c.outputs)
    return [[(k, v.shape, v.dtype, repr(v.placements)) for k, v in d.items()] for d in kinds]
