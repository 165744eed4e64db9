"""Read graphs written as text.

A hand-written program may leave out result types (the shape rule gives them) and the
``group_size`` of collectives (the mesh gives it):

    graph mlp
    mesh tp=N
    sizes S, D, f
    %x = input f32[S, D]
    %w1 = input f32[D, f]
    %w2 = input f32[f, D]
    %h = matmul(%x, %w1)
    %p = matmul(%h, %w2)
    %y = all_reduce(%p) {op="sum", group=("tp",)}
    return %y

In a graph for all ranks of a mesh, ``@tp`` is the rank's coordinate along the axis ``tp``.
Nothing is evaluated: the text is data.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from shardproof.ir.builder import ShapeRule
from shardproof.ir.graph import (
    NO_ORIGIN,
    AttrValue,
    Graph,
    Mesh,
    Node,
    Origin,
    TensorType,
    Value,
)
from shardproof.ir.lexer import RESERVED, TextError, Token, tokenize
from shardproof.ir.sizes import Poly, Size, only_symbol, product, rank_symbol, symbol
from shardproof.ir.terms import Terms


@dataclass(frozen=True)
class TextGraph:
    """A parsed graph, the mesh its header names (None without a ``mesh`` line), and the line of
    each node."""

    graph: Graph
    mesh: Mesh | None
    lines: list[int]


def parse_graph(text: str, infer: ShapeRule | None = None) -> TextGraph:
    """Read one graph.

    ``infer`` is the shape rule of the operators; without it every result needs a type.

    Raises:
        TextError: the text is not a graph, with line and column.
    """
    parser = _Parser(tokenize(text), infer)
    try:
        return parser.parse()
    except RecursionError:
        raise parser.error("brackets are nested too deeply") from None


def parse_size(text: str, known: Iterable[Poly] = ()) -> Size:
    """Read a size such as ``4*N*h + 1``; names that are not in ``known`` become size symbols."""
    parser = _Parser(tokenize(text), None)
    parser.open_symbols = True
    parser.symbols.update({only_symbol(p).name: p for p in known})
    size = parser.size()
    parser.expect_end()
    return size


class _Parser(Terms):
    def __init__(self, tokens: list[Token], infer: ShapeRule | None) -> None:
        super().__init__(tokens)
        self.infer = infer
        self.values: dict[str, Value] = {}
        self.graph = Graph("")
        self.mesh: Mesh | None = None
        self.lines: list[int] = []

    # ---------------------------------------------------------------- statements

    def parse(self) -> TextGraph:
        self.skip_newlines()
        if not self.accept("graph"):
            raise self.error(f"found {self.token}", expected="the header 'graph NAME'")
        self.graph.name = self.name_or_string("a graph name")
        self.expect_end()
        self.skip_newlines()
        returned = False
        while self.token.kind != "end":
            if returned:
                raise self.error("a statement after 'return'", expected="the end of the text")
            returned = self.statement()
            self.expect_end()
            self.skip_newlines()
        if not returned:
            raise self.error("the graph returns nothing", expected="a last line such as: return %y")
        return TextGraph(self.graph, self.mesh, self.lines)

    def skip_newlines(self) -> None:
        while self.token.kind == "newline":
            self.advance()

    def statement(self) -> bool:
        """Parse one statement; True after ``return``."""
        if self.token.kind == "value":
            self.definition()
            return False
        word = self.expect_kind("name", "a statement such as: %h = matmul(%x, %w)")
        if word.text == "return":
            self.returned()
            return True
        header = {
            "rank": self.rank_line,
            "mesh": self.mesh_line,
            "sizes": self.sizes_line,
            "ranks": self.ranks_line,
        }.get(word.text)
        if header is None or self.at("("):
            self.application(word, [])
            return False
        if self.values:
            raise self.error(
                f"'{word.text}' after the first value", at=word, next_step="move it to the top"
            )
        header()
        return False

    def rank_line(self) -> None:
        self.graph.rank = int(self.expect_kind("int", "a rank number").text)

    def mesh_line(self) -> None:
        axes: list[tuple[str, Size]] = []
        self.open_symbols = True
        while self.token.kind == "name":
            axis = self.advance()
            if axis.text in dict(axes):
                raise self.error(f"the mesh axis {axis.text!r} is named twice", at=axis)
            self.expect("=")
            axes.append((axis.text, self.size()))
            if not self.accept(","):
                break
        self.open_symbols = False
        self.mesh = Mesh(tuple(axes))
        for name, _ in axes:
            self.declare("@" + name, self.mesh.index(name), self.token)

    def sizes_line(self) -> None:
        while True:
            token = self.expect_kind("name", "a size name")
            self.declare(token.text, symbol(token.text), token)
            if not self.accept(","):
                return

    def ranks_line(self) -> None:
        while True:
            if self.token.kind not in ("rank", "name"):
                raise self.error(f"found {self.token}", expected="a line such as: ranks r < N")
            token = self.advance()
            self.expect("<")
            self.declare(token.text, rank_symbol(token.text, self.size()), token)
            if not self.accept(","):
                return

    def declare(self, name: str, value: Poly, token: Token) -> None:
        if name in RESERVED:
            raise self.error(f"{name!r} is a word of the text form", at=token)
        if self.symbols.setdefault(name, value) != value:
            raise self.error(f"the size {name!r} is declared twice", at=token)

    def returned(self) -> None:
        while self.token.kind != "newline":
            index = len(self.graph.outputs)
            value = None if self.accept("none") else self.operand()
            name = value.name if value is not None else f"none{index}"
            if self.accept("as"):
                name = self.name_or_string("an output name")
            self.graph.outputs.append(value)
            self.graph.output_names.append(name)
            if not self.accept(","):
                return

    # ---------------------------------------------------------------- definitions

    def definition(self) -> None:
        results = [self.result()]
        while self.accept(","):
            results.append(self.result())
        self.expect("=")
        word = self.expect_kind("name", "an operator name or 'input'")
        if word.text == "input" and not self.at("("):
            self.graph_input(results, word)
        else:
            self.application(word, results)

    def result(self) -> tuple[Token, TensorType | None]:
        token = self.expect_kind("value", "a value such as %x")
        return token, self.tensor_type() if self.accept(":") else None

    def graph_input(self, results: list[tuple[Token, TensorType | None]], word: Token) -> None:
        if len(results) != 1:
            raise self.error("an input line defines one value", at=word)
        if self.graph.nodes:
            raise self.error("an input after the first operator", at=word, next_step="move it up")
        self.graph.inputs.append(self.define(results[0][0], self.tensor_type()))

    def application(self, word: Token, results: list[tuple[Token, TensorType | None]]) -> None:
        self.expect("(")
        inputs = []
        while not self.at(")"):
            inputs.append(self.operand())
            if not self.accept(","):
                break
        self.expect(")")
        attrs = self.attributes() if self.at("{") else {}
        self.add_group_size(attrs, word)
        origin, source = self.origin() if self.accept("!") else (NO_ORIGIN, "")
        types = self.result_types(word, tuple(inputs), attrs, results)
        outputs = tuple(self.define(t, ty) for (t, _), ty in zip(results, types, strict=True))
        self.lines.append(word.line)
        self.graph.nodes.append(Node(word.text, tuple(inputs), attrs, outputs, origin, source))

    def result_types(
        self,
        word: Token,
        inputs: tuple[Value, ...],
        attrs: dict[str, AttrValue],
        results: list[tuple[Token, TensorType | None]],
    ) -> list[TensorType]:
        if self.infer is None:
            for token, given in results:
                if given is None:
                    raise self.error(f"%{token.text} needs a type here", at=token)
            return [given for _, given in results if given is not None]
        try:
            types = self.infer(word.text, tuple(v.type for v in inputs), attrs)
        except (ValueError, KeyError, TypeError) as error:
            raise self.refused(word, inputs, error) from error
        if len(types) != len(results):
            raise self.error(
                f"{word.text} has {len(types)} result(s), {len(results)} named", at=word
            )
        for (token, given), found in zip(results, types, strict=True):
            if given is not None and given != found:
                raise self.error(
                    f"%{token.text} is written as {given}, but {word.text} gives {found}", at=token
                )
        return list(types)

    def refused(self, word: Token, inputs: tuple[Value, ...], error: Exception) -> TextError:
        text = f"missing attribute {error}" if isinstance(error, KeyError) else str(error)
        operands = ", ".join(str(v.type) for v in inputs)
        return self.error(f"{word.text}({operands}): {text}", at=word)

    def define(self, token: Token, type_: TensorType) -> Value:
        name = self.unquote(token)
        if name in self.values:
            raise self.error(f"%{name} is defined twice", at=token, next_step="rename one of them")
        self.values[name] = Value(name, type_)
        return self.values[name]

    def operand(self) -> Value:
        token = self.expect_kind("value", "a value such as %x")
        name = self.unquote(token)
        if name in self.values:
            return self.values[name]
        near = difflib.get_close_matches(name, self.values, n=1)
        hint = f"did you mean %{near[0]}?" if near else "define it on an earlier line"
        raise self.error(f"%{name} is not defined", at=token, next_step=hint)

    def add_group_size(self, attrs: dict[str, AttrValue], word: Token) -> None:
        group = attrs.get("group")
        if not isinstance(group, tuple) or "group_size" in attrs:
            return
        if all(isinstance(axis, int) for axis in group):
            attrs["group_size"] = len(group)
            return
        extents: list[Size] = []
        for axis in group:
            known = dict(self.mesh.axes) if self.mesh else {}
            if not isinstance(axis, str) or axis not in known:
                raise self.error(
                    f"{axis!r} is not a mesh axis of this graph",
                    at=word,
                    expected=f"one of {', '.join(known) or 'none: there is no mesh line'}",
                )
            extents.append(known[axis])
        attrs["group_size"] = product(extents)

    def origin(self) -> tuple[Origin, str]:
        start = self.token
        fields = self.attributes()
        source = str(fields.pop("source", ""))
        line = fields.pop("line", 0)
        texts = {k: v for k, v in fields.items() if isinstance(v, str)}
        known = {"file", "function", "code", "module", "phase"}
        if not isinstance(line, int) or len(texts) != len(fields) or not set(texts) <= known:
            raise self.error(
                "an unknown source mark",
                at=start,
                expected="""!{source="..", file="..", line=1} with texts for function, code,"""
                " module, phase",
            )
        # Callers are not written, so that every field left is a text.
        return Origin(line=line, **texts) if texts or line else NO_ORIGIN, source  # type: ignore[arg-type]
