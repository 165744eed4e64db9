"""Types of HLO values: ``f32[8,64]{1,0}``, tuples of them, tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Union

from shardproof.ir.graph import TensorType

_DTYPES = {
    "pred": "b8", "s8": "i8", "s16": "i16", "s32": "i32", "s64": "i64", "u8": "u8",
    "u16": "u16", "u32": "u32", "u64": "u64", "s4": "i8", "u4": "u8", "s2": "i8", "u2": "u8",
    "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64", "c64": "c64", "c128": "c128",
}  # fmt: skip
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\](\{[^}]*\})?")
_LAYOUT = re.compile(r"\{([\d,]*)")


class HloSyntaxError(ValueError):
    """Text that is no HLO; the message says what was found."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array: core element type, extents, and its dims from fastest to slowest in memory."""

    dtype: str
    dims: tuple[int, ...]
    layout: tuple[int, ...]

    @property
    def type(self) -> TensorType:
        """The core type."""
        return TensorType(self.dtype, self.dims)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class NoArray:
    """A token or an opaque handle."""

    name: str


Shape = Union[Array, NoArray, tuple["Shape", ...]]  # noqa: UP007 - recursive alias


def parse_shape(text: str, at: int = 0) -> tuple[Shape, int]:
    """The shape that starts at ``text[at]``, and the position after it.

    Raises:
        HloSyntaxError: there is none, or its sizes are not fixed.
    """
    if text.startswith("(", at):
        return _parse_tuple(text, at + 1)
    m = _ARRAY.match(text, at)
    if m is None:
        raise HloSyntaxError(f"no type at {text[at : at + 40]!r}")
    name, dims, layout = m.groups()
    if name in ("token", "opaque"):
        return NoArray(name), m.end()
    return _array(name, dims, layout), m.end()


def _parse_tuple(text: str, at: int) -> tuple[Shape, int]:
    parts: list[Shape] = []
    while not text.startswith(")", at):
        part, at = parse_shape(text, at)
        parts.append(part)
        while text.startswith((",", " "), at):
            at += 1
        if at >= len(text):
            raise HloSyntaxError("a tuple type that does not end")
    return tuple(parts), at + 1


def _array(name: str, dims: str, layout: str | None) -> Array:
    if not all(d.strip().isdigit() for d in dims.split(",") if d.strip()):
        raise HloSyntaxError(f"the sizes [{dims[:40]}] are not fixed numbers")
    sizes = tuple(int(d) for d in dims.split(",") if d.strip())
    m = _LAYOUT.match(layout or "")
    order = tuple(int(d) for d in m[1].split(",") if d) if m else ()
    if sorted(order) != list(range(len(sizes))):
        order = tuple(reversed(range(len(sizes))))
    return Array(core_dtype(name), sizes, order)


def core_dtype(name: str) -> str:
    """The core element type of an HLO one.

    Raises:
        HloSyntaxError: there is none.
    """
    if name.startswith(("f8e4m3", "f8e3m4")):
        return "f8e4m3"
    if name.startswith(("f8e5m2", "f8e8m0")):
        return "f8e5m2"
    if name not in _DTYPES:
        raise HloSyntaxError(f"the element type {name!r} is not known")
    return _DTYPES[name]
