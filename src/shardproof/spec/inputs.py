"""The input relation: what every distributed input is in terms of sequential inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from shardproof.errors import InputError
from shardproof.ir.graph import Graph, Mesh, Program, TensorType, Value, is_float
from shardproof.ir.sizes import Size, div_mod, divides
from shardproof.spec.expression import Expr
from shardproof.spec.lower import Lowering
from shardproof.spec.patterns import Entries, shown_names, unknown_name
from shardproof.spec.placement import (
    AxisPlacements,
    Partial,
    Placement,
    Shard,
    by_axis,
    describe,
    is_placement,
)
from shardproof.spec.problem import Assumption

Rule = Placement | AxisPlacements | Expr | Callable[..., object]
Fixed = Mapping[str, int | float | Fraction]


def positions(program: Program) -> list[tuple[dict[str, Size], Size | None, str]]:
    """For each graph of a program: the rank's coordinates, its number, and a name for it."""
    mesh = program.mesh
    if program.spmd:
        symbols: dict[str, Size] = {axis: mesh.index(axis) for axis, _ in mesh.axes}
        number = next(iter(symbols.values())) if len(symbols) == 1 else None
        return [(symbols, number, "every rank")]
    return [
        ({**mesh.coordinates(rank)}, rank, f"rank {rank}") for rank in range(len(program.graphs))
    ]


class InputRelation:
    """Resolves the user's ``inputs``, ``fixed`` and ``free`` to one relation graph a rank."""

    def __init__(
        self,
        sequential: Graph,
        program: Program,
        inputs: Mapping[str, Rule] | Callable[[str], Rule | None],
        fixed: Fixed,
        free: Iterable[str],
    ) -> None:
        self.sequential = sequential
        self.program = program
        self.rules: Entries[Rule] = Entries("inputs", inputs)
        self.fixed: Entries[int | float | Fraction] = Entries("fixed", fixed)
        self.free: Entries[bool] = Entries("free", dict.fromkeys(free, True))
        self.types = {v.name: v.type for v in sequential.inputs}
        self.random: dict[str, tuple[str, AxisPlacements]] = {}
        self.constants: frozenset[str] = frozenset()
        self.assumptions: list[Assumption] = []
        self._said: dict[tuple[str, str], list[str]] = {}

    def resolve(self) -> list[Graph]:
        """The relation graphs; what they rest on is then in ``assumptions``.

        Raises:
            InputError: an entry is wrong, or a distributed input stays undefined.
        """
        graphs = [self._of_rank(k) for k in range(len(self.program.graphs))]
        names = list(dict.fromkeys(v.name for g in self.program.graphs for v in g.inputs))
        self.rules.check_used(names, "distributed input")
        self.fixed.check_used([*names, *self.types], "input")
        self.free.check_used(names, "distributed input")
        for (kind, text), users in self._said.items():
            self.assumptions.append(Assumption(kind, f"{shown_names(users)}: {text}"))
        return graphs

    def fixed_values(self) -> dict[str, float]:
        """The inputs of either side that hold one constant, by name."""
        names = [*self.types, *(v.name for g in self.program.graphs for v in g.inputs)]
        values = {name: self.fixed.get(name) for name in names}
        return {name: float(Fraction(v)) for name, v in values.items() if v is not None}

    def pair_constants(self, names: Iterable[str]) -> None:
        """Inputs that stand for constants of the sequential graph: a distributed one of the same
        name is assumed to be the same constant."""
        self.constants = frozenset(names)

    def pair_random(self, sequential: list[str], distributed: list[list[str]]) -> None:
        """Pair the masks that the importer made, in order, and propose how each lies.

        Raises:
            InputError: the counts differ, or a shape fits no placement.
        """
        for k, masks in enumerate(distributed):
            if len(masks) != len(sequential):
                raise InputError(
                    f"{len(masks)} random inputs on rank {k}, {len(sequential)} in the "
                    "sequential graph: they cannot be paired",
                    where="random numbers of the graphs",
                    expected="the same random operators in the same order on both sides",
                    next_step='use dropout="off", or relate these inputs in inputs={...}',
                )
            graph = self.program.graphs[k]
            for mask, source in zip(masks, sequential, strict=True):
                if self.rules.get(mask) is None:
                    placement = self._mask_placement(graph.input(mask), source, k)
                    self.random[mask] = source, placement

    # ---------------------------------------------------------------- one rank

    def _of_rank(self, k: int) -> Graph:
        graph = self.program.graphs[k]
        coordinates, number, label = positions(self.program)[k]
        name = f"inputs of {label}"
        lowering = Lowering(name, self.program.mesh, self._source, coordinates, number)
        for v in graph.inputs:
            self._define(lowering, v, label)
        return lowering.graph

    def _define(self, lowering: Lowering, v: Value, label: str) -> None:
        constant = self.fixed.get(v.name)
        if constant is not None:
            lowering.constant(v.name, self._constant(v, constant), v.type)
            self._say("fact", f"every element is {constant}", v.name)
            return
        rule = self.rules.get(v.name)
        if rule is None and v.name in self.random:
            self._define_mask(lowering, v, label)
        elif rule is not None:
            where = f"{self.rules.where(v.name)}, {label}"
            self._refuse_partial(rule, where)
            value = lowering.define(v.name, rule, v.name, where)
            lowering.returns(v.name, value, v.type, where)
            self._record(v.name, rule, where)
            if value.dtype != v.dtype:
                self._say("cast", f"{value.dtype} inputs are read as {v.dtype}", v.name)
        elif v.name in self.constants:
            where = f"constant {v.name}, {label}"
            value = lowering.define(v.name, {}, v.name, where)
            lowering.returns(v.name, value, v.type, where)
            self._say(
                "constant", "its value is not printed; assumed the same on both sides", v.name
            )
        elif self.free.get(v.name) is not None:
            self._say("relation", "free: any value on any rank", v.name)
        else:
            raise self._undefined(v, label)

    def _constant(self, v: Value, constant: int | float | Fraction) -> int | Fraction:
        try:
            exact = Fraction(constant)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._bad_constant(v, constant, "a finite number") from error
        if is_float(v.dtype):
            return exact
        if exact.denominator != 1:
            raise self._bad_constant(v, constant, f"a whole number: {v.name} is {v.type}")
        return int(exact)

    def _bad_constant(self, v: Value, constant: object, expected: str) -> InputError:
        return InputError(
            f"{v.name!r} cannot hold the constant {constant!r}",
            where=self.fixed.where(v.name),
            expected=expected,
            next_step="correct this entry of fixed={...}",
        )

    def _define_mask(self, lowering: Lowering, v: Value, label: str) -> None:
        source, placement = self.random[v.name]
        where = f"random input {v.name}, {label}"
        value = lowering.define(v.name, placement, source, where)
        lowering.returns(v.name, value, v.type, where)
        same = "the same name" if source == v.name else f"name {source}"
        placed = describe(placement, self.program.mesh)
        text = f"the sequential random input of {same}, {placed} (proposed: paired by order, "
        self._say("random", text + "placed by shape)", v.name)

    def _record(self, name: str, rule: Rule, where: str) -> None:
        if is_placement(rule):
            placements = by_axis(rule, self.program.mesh, where)
            self._say("relation", describe(placements, self.program.mesh), name)
        elif isinstance(rule, Expr):
            self._say("relation", f"= {rule}", name)
        else:
            self._say("relation", "given for each rank by a function", name)

    def _say(self, kind: str, text: str, user: str) -> None:
        users = self._said.setdefault((kind, text), [])
        if user not in users:
            users.append(user)

    def _source(self, name: str, where: str) -> TensorType:
        if name not in self.types:
            raise unknown_name(name, self.types, "sequential input", where)
        return self.types[name]

    def _undefined(self, v: Value, label: str) -> InputError:
        names = dict.fromkeys(x.name for g in self.program.graphs for x in g.inputs)
        misspelt = self.rules.misspelt(v.name, names)
        if misspelt is not None:
            return unknown_name(misspelt, names, "distributed input", f"inputs[{misspelt!r}]")
        shown = "Replicate()}, or Shard(dim)" if v.name in self.types else 'seq("...")}'
        hint = f'add inputs={{"{v.name}": {shown}'
        return InputError(
            f"nothing says what the distributed input {v.name!r} ({v.type}) is",
            where=f"inputs, {label}",
            expected="a placement or an expression over sequential inputs",
            next_step=f"{hint}; if it may hold anything, list it in free=[...]",
        )

    def _refuse_partial(self, rule: object, where: str) -> None:
        placements = rule.values() if isinstance(rule, Mapping) else [rule]
        if any(isinstance(p, Partial) for p in placements):
            raise InputError(
                "an input cannot be Partial: it would not be a function of a sequential input",
                where=where,
                expected="Replicate, Shard, Parts or an expression",
                next_step="declare the terms as inputs of the sequential model, or list the "
                "input in free=[...]",
            )

    def _mask_placement(self, mask: Value, source: str, k: int) -> AxisPlacements:
        whole = self.types[source].shape
        found = propose(whole, mask.shape, self.program.mesh)
        if found is None:
            raise InputError(
                f"the random input {mask.name!r} is {mask.type}, the sequential "
                f"{source!r} is {self.types[source]}",
                where=f"random input {mask.name}, rank {k}",
                expected="the same shape, or one dim divided by the ranks of one mesh axis",
                next_step=f'say how the mask lies: inputs={{"{mask.name}": ...}}',
            )
        return found


def propose(whole: tuple[Size, ...], part: tuple[Size, ...], mesh: Mesh) -> AxisPlacements | None:
    """The only placement along one axis that gives shape ``part`` of shape ``whole``; None when
    there is none or more than one."""
    if whole == part:
        return {}
    if len(whole) != len(part):
        return None
    cut = [d for d, (a, b) in enumerate(zip(whole, part, strict=True)) if a != b]
    found = [
        {axis: Shard(d)}
        for axis, n in mesh.axes
        for d in cut
        if len(cut) == 1 and divides(n, whole[d]) and div_mod(whole[d], n)[0] == part[d]
    ]
    return found[0] if len(found) == 1 else None
