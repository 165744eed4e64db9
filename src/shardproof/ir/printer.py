"""Print a graph as text; :func:`shardproof.ir.parser.parse_graph` reads it back unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction

from shardproof.ir.graph import NO_ORIGIN, AttrValue, Graph, Mesh, Node, Value
from shardproof.ir.lexer import RESERVED
from shardproof.ir.sizes import Poly, Size, Symbol, format_size, symbols

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.$/#-]*[A-Za-z0-9_$#]")
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.]*")
_SYMBOL = re.compile(r"@?[A-Za-z_][\w.]*")
_ORIGIN_FIELDS = ("file", "line", "function", "code", "module", "phase")


def print_graph(graph: Graph, mesh: Mesh | None = None, *, origins: bool = True) -> str:
    """The text form of ``graph``; ``origins=False`` leaves out source names and lines."""
    return "\n".join(_lines(graph, mesh, origins)) + "\n"


def format_attr(value: AttrValue) -> str:
    """The text of an attribute value."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, tuple):
        inner = ", ".join(map(format_attr, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return format_size(value)


def format_attrs(node: Node) -> str:
    """The attributes of a node in braces; empty when it has none."""
    if not node.attrs:
        return ""
    return "{" + ", ".join(f"{k}={format_attr(v)}" for k, v in node.attrs.items()) + "}"


def format_node(node: Node) -> str:
    """One node without its source, such as ``%y: f32[4] = exp(%x)``."""
    left = ", ".join(f"{_value(v)}: {v.type}" for v in node.outputs)
    body = f"{node.op}({', '.join(map(_value, node.inputs))})"
    attrs = format_attrs(node)
    return (f"{left} = " if left else "") + body + (f" {attrs}" if attrs else "")


def quote(text: str) -> str:
    """A string literal on one line."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _lines(graph: Graph, mesh: Mesh | None, origins: bool) -> Iterator[str]:
    yield f"graph {graph.name if _PLAIN_NAME.fullmatch(graph.name) else quote(graph.name)}"
    if graph.rank is not None:
        yield f"rank {graph.rank}"
    if mesh is not None:
        yield f"mesh {', '.join(f'{axis}={format_size(n)}' for axis, n in mesh.axes)}".rstrip()
    yield from _declarations(graph, mesh)
    for v in graph.inputs:
        yield f"{_value(v)} = input {v.type}"
    for node in graph.nodes:
        yield format_node(node) + (_origin(node) if origins else "")
    yield ("return " + ", ".join(_returned(graph))).rstrip()


def _declarations(graph: Graph, mesh: Mesh | None) -> Iterator[str]:
    """``sizes`` and ``ranks`` lines for the symbols that the mesh line does not introduce."""
    given = {s for _, n in mesh.axes for s in symbols(n)} if mesh else set()
    if mesh:
        given |= {s for axis, _ in mesh.axes for s in symbols(mesh.index(axis))}
    found = _closure(_all_sizes(graph))
    by_name: dict[str, Symbol] = {}
    for s in sorted(found | given):
        if not _SYMBOL.fullmatch(s.name) or s.name in RESERVED:
            raise ValueError(f"the size symbol {s.name!r} has no text form")
        if by_name.setdefault(s.name, s) != s:
            raise ValueError(f"two different size symbols are called {s.name!r}")
    sizes = [s.name for s in by_name.values() if s.extent is None and s not in given]
    if sizes:
        yield "sizes " + ", ".join(sizes)
    ranks = [s for s in by_name.values() if s.extent is not None and s not in given]
    if ranks:
        yield "ranks " + ", ".join(f"{s.name} < {s.extent}" for s in _extents_first(ranks))


def _extents_first(ranks: list[Symbol]) -> list[Symbol]:
    """Order rank symbols so that an extent only mentions earlier ones."""

    def depth(s: Symbol) -> int:
        inner = symbols(s.extent) if s.extent is not None else set()
        return 1 + max((depth(t) for t in inner), default=0)

    return sorted(ranks, key=lambda s: (depth(s), s.name))


def _closure(sizes: Iterable[Size]) -> set[Symbol]:
    out: set[Symbol] = set()
    todo = [s for size in sizes for s in symbols(size)]
    while todo:
        s = todo.pop()
        if s not in out:
            out.add(s)
            todo.extend(symbols(s.extent) if s.extent is not None else ())
    return out


def _all_sizes(graph: Graph) -> Iterator[Size]:
    for v in graph.values():
        yield from v.shape
    for node in graph.nodes:
        for value in node.attrs.values():
            yield from _attr_sizes(value)


def _attr_sizes(value: AttrValue) -> Iterator[Size]:
    if isinstance(value, Poly):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from _attr_sizes(inner)


def _origin(node: Node) -> str:
    fields = {"source": node.source} if node.source else {}
    if node.origin != NO_ORIGIN:
        pairs = ((f, getattr(node.origin, f)) for f in _ORIGIN_FIELDS)
        fields |= {f: v for f, v in pairs if v}
    if not fields:
        return ""
    return " !{" + ", ".join(f"{k}={format_attr(v)}" for k, v in fields.items()) + "}"


def _returned(graph: Graph) -> Iterator[str]:
    for k, (name, v) in enumerate(zip(graph.output_names, graph.outputs, strict=True)):
        body = "none" if v is None else _value(v)
        default = f"none{k}" if v is None else v.name
        if name == default:
            yield body
        else:
            yield f"{body} as {name if _PLAIN_NAME.fullmatch(name) else quote(name)}"


def _value(v: Value) -> str:
    return f"%{v.name if _PLAIN_VALUE.fullmatch(v.name) else quote(v.name)}"
