"""The parts of statements: sizes, types and attributes, read from a list of tokens."""

from __future__ import annotations

import json
from fractions import Fraction

from shardproof.ir.graph import DTYPES, AttrValue, TensorType
from shardproof.ir.lexer import RESERVED, TextError, Token
from shardproof.ir.sizes import Poly, Size, symbol

_CONSTANTS: dict[str, AttrValue] = {
    "true": True, "True": True, "false": False, "False": False, "none": None, "None": None,
    "inf": float("inf"), "nan": float("nan"),
}  # fmt: skip


class Terms:
    """A cursor over tokens. ``open_symbols`` lets unknown names become size symbols."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.symbols: dict[str, Poly] = {}
        self.open_symbols = False

    # ---------------------------------------------------------------- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def advance(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.position += 1
        return token

    def at(self, text: str) -> bool:
        return self.token.kind in ("punct", "name") and self.token.text == text

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.at(text):
            raise self.error(f"found {self.token}", expected=repr(text))
        return self.advance()

    def expect_kind(self, kind: str, expected: str) -> Token:
        if self.token.kind != kind:
            raise self.error(f"found {self.token}", expected=expected)
        return self.advance()

    def expect_end(self) -> None:
        self.expect_kind("newline", "the end of the statement")

    def error(
        self, what: str, *, at: Token | None = None, expected: str = "", next_step: str = ""
    ) -> TextError:
        token = at or self.token
        return TextError(what, token.line, token.column, expected=expected, next_step=next_step)

    # ---------------------------------------------------------------- types and attributes

    def tensor_type(self) -> TensorType:
        token = self.expect_kind("name", "a type such as f32[4, D]")
        if token.text not in DTYPES:
            raise self.error(
                f"unknown element type {token.text!r}",
                at=token,
                expected=f"one of {' '.join(sorted(DTYPES))}",
            )
        self.expect("[")
        shape: list[Size] = []
        while not self.at("]"):
            shape.append(self.size())
            if not self.accept(","):
                break
        self.expect("]")
        return TensorType(token.text, tuple(shape))

    def attributes(self) -> dict[str, AttrValue]:
        self.expect("{")
        out: dict[str, AttrValue] = {}
        while not self.at("}"):
            key = self.expect_kind("name", "an attribute such as dim=0")
            if key.text in out:
                raise self.error(f"the attribute {key.text!r} is given twice", at=key)
            self.expect("=")
            out[key.text] = self.attribute()
            if not self.accept(","):
                break
        self.expect("}")
        return out

    def attribute(self) -> AttrValue:
        token = self.token
        if token.kind == "string":
            return self.string(self.advance())
        if token.kind == "name" and token.text in _CONSTANTS and token.text not in self.symbols:
            return _CONSTANTS[self.advance().text]
        if self.at("[") or (self.at("(") and self.is_tuple()):
            return self.sequence()
        negative = self.at("-") and self.tokens[self.position + 1]
        if negative and (negative.kind == "float" or negative.text in ("inf", "nan")):
            self.advance()
            return -float(self.advance().text)
        if token.kind == "float":
            return float(self.advance().text)
        return self.number()

    def number(self) -> AttrValue:
        start = self.token
        size = self.size()
        if not self.accept("/"):
            return size
        below = int(self.expect_kind("int", "a whole number below the fraction line").text)
        if not isinstance(size, int):
            raise self.error(
                "sizes have no division", at=start, next_step="name the quotient: S = N*s"
            )
        if below == 0:
            raise self.error("a fraction over zero", at=start)
        return Fraction(size, below)

    def is_tuple(self) -> bool:
        """Whether the bracket here holds a tuple rather than a grouped size."""
        depth = 0
        for token in self.tokens[self.position :]:
            if token.kind == "punct":
                depth += (token.text in "([{") - (token.text in ")]}")
                if depth == 1 and token.text == ",":
                    return True
                if depth == 0:
                    break
        return self.tokens[self.position + 1].text == ")"

    def sequence(self) -> tuple[AttrValue, ...]:
        close = "]" if self.advance().text == "[" else ")"
        items: list[AttrValue] = []
        while not self.at(close):
            items.append(self.attribute())
            if not self.accept(","):
                break
        self.expect(close)
        return tuple(items)

    # ---------------------------------------------------------------- sizes

    def size(self) -> Size:
        out = -self.term() if self.accept("-") else self.term()
        while self.at("+") or self.at("-"):
            out = out + self.term() if self.advance().text == "+" else out - self.term()
        return out

    def term(self) -> Size:
        out = self.factor()
        while self.accept("*"):
            out = out * self.factor()
        return out

    def factor(self) -> Size:
        token = self.token
        if token.kind == "int":
            return int(self.advance().text)
        if token.kind in ("name", "rank"):
            return self.symbol_named(self.advance())
        if self.accept("("):
            out = self.size()
            if not self.at(")") and self.token.kind == "string":
                raise self.error("a one-element tuple needs a comma")
            self.expect(")")
            return out
        hint = 'write a one-element tuple with a comma: ("tp",)' if token.kind == "string" else ""
        raise self.error(f"found {token}", expected="a size such as 4*N + 1", next_step=hint)

    def symbol_named(self, token: Token) -> Size:
        if token.text in self.symbols:
            return self.symbols[token.text]
        if self.open_symbols and token.kind == "name" and token.text not in RESERVED:
            return self.symbols.setdefault(token.text, symbol(token.text))
        if token.kind == "rank":
            raise self.error(
                f"{token.text} is not the rank symbol of a mesh axis",
                at=token,
                next_step=f"add a line such as: mesh {token.text[1:]}=N",
            )
        raise self.error(
            f"the size {token.text!r} is not declared",
            at=token,
            next_step=f"add a line: sizes {token.text}",
        )

    def name_or_string(self, expected: str) -> str:
        if self.token.kind == "string":
            return self.string(self.advance())
        return self.expect_kind("name", expected).text

    def string(self, token: Token) -> str:
        try:
            return str(json.loads(token.text, strict=False))
        except ValueError:
            raise self.error("an unknown escape in a string", at=token) from None

    def unquote(self, token: Token) -> str:
        """The name of a value token."""
        if not token.text.startswith('"'):
            return token.text
        return self.string(token)
