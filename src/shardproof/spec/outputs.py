"""Obligations: what each sequential output must be on the distributed side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardproof.errors import InputError
from shardproof.ir.graph import Graph, Program, TensorType, Value
from shardproof.spec.arguments import argument_error, mapping, name_list, size_tuple
from shardproof.spec.expression import Expr
from shardproof.spec.inputs import Rule, positions, propose
from shardproof.spec.lower import Lowering, Sources
from shardproof.spec.patterns import Entries, unknown_name
from shardproof.spec.placement import (
    AxisPlacements,
    Partial,
    by_axis,
    describe,
    is_placement,
)
from shardproof.spec.problem import Assumption, Obligation


@dataclass(frozen=True, slots=True)
class Output:
    """How one sequential output comes out of the distributed program.

    ``name`` is its name there (default: the same name, else the same position); ``placement``
    defaults to Replicate for equal shapes, else to the only shard that fits; ``ranks`` limits it
    to the ranks that return it, such as the last pipeline stage.
    """

    name: str = ""
    placement: Rule | None = None
    ranks: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise argument_error(f"the name is {self.name!r}", "Output", "a name")
        if self.ranks is not None:
            size_tuple(self.ranks, "Output", "ranks")


OutputRule = Output | Rule | str | tuple[str, Rule]


class Obligations:
    """Resolves the user's ``outputs``."""

    def __init__(
        self,
        sequential: Graph,
        program: Program,
        outputs: Mapping[str, OutputRule] | Iterable[str] | None,
    ) -> None:
        self.sequential = sequential
        self.program = program
        self.assumptions: list[Assumption] = []
        self.left_out: list[str] = []
        self._types = {
            name: v.type
            for name, v in zip(sequential.output_names, sequential.outputs, strict=True)
            if v is not None
        }
        self._rules = self._entries(outputs)

    def _entries(
        self, outputs: Mapping[str, OutputRule] | Iterable[str] | None
    ) -> Entries[OutputRule]:
        if outputs is None:
            outputs = dict.fromkeys(self._types, Output())
        elif not isinstance(outputs, Mapping):
            outputs = dict.fromkeys(name_list(outputs, "outputs"), Output())
        return Entries("outputs", mapping(outputs, "outputs"))

    def resolve(self) -> list[Obligation]:
        """The obligations; proposals are then in ``assumptions``, the rest in ``left_out``.

        Raises:
            InputError: an entry is wrong, or there is no obligation at all.
        """
        found = []
        for name in self._types:
            rule = self._rules.get(name)
            if rule is None:
                self.left_out.append(name)
            else:
                found.append(self._obligation(name, _as_output(rule), self._rules.where(name)))
        self._rules.check_used(self._types, "sequential output")
        if not found:
            raise InputError(
                "there is nothing to prove: no output is expected",
                where="outputs",
                expected="at least one sequential output",
                next_step='name one, such as outputs={"loss": Replicate()}',
            )
        return found

    def _obligation(self, name: str, output: Output, where: str) -> Obligation:
        dist_name = self._paired(name, output, where)
        values = [self._value(k, dist_name, output, where) for k in range(len(self.program.graphs))]
        present = [v for v in values if v is not None]
        if not present:
            raise InputError(
                f"no rank returns {dist_name!r}",
                where=where,
                expected="at least one rank that returns it",
                next_step="correct ranks=... of this output",
            )
        rule = output.placement
        if rule is None:
            rule = self._proposed(name, dist_name, present[0], where)
        partial = _partial_axes(rule, self.program, where)
        expected = [
            self._expected(k, name, v, rule, where) if v is not None else None
            for k, v in enumerate(values)
        ]
        text = self._text(rule, where)
        if output.ranks is not None:
            text += f" on ranks {', '.join(map(str, output.ranks))}"
        return Obligation(name, dist_name, expected, text, partial)

    def _paired(self, name: str, output: Output, where: str) -> str:
        graphs = self._returning(output)
        if output.name:
            return output.name
        if any(name in g.output_names for g in graphs):
            return name
        counts = {len(g.outputs) for g in graphs} | {len(self.sequential.outputs)}
        index = self.sequential.output_names.index(name)
        candidates = {g.output_names[index] for g in graphs} if len(counts) == 1 else set()
        if len(candidates) == 1:
            (dist_name,) = candidates
            text = f"sequential {name} is paired with distributed {dist_name} by position"
            self.assumptions.append(Assumption("relation", text))
            return dist_name
        known = dict.fromkeys(n for g in graphs for n in g.output_names)
        raise unknown_name(name, known, "distributed output", where)

    def _returning(self, output: Output) -> list[Graph]:
        if output.ranks is None:
            return self.program.graphs
        return [g for k, g in enumerate(self.program.graphs) if k in output.ranks]

    def _value(self, k: int, dist_name: str, output: Output, where: str) -> Value | None:
        if output.ranks is not None and k not in output.ranks:
            return None
        graph = self.program.graphs[k]
        if dist_name not in graph.output_names:
            label = positions(self.program)[k][2]
            raise unknown_name(
                dist_name, graph.output_names, f"distributed output of {label}", where
            )
        value = graph.output(dist_name)
        if value is None:
            raise InputError(
                f"rank {k} returns None for {dist_name!r}",
                where=where,
                expected="a tensor on every rank",
                next_step="limit the output with Output(ranks=(...)) or leave it out",
            )
        return value

    def _proposed(self, name: str, dist_name: str, value: Value, where: str) -> AxisPlacements:
        whole = self._types[name]
        found = propose(whole.shape, value.shape, self.program.mesh)
        if found is None:
            raise InputError(
                f"the output {dist_name!r} is {value.type}, the sequential {name!r} is {whole}: "
                "no single placement follows from the shapes",
                where=where,
                expected="a declared placement",
                next_step=f'write outputs={{"{name}": Shard(dim)}} or another placement',
            )
        if found:
            placed = describe(by_axis(found, self.program.mesh, where), self.program.mesh)
            text = f"output {dist_name} is expected as {placed}, proposed from its shape"
            self.assumptions.append(Assumption("relation", text))
        return found

    def _expected(self, k: int, name: str, value: Value, rule: Rule, where: str) -> Graph:
        coordinates, number, label = positions(self.program)[k]
        lowering = Lowering(
            f"{name} on {label}", self.program.mesh, self._source_of(name), coordinates, number
        )
        where = f"{where}, {label}"
        expected = lowering.define(name, rule, name, where)
        lowering.returns(value.name, expected, value.type, where)
        if expected.dtype != value.dtype:
            text = f"output {name} is {expected.dtype}, on the ranks {value.dtype}"
            self.assumptions.append(Assumption("cast", text))
        return lowering.graph

    def _source_of(self, name: str) -> Sources:
        def source(wanted: str, where: str) -> TensorType:
            if wanted != name:
                raise InputError(
                    f"the expression for output {name!r} mentions {wanted!r}",
                    where=where,
                    expected=f"only seq({name!r})",
                    next_step="an output is expected to be a part of its own sequential value",
                )
            return self._types[name]

        return source

    def _text(self, rule: Rule, where: str) -> str:
        if is_placement(rule):
            mesh = self.program.mesh
            return describe(by_axis(rule, mesh, where), mesh)
        return f"= {rule}" if isinstance(rule, Expr) else "given for each rank by a function"


def _as_output(rule: OutputRule) -> Output:
    if isinstance(rule, Output):
        return rule
    if isinstance(rule, str):
        return Output(rule)
    if isinstance(rule, tuple):
        if len(rule) != 2:
            raise argument_error(f"{rule!r}", "outputs", "a pair of name and placement")
        return Output(rule[0], rule[1])
    return Output(placement=rule)


def _partial_axes(rule: Rule, program: Program, where: str) -> tuple[str, ...]:
    if not is_placement(rule):
        return ()
    placements = by_axis(rule, program.mesh, where)
    return tuple(axis for axis, p in placements.items() if isinstance(p, Partial))
