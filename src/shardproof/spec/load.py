"""Reads the graphs that a Spec names: printed FX graphs, HLO modules, the text form, each maybe
compressed."""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import shardproof.ops  # noqa: F401 - declares the operators
from shardproof.errors import InputError, shorten
from shardproof.ir.check import Flaw, check_graph
from shardproof.ir.graph import NO_ORIGIN, Graph, Mesh, Origin
from shardproof.ir.text import TextError, parse_graph
from shardproof.ops.base import infer_types
from shardproof.spec.arguments import argument_error
from shardproof.spec.problem import Assumption

Members = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]]
GroupRule = Members | Callable[[int], Sequence[int]]
MAX_BYTES = 64 * 1024 * 1024

_HEADER_RANK = re.compile(r"^# Graph\[rank=(\d+)\]", re.MULTILINE)
_HLO = re.compile(r"\s*HloModule\b")
_TEXT_FORM = re.compile(r"(?:\s|#[^\n]*\n)*graph\s")
_NEXT = "pass a printed FX graph, an HLO module, a graph in the text form, or a Graph"


@dataclass(frozen=True)
class Facts:
    """What the user knows about all graphs of a Spec."""

    groups: Mapping[str, GroupRule] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    kernels: Mapping[str, Any] = field(default_factory=dict)
    dropout: str = "off"


@dataclass
class Loaded:
    """A graph with what came along: the mesh of its text, random inputs, assumptions, the casts
    between float types that it holds, and inputs for constants without a printed value."""

    graph: Graph
    mesh: Mesh | None = None
    random: list[str] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    casts: frozenset[tuple[str, str]] = frozenset()
    constants: list[str] = field(default_factory=list)


GraphSource = str | Path | Graph | Loaded


def load(source: GraphSource, *, rank: int, mesh: Mesh, facts: Facts) -> Loaded:
    """Read one graph; ``mesh`` is the trivial one for the sequential graph.

    Raises:
        InputError: the source cannot be read or holds no graph.
    """
    if isinstance(source, Loaded):
        return source
    if isinstance(source, Graph):
        return Loaded(source)
    label, text = _text_of(source)
    if _HLO.match(text):
        return _load_hlo(text, label, mesh, facts)[rank]
    if _TEXT_FORM.match(text):
        return _load_text(text, label)
    return _load_fx(text, label, rank, mesh, facts)


def load_module(source: GraphSource, mesh: Mesh, facts: Facts) -> list[Loaded] | None:
    """The graphs of all ranks of ``mesh`` from one HLO module; None where the source is none.

    Raises:
        InputError: the source cannot be read, or is for another number of ranks.
    """
    if isinstance(source, Graph):
        return None
    label, text = _text_of(source)
    return _load_hlo(text, label, mesh, facts) if _HLO.match(text) else None


def _text_of(source: object) -> tuple[str, str]:
    """A name for messages, and the text."""
    if isinstance(source, str) and "\n" in source:
        return "<text>", source
    usable = isinstance(source, Path) or (isinstance(source, str) and source.strip())
    if usable and "\0" not in str(source):
        return str(source), _read(Path(str(source)))
    raise InputError(
        f"{shorten(repr(source))} is no graph",
        where="Spec.from_graphs",
        expected="a path, a text, or a Graph",
        next_step=_NEXT,
    )


def _load_hlo(text: str, label: str, mesh: Mesh, facts: Facts) -> list[Loaded]:
    from shardproof.frontends.import_hlo import import_hlo

    size = mesh.size
    if not isinstance(size, int):
        raise InputError(
            f"an HLO module has a fixed number of ranks, Mesh({mesh}) has not",
            where=label,
            expected="a mesh with numbers",
            next_step="write the size that the module was captured with",
        )
    results = import_hlo(text, ranks=size, kernels=facts.kernels, path=label)
    return [
        Loaded(
            r.graph,
            random=list(r.random),
            assumptions=_said(r.assumptions, facts),
            casts=frozenset(r.casts),
            constants=list(r.constants),
        )
        for r in results
    ]


def _load_text(text: str, label: str) -> Loaded:
    try:
        parsed = parse_graph(text, infer_types)
    except TextError as error:
        raise InputError(
            error.what,
            where=f"{label}:{error.line}:{error.column}",
            expected=error.expected or "a graph in the text form",
            next_step=error.next_step or "correct this line; docs/text-form.md shows the form",
        ) from error
    require_well_formed(check_graph(parsed.graph, infer_types, parsed.mesh), label)
    written = text.split("\n")
    for node, line in zip(parsed.graph.nodes, parsed.lines, strict=True):
        # A graph written by hand is itself the source that a finding points at.
        if node.origin == NO_ORIGIN:
            node.origin = Origin(label, line, code=written[line - 1].strip())
    return Loaded(parsed.graph, parsed.mesh)


def require_well_formed(flaws: list[Flaw], where: str) -> None:
    """Refuse graphs that no later stage could make sense of.

    Raises:
        InputError: there is a flaw.
    """
    if flaws:
        more = f"; {len(flaws) - 1} more" if flaws[1:] else ""
        raise InputError(
            str(flaws[0]),
            where=where,
            expected="a well-formed graph",
            next_step=f"correct the graph{more}; if shardproof imported it, please report this",
        )


def _load_fx(text: str, label: str, rank: int, mesh: Mesh, facts: Facts) -> Loaded:
    from shardproof.frontends.import_fx import import_fx

    header = _HEADER_RANK.search(text)
    if header is not None and mesh.axes and int(header.group(1)) != rank:
        raise InputError(
            f"the graph given for rank {rank} says that it is rank {header.group(1)}",
            where=f"{label}:{text.count(chr(10), 0, header.start()) + 1}",
            expected=f"the graph of rank {rank}",
            next_step="put the graphs in rank order",
        )
    groups = {name: members(name, rule, rank, mesh) for name, rule in facts.groups.items()}
    try:
        result = import_fx(
            text,
            rank=rank,
            groups=groups,
            constants=facts.constants,
            kernels=facts.kernels,
            dropout=facts.dropout,
        )
    except InputError as error:
        # The importer saw text without a name.
        where = error.where.replace("<text>", label)
        raise InputError(error.what, where, error.expected, error.next_step) from error
    graph = result.graph
    graph.rank = rank
    return Loaded(
        graph,
        random=list(result.random_inputs),
        assumptions=_said(result.assumptions, facts),
        casts=frozenset((given, wanted) for _, given, wanted in result.casts),
    )


def _said(assumptions: list[Assumption], facts: Facts) -> list[Assumption]:
    """The importer's assumptions, with what the user's kernels say of themselves. Which node
    drew which random input is left out: the Spec says how each of them lies."""
    kernels = {
        a.text: Assumption("kernel", f"{name} means: {_described(kernel)}")
        for a in assumptions
        for name, kernel in facts.kernels.items()
        if a.kind == "kernel" and a.text.startswith(name.removesuffix(".default") + " ")
    }
    return [kernels.get(a.text, a) for a in assumptions if a.kind != "random"]


def _described(kernel: object) -> str:
    doc = (getattr(kernel, "__doc__", None) or "").strip().split("\n")[0]
    return doc or f"the function {getattr(kernel, '__name__', repr(kernel))} of the Spec"


def members(name: str, rule: GroupRule, rank: int, mesh: Mesh) -> tuple[int, ...]:
    """The ranks of the group ``name`` that ``rank`` calls.

    ``rule`` is a mesh axis, several axes, ``"self"``, ``"all"``, the ranks, a list of groups of
    which the one with this rank is taken, or a function of the rank.
    """
    if callable(rule):
        return _called(name, rule, rank)
    if rule == "self":
        return (rank,)
    if not isinstance(rule, Sequence):
        raise argument_error(
            f"{shorten(repr(rule), 40)} is no group",
            f"groups[{name!r}]",
            "a mesh axis, 'self', 'all', a list of ranks, or a function of the rank",
        )
    size = mesh.size
    world = range(size if isinstance(size, int) else 1)
    if rule == "all":
        return tuple(world)
    if isinstance(rule, str):
        rule = (rule,)
    if rule and all(isinstance(axis, str) for axis in rule):
        return _along([str(axis) for axis in rule], name, rank, mesh, world)
    if rule and all(isinstance(r, int) for r in rule):
        return tuple(r for r in rule if isinstance(r, int))
    for group in rule:
        if isinstance(group, Sequence) and rank in group:
            return tuple(int(r) for r in group)
    # Not a member: a graph that uses the group all the same is refused by the importer.
    return tuple(int(r) for group in rule if isinstance(group, Sequence) for r in group)


def _called(name: str, rule: Callable[[int], Sequence[int]], rank: int) -> tuple[int, ...]:
    try:
        return tuple(rule(rank))
    except Exception as error:
        raise argument_error(
            f"the function failed for rank {rank}: {type(error).__name__}: {error}",
            f"groups[{name!r}]",
            "a function of the rank that returns the ranks of its group",
        ) from error


def _along(axes: list[str], name: str, rank: int, mesh: Mesh, world: range) -> tuple[int, ...]:
    known = dict(mesh.axes)
    if not known:
        return (rank,)
    for axis in axes:
        if axis not in known:
            raise InputError(
                f"{axis!r} is not a mesh axis",
                where=f"groups[{name!r}]",
                expected=f"one of {', '.join(known)}, 'self', 'all', or a list of ranks",
                next_step="use an axis of the mesh, or list the ranks",
            )
    mine = mesh.coordinates(rank)
    fixed = [axis for axis in known if axis not in axes]
    return tuple(r for r in world if all(mesh.coordinates(r)[a] == mine[a] for a in fixed))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if path.suffix == ".xz" and len(raw) <= MAX_BYTES:
            raw = lzma.LZMADecompressor().decompress(raw, MAX_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except lzma.LZMAError as error:
        raise _unreadable(path, f"not an xz file: {error}") from error
    if len(raw) > MAX_BYTES:
        raise _unreadable(path, f"it has more than {MAX_BYTES // 2**20} MiB")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _unreadable(path, f"line {line} is not UTF-8 text") from error


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError(
        f"cannot read {shorten(path.name)}: {reason}",
        where=shorten(str(path), 300),
        expected="a text file that holds a printed graph",
        next_step="check the path, and print the graph again if the file is damaged",
    )
