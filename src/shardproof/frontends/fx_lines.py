"""Statements of single lines of printed FX code."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from shardproof.frontends.fx_lexer import (
    Call,
    Cursor,
    Dotted,
    FxSyntaxError,
    Item,
    Ref,
    tokenize,
    unquote,
)
from shardproof.frontends.fx_types import FxType, parse_annotation


class RawStatement(NamedTuple):
    """A statement without its place, shared by all lines with the same text."""

    name: str
    kind: str
    type: FxType | None
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def annotation(cursor: Cursor) -> FxType | None:
    """A quoted annotation; an unquoted one (plain Python types) says nothing."""
    kind, text = cursor.next()
    if kind == "str":
        return parse_annotation(unquote(text))
    cursor.pos -= kind != "end"
    cursor.expression()
    return None


@lru_cache(maxsize=65536)
def parse_line(text: str) -> tuple[RawStatement, ...]:
    """Statements of one line, without place. Cached by text: the files of N ranks share almost
    all of their lines."""
    cursor = Cursor(tokenize(text))
    out: list[RawStatement] = []
    while cursor.kind != "end":
        if cursor.accept(";"):
            continue
        raw = _statement(cursor)
        if raw is not None:
            out.append(raw)
        if cursor.kind != "end":
            cursor.expect(";")
    return tuple(out)


def _statement(cursor: Cursor) -> RawStatement | None:
    kind, name = cursor.next()
    if kind != "name" or "." in name:
        cursor.pos = 0
        raise FxSyntaxError(f"{name[:40]!r} does not start a statement")
    if cursor.text == "," and cursor.kind == "op":
        return _unpack(cursor, name)
    declared: FxType | None = None
    if cursor.accept(":"):
        declared = annotation(cursor)
        if cursor.kind == "end" or cursor.text == ";":
            return RawStatement(name, "declare", declared, "", (), {}) if declared else None
    cursor.expect("=")
    value = cursor.expression()
    while cursor.accept("="):  # a = b = None
        value = cursor.expression()
    return None if value is None else _raw(name, declared, value)


def _unpack(cursor: Cursor, first: str) -> RawStatement:
    names = [first]
    while cursor.accept(","):
        if cursor.kind == "name":
            names.append(cursor.next()[1])
    cursor.expect("=")
    cursor.expression()
    return RawStatement("", "unpack", None, "", tuple(names), {})


def _raw(name: str, annotation: FxType | None, value: Any) -> RawStatement:
    if isinstance(value, Call):
        target = value.func.removeprefix("torch.ops.")
        return RawStatement(name, "call", annotation, target, value.args, value.kwargs)
    if isinstance(value, Item) and isinstance(value.base, Ref):
        return RawStatement(name, "getitem", annotation, value.base.name, (value.index,), {})
    if isinstance(value, Dotted) and value.path.startswith("self."):
        return RawStatement(name, "attr", annotation, value.path[len("self.") :], (), {})
    return RawStatement(name, "value", annotation, "", (value,), {})
