"""What the lowering of one rank works with, and what a user's kernel for a custom call gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from typing import Any, Union

import numpy as np

from shardproof.errors import InputError, shorten
from shardproof.frontends.aten.context import Record, Unsupported
from shardproof.frontends.aten.helpers import Helpers
from shardproof.frontends.hlo.known import Known, Number, filled
from shardproof.frontends.hlo.module import Instruction, Module
from shardproof.frontends.hlo.shapes import Array, HloSyntaxError
from shardproof.ir.builder import Builder
from shardproof.ir.graph import AttrValue, Graph, Value, is_bool, is_float
from shardproof.ops.base import Scalar, infer_types
from shardproof.ops.numbers import exact

__all__ = ["Absent", "Facts", "Held", "HloContext", "Unsupported"]

MAX_RUNS = 64
"""A literal of more pieces than this is a named constant."""


@dataclass(frozen=True, slots=True)
class Absent:
    """A token, or the result of an operator without meaning that is no array."""

    why: str = ""


Held = Union[Value, Known, Absent, tuple["Held", ...]]  # noqa: UP007 - recursive alias


@dataclass(frozen=True, slots=True)
class Facts:
    """One rank of ``replicas * partitions``, and the meaning of custom calls."""

    rank: int
    replicas: int
    partitions: int
    kernels: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def replica(self) -> int:
        return self.rank // self.partitions

    @property
    def partition(self) -> int:
        return self.rank % self.partitions


class HloContext(Helpers):
    """Passed to every lowering rule and to every user kernel.

    ``emit``/``emit_all`` append core nodes; the methods of :class:`Helpers` are shorthands.
    """

    def __init__(self, module: Module, facts: Facts) -> None:
        self.module = module
        self.facts = facts
        self.record = Record()
        self.graph = Graph(module.name, rank=facts.rank)
        self.builder = Builder(self.graph, infer_types)
        self.known: dict[Value, Scalar] = {}
        self.aranges: dict[Value, int] = {}
        self.instruction: Instruction = module.entry.instructions[0]
        self.sources: tuple[Instruction, ...] = ()
        self.constants: dict[str, Value] = {}
        # Index tensors that were joined from columns, for lookups by several indices.
        self.columns: dict[Value, list[Held]] = {}
        self.channel = 0
        self._made: dict[tuple[Any, ...], Value] = {}

    # -- nodes

    def begin(self, instruction: Instruction, sources: tuple[Instruction, ...], path: str) -> None:
        """Make ``instruction`` the one that new nodes are made from; ``sources`` are the
        instructions of its operands."""
        self.instruction = instruction
        self.sources = sources
        self.builder.source = path + instruction.name
        self.builder.origin = instruction.origin

    def emit_all(self, op: str, /, *inputs: Value, **attrs: AttrValue) -> tuple[Value, ...]:
        """Append a core node and return its outputs."""
        return self.builder.emit_all(op, *inputs, **attrs)  # type: ignore[arg-type]

    def emit(self, op: str, /, *inputs: Value, **attrs: AttrValue) -> Value:
        """Append a core node with one output and return it."""
        (out,) = self.builder.emit_all(op, *inputs, **attrs)  # type: ignore[arg-type]
        return out

    def rollback(self, mark: int) -> None:
        """Drop the nodes from ``mark`` on, which nothing is to use any more."""
        gone = {v for node in self.graph.nodes[mark:] for v in node.outputs}
        del self.graph.nodes[mark:]
        self._made = {k: v for k, v in self._made.items() if v not in gone}

    def number(self, x: Any) -> Scalar:
        """A scalar as an exact number."""
        if isinstance(x, Value):
            if x in self.known:
                return self.known[x]
            raise Unsupported("a scalar argument is a tensor without a known value")
        if isinstance(x, float) and x == x and abs(x) != inf:
            value, assumed = exact(x)
            if assumed:
                self.record.assume("arithmetic", f"the constant {x!r} is read as {value}")
            return value
        return int(x) if isinstance(x, bool) else x

    # -- known tensors

    def value(self, x: Any, like: Value | None = None) -> Value:
        """``x`` as a tensor of the graph."""
        if isinstance(x, Value):
            return x
        if isinstance(x, Known):
            return self.materialise(x)
        if like is None:
            raise Unsupported("an operand is no array")
        return super().value(x, like)

    def materialise(self, x: Known) -> Value:
        """A known tensor as core nodes, made once."""
        table = tuple(x.table.flat) if x.table is not None else ()
        key = (x.dtype, x.shape, x.base, x.strides, table)
        if key not in self._made:
            self._made[key] = self._fresh(x)
        return self._made[key]

    def _fresh(self, x: Known) -> Value:
        number = x.number
        if number is not None and number == number:
            return self.full(number, x.shape, x.dtype)
        if number is not None:
            return self.expand(self.named_constant("nan", x.dtype, ()), x.shape)
        if x.table is None:
            return self._positions(x)
        return self._table(x, x.table)

    def _positions(self, x: Known) -> Value:
        parts: list[Value] = []
        for k, stride in enumerate(x.strides):
            if stride:
                line = self._line(x.shape[k], 0 if parts else x.base, stride, x.dtype)
                shape = [n if j == k else 1 for j, n in enumerate(x.shape)]
                parts.append(self.expand(self.reshape(line, shape), x.shape))
        out = parts[0]
        for part in parts[1:]:
            out = self.add(out, part)
        return out

    def _line(self, n: int, base: Number, stride: Number, dtype: str) -> Value:
        """``base + stride * i`` for i in [0, n)."""
        if int(stride) == stride and int(base) == base:
            return self.cast(self.iota(n, int(base), int(stride), _whole(dtype)), dtype)
        line = self.cast(self.iota(n, dtype="i64"), dtype)
        return self.shift(self.scale(line, stride), base)

    def _table(self, x: Known, table: np.ndarray[Any, np.dtype[Any]]) -> Value:
        runs: list[list[Any]] = []
        for v in table.flat:
            if runs and (runs[-1][0] == v):
                runs[-1][1] += 1
            else:
                runs.append([v, 1])
            if len(runs) > MAX_RUNS or v != v:
                text = ",".join(map(str, table.flat))
                label = sha256(text.encode()).hexdigest()[:8]
                return self.named_constant(label, x.dtype, x.shape)
        parts = [self.materialise(filled(x.dtype, (n,), v)) for v, n in runs]
        return self.reshape(self.concat(parts, 0), x.shape)

    def named_constant(self, label: str, dtype: str, shape: tuple[int, ...]) -> Value:
        """A constant without printed value, as an input that both sides share."""
        size = "x".join(map(str, shape)) or "scalar"
        name = f"constant_{dtype}_{size}_{label}"
        if name not in self.constants:
            self.constants[name] = self.builder.input(name, dtype, shape)
            self.record.constant_inputs.append(name)
        return self.constants[name]

    # -- checks

    def checked(self, value: Value) -> Value:
        """``value`` with the element type that the instruction prints.

        Raises:
            InputError: the shapes differ.
        """
        want = self.instruction.shape
        if isinstance(want, Array) and value.shape == want.dims:
            if value.dtype == want.dtype or is_bool(value.dtype) != is_bool(want.dtype):
                return value
            return self.cast(value, want.dtype)
        raise self.fail(
            f"{self.instruction.opcode} gives {value.type}, the module prints {want}",
            "a type that agrees with the operator's shape rule",
        )

    def fail(self, what: str, expected: str) -> InputError:
        """An error at the current instruction, to be raised."""
        name = shorten(self.instruction.name, 60)
        return InputError(
            f"{name}: {what}",
            self.module.where(self.instruction.line),
            expected,
            "check that the text was not altered; if it was not, please report this line",
        )

    def array(self) -> Array:
        """The type of the instruction, which must be an array."""
        shape = self.instruction.shape
        if not isinstance(shape, Array):
            raise HloSyntaxError(f"{self.instruction.opcode} with a result that is no array")
        return shape

    def listed(self, xs: Sequence[Held]) -> list[Value]:
        """Operands as tensors of the graph."""
        return [self.value(x) for x in xs]


def _whole(dtype: str) -> str:
    """An integer type for positions that are then cast to ``dtype``."""
    return "i64" if is_float(dtype) else dtype
