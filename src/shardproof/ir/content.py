"""A digest of data by its content: equal digests, equal content.

Everything that is in a dataclass goes in, also fields that are added later; a type that is not
known is refused rather than left out. Objects that are compared by identity (values, nodes) are
numbered in the order in which they are met, so that sharing is content too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Any

from shardproof.ir.sizes import Poly


class NoContent(TypeError):
    """Data of a type whose content is not known, such as a function."""


def digest(*things: Any) -> str:
    """The digest of ``things`` as 64 hexadecimal digits.

    Raises:
        NoContent: something in them is of a type that is not known.
    """
    encoder = _Encoder()
    encoder.sequence(things)
    return hashlib.blake2b("".join(encoder.parts).encode(), digest_size=32).hexdigest()


class _Encoder:
    """Appends to ``parts`` a text from which the data could be read back: every token has its
    length or an end."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._number: dict[int, int] = {}
        self._fields: dict[type, tuple[str, Callable[[Any], Any], bool]] = {}
        self._by_type: dict[type, Callable[[Any], None]] = {
            str: self.text,
            int: lambda x: self.parts.append(f"i{x};"),
            bool: lambda x: self.parts.append("T" if x else "F"),
            type(None): lambda x: self.parts.append("N"),
            float: lambda x: self.parts.append(f"f{x.hex()};"),
            Fraction: lambda x: self.parts.append(f"q{x.numerator}/{x.denominator};"),
            tuple: self.sequence,
            list: self.list,
            dict: self.mapping,
            set: self.set,
            frozenset: self.set,
            Poly: self.poly,
        }

    def add(self, thing: Any) -> None:
        kind = type(thing)
        known = self._by_type.get(kind)
        if known is not None:
            known(thing)
        elif is_dataclass(kind):
            self._by_type[kind] = self.record
            self.record(thing)
        elif isinstance(thing, str) and not getattr(thing, "__dict__", None):
            self.parts.append(f"@{kind.__module__}.{kind.__qualname__};")
            self.text(str(thing))
        else:
            raise NoContent(f"no content is known of a {kind.__module__}.{kind.__qualname__}")

    def text(self, x: str) -> None:
        self.parts.append(f"s{len(x)}:{x}")

    def sequence(self, xs: tuple[Any, ...]) -> None:
        self.parts.append(f"({len(xs)}:")
        for x in xs:
            self.add(x)

    def list(self, xs: list[Any]) -> None:
        self.parts.append(f"[{len(xs)}:")
        for x in xs:
            self.add(x)

    def mapping(self, d: dict[Any, Any]) -> None:
        """In the order of the mapping: another order is another content."""
        self.parts.append(f"{{{len(d)}:")
        for k, v in d.items():
            self.add(k)
            self.add(v)

    def set(self, xs: set[Any] | frozenset[Any]) -> None:
        texts = sorted(self._alone(x) for x in xs)
        self.parts.append(f"<{len(texts)}:")
        self.parts.extend(f"{len(t)}:{t}" for t in texts)

    def _alone(self, x: Any) -> str:
        inner = _Encoder()
        inner.add(x)
        if inner._number:
            raise NoContent("a set of objects that are compared by identity has no order")
        return "".join(inner.parts)

    def poly(self, p: Poly) -> None:
        """Terms in no particular order are a set."""
        self.parts.append("p")
        self.set(frozenset(p.terms.items()))

    def record(self, x: Any) -> None:
        """A dataclass: its type, then every field; seen before and by identity: its number."""
        kind = type(x)
        if kind not in self._fields:
            self._fields[kind] = _described(kind)
        header, values, by_identity = self._fields[kind]
        if by_identity:
            number = self._number.get(id(x))
            if number is not None:
                self.parts.append(f"#{number};")
                return
            self._number[id(x)] = len(self._number)
        self.parts.append(header)
        by_type = self._by_type
        for value in values(x):
            known = by_type.get(type(value))
            if known is not None:
                known(value)
            else:
                self.add(value)


def _described(kind: type) -> tuple[str, Callable[[Any], Any], bool]:
    """The header of a dataclass, its fields as a tuple, and whether it is its identity."""
    names = [f.name for f in fields(kind)]
    values: Callable[[Any], Any] = attrgetter(*names) if len(names) > 1 else _one(names)
    header = f"@{kind.__module__}.{kind.__qualname__};"
    return header, values, getattr(kind, "__eq__", None) is object.__eq__


def _one(names: list[str]) -> Callable[[Any], Any]:
    return lambda x: tuple(getattr(x, name) for name in names)
