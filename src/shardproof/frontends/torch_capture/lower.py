"""From the recorded statements to a graph of core operators, by the FX frontend's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardproof.errors import InputError
from shardproof.frontends.aten.context import Facts
from shardproof.frontends.fx_lexer import Ref
from shardproof.frontends.fx_text import FxGraph, FxStatement
from shardproof.frontends.lowering import Lowering
from shardproof.frontends.torch_capture.statements import Statements, live
from shardproof.ir.graph import Graph
from shardproof.spec.problem import Assumption

_COLLECTIVES = frozenset(
    ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "recv")
)
# Facts of the capture, not of the user: groups are read off, every operator has its arguments.
_KNOWN = frozenset(("group",))


@dataclass(eq=False, slots=True)
class Lowered:
    """A captured graph and what its lowering found out; ``names`` maps statements to values."""

    graph: Graph
    random: list[str]
    assumptions: list[Assumption]
    casts: frozenset[tuple[str, str]]
    unknown: dict[str, int]
    statements: int
    collectives: dict[str, int] = field(default_factory=dict)


def lower(
    st: Statements,
    outputs: Mapping[str, Ref],
    *,
    name: str,
    rank: int,
    groups: Mapping[str, tuple[int, ...]],
    kernels: Mapping[str, Any],
    dropout: str,
    init: int,
) -> Lowered:
    """Lower what the outputs and all communication after statement ``init`` depend on.

    Raises:
        InputError: an operator cannot take its arguments.
    """
    effects = {s.name for s in st.all[init:] if s.name in st.effects}
    kept = live(st.all, list(outputs.values()), effects)
    fx = FxGraph(
        name, name, "", f"captured program of rank {rank}", kept, tuple(outputs.values()),
        tuple(r.name for r in outputs.values()), len(st.all),
    )  # fmt: skip
    lowering = Lowering(fx, Facts(rank, groups, {}, kernels, dropout))
    try:
        graph = lowering.run()
    except InputError as e:
        raise InputError(
            e.what, f"{e.where} ({lowering.ctx.statement.origin})", e.expected, e.next_step
        ) from e
    graph.output_names = list(outputs)
    _mark(graph, st)
    _complete(graph, kept, st.effects, groups, fx.path)
    record = lowering.record
    return Lowered(
        graph,
        list(record.random_inputs),
        [a for a in record.assumptions if a.kind not in _KNOWN and a.kind != "random"],
        frozenset((given, wanted) for _, given, wanted in record.casts),
        dict(record.unknown),
        len(kept),
        _counts(graph),
    )


def _mark(graph: Graph, st: Statements) -> None:
    """What the lowering of a call cannot see."""
    for node in graph.nodes:
        if node.op in _COLLECTIVES:
            node.attrs.update(st.marks.get(node.source, {}))


def _complete(
    graph: Graph,
    kept: Sequence[FxStatement],
    effects: set[str],
    groups: Mapping[str, tuple[int, ...]],
    where: str,
) -> None:
    """Refuse a graph in which a recorded collective has no node."""
    sources = {n.source for n in graph.nodes if n.op in _COLLECTIVES}
    for s in kept:
        if s.name not in effects or s.name in sources:
            continue
        group = next(
            (groups[a] for a in reversed(s.args) if isinstance(a, str) and a in groups), ()
        )
        if len(group) > 1:
            raise lost(f"{s.target} was recorded but is not in the graph", str(s.origin))


def _counts(graph: Graph) -> dict[str, int]:
    out: dict[str, int] = {}
    for n in graph.nodes:
        if n.op in _COLLECTIVES:
            out[n.op] = out.get(n.op, 0) + 1
    return out


def lost(what: str, where: str) -> InputError:
    """The error for communication that the capture would have lost."""
    return InputError(
        f"the capture is incomplete: {what}",
        where=where,
        expected="every collective of the program in the captured graph",
        next_step="call collectives through torch.distributed or functional collectives only; "
        "if you do, please report this",
    )
