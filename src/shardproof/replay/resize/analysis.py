"""What restricts the sizes of a problem: one :class:`Analysis` over all its graphs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import isfinite

from shardproof.collectives.match import CollectiveStep, match
from shardproof.ir.graph import Graph, Node, Value, is_integer
from shardproof.replay.errors import NotReplayable
from shardproof.replay.resize.domains import Domain, Literal, Reading, bind, join, read
from shardproof.replay.resize.scales import Bound, Dim, Scales
from shardproof.spec.problem import Obligation, Problem


@dataclass(slots=True)
class Tensor:
    """What is known of one value: its dims, the domain of an integer tensor, the dims over which
    it is a plain sum (for literals that count the terms), and the node that fills it with one
    constant."""

    dims: tuple[Dim, ...]
    domain: Domain | None = None
    summed: tuple[Dim, ...] = ()
    constant: Node | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """The literal ``attr`` of ``node`` is ``ratio / number of terms`` of a sum, or with
    ``inverse`` ``number of terms / ratio``."""

    node: Node
    attr: str
    ratio: Fraction
    dims: tuple[Dim, ...]
    inverse: bool = False


@dataclass(slots=True)
class Analysis:
    """Scale classes, domains and rewritable attributes of all graphs of a problem.

    ``bounds``: of slice nodes. ``lists``: attributes that list one extent a member. ``readings``:
    integer literals. ``counts``: literals that are 1 / number of summed terms. ``firm``: how many
    of the ties ``scales.same`` come from operators and relations; later ones from likeness.
    """

    problem: Problem
    scales: Scales
    tensors: dict[Value, Tensor] = field(default_factory=dict)
    bounds: dict[Node, tuple[Bound, Bound]] = field(default_factory=dict)
    lists: dict[tuple[Node, str], tuple[Dim, ...]] = field(default_factory=dict)
    readings: dict[tuple[Node, str], Reading] = field(default_factory=dict)
    counts: dict[Node, Count] = field(default_factory=dict)
    sequential: bool = True
    firm: int = 0

    def tensor(self, v: Value) -> Tensor:
        """The tensor of a value, made with fresh dims at its first use."""
        if v not in self.tensors:
            dims = tuple(self.scales.new(_number(s)) for s in v.shape)
            self.tensors[v] = Tensor(dims, Domain() if is_integer(v.dtype) else None)
        return self.tensors[v]

    def bind(self, ids: Tensor, table: Dim) -> None:
        """``ids`` index ``table``."""
        if ids.domain is not None:
            bind(ids.domain, table, self.sequential)

    def flow(self, *tensors: Tensor) -> None:
        """Integer values flow unchanged between these tensors."""
        domains = [t.domain for t in tensors if t.domain is not None]
        if len(domains) > 1:
            join(domains)

    def literal(self, node: Node, attr: str, of: Tensor) -> None:
        """The attribute of ``node``, if it is an integer, is a value of the domain of ``of``."""
        value = node.attrs.get(attr)
        if of.domain is None or isinstance(value, bool):
            return
        if isinstance(value, float) and not isfinite(value):
            return
        if isinstance(value, int | float | Fraction) and value == int(value):
            of.domain.root().literals.append(Literal(node, attr, int(value)))

    def same(self, a: Tensor, b: Tensor) -> None:
        """Two tensors of one shape whose integers are of one domain."""
        self.scales.unify_all(a.dims, b.dims)
        self.flow(a, b)


def _number(size: object) -> int:
    if not isinstance(size, int):
        raise NotReplayable(f"size {size} has no number")
    return size


def analyse(problem: Problem, exact: bool = False) -> Analysis:
    """Collect the restrictions of all graphs of a concrete problem.

    Args:
        exact: let every position scale exactly, whatever that costs
            (:class:`~shardproof.replay.resize.scales.Scales`).

    Raises:
        NotReplayable: protocol violation, symbolic size, or an undeclared operator.
    """
    from shardproof.replay.resize.rules import apply_rules

    out = Analysis(problem, Scales(exact))
    apply_rules(out, problem.sequential)
    out.sequential = False
    for graph in problem.distributed.graphs:
        apply_rules(out, graph)
    _across_ranks(out)
    _align_ranks(out)
    for k, graph in enumerate(problem.relation):
        apply_rules(out, graph)
        _tie_relation(out, graph, problem.distributed.graphs[k])
    for ob in problem.obligations:
        for k, expected in enumerate(ob.expected):
            if expected is not None:
                apply_rules(out, expected)
                _tie_expected(out, ob, expected, problem.distributed.graphs[k])
    out.firm = len(out.scales.same)
    _tie_positions(out)
    _settle(out)
    return out


def _across_ranks(a: Analysis) -> None:
    from shardproof.replay.resize.collective import across_ranks

    schedule = match(a.problem.distributed)
    if schedule.errors:
        raise NotReplayable(str(schedule.errors[0]))
    for step in schedule.steps:
        if isinstance(step, CollectiveStep):
            across_ranks(a, step)


def _align_ranks(a: Analysis) -> None:
    """Equal extents at the same place of graphs with the same operators scale alike, so that
    ranks which run one program still do so at small sizes. (Not necessary for well-shapedness:
    scratch memory that nothing reads has free extents on every rank.)"""
    first, *others = a.problem.distributed.graphs
    for graph in others:
        if [n.op for n in first.nodes] != [n.op for n in graph.nodes]:
            continue
        for x, y in zip(first.values(), graph.values(), strict=False):
            for d, e in zip(a.tensor(x).dims, a.tensor(y).dims, strict=False):
                if a.scales.size[d] == a.scales.size[e]:
                    a.scales.unify(d, e)


def _tie_positions(a: Analysis) -> None:
    """Positions that both sides count over an axis of their own (the places of an expert's
    buffer) must stay as many on both sides, though no input has that axis."""
    graphs = [a.problem.sequential, *a.problem.distributed.graphs]
    given = {a.scales.find(d) for g in graphs for v in g.inputs for d in a.tensor(v).dims}
    first: dict[int, Dim] = {}
    for graph in graphs:
        for node in graph.nodes:
            if node.op != "iota":
                continue
            (dim,) = a.tensor(node.outputs[0]).dims
            if a.scales.find(dim) not in given:
                a.scales.unify(first.setdefault(a.scales.size[dim], dim), dim)


def _tie_relation(a: Analysis, relation: Graph, graph: Graph) -> None:
    _tie(a, relation.inputs, [_input(a.problem.sequential, v.name) for v in relation.inputs])
    inner = {v.name: v for v in graph.inputs}
    for name, v in zip(relation.output_names, relation.outputs, strict=True):
        if v is not None and name in inner:
            _tie(a, [v], [inner[name]])


def _tie_expected(a: Analysis, ob: Obligation, expected: Graph, graph: Graph) -> None:
    _tie(a, expected.inputs, [a.problem.sequential.output(ob.seq_output)] * len(expected.inputs))
    _tie(a, expected.outputs[:1], [graph.output(ob.dist_output)])


def _input(graph: Graph, name: str) -> Value:
    try:
        return graph.input(name)
    except KeyError:
        raise NotReplayable(f"a relation uses {name!r}, no input of {graph.name}") from None


def _tie(a: Analysis, xs: Sequence[Value | None], ys: Sequence[Value | None]) -> None:
    for x, y in zip(xs, ys, strict=True):
        if x is None or y is None:
            continue
        if x.shape != y.shape:
            raise NotReplayable(f"a relation gives {x}, but the program has {y}")
        a.same(a.tensor(x), a.tensor(y))


def _settle(a: Analysis) -> None:
    """Everything that needs the classes of all graphs."""
    from shardproof.replay.resize.closure import close

    domains = list(_roots(t.domain for t in a.tensors.values()))
    for d in domains:
        for table in d.tables[1:]:
            a.scales.unify(d.tables[0], table)
    close(a.scales)
    for d in domains:
        for lit in d.literals:
            a.readings[lit.node, lit.attr] = read(lit, d, a.scales)


def _roots(domains: Iterable[Domain | None]) -> Iterable[Domain]:
    seen: dict[int, Domain] = {}
    for d in domains:
        if d is not None:
            seen.setdefault(id(d.root()), d.root())
    return seen.values()
