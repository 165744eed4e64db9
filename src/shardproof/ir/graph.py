"""Graphs of tensor operators, one a rank, in SSA form.

A :class:`Value` is defined once: as a graph input or as an output of one :class:`Node`. Nodes
stand in execution order. A collective is an ordinary node whose attribute ``group`` names the
ranks (a tuple of global ranks) or, in a graph written once for all ranks, the mesh axes (a tuple
of axis names).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Union

from shardproof.ir.sizes import Poly, Size, product, rank_symbol

AttrValue = Union[  # noqa: UP007 - recursive alias
    int, float, str, bool, None, Fraction, Poly, tuple["AttrValue", ...]
]
Attrs = Mapping[str, AttrValue]

DTYPES = frozenset(
    "f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 u16 u32 u64 b8 c64 c128".split()
)


def is_float(dtype: str) -> bool:
    """Whether a dtype stands for real numbers (all are the reals to the verifier)."""
    return dtype[0] in "fb" and dtype != "b8"


def is_bool(dtype: str) -> bool:
    return dtype == "b8"


def is_integer(dtype: str) -> bool:
    return dtype[0] in "iu"


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape; sizes may be symbolic."""

    dtype: str
    shape: tuple[Size, ...]

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def numel(self) -> Size:
        return product(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from in the user's program. ``callers`` are the user's lines that called
    there, innermost first, each as ``file:line``; no equality depends on them."""

    file: str = ""
    line: int = 0
    function: str = ""
    code: str = ""
    module: str = ""
    phase: str = ""
    callers: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file else "<no source>"
        return where + (f" in {self.function}" if self.function else "")


NO_ORIGIN = Origin()
# The phase of zeros that stand for gradients which autograd did not make.
UNREACHED = "unreached"


@dataclass(eq=False, slots=True)
class Value:
    """One tensor of a graph. Compared by identity; ``name`` is unique in its graph."""

    name: str
    type: TensorType

    @property
    def shape(self) -> tuple[Size, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


@dataclass(eq=False, slots=True)
class Node:
    """One operator application. ``source`` is the node's name in the captured graph, from which
    several nodes may have been made."""

    op: str
    inputs: tuple[Value, ...]
    attrs: dict[str, AttrValue]
    outputs: tuple[Value, ...]
    origin: Origin = NO_ORIGIN
    source: str = ""

    @property
    def output(self) -> Value:
        if len(self.outputs) != 1:
            raise ValueError(f"{self.op} has {len(self.outputs)} outputs")
        return self.outputs[0]


@dataclass(eq=False, slots=True)
class Graph:
    """The program of one rank (or of all ranks of an SPMD program, then ``rank`` is None)."""

    name: str
    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value | None] = field(default_factory=list)
    output_names: list[str] = field(default_factory=list)
    rank: int | None = None

    def values(self) -> Iterator[Value]:
        """All values in definition order."""
        yield from self.inputs
        for node in self.nodes:
            yield from node.outputs

    def producers(self) -> dict[Value, Node]:
        """The node that defines each value; graph inputs are absent."""
        return {v: n for n in self.nodes for v in n.outputs}

    def input(self, name: str) -> Value:
        for v in self.inputs:
            if v.name == name:
                return v
        raise KeyError(name)

    def by_name(self) -> dict[str, Value]:
        return {v.name: v for v in self.values()}

    def output(self, name: str) -> Value | None:
        """The value returned under ``name`` (its value name when outputs were not named)."""
        for out_name, v in zip(self.output_names, self.outputs, strict=True):
            if out_name == name:
                return v
        raise KeyError(name)


@dataclass(frozen=True)
class Mesh:
    """Named mesh axes and their sizes; the last axis varies fastest in the global rank.

    ``Mesh.of(dp=2, tp=4)`` has 8 ranks; rank 5 is ``dp=1, tp=1``.
    """

    axes: tuple[tuple[str, Size], ...]

    @staticmethod
    def of(**axes: Size) -> Mesh:
        return Mesh(tuple(axes.items()))

    @property
    def size(self) -> Size:
        return product(n for _, n in self.axes)

    def extent(self, axis: str) -> Size:
        for name, n in self.axes:
            if name == axis:
                return n
        raise KeyError(axis)

    def index(self, axis: str) -> Poly:
        """The symbol of a rank's coordinate along ``axis``, printed ``@axis``."""
        return rank_symbol("@" + axis, self.extent(axis))

    def rank(self, coordinates: Mapping[str, int]) -> int:
        """The global rank with these coordinates; all sizes must be concrete."""
        out = 0
        for name, n in self.axes:
            if not isinstance(n, int):
                raise ValueError("a symbolic mesh has no concrete ranks")
            out = out * n + coordinates[name]
        return out

    def coordinates(self, rank: int) -> dict[str, int]:
        """Coordinates of a global rank; all sizes must be concrete."""
        out: dict[str, int] = {}
        for name, n in reversed(self.axes):
            if not isinstance(n, int):
                raise ValueError("a symbolic mesh has no concrete ranks")
            out[name] = rank % n
            rank //= n
        return dict(reversed(out.items()))

    def __str__(self) -> str:
        return ", ".join(f"{name}={n}" for name, n in self.axes)


@dataclass(eq=False)
class Program:
    """A distributed program: one graph a rank, or one SPMD graph for all ranks of the mesh.

    With ``inner`` set, every graph stands for a *class* of ranks, one for each index of ``mesh``;
    inside a class the ranks are indexed by the axes of ``inner``. A group of axis names is then
    inside the class, and a group of numbers is one of classes (each rank with its like).
    """

    mesh: Mesh
    graphs: list[Graph]
    spmd: bool = False
    inner: Mesh | None = None

    @staticmethod
    def sequential(graph: Graph) -> Program:
        return Program(Mesh(()), [graph])
