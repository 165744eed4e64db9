"""Tokens and expressions of printed FX code, read as data.

The grammar is the small part of Python that FX prints: names, dotted paths, literals, calls,
subscripts, lists, tuples, dicts and arithmetic on sizes. Nothing is ever evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

MAX_DEPTH = 40
"""Bound on bracket nesting: deeper text is garbage, and must not exhaust the stack."""
MAX_TERMS = 200
"""Bound on arithmetic operators in one line, for the same reason."""
MAX_LINE = 1 << 20
"""Longest line that is read."""


class FxSyntaxError(ValueError):
    """Text that is not of the printed FX form; ``truncated`` when the text just stops."""

    def __init__(self, message: str, truncated: bool = False) -> None:
        super().__init__(message)
        self.truncated = truncated


# ------------------------------------------------------------------------------ expressions


class Ref(NamedTuple):
    """The value of another FX node."""

    name: str


class Dotted(NamedTuple):
    """A dotted path such as ``torch.float16`` or ``self._tensor_constant0``."""

    path: str


class Call(NamedTuple):
    """A call that is an operand or a right-hand side; ``func`` is a dotted path."""

    func: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Item(NamedTuple):
    """``base[index]``."""

    base: Any
    index: Any


@dataclass(frozen=True, slots=True)
class Arith:
    """Arithmetic or comparison on sizes: ``op`` with one or two operands."""

    op: str
    operands: tuple[Any, ...]


Token = tuple[str, str]

_TOKEN = re.compile(
    r"""[ \t]*(?:
      (?P<num>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    | (?P<str>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<op>->|//|\*\*|==|!=|<=|>=|[()\[\]{},:=+\-*/%;<>@])
    | (?P<end>\#.*|$)
    )""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_WORDS: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "nan": float("nan"),
}
_BINARY = (("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "//", "%", "@"))
_END: Token = ("end", "")


def tokenize(text: str) -> list[Token]:
    """Tokens of one line; a comment ends it."""
    if len(text) > MAX_LINE:
        raise FxSyntaxError(f"a line of {len(text)} characters")
    out: list[Token] = []
    pos = 0
    match = _TOKEN.match
    while True:
        m = match(text, pos)
        if m is None:
            raise FxSyntaxError(
                f"unexpected character {text[pos:].lstrip()[:1]!r}",
                truncated=text[pos:].lstrip()[:1] in ("'", '"'),
            )
        kind = m.lastgroup
        if kind is None or kind == "end":
            return out
        out.append((kind, m[kind]))
        pos = m.end()


def unquote(literal: str) -> str:
    """The value of a string token."""
    body = literal[1:-1]
    if "\\" not in body:
        return body
    return _ESCAPE.sub(lambda m: _ESCAPES.get(m[1], m[1]), body)


class Cursor:
    """A position in a token list, with the expression grammar as methods."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self.tokens = [*tokens, _END]
        self.pos = 0
        self.depth = 0
        self.terms = 0

    # -- tokens

    @property
    def text(self) -> str:
        """Text of the current token; empty at the end."""
        return self.tokens[self.pos][1]

    @property
    def kind(self) -> str:
        return self.tokens[self.pos][0]

    def peek(self, ahead: int = 1) -> Token:
        k = self.pos + ahead
        return self.tokens[k] if k < len(self.tokens) else _END

    def next(self) -> Token:
        tok = self.tokens[self.pos]
        if tok is not _END:
            self.pos += 1
        return tok

    def accept(self, op: str) -> bool:
        kind, text = self.tokens[self.pos]
        if text == op and kind == "op":
            self.pos += 1
            return True
        return False

    def expect(self, op: str) -> None:
        if not self.accept(op):
            self.fail(f"{op!r}")

    def fail(self, wanted: str) -> NoReturn:
        if self.kind == "end":
            raise FxSyntaxError(f"the text ends where {wanted} is needed", truncated=True)
        raise FxSyntaxError(f"found {self.text!r} where {wanted} is needed")

    # -- expressions

    def expression(self, level: int = 0) -> Any:
        """An expression; ``level`` is the binding strength of binary operators."""
        if level == len(_BINARY):
            return self.power()
        left = self.expression(level + 1)
        while self.kind == "op" and self.text in _BINARY[level]:
            op = self.next()[1]
            self.terms += 1
            if self.terms > MAX_TERMS:
                raise FxSyntaxError(f"more than {MAX_TERMS} arithmetic operators in one line")
            left = Arith(op, (left, self.expression(level + 1)))
        return left

    def power(self) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise FxSyntaxError(f"brackets nested deeper than {MAX_DEPTH}")
        if self.accept("-"):
            x = self.power()
            value = Arith("neg", (x,)) if not isinstance(x, int | float) else -x
        else:
            self.accept("+")
            value = self.postfix(self.atom())
            if self.accept("**"):
                value = Arith("**", (value, self.power()))
        self.depth -= 1
        return value

    def atom(self) -> Any:
        kind, text = self.next()
        if kind == "name":
            if text in _WORDS:
                return _WORDS[text]
            return Dotted(text) if "." in text else Ref(text)
        if kind == "num":
            return number(text)
        if kind == "str":
            return unquote(text)
        if text == "[" and kind == "op":
            return self.items("]")
        if text == "(" and kind == "op":
            return self.parenthesised()
        if text == "{" and kind == "op":
            return self.dictionary()
        self.pos -= kind != "end"
        self.fail("a value")

    def postfix(self, base: Any) -> Any:
        while self.kind == "op":
            if self.text == "(" and isinstance(base, Ref | Dotted):
                self.next()
                args, kwargs = self.arguments()
                base = Call(base[0], args, kwargs)
            elif self.text == "[":
                self.next()
                base = Item(base, self.expression())
                self.expect("]")
            else:
                break
        return base

    def items(self, close: str) -> tuple[Any, ...]:
        out: list[Any] = []
        while not self.accept(close):
            out.append(self.expression())
            if not self.accept(","):
                self.expect(close)
                break
        return tuple(out)

    def parenthesised(self) -> Any:
        if self.accept(")"):
            return ()
        first = self.expression()
        if self.accept(")"):
            return first
        self.expect(",")
        return (first, *self.items(")"))

    def dictionary(self) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        while not self.accept("}"):
            key = self.expression()
            if not isinstance(key, str | int):
                raise FxSyntaxError("dictionary keys must be text or integers")
            self.expect(":")
            out[key] = self.expression()
            if not self.accept(","):
                self.expect("}")
                break
        return out

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        while not self.accept(")"):
            if self.kind == "name" and self.peek() == ("op", "="):
                key = self.next()[1]
                self.next()
                if key in kwargs:
                    raise FxSyntaxError(f"argument {key!r} is given twice")
                kwargs[key] = self.expression()
            elif kwargs:
                self.fail("a named argument")
            else:
                args.append(self.expression())
            if not self.accept(","):
                self.expect(")")
                break
        return tuple(args), kwargs


def number(text: str) -> int | float:
    """The value of a number token."""
    if text.isdigit():
        if len(text) > 40:
            raise FxSyntaxError("integer literal of more than 40 digits")
        return int(text)
    return float(text)
