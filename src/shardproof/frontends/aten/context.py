"""What a lowering rule works with: the graph under construction and the user's facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from shardproof.errors import InputError
from shardproof.frontends.aten.helpers import Helpers
from shardproof.frontends.fx_text import FxStatement
from shardproof.frontends.fx_types import FxType
from shardproof.ir.builder import Builder
from shardproof.ir.graph import AttrValue, Value, is_integer
from shardproof.ops.base import Scalar
from shardproof.ops.numbers import exact, scalar
from shardproof.spec.problem import Assumption

Groups = Mapping[str, Sequence[Any]]


class Unsupported(Exception):
    """A use of a declared operator that has no meaning in the core set; the text says why. The
    node becomes opaque, so what depends on it is unproved."""


@dataclass(frozen=True, slots=True)
class Functionalized:
    """What a kernel under ``auto_functionalized`` may return when it has both a result and
    mutated arguments; a kernel that returns values only returns the mutated ones."""

    result: Any
    mutated: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A module attribute whose type is not printed, so it has no value yet."""

    name: str


@dataclass(frozen=True, slots=True)
class NoValue:
    """The result of an operator that has no tensor result, or none that is known."""

    why: str


@dataclass(frozen=True, slots=True)
class Group:
    """The process group of a call: its global ranks in group order, and its name."""

    ranks: tuple[int, ...]
    name: str

    def attrs(self) -> dict[str, AttrValue]:
        """What a collective over the group says of it."""
        return {"group": self.ranks, "group_size": len(self.ranks), "comm": self.name}


class DType(str):
    """An element type given as an argument (``torch.float16``)."""

    __slots__ = ()


# Elements of a written vector that are remembered.
MAX_WRITTEN = 16


@dataclass(frozen=True, slots=True)
class Facts:
    """What the user says about the dump."""

    rank: int
    groups: Groups
    constants: Mapping[str, float | int | Fraction]
    kernels: Mapping[str, Callable[..., Any]]
    dropout: str = "mask"


@dataclass(eq=False)
class Record:
    """What an import found out besides the graph."""

    random_inputs: list[str] = field(default_factory=list)
    constant_inputs: list[str] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    assumptions: dict[Assumption, None] = field(default_factory=dict)
    casts: list[tuple[str, str, str]] = field(default_factory=list)

    def assume(self, kind: str, text: str) -> None:
        """List an assumption once."""
        self.assumptions[Assumption(kind, text)] = None


class LowerContext(Helpers):
    """Passed to every lowering rule and to every user kernel.

    ``emit``/``emit_all`` append core nodes; the methods of :class:`Helpers` are shorthands.
    ``type`` is the annotation of the FX node, ``wanted`` the tuple elements that are read.
    """

    def __init__(self, builder: Builder, facts: Facts, record: Record, path: str) -> None:
        self.builder = builder
        self.facts = facts
        self.record = record
        self.path = path
        self.statement: FxStatement
        self.types: dict[str, FxType] = {}
        self.items: dict[str, dict[int, FxType | None]] = {}
        self.known: dict[Value, Scalar] = {}
        self.aranges: dict[Value, int] = {}
        self.listed: dict[Value, list[int]] = {}
        self.in_flight: set[Value] = set()
        self.dropout_scales: dict[float, Fraction] = {}
        self.created: list[Value] = []

    # -- the current FX node

    def begin(self, statement: FxStatement) -> None:
        """Make ``statement`` the node that new core nodes are made from."""
        self.statement = statement
        self.created = []
        self.builder.source = statement.name
        self.builder.origin = statement.origin

    @property
    def type(self) -> FxType | None:
        return self.statement.type

    @property
    def place(self) -> str:
        """``file:line`` of the current FX node."""
        return f"{self.path}:{self.statement.line}"

    def wanted(self, index: int) -> bool:
        """Whether element ``index`` of this node's result is read."""
        return index in self.items.get(self.statement.name, ())

    # -- nodes

    def emit_all(self, op: str, /, *inputs: Value, **attrs: AttrValue) -> tuple[Value, ...]:
        """Append a core node and return its outputs."""
        name = f"{self.statement.name}#{len(self.created) + 1}"
        outs = self.builder.emit_all(op, *inputs, name=name, **attrs)
        self.created.extend(outs)
        return outs

    def emit(self, op: str, /, *inputs: Value, **attrs: AttrValue) -> Value:
        """Append a core node with one output and return it."""
        (out,) = self.emit_all(op, *inputs, **attrs)
        return out

    def new_input(self, name: str, dtype: str, shape: tuple[Any, ...]) -> Value:
        """A graph input that the captured program did not have (a random mask, a constant)."""
        return self.builder.input(name, dtype, shape)

    def random_input(self, name: str, dtype: str, shape: tuple[Any, ...]) -> Value:
        """A new graph input ``<name>_<k>`` for values drawn at random."""
        k = sum(n.startswith(name + "_") for n in self.record.random_inputs)
        value = self.new_input(f"{name}_{k}", dtype, shape)
        self.record.random_inputs.append(value.name)
        self.record.assume(
            "random", f"{self.statement.name}: random values are the input {value.name}"
        )
        return value

    # -- scalars

    def number(self, x: Any) -> Scalar:
        """A scalar argument as an exact number; lists a decimal that is read as a fraction."""
        if isinstance(x, bool):
            return Fraction(int(x))
        if isinstance(x, float) and x == x and abs(x) != float("inf"):
            value, assumed = exact(x)
            if assumed:
                self.record.assume("arithmetic", f"the constant {x!r} is read as {value}")
            return value
        if isinstance(x, Value) and x in self.known:
            return self.known[x]
        if isinstance(x, Value):
            raise Unsupported("a scalar argument is a tensor without a known value")
        return scalar(x)

    def written(self, x: Value) -> list[int] | None:
        """The elements of an integer vector that the program writes out (``[0, -1]``)."""
        value = self.known.get(x)
        if isinstance(value, Fraction) and is_integer(x.dtype) and len(x.shape) == 1:
            n = x.shape[0]
            return [int(value)] * n if isinstance(n, int) and n <= MAX_WRITTEN else None
        return self.listed.get(x)

    def join_written(self, out: Value, parts: Sequence[Value]) -> None:
        """Remember the elements of a vector that is joined from written ones."""
        given = [self.written(x) for x in parts]
        joined = [k for part in given if part is not None for k in part]
        if None not in given and len(joined) <= MAX_WRITTEN:
            self.listed[out] = joined

    # -- errors

    def fail(self, what: str, expected: str, next_step: str) -> InputError:
        """An error at the current node, to be raised."""
        return InputError(what, self.place, expected, next_step)

    # -- groups

    def group(self, name: Any, size: Any = None) -> Group:
        """The ranks of the group called ``name`` that this rank is in.

        Raises:
            InputError: the group is not declared, or ``size`` (from the dump) differs.
        """
        node, rank = f"{self.statement.target} {self.statement.name!r}", self.facts.rank
        key = name.name if isinstance(name, Attribute) else str(name)
        if key not in self.facts.groups:
            raise self.fail(
                f"the group {key!r} of the collective {node} is not declared",
                "the ranks of every group that the graph names",
                f'add it: groups={{"{key}": (0, 1, ...)}} (global ranks in group order; a list '
                "of tuples where the name stands for several groups)",
            )
        entry = self.facts.groups[key]
        members: list[tuple[int, ...]] = (
            [tuple(entry)] if all(isinstance(e, int) for e in entry) else [tuple(e) for e in entry]
        )
        found = next((m for m in members if rank in m), None)
        if found is None:
            raise self.fail(
                f"the group {key!r} of the collective {node} does not contain rank {rank}",
                "a group with the rank that calls the collective",
                f'correct groups["{key}"], or the rank of this file',
            )
        if isinstance(size, int) and size != len(found):
            raise self.fail(
                f"the collective {node} says its group {key!r} has {size} members, "
                f"the declared one has {len(found)}: {found}",
                "a group declaration that agrees with the dump",
                f'correct groups["{key}"]',
            )
        self.record.assume("group", f"group {key!r} is {_ranks(found)}")
        return Group(found, key)


def _ranks(group: tuple[int, ...]) -> str:
    if len(group) > 2 and group == tuple(range(group[0], group[-1] + 1)):
        return f"ranks {group[0]} to {group[-1]}"
    return "ranks " + ", ".join(map(str, group)) if len(group) > 1 else f"rank {group[0]} alone"
