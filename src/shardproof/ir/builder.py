"""Build graphs node by node; shapes come from the operator declarations.

The IR knows no operators: a builder is given the shape rule as a function, so that frontends,
operator definitions and tests all build through one door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shardproof.ir.graph import (
    NO_ORIGIN,
    Attrs,
    AttrValue,
    Graph,
    Node,
    Origin,
    TensorType,
    Value,
)

ShapeRule = Callable[[str, tuple[TensorType, ...], Attrs], tuple[TensorType, ...]]


_TYPES: dict[TensorType, TensorType] = {}


class Builder:
    """Appends nodes to ``graph``. ``origin`` and ``source`` are stamped on every new node."""

    def __init__(self, graph: Graph, infer: ShapeRule) -> None:
        self.graph = graph
        self.origin: Origin = NO_ORIGIN
        self.source: str = ""
        self._infer = infer
        self._names: dict[str, int] = {v.name: 0 for v in graph.values()}

    def input(self, name: str, dtype: str, shape: tuple[object, ...]) -> Value:
        v = Value(self.unique(name), TensorType(dtype, tuple(shape)))  # type: ignore[arg-type]
        self.graph.inputs.append(v)
        return v

    def emit_all(
        self, op: str, /, *inputs: Value, name: str = "", **attrs: AttrValue
    ) -> tuple[Value, ...]:
        """Append a node and return all its outputs.

        Raises:
            ShapeError: the operator's shape rule refuses these operands.
        """
        types = self._infer(op, tuple([v.type for v in inputs]), attrs)
        # Equal types are one object, so that comparing graphs is quick.
        types = tuple([_TYPES.setdefault(t, t) for t in types])
        base = name or self.source or op
        outs = tuple(
            Value(self.unique(base if len(types) == 1 else f"{base}.{k}"), t)
            for k, t in enumerate(types)
        )
        self.graph.nodes.append(Node(op, inputs, attrs, outs, self.origin, self.source))
        return outs

    def emit(self, op: str, /, *inputs: Value, name: str = "", **attrs: AttrValue) -> Value:
        """Append a node with one output and return it."""
        (out,) = self.emit_all(op, *inputs, name=name, **attrs)
        return out

    def returns(self, *values: Value | None, names: tuple[str, ...] = ()) -> Graph:
        self.graph.outputs = list(values)
        self.graph.output_names = list(names) or [
            v.name if v is not None else f"none{k}" for k, v in enumerate(values)
        ]
        return self.graph

    @contextmanager
    def at(self, source: str, origin: Origin) -> Iterator[None]:
        """Stamp nodes made inside the block."""
        old = self.source, self.origin
        self.source, self.origin = source, origin
        try:
            yield
        finally:
            self.source, self.origin = old

    def unique(self, name: str) -> str:
        if name not in self._names:
            self._names[name] = 0
            return name
        while True:
            self._names[name] += 1
            candidate = f"{name}#{self._names[name]}"
            if candidate not in self._names:
                self._names[candidate] = 0
                return candidate
