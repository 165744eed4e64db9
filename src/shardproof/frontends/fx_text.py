"""Reads printed FX graphs into statements. The text is data: nothing in it is executed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from shardproof.errors import InputError, shorten
from shardproof.frontends.fx_lexer import (
    Call,
    Cursor,
    Dotted,
    FxSyntaxError,
    Item,
    Ref,
    Token,
    tokenize,
)
from shardproof.frontends.fx_lines import RawStatement, annotation, parse_line
from shardproof.frontends.fx_source import (
    EXPECTED,
    NEXT_STEP,
    GraphText,
    Line,
    choose_graph,
    clean_lines,
    find_graphs,
    read_text,
)
from shardproof.frontends.fx_types import FxType, UnknownDtype
from shardproof.ir.graph import NO_ORIGIN, Origin


class FxStatement(NamedTuple):
    """One FX node. ``kind`` is

    * ``input``: a placeholder;
    * ``call``: ``target`` (without ``torch.ops.``) applied to ``args`` and ``kwargs``;
    * ``getitem``: element ``args[0]`` of the node ``target``;
    * ``attr``: the module attribute ``target`` (its value is not in the text);
    * ``value``: any other expression, ``args[0]`` (size arithmetic, a copy of another name).
    """

    name: str
    kind: str
    type: FxType | None
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    origin: Origin
    line: int


@dataclass(eq=False, slots=True)
class FxGraph:
    """A printed graph as statements in execution order; ``outputs`` is the flat returned list
    (``Ref`` or literal), ``output_names`` names each."""

    name: str
    title: str
    phase: str
    path: str
    statements: list[FxStatement]
    outputs: tuple[Any, ...]
    output_names: tuple[str, ...]
    return_line: int

    def where(self, line: int) -> str:
        """``file:line`` for messages."""
        return f"{self.path}:{line}"


def read_fx(
    source: str | Path, *, graph: str | int | None = None, rank: int | None = None
) -> FxGraph:
    """Read one printed graph from a path or from text.

    ``graph`` chooses among several (position, or part of a title such as "Forward graph 0");
    ``rank`` selects the lines of one rank where ranks logged into one stream.

    Raises:
        InputError: the text cannot be read as a printed FX graph.
    """
    text, path = read_text(source)
    return parse_graph(choose_graph(find_graphs(clean_lines(text, rank), path), graph, path))


def parse_graph(source: GraphText) -> FxGraph:
    """Parse the lines of one graph.

    Raises:
        InputError: see :func:`read_fx`.
    """
    return _Reader(source).read()


_SIGNATURE_LINES = 50_000
_COMMENT_LENGTH = 4000
_FILE = re.compile(
    r"#\s*(?:Annotation: .*? )?File: (?P<file>.*?):(?P<line>\d+) in (?P<func>.*?)"
    r"(?:, code: (?P<code>.*))?$"
)
_MODULE = re.compile(r"#\s*(?:Module|Scope|nn_module_stack): (.*)$")
_CLEANUP = re.compile(r";\s*(?:[A-Za-z_]\w* = )+None\s*$")


class _Reader:
    def __init__(self, source: GraphText) -> None:
        self.source = source
        self.origin = NO_ORIGIN
        self.declared: dict[str, FxType] = {}
        self.defined: dict[str, int] = {}
        self.statements: list[FxStatement] = []
        self.phase = source.phase

    def read(self) -> FxGraph:
        lines = self.source.lines
        params, k = self.signature()
        pending = dict.fromkeys(p for p, t in params.items() if t is None)
        for name, t in params.items():
            if t is not None:
                self.define(RawStatement(name, "input", t, "", (), {}), lines[0])
        while k < len(lines):
            line = lines[k]
            k += 1
            text = line.text.strip()
            if not text:
                continue
            if text[0] == "#":
                self.comment(text[:_COMMENT_LENGTH])
                continue
            if text.startswith(("return ", "return(")) or text == "return":
                return self.finish(line, k, pending)
            self.statement(line, text, pending)
        self.fail(
            "the graph has no return statement: the dump is truncated",
            lines[-1].number,
            "a return statement after the last operator",
            NEXT_STEP,
        )

    # -- signature

    def signature(self) -> tuple[dict[str, FxType | None], int]:
        """Parameters, and the index of the first line of the body."""
        tokens: list[Token] = []
        depth = 0
        for k, line in enumerate(self.source.lines[:_SIGNATURE_LINES]):
            try:
                new = tokenize(line.text)
                for kind, text in new:
                    if kind == "op":
                        depth += (text in "([{") - (text in ")]}")
                tokens += new
                if depth == 0 and new and new[-1] == ("op", ":"):
                    return self.parameters(tokens), k + 1
                if depth < 0:
                    raise FxSyntaxError("unbalanced brackets")
            except FxSyntaxError as e:
                self.syntax(e, line)
        last = self.source.lines[-1]
        self.syntax(FxSyntaxError("the signature is not closed", truncated=True), last)

    def parameters(self, tokens: list[Token]) -> dict[str, FxType | None]:
        cursor = Cursor(tokens[2:])  # after "def", "forward"
        cursor.expect("(")
        out: dict[str, FxType | None] = {}
        while not cursor.accept(")"):
            while cursor.accept("*") or cursor.accept("/") or cursor.accept("**"):
                cursor.accept(",")
            if cursor.accept(")"):
                break
            kind, name = cursor.next()
            if kind != "name" or "." in name or name in out:
                raise FxSyntaxError(f"{name[:40]!r} is not a parameter name of its own")
            out[name] = None
            if cursor.accept(":"):
                out[name] = annotation(cursor)
            if cursor.accept("="):
                cursor.expression()
            if not cursor.accept(","):
                cursor.expect(")")
                break
        if next(iter(out), "") == "self":
            del out["self"]
        return out

    # -- body

    def comment(self, text: str) -> None:
        if "File: " in text:
            self.origin = _origin(text, self.phase)
        elif text.startswith("# No stacktrace"):
            self.origin = NO_ORIGIN
        elif m := _MODULE.match(text):
            o = self.origin
            self.origin = Origin(o.file, o.line, o.function, o.code, m[1], o.phase)

    def statement(self, line: Line, text: str, pending: dict[str, None]) -> None:
        try:
            raws = parse_line(_CLEANUP.sub("", text))
        except FxSyntaxError as e:
            self.syntax(e, line)
        for raw in raws:
            if raw.kind == "declare":
                assert raw.type is not None
                self.declared[raw.name] = raw.type
            elif raw.kind == "unpack":
                self.unpack(raw, line, pending)
            else:
                self.define(raw, line)

    def unpack(self, raw: RawStatement, line: Line, pending: dict[str, None]) -> None:
        """``a, b, = fx_pytree.tree_flatten_spec(...)``: the flat inputs of a joint graph."""
        for name in raw.args:
            t = self.declared.get(name)
            if t is None and name in pending:
                continue  # reported as a parameter without annotation
            if t is None:
                self.no_annotation(name, line)
            if self.defined.get(name) is None:
                self.define(RawStatement(name, "input", t, "", (), {}), line)
        pending.clear()

    def define(self, raw: RawStatement, line: Line) -> None:
        name = raw.name
        if name in self.defined:
            self.fail(
                f"the name {name!r} is defined twice (first on line {self.defined[name]})",
                line.number,
                "every FX node has a name of its own",
                NEXT_STEP,
            )
        self.defined[name] = line.number
        self.statements.append(FxStatement(*raw, self.origin, line.number))

    def finish(self, line: Line, k: int, pending: dict[str, None]) -> FxGraph:
        if pending:
            unused = [p for p in pending if p not in self.declared]
            if unused:
                self.no_annotation(unused[0], self.source.lines[0])
            inputs = [
                FxStatement(p, "input", self.declared[p], "", (), {}, NO_ORIGIN, line.number)
                for p in pending
            ]
            self.statements[:0] = inputs
        value = self.returned(line, k)
        outputs = tuple(_flatten(value))
        names = tuple(o.name if isinstance(o, Ref) else f"none{i}" for i, o in enumerate(outputs))
        s = self.source
        return FxGraph(
            s.name,
            s.title,
            self.phase or self.guess_phase(),
            s.path,
            self.statements,
            outputs,
            names,
            line.number,
        )

    def guess_phase(self) -> str:
        """Incoming gradients are called tangents: with all primals they make a joint graph."""
        inputs = [s.name for s in self.statements if s.kind == "input"]
        if not any(n.startswith("tangents") for n in inputs):
            return ""
        return "joint" if self.declared else "backward"

    def returned(self, line: Line, k: int) -> Any:
        """The returned expression; it may run over several lines."""
        text = line.text.strip()[len("return") :]
        try:
            tokens = tokenize(text)
            while True:
                depth = sum((t in "([{") - (t in ")]}") for c, t in tokens if c == "op")
                if depth <= 0 or k >= len(self.source.lines):
                    break
                tokens += tokenize(self.source.lines[k].text)
                k += 1
            cursor = Cursor(tokens)
            first = cursor.expression() if tokens else ()
            if cursor.accept(","):
                rest: list[Any] = [first]
                while cursor.kind != "end":
                    rest.append(cursor.expression())
                    cursor.accept(",")
                first = tuple(rest)
            if cursor.kind != "end":
                cursor.fail("the end of the return statement")
        except FxSyntaxError as e:
            self.syntax(e, line)
        if isinstance(first, Call) and first.func.endswith("tree_unflatten") and first.args:
            return first.args[0]
        return first

    # -- errors

    def no_annotation(self, name: str, line: Line) -> NoReturn:
        self.fail(
            f"the input {shorten(name, 60)!r} has no type annotation",
            line.number,
            f'{shorten(name, 40)}: "f32[8, 16]"',
            "print the graph with print_readable(), which prints types, not with print(code)",
        )

    def syntax(self, e: FxSyntaxError, line: Line) -> NoReturn:
        if isinstance(e, UnknownDtype):
            self.fail(
                str(e),
                line.number,
                "an element type such as f32, bf16, i64 or b8",
                "check that the file was not altered; quantised types are not supported",
            )
        last = max((ln.number for ln in self.source.lines if ln.text.strip()), default=0)
        cut = e.truncated or line.number == last
        what = f"cannot read {shorten(line.text, 60)!r}: {e}"
        self.fail(
            what + ("; the dump looks truncated" if cut else ""),
            line.number,
            EXPECTED,
            NEXT_STEP,
        )

    def fail(self, what: str, line: int, expected: str, next_step: str) -> NoReturn:
        raise InputError(what, self.source.where(line), expected, next_step)


@lru_cache(maxsize=8192)
def _origin(comment: str, phase: str) -> Origin:
    m = _FILE.match(comment)
    if m is None:
        return NO_ORIGIN
    return Origin(m["file"], int(m["line"][:9]), m["func"], m["code"] or "", "", phase)


def _flatten(value: Any) -> list[Any]:
    """Leaves of the returned structure, in order."""
    out: list[Any] = []
    stack = [value]
    while stack:
        x = stack.pop()
        if isinstance(x, dict):
            stack += reversed(list(x.values()))
        elif isinstance(x, tuple) and not isinstance(x, Ref | Dotted | Call | Item):
            stack += reversed(x)
        else:
            out.append(x)
    return out
