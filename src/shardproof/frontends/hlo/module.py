"""What a parsed HLO module is."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from shardproof.frontends.hlo.shapes import Shape
from shardproof.ir.graph import NO_ORIGIN, Origin

_INTS = re.compile(r"-?\d+")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_SOURCE = re.compile(r'source_file="((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"source_line=(\d+)")
_FRAME = re.compile(r"stack_frame_id=(\d+)")
_TRACE = re.compile(r"'([^':]+):(\d+)\\*'")


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction. ``operands`` are names; ``literal`` is the text between the parentheses
    of a constant or a parameter; ``attrs`` maps attribute names to their text."""

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    literal: str
    attrs: dict[str, str]
    line: int
    origin: Origin = NO_ORIGIN

    def ints(self, key: str) -> tuple[int, ...]:
        """All integers of an attribute such as ``dimensions={0,2}``; none where it is absent."""
        return tuple(int(x) for x in _INTS.findall(self.attrs.get(key, "")))

    def computation(self, key: str) -> str:
        """The name of a called computation."""
        return self.attrs.get(key, "").lstrip("%")


@dataclass(eq=False, slots=True)
class Computation:
    """Instructions in order of definition; ``root`` is the result."""

    name: str
    line: int
    instructions: list[Instruction] = field(default_factory=list)
    root: Instruction | None = None

    def parameters(self) -> list[Instruction]:
        """The parameters by number."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return sorted(found, key=lambda i: int(i.literal))


@dataclass(eq=False)
class Module:
    """A module: its computations by name and what its first line says."""

    name: str
    path: str
    header: str
    computations: dict[str, Computation]
    entry: Computation

    def where(self, line: int) -> str:
        """``file:line`` for messages."""
        return f"{self.path}:{line}"

    def _count(self, key: str) -> int | None:
        m = re.search(rf"\b{key}=(\d+)", self.header)
        return int(m[1]) if m else None

    @cached_property
    def replicas(self) -> int | None:
        """The number of replicas, if the module says it."""
        return self._count("replica_count")

    @cached_property
    def partitions(self) -> int | None:
        """The number of partitions, if the module says it."""
        return self._count("num_partitions")

    @cached_property
    def global_mesh(self) -> dict[str, int]:
        """The mesh axes of a module that is not partitioned yet, in order."""
        m = re.search(r"sdy\.mesh<\[([^\]]*)\]", self.header)
        pairs = re.findall(r'"([^"\\]+)\\?"=(\d+)', m[1]) if m else []
        return {name: int(n) for name, n in pairs}


@dataclass(slots=True)
class Tables:
    """The tables of source positions that newer printers put before the computations."""

    files: dict[int, str] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    locations: dict[int, dict[str, int]] = field(default_factory=dict)
    frames: dict[int, int] = field(default_factory=dict)

    def origin(self, metadata: str) -> Origin:
        """The origin that the ``metadata`` of an instruction names."""
        if not metadata:
            return NO_ORIGIN
        name = _unescaped(_OP_NAME, metadata)
        frame = _FRAME.search(metadata)
        if frame is not None:
            at = self.locations.get(self.frames.get(int(frame[1]), 0), {})
            return Origin(
                self.files.get(at.get("file_name_id", 0), ""),
                at.get("line", 0),
                self.functions.get(at.get("function_name_id", 0), ""),
                module=name,
            )
        source = _SOURCE.search(metadata)
        if source is None:
            return Origin(module=name)
        line = _LINE.search(metadata)
        return _of_source(source[1], int(line[1]) if line else 0, name)


def _of_source(source: str, line: int, name: str) -> Origin:
    """A source file, or the innermost frame of the user's code in a printed call stack."""
    frames = [(f, n) for f, n in _TRACE.findall(source) if "site-packages" not in f]
    if frames:
        return Origin(frames[-1][0].strip("\\"), int(frames[-1][1]), module=name)
    return Origin(source.split("\\n")[0], line, module=name)


def _unescaped(pattern: re.Pattern[str], text: str) -> str:
    m = pattern.search(text)
    return re.sub(r"\\(.)", r"\1", m[1]) if m else ""
