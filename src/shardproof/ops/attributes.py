"""Typed access to a node's attributes; whatever is wrong with one is a :class:`ShapeError`."""

from __future__ import annotations

from fractions import Fraction

from shardproof.ir.graph import DTYPES, Attrs
from shardproof.ir.sizes import Poly, Size, at_least
from shardproof.ops.base import Scalar, ShapeError
from shardproof.ops.numbers import exact, scalar


def _wrong(name: str, expected: str, got: object) -> ShapeError:
    return ShapeError(f"attribute {name!r} must be {expected}, got {got!r}")


def integer(attrs: Attrs, name: str) -> int:
    """A concrete integer."""
    value = attrs.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(name, "an integer", value)
    return value


def size(attrs: Attrs, name: str) -> Size:
    """An integer or a symbolic size."""
    value = attrs.get(name)
    if isinstance(value, bool) or not isinstance(value, int | Poly):
        raise _wrong(name, "a size", value)
    return value


def extent(attrs: Attrs, name: str) -> Size:
    """A size that is shown to be >= 0."""
    value = size(attrs, name)
    if not at_least(value, 0):
        raise _wrong(name, "a size that is shown to be >= 0", value)
    return value


def sizes(attrs: Attrs, name: str) -> tuple[Size, ...]:
    """A tuple of sizes, none known to be negative."""
    value = attrs.get(name)
    if not isinstance(value, tuple):
        raise _wrong(name, "a tuple of sizes", value)
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int | Poly):
            raise _wrong(name, "a tuple of sizes", value)
        if not at_least(item, 0):
            raise _wrong(name, "a tuple of sizes that are shown to be >= 0", value)
    return tuple(item for item in value if isinstance(item, int | Poly))


def flag(attrs: Attrs, name: str) -> bool:
    """A boolean; an absent one is false."""
    value = attrs.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(name, "a boolean", value)
    return value


def choice(attrs: Attrs, name: str, allowed: tuple[str, ...]) -> str:
    """One of the words ``allowed``."""
    value = attrs.get(name)
    if not isinstance(value, str) or value not in allowed:
        raise _wrong(name, "one of " + ", ".join(allowed), value)
    return value


def number(attrs: Attrs, name: str) -> Fraction:
    """A finite number, exact."""
    value = attrs.get(name)
    if not isinstance(value, int | float | Fraction):
        raise _wrong(name, "a number", value)
    try:
        return exact(value)[0]
    except ValueError as err:
        raise _wrong(name, "a finite number", value) from err


def scalar_of(attrs: Attrs, name: str) -> Scalar:
    """A number, an infinity or a symbolic size."""
    value = attrs.get(name)
    if not isinstance(value, int | float | Fraction | Poly):
        raise _wrong(name, "a number", value)
    try:
        return scalar(value)
    except ValueError as err:
        raise _wrong(name, "a number", value) from err


def optional_number(attrs: Attrs, name: str) -> Fraction | None:
    """A finite number, or None where the attribute is absent or None."""
    return None if attrs.get(name) is None else number(attrs, name)


def dtype(attrs: Attrs, name: str = "dtype") -> str:
    """The name of an element type."""
    value = attrs.get(name)
    if not isinstance(value, str) or value not in DTYPES:
        raise _wrong(name, "an element type such as 'f32'", value)
    return value


def dim(attrs: Attrs, rank: int, name: str = "dim") -> int:
    """One dim of a tensor with ``rank`` dims, counted from the front."""
    value = integer(attrs, name)
    if not 0 <= value < rank:
        raise _wrong(name, f"a dim in [0, {rank})", value)
    return value


def dims(attrs: Attrs, rank: int, name: str = "dims") -> tuple[int, ...]:
    """Distinct dims of a tensor with ``rank`` dims, in increasing order."""
    value = attrs.get(name)
    if not isinstance(value, tuple):
        raise _wrong(name, f"a tuple of distinct dims in [0, {rank})", value)
    found = sorted(v for v in value if isinstance(v, int) and not isinstance(v, bool))
    if len(found) != len(value) or len(set(found)) != len(found):
        raise _wrong(name, f"a tuple of distinct dims in [0, {rank})", value)
    if any(not 0 <= v < rank for v in found):
        raise _wrong(name, f"a tuple of distinct dims in [0, {rank})", value)
    return tuple(found)


def axis_count(attrs: Attrs, rank: int, name: str = "naxes") -> int:
    """How many trailing dims an operator works on: at least one."""
    value = integer(attrs, name)
    if not 1 <= value <= rank:
        raise _wrong(name, f"a number of trailing dims in [1, {rank}]", value)
    return value
