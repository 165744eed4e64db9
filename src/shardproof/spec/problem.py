"""The fully resolved question that every later stage works on.

A :class:`Problem` has no user conveniences left: placements, name patterns and pictures of shards
have become *relation graphs*. A relation graph is an ordinary graph made of rearrangement
operators only. Its inputs are values of the sequential program and its outputs are what the
distributed values must be; so a relation always defines the distributed side as a function of the
sequential side (the reverse could contradict itself and then prove anything).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shardproof.ir.graph import Graph, Program


@dataclass(frozen=True, slots=True)
class Assumption:
    """A fact that the verdict rests on. ``kind`` is one of fact (given by the user), relation,
    constant, group, kernel, random, range, nonzero, defined, cast, condition, arithmetic,
    capture."""

    kind: str
    text: str


@dataclass(eq=False)
class Obligation:
    """What one sequential output must be on the distributed side.

    ``expected[k]`` is a relation graph for the k-th distributed graph (the only one of an SPMD
    program): one input named like the sequential output, one output, the value that
    ``dist_output`` must have there; None where that rank does not return it. With ``partial_over``
    set, the sum over those mesh axes must have it instead of each rank's value.
    """

    seq_output: str
    dist_output: str
    expected: list[Graph | None]
    placement: str
    partial_over: tuple[str, ...] = ()


@dataclass(eq=False)
class Problem:
    """Sequential graph, distributed program, input relation, obligations, facts.

    ``relation[k]`` is the relation graph of the k-th distributed graph: inputs named like the
    sequential inputs it needs, outputs named (``output_names``) like that graph's inputs.
    A distributed input that no relation defines is an unconstrained unknown. ``notes`` is what a
    proof of it does not say.
    """

    name: str
    sequential: Graph
    distributed: Program
    relation: list[Graph]
    obligations: list[Obligation]
    assumptions: list[Assumption] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
