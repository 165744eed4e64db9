"""Imports a printed FX graph as a graph of core operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from shardproof.frontends.aten.context import Facts, Groups
from shardproof.frontends.fx_text import read_fx
from shardproof.frontends.lowering import Lowering
from shardproof.ir.graph import Graph, Value
from shardproof.spec.problem import Assumption


@dataclass(eq=False)
class ImportResult:
    """An imported graph and what the import found out.

    ``names`` maps every FX name to its value (several names may share one: a copy or a view that
    changes nothing makes no node). ``random_inputs`` and ``constant_inputs`` are graph inputs
    that the captured program did not have. ``unknown`` counts operators without meaning, by
    name; ``reasons`` says why, where there is more to say than that nobody declared them.
    ``casts`` lists casts between float types as (FX name, from, to).
    """

    graph: Graph
    names: dict[str, Value]
    random_inputs: list[str] = field(default_factory=list)
    constant_inputs: list[str] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    assumptions: list[Assumption] = field(default_factory=list)
    casts: list[tuple[str, str, str]] = field(default_factory=list)
    phase: str = ""

    @property
    def outputs(self) -> list[tuple[str, Value | None]]:
        """What the graph returns: FX name and value, None where it returns no tensor. The new
        value of an input that the graph overwrites follows as ``<input>_updated``."""
        return list(zip(self.graph.output_names, self.graph.outputs, strict=True))


def import_fx(
    text_or_path: str | Path,
    *,
    rank: int = 0,
    groups: Groups | None = None,
    constants: Mapping[str, float | int | Fraction] | None = None,
    kernels: Mapping[str, Callable[..., Any]] | None = None,
    dropout: str = "mask",
    graph: str | int | None = None,
) -> ImportResult:
    """Import one printed FX graph; a string with a line break is the text itself.

    ``rank`` is the global rank that printed it. ``groups`` maps the names of process groups to
    their global ranks in group order (or to a list of such tuples). ``constants`` maps names of
    module attributes or inputs (shell patterns) to numbers. ``kernels`` maps operators
    (``"apex.fused_layer_norm_affine_fwd"``) to functions that build their meaning. ``dropout``
    is "mask" (a new boolean input for each call) or "off". ``graph`` chooses one of several.

    Raises:
        InputError: the text is no complete printed FX graph, or a fact is missing or wrong.
    """
    if dropout not in ("mask", "off"):
        raise ValueError(f"dropout must be 'mask' or 'off', got {dropout!r}")
    fx = read_fx(text_or_path, graph=graph, rank=rank)
    lowering = Lowering(fx, Facts(rank, groups or {}, constants or {}, kernels or {}, dropout))
    built = lowering.run()
    record = lowering.record
    return ImportResult(
        graph=built,
        names={k: v for k, v in lowering.env.items() if isinstance(v, Value)},
        random_inputs=record.random_inputs,
        constant_inputs=record.constant_inputs,
        unknown=record.unknown,
        reasons=record.reasons,
        assumptions=list(record.assumptions),
        casts=record.casts,
        phase=fx.phase,
    )
