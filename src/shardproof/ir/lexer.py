"""Tokens of the text form, and the error that the lexer and the parser raise."""

from __future__ import annotations

import re
from dataclasses import dataclass

RESERVED = frozenset("true false none inf nan".split())


class TextError(ValueError):
    """Text that is not a graph: where, what was found, what was expected, what to do next."""

    def __init__(
        self, what: str, line: int, column: int, *, expected: str = "", next_step: str = ""
    ) -> None:
        self.what = what
        self.line = line
        self.column = column
        self.expected = expected
        self.next_step = next_step
        parts = [f"{line}:{column}: {what}"]
        parts += [f"expected {expected}"] if expected else []
        parts += [next_step] if next_step else []
        super().__init__("; ".join(parts))


@dataclass(frozen=True, slots=True)
class Token:
    """``kind`` is value, name, rank, int, float, string, punct, newline or end; ``text`` is the
    token without its mark or quotes still in place for strings."""

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        if self.kind in ("newline", "end"):
            return "the end of the line" if self.kind == "newline" else "the end of the text"
        return f"%{self.text}" if self.kind == "value" else self.text


# The order matters: a float before an int, a value name before punctuation.
_TOKENS = re.compile(
    r"""
    (?P<space>[ \t\r]+)
  | (?P<comment>\#[^\n]*)
  | (?P<newline>\n)
  | (?P<value>%(?:[A-Za-z0-9_.$/\#-]*[A-Za-z0-9_$\#]|"(?:[^"\\\n]|\\.)*"))
  | (?P<rank>@[A-Za-z_][\w.]*)
  | (?P<float>\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<int>\d+)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<name>[A-Za-z_][\w.]*)
  | (?P<punct>[(){}\[\],=:*+/!<-])
    """,
    re.VERBOSE,
)
_MAX_DIGITS = 1000
_OPENING, _CLOSING = "([{", ")]}"


def tokenize(text: str) -> list[Token]:
    """Split ``text`` into tokens; line ends inside brackets and empty lines are dropped."""
    out: list[Token] = []
    position, line, line_start, depth = 0, 1, 0, 0
    while position < len(text):
        column = position - line_start + 1
        match = _TOKENS.match(text, position)
        if match is None:
            raise _unknown(text, position, line, column)
        position = match.end()
        kind = match.lastgroup or ""
        body = match.group()
        if kind == "newline":
            if depth == 0 and out and out[-1].kind != "newline":
                out.append(Token("newline", "", line, column))
            line, line_start = line + 1, position
        elif kind == "int" and len(body) > _MAX_DIGITS:
            raise TextError(f"a number with {len(body)} digits", line, column)
        elif kind not in ("space", "comment"):
            depth += (body in _OPENING) - (body in _CLOSING) if kind == "punct" else 0
            depth = max(depth, 0)
            out.append(Token(kind, body[1:] if kind == "value" else body, line, column))
    out.append(Token("newline", "", line, position - line_start + 1))
    out.append(Token("end", "", line, position - line_start + 1))
    return out


def _unknown(text: str, position: int, line: int, column: int) -> TextError:
    if text[position] == '"':
        return TextError("a string is not closed", line, column, expected='a closing "')
    if text[position] == "%":
        return TextError("% without a name", line, column, expected="a value such as %x")
    return TextError(
        f"unexpected character {text[position]!r}",
        line,
        column,
        expected="a statement such as: %h = matmul(%x, %w)",
    )
