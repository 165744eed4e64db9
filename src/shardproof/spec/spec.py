"""The user's question: two programs, and how the tensors of one are those of the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardproof.errors import InputError, shorten
from shardproof.ir.check import check_graph, check_program
from shardproof.ir.communicators import number_communicators
from shardproof.ir.graph import Graph, Program
from shardproof.ir.graph import Mesh as GraphMesh
from shardproof.ops.base import infer_types
from shardproof.spec.arguments import argument_error, mapping, name_list, values_of_kind
from shardproof.spec.bounds import bounded, facts, is_bound
from shardproof.spec.inputs import Fixed, InputRelation, Rule
from shardproof.spec.load import (
    Facts,
    GraphSource,
    GroupRule,
    Loaded,
    load,
    load_module,
    require_well_formed,
)
from shardproof.spec.outputs import Obligations, OutputRule
from shardproof.spec.problem import Assumption, Problem

if TYPE_CHECKING:
    from shardproof.diagnose.evidence import Evidence
    from shardproof.report.diagnostic import Verdict
    from shardproof.spec.counts import Counts

Inputs = Mapping[str, Rule] | Callable[[str], Rule | None]
Outputs = Mapping[str, OutputRule] | Iterable[str] | None
_NO_MESH = GraphMesh(())


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A check to be made: of printed graphs, see :meth:`from_graphs`, or of live programs.

    Where ``sequential`` and ``distributed`` are functions they build PyTorch programs:
    ``sequential()`` returns a module or function, ``distributed(mesh, rank)`` that of one rank.
    Then ``inputs`` are examples (:class:`~shardproof.spec.live.Input`), ``parameters`` is "auto"
    or a mapping from patterns to placements, ``step`` is "forward", "backward", "train" (with
    ``optimizer``) or a function ``(model, optimizer, **inputs)``, ``loss`` makes a loss of the
    output, and ``outputs`` may map patterns to None to leave outputs out. A program that is small
    is also tried with unequal counts of rows on the ranks, and the verdict says what that gave;
    with ``uneven=True`` it must hold for these too, with ``uneven=False`` they are not tried
    (``counts`` is set by that trial alone). See docs/capture.md.

    Example:
        >>> spec = Spec.from_graphs(
        ...     sequential="model.txt",
        ...     distributed=["rank0.txt", "rank1.txt"],
        ...     mesh=Mesh(tp=2),
        ...     inputs={"weight": Shard(0), "*": Replicate()},
        ...     outputs={"loss": Replicate()},
        ... )                                                            # doctest: +SKIP
        >>> spec.check().status                                          # doctest: +SKIP
        'refines'
    """

    name: str = ""
    sequential: GraphSource | Callable[[], Any]
    distributed: Sequence[GraphSource] | GraphSource | Program | Callable[..., Any]
    mesh: GraphMesh | None
    inputs: Inputs | Mapping[str, Any]
    outputs: Outputs | Mapping[str, Any] = None
    facts: Facts = field(default_factory=Facts)
    fixed: Fixed = field(default_factory=dict)
    free: tuple[str, ...] = ()
    below: Mapping[str, int] = field(default_factory=dict)
    # Of live programs only.
    parameters: Any = "auto"
    step: str | Callable[..., Any] = "forward"
    optimizer: Callable[..., Any] | None = None
    loss: Callable[..., Any] | None = None
    kernels: Mapping[str, Any] | None = None
    dropout: str = "mask"
    uneven: bool | None = None
    counts: Counts | None = None

    @classmethod
    def from_graphs(
        cls,
        *,
        sequential: GraphSource,
        distributed: Sequence[GraphSource] | GraphSource | Program,
        inputs: Inputs,
        outputs: Outputs = None,
        mesh: GraphMesh | None = None,
        groups: Mapping[str, GroupRule] | None = None,
        constants: Mapping[str, Any] | None = None,
        kernels: Mapping[str, Any] | None = None,
        dropout: str = "off",
        fixed: Fixed | None = None,
        free: Iterable[str] = (),
        below: Mapping[str, int] | None = None,
        name: str = "",
    ) -> Spec:
        """A check of graphs that were printed or written before.

        Args:
            sequential: the specification: a path, a text, or a Graph.
            distributed: one graph a rank in rank order, or one graph for all ranks of the mesh.
            mesh: the ranks; may be left out when the text of the graph names it.
            inputs: for each distributed input (name, pattern, or a function of the name) its
                placement, or an expression over sequential inputs.
            outputs: for each sequential output its placement; by default all are expected.
            groups: ranks of the process groups that the graphs name.
            constants: values of module attributes that a printed graph does not hold.
            kernels: meanings of custom operators.
            dropout: "off", or "mask" for random masks that both sides share.
            fixed: inputs that hold one constant, by name or pattern.
            free: distributed inputs that may hold anything.
            below: of sequential inputs of integers, what every value is below (and at least 0).
            name: the name in the report.

        Raises:
            InputError: an argument is not of a usable form.
        """
        if dropout not in ("off", "mask"):
            raise InputError(
                f"dropout={dropout!r}",
                where="Spec.from_graphs",
                expected='"off" or "mask"',
                next_step='use dropout="off" unless the masks of both sides are related',
            )
        if mesh is not None and not isinstance(mesh, GraphMesh):
            raise argument_error(f"mesh is {mesh!r}", "mesh", "a mesh such as Mesh(tp=2)")
        return cls(
            name=str(name),
            sequential=sequential,
            distributed=distributed,
            mesh=GraphMesh(mesh.axes) if mesh is not None else None,
            inputs=inputs if callable(inputs) else mapping(inputs, "inputs"),
            outputs=outputs,
            facts=Facts(
                mapping(groups, "groups"),
                values_of_kind(constants, "constants", _is_number, "a number"),
                values_of_kind(kernels, "kernels", callable, "a function; see examples/"),
                dropout,
            ),
            fixed=mapping(fixed, "fixed"),
            free=name_list(free, "free"),
            below=values_of_kind(below, "below", is_bound, "a whole number from 1"),
        )

    def named(self, name: str) -> Spec:
        """The same check under another name, unless it has one."""
        return self if self.name else replace(self, name=name)

    def resolve(self) -> Problem:
        """Read the graphs and resolve every convenience.

        Raises:
            InputError: something cannot be read, or does not fit together.
        """
        return self._resolved[0]

    @property
    def fixed_values(self) -> dict[str, float]:
        """Inputs of either side that hold one constant."""
        return dict(self._resolved[1])

    def check(
        self,
        *,
        replay: bool = True,
        fixes: bool = True,
        for_all: str | None = None,
        certificate: Callable[[bytes], object] | None = None,
        observe: Callable[[Evidence], object] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Verdict:
        """Decide whether the distributed program refines the sequential one.

        Args:
            replay: replay reduced instances; without it nothing can be refuted by value.
            fixes: look for a change that mends a refuted program, which takes most of the time.
            for_all: a mesh axis; the captured graphs are generalised to every number of ranks
                along it and to all sizes, and the verdict is on that.
            certificate: is given the certificate of a proof, as a file.
            observe: is given what the verdict was made from; a report is built from it, see
                :func:`shardproof.present.build.build`.
            progress: called with a short text at every stage.
        """
        verdict = self.check_as_given(
            replay=replay, fixes=fixes, for_all=for_all, certificate=certificate,
            observe=observe, progress=progress,
        )  # fmt: skip
        if for_all is not None:
            return verdict
        return self.tried_unevenly(verdict, replay=replay, progress=progress)

    def check_as_given(
        self,
        *,
        replay: bool = True,
        fixes: bool = True,
        for_all: str | None = None,
        certificate: Callable[[bytes], object] | None = None,
        observe: Callable[[Evidence], object] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Verdict:
        """:meth:`check` for the counts that are given only."""
        from shardproof.verify import verify, verify_for_all

        if progress is not None:
            progress("reading graphs")
        start = time.process_time()
        problem = self.resolve()
        reading = time.process_time() - start
        fixed = self.fixed_values
        if for_all is None:
            verdict = verify(
                problem, fixed=fixed, replay=replay, fixes=fixes, certificate=certificate,
                observe=observe, progress=progress,
            )  # fmt: skip
        else:
            verdict = verify_for_all(
                problem, for_all, fixed=fixed, replay=replay, certificate=certificate,
                observe=observe, progress=progress,
            )  # fmt: skip
        verdict.seconds = {"reading": reading, **verdict.seconds}
        return verdict

    def tried_unevenly(
        self,
        verdict: Verdict,
        *,
        replay: bool = True,
        progress: Callable[[str], None] | None = None,
    ) -> Verdict:
        """``verdict``, which is on this Spec, with what is found for unequal counts."""
        asked, live = bool(self.uneven), callable(self.sequential)
        if self.uneven is False or not live or verdict.status != "refines":
            return verdict
        from shardproof.spec.uneven import cheap, tried
        from shardproof.verify import verify

        if not asked and not cheap(self.resolve()):
            return verdict
        start = time.process_time()

        def decide(other: Spec) -> Verdict:
            if progress is not None:
                progress("the same with unequal counts")
            return verify(
                other.resolve(), fixed=other.fixed_values, replay=replay, fixes=False,
                progress=progress,
            )  # fmt: skip

        out = tried(self, verdict, decide, asked=asked)
        out.seconds = {**out.seconds, "unequal counts": time.process_time() - start}
        return out

    def _repr_html_(self) -> str:
        """What a notebook shows: the Spec as it was written; nothing is read or captured."""
        from shardproof.report.html import notebook

        fields = {
            "sequential": self.sequential,
            "distributed": self.distributed,
            "mesh": self.mesh,
            "step": self.step if callable(self.sequential) else "",
            "outputs": self.outputs,
        }
        inputs = self.inputs if isinstance(self.inputs, Mapping) else {"every input": self.inputs}
        return notebook.spec(self.name, fields, inputs)

    # ---------------------------------------------------------------- resolving

    @cached_property
    def _resolved(self) -> tuple[Problem, dict[str, float]]:
        if callable(self.sequential):
            from shardproof.spec.live import resolve_live

            return resolve_live(self)
        if isinstance(self.distributed, Sequence) and not isinstance(self.distributed, str):
            self._check_ranks(self.distributed, self.mesh or _NO_MESH)
        sequential = load(self.sequential, rank=0, mesh=_NO_MESH, facts=self.facts)
        program, loaded = self._program()
        require_well_formed(check_graph(sequential.graph, infer_types), "sequential")
        specified = bounded(sequential.graph, self.below)
        require_well_formed(check_program(program, infer_types), "distributed")
        relation = InputRelation(specified, program, self.inputs, self.fixed, self.free)
        relation.pair_random(sequential.random, [part.random for part in loaded])
        relation.pair_constants(sequential.constants)
        graphs = relation.resolve()
        obligations = Obligations(specified, program, self.outputs)
        found = obligations.resolve()
        assumptions = [
            *relation.assumptions,
            *obligations.assumptions,
            *facts(self.below),
            *(a for part in (sequential, *loaded) for a in part.assumptions),
            *_cast_differences(sequential, loaded),
        ]
        problem = Problem(
            self.name or specified.name,
            specified,
            program,
            graphs,
            found,
            list(dict.fromkeys(assumptions)),
            list(dict.fromkeys(obligations.left_out)),
        )
        return problem, relation.fixed_values()

    def _program(self) -> tuple[Program, list[Loaded]]:
        given = self.distributed
        if isinstance(given, Program):
            if self.mesh is not None and self.mesh != given.mesh:
                raise self._mesh_error(given.mesh, self.mesh)
            return given, [Loaded(g) for g in given.graphs]
        if isinstance(given, str | Path | Graph):
            return self._single(given)
        if not isinstance(given, Sequence) or isinstance(given, bytes):
            raise argument_error(
                f"distributed is {shorten(repr(given), 60)}",
                "distributed",
                "a list with one graph a rank, or one graph for all ranks",
            )
        mesh = self.mesh or _NO_MESH
        loaded = [load(g, rank=k, mesh=mesh, facts=self.facts) for k, g in enumerate(given)]
        for k, part in enumerate(loaded):
            self._check_header(part, k, mesh)
        number_communicators([part.graph for part in loaded])
        return Program(mesh, [part.graph for part in loaded]), loaded

    def _single(self, given: GraphSource) -> tuple[Program, list[Loaded]]:
        """One graph: that of the only rank, or one for all ranks."""
        module = load_module(given, self.mesh or _NO_MESH, self.facts)
        if module is not None:
            return Program(self.mesh or _NO_MESH, [part.graph for part in module]), module
        part = load(given, rank=0, mesh=self.mesh or _NO_MESH, facts=self.facts)
        mesh = self.mesh or part.mesh or _NO_MESH
        if part.mesh is not None and part.mesh != mesh:
            raise self._mesh_error(part.mesh, mesh)
        spmd = part.graph.rank is None and (mesh.size != 1 or _names_axes(part.graph))
        if mesh.size != 1 and not spmd:
            raise InputError(
                f"one graph, of rank {part.graph.rank}, for a mesh of {mesh.size} ranks",
                where="distributed",
                expected=f"a list of {mesh.size} graphs, or one graph for all ranks",
                next_step="pass the graphs of all ranks in rank order",
            )
        if not spmd:
            part.graph.rank = 0
        elif not all(isinstance(a, str) for a in _group_members(part.graph)):
            raise InputError(
                "a collective over numbered ranks in a graph for all ranks",
                where="distributed",
                expected=f"groups of mesh axes: {', '.join(axis for axis, _ in mesh.axes)}",
                next_step="name the axis, or give a graph for each rank",
            )
        return Program(mesh, [part.graph], spmd), [part]

    def _check_ranks(self, given: Sequence[GraphSource], mesh: GraphMesh) -> None:
        size = mesh.size
        if len(given) != size:
            raise InputError(
                f"{len(given)} graphs for a mesh of {size} rank(s) (Mesh({mesh}))",
                where="distributed",
                expected=f"{size} graph(s), one a rank in rank order",
                next_step="add the missing ranks, or correct Mesh(...)",
            )
        paths = [str(g) for g in given if not isinstance(g, Graph | Loaded)]
        twice = next((p for p in paths if paths.count(p) > 1), None)
        if twice is not None:
            raise InputError(
                f"the same graph is given for two ranks: {shorten(twice)}",
                where="distributed",
                expected="one graph a rank",
                next_step="pass each rank's own graph, or one graph for all ranks without a list",
            )

    def _check_header(self, part: Loaded, k: int, mesh: GraphMesh) -> None:
        if part.mesh is not None and part.mesh != mesh:
            raise self._mesh_error(part.mesh, mesh)
        if part.graph.rank is None:
            part.graph.rank = k
        if part.graph.rank != k:
            raise InputError(
                f"the graph given for rank {k} says that it is rank {part.graph.rank}",
                where=f"distributed[{k}]",
                expected=f"the graph of rank {k}",
                next_step="put the graphs in rank order",
            )

    def _mesh_error(self, found: GraphMesh, mesh: GraphMesh) -> InputError:
        return InputError(
            f"the graph says mesh {found}, the Spec says {mesh}",
            where="mesh",
            expected="the same mesh",
            next_step="correct Mesh(...) or the mesh line of the graph",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Fraction)


def _group_members(graph: Graph) -> list[object]:
    groups = [node.attrs.get("group") for node in graph.nodes]
    return [a for g in groups if isinstance(g, tuple) for a in g]


def _names_axes(graph: Graph) -> bool:
    """Whether some collective is over a mesh axis, as in a graph written once for all ranks."""
    return any(isinstance(a, str) for a in _group_members(graph))


def _cast_differences(sequential: Loaded, ranks: list[Loaded]) -> list[Assumption]:
    """Casts are the identity to the verifier; those of one side only are worth a line."""
    on_ranks = frozenset().union(*(part.casts for part in ranks))
    sides = [
        ("distributed", on_ranks - sequential.casts),
        ("sequential", sequential.casts - on_ranks),
    ]
    return [
        Assumption("cast", f"only the {side} side casts {given} to {wanted}: taken as equal")
        for side, casts in sides
        for given, wanted in sorted(casts)
    ]
