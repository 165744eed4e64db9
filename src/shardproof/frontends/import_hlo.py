"""Imports HLO text as one core graph a rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardproof.errors import InputError
from shardproof.frontends.hlo.context import Facts
from shardproof.frontends.hlo.lowering import Lowering
from shardproof.frontends.hlo.module import Module
from shardproof.frontends.hlo.parser import parse_module
from shardproof.ir.graph import Graph
from shardproof.spec.problem import Assumption


@dataclass(eq=False)
class HloResult:
    """The graph of one rank and what the import found out.

    ``constants`` are inputs for constants whose value the text leaves out, ``random`` those for
    values that the program draws. ``unknown`` counts
    operators without meaning; ``reasons`` says why. ``casts`` are between float types.
    """

    graph: Graph
    constants: list[str] = field(default_factory=list)
    random: list[str] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    assumptions: list[Assumption] = field(default_factory=list)
    casts: set[tuple[str, str]] = field(default_factory=set)


def import_hlo(
    text: str,
    *,
    ranks: int = 1,
    kernels: Mapping[str, Callable[..., Any]] | None = None,
    path: str = "<text>",
) -> list[HloResult]:
    """Import one module that ``ranks`` devices run; one result a rank.

    ``kernels`` maps targets of custom calls to functions that build their meaning.

    Raises:
        InputError: the text is no HLO module, or it is for another number of ranks.
    """
    module = parse_module(text, path)
    replicas, partitions = _devices(module, ranks)
    out = []
    for rank in range(ranks):
        lowering = Lowering(module, Facts(rank, replicas, partitions, kernels or {}))
        graph = lowering.run()
        record = lowering.ctx.record
        out.append(
            HloResult(
                graph,
                record.constant_inputs,
                record.random_inputs,
                record.unknown,
                record.reasons,
                list(record.assumptions),
                {(given, wanted) for _, given, wanted in record.casts},
            )
        )
    return out


def _devices(module: Module, ranks: int) -> tuple[int, int]:
    """How many replicas and partitions the ranks are. A module that says neither is one of
    replicas, unless it has collectives with channels or asks for its partition."""
    replicas, partitions = module.replicas, module.partitions
    said = (replicas or 1) * (partitions or 1)
    for axis in module.global_mesh.values() if said == 1 else ():
        said *= axis
    if said not in (1, ranks):
        raise InputError(
            f"the module is for {said} devices, the mesh has {ranks}",
            module.where(1),
            f"a mesh of {said} ranks",
            "correct Mesh(...), or pass the module of this mesh",
        )
    if replicas or partitions:
        known = replicas or ranks // (partitions or 1)
        return known, ranks // known
    spmd = any(
        "channel_id" in i.attrs or i.opcode == "partition-id"
        for c in module.computations.values()
        for i in c.instructions
    )
    return (1, ranks) if spmd or module.global_mesh else (ranks, 1)
