"""Check a certificate: every claimed meaning follows from those of the operands.

What is trusted: the graphs of the problem, the declarations of operators (``ops``), the
arithmetic of sizes (``ir``), and this package. The certificate only says where to look.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from shardproof.certificate.claimed import Tensors
from shardproof.certificate.claims import Claims, Meaning, well_formed_atom
from shardproof.certificate.communication import concrete
from shardproof.certificate.copies import Copies, Copy, Layer, Table
from shardproof.certificate.exact import NotChecked, same_attrs
from shardproof.certificate.fold import check_fold
from shardproof.certificate.judge import Judge
from shardproof.certificate.operators import Operators
from shardproof.certificate.ranks import Ranks
from shardproof.certificate.region import restart
from shardproof.certificate.rules import VIEWS, Source, Tensor, unit
from shardproof.certificate.schedule import Walk, waits
from shardproof.ir.check import check_graph
from shardproof.ir.graph import Attrs, Graph, Mesh, Node, TensorType, Value, is_integer
from shardproof.ir.sizes import Undecided
from shardproof.ops import base as alg
from shardproof.ops.numbers import exact
from shardproof.spec.problem import Problem

Types = tuple[TensorType, ...]


@dataclass(slots=True)
class Outcome:
    """``problem`` is empty if the certificate proves the problem; else the step that was not
    checked. ``assumed`` are the facts that the proof rests on beside those of the problem.
    ``stated`` is the problem that a file states."""

    problem: str = ""
    assumed: list[str] = field(default_factory=list)
    steps: int = 0
    stated: Problem | None = None

    @property
    def agrees(self) -> bool:
        return not self.problem


def check(
    original: Problem, evaluated: Problem, claims: Claims, fixed: dict[str, float]
) -> Outcome:
    """Whether the claims prove that ``original`` refines.

    Args:
        evaluated: ``original`` itself, or the problem with ranks folded that was evaluated.
        fixed: inputs that hold one constant.
    """
    restart()
    run = Checker(original, evaluated, claims, fixed)
    try:
        run.all()
    except (NotChecked, Undecided, ZeroDivisionError, alg.ShapeError) as e:
        where = f"{run.where}: " if run.where else ""
        return Outcome(f"not checked: {where}{e}", steps=run.steps)
    except (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError) as e:
        # The certificate does not have the form that a step needs.
        return Outcome(f"not checked: {run.where}: malformed ({type(e).__name__})", steps=run.steps)
    return Outcome(
        "", sorted({*claims.assumed, *run.algebra.assumed, *run.discrete.assumed}), run.steps
    )


class Checker(Operators):
    """One certificate."""

    def __init__(
        self, original: Problem, evaluated: Problem, claims: Claims, fixed: dict[str, float]
    ) -> None:
        super().__init__(claims)
        self.original, self.problem, self.fixed = original, evaluated, fixed
        claims.sequential = Table(claims.sequential)
        claims.distributed = [Table(t) for t in claims.distributed]
        self.copies = Copies(self)
        self.images: set[int] = set()
        self.ruled: dict[Any, list[tuple[Attrs, Types]]] = {}
        self.layers: dict[tuple[int, int], Layer] = {(x.graph, x.at): x for x in claims.layers}

    def facts(self) -> Any:
        """What is known of values beside the definitions of their atoms."""
        a = self.algebra
        infinite = dict(self.infinite.constants)
        return dict(a.known), set(a.boolean), dict(a.spans), infinite, len(self.discrete.assumed)

    def all(self) -> None:
        for k in self.ready:
            well_formed_atom(self.claims.atoms, k)
        self.where = "ranks"
        if self.problem is not self.original:
            check_fold(self.original, self.problem)
        program = self.problem.distributed
        if not self.problem.obligations:
            raise NotChecked("there is nothing to prove")
        if len(program.graphs) != (1 if program.spmd else program.mesh.size):
            raise NotChecked("there are not as many graphs as ranks")
        self.mesh = program.mesh if program.spmd else program.inner
        self.ranks = Ranks(self.algebra, self.mesh or Mesh(()), self.differs)
        for k, g in enumerate((self.problem.sequential, *program.graphs)):
            self.well_typed(g, self.copied(k, g))
        for g in self.problem.relation:
            self.well_typed(g)
        self.sequential()
        self.distributed()
        if self.layers:
            raise NotChecked("a layer that is not where the certificate says")
        for ob in self.problem.obligations:
            self.where = f"output {ob.seq_output}"
            Judge(self, ob).check()

    def run(self, k: int, graph: Graph, table: Any, step: Callable[[Node], None]) -> None:
        """Check the nodes of a graph that runs from the first to the last; copies as such."""
        at = 0
        while at < len(graph.nodes):
            layer = self.layers.pop((k, at), None)
            if layer is None:
                step(graph.nodes[at])
                at += 1
                continue
            nodes = graph.nodes[at : at + layer.period]
            self.where = f"graph {k}, layer at {at}"
            if isinstance(layer, Copy):
                self.copies.add(layer, nodes, table)
            else:
                with self.copies.closed(layer, nodes):
                    for node in nodes:
                        step(node)
            at += layer.period

    def distributed(self) -> None:
        """Check the graphs of the ranks, or of their classes, in an order in which they run."""
        program = self.problem.distributed
        self.sequentially = False
        self.discrete.stating = self.functions.domains.stating = False
        for k in range(len(program.graphs)):
            self.inputs(k)
        if program.spmd:
            self.where = "asynchronous results"
            waits(program.graphs[0])
            graph = program.graphs[0]
            self.run(1, graph, self.claims.distributed[0], lambda node: self.local(0, node))
        else:
            for kind, members in Walk(program).steps():
                if kind == "local":
                    self.local(*members[0])
                else:
                    self.meeting(kind, members)

    def copied(self, k: int, g: Graph) -> set[Node]:
        """The nodes in copies, which have the types of nodes that are checked."""
        spans = [
            (x.at, x.period) for x in self.layers.values() if isinstance(x, Copy) and x.graph == k
        ]
        return {n for at, period in spans for n in g.nodes[at : at + period]}

    def well_typed(self, g: Graph, typed: Collection[Node] = ()) -> None:
        # A group along axes of one rank each has no axes when it is folded.
        found = check_graph(g, self.types, None, typed)
        flaws = [f for f in found if not f.message.startswith("the group () ")]
        if flaws:
            raise NotChecked(f"graph {g.name}: {flaws[0]}")

    def types(self, op: str, given: Types, attrs: Attrs) -> Types:
        """The types of an operator's results, which depend on these three only. Attributes that
        are equal but of other kinds (1 and true) are others."""
        known = self.ruled.setdefault((op, given), [])
        found = next((types for other, types in known if same_attrs(attrs, other)), None)
        if found is None:
            found = alg.infer_types(op, given, attrs)
            known.append((attrs, found))
        return found

    def sequential(self) -> None:
        graph, table = self.problem.sequential, self.claims.sequential
        for v in graph.inputs:
            self.where = f"sequential input %{v.name}"
            if v.name in self.fixed:
                c = exact(self.fixed[v.name])[0]
                terms = unit(c) if c != 0 else []
                m = self.claim(table, v)
                self.equals(m, Source(v.shape, lambda r, at, t=terms: t))  # type: ignore[misc]
                self.no_pieces(m)
            elif not self.own(table[v], ("input", v.name), v.dtype == "b8"):
                raise NotChecked("the claim is not that it is an unknown")
            else:
                self.no_pieces(self.claim(table, v))
        self.stated(graph, table)
        self.run(0, graph, table, lambda node: self.node("sequential", node, table))

    def stated(self, graph: Graph, table: Tensors) -> None:
        """Note what lookups say of the integer inputs: they say it of the whole program."""
        inputs = {a for a, key in self.owner.items() if key[0] == "input"}
        origin: dict[Value, Value] = {}
        for node in graph.nodes:
            if not any(is_integer(v.dtype) for v in node.inputs):
                continue
            types = tuple(v.type for v in node.inputs)
            for rule in alg.lookup(node.op).algebra(types, node.attrs)[:1]:
                v, x = node.outputs[0], node.inputs[0]
                if isinstance(rule, VIEWS) and v not in table:
                    origin[v] = origin.get(x, x)  # it holds the same ids
                rows = alg.rows_indexed(rule, types)
                if rows is not None:
                    self.where = f"sequential, the index of {node.op}"
                    x = node.inputs[1]
                    ids = table.get(origin.get(x, x))
                    if isinstance(ids, Meaning):
                        self.discrete.state(rows, ids, inputs)

    def inputs(self, k: int) -> None:
        """Inputs of a distributed graph are what the relation makes of sequential inputs."""
        relation, table = self.problem.relation[k], self.claims.distributed[k]
        names = {v.name: v for v in self.problem.sequential.inputs}
        values: Tensors = {}
        for v in relation.inputs:
            if v.shape != names[v.name].shape:
                raise NotChecked(f"the relation reads {v.name} with another shape")
            values[v] = self.claims.sequential[names[v.name]]
        for node in relation.nodes:
            self.where = f"graph {k}, the relation's {node.op}"
            types = tuple(v.type for v in node.inputs)
            (rule,) = alg.lookup(node.op).algebra(types, node.attrs)
            v = node.output
            values[v] = self.rearranged(rule, [values[x] for x in node.inputs], v.shape)
        outs = dict(zip(relation.output_names, relation.outputs, strict=True))
        for v in self.problem.distributed.graphs[k].inputs:
            self.where = f"graph {k}, input %{v.name}"
            out = outs.get(v.name)
            if out is None:
                if not self.own(table[v], ("input", k, v.name), v.dtype == "b8"):
                    raise NotChecked("the claim is not that it is an unknown")
                self.no_pieces(self.claim(table, v))
                continue
            if v in table or values[out].shape != v.shape:
                raise NotChecked("another claim than the relation's, or another shape")
            table[v] = values[out]

    def local(self, k: int, node: Node) -> None:
        table = self.claims.distributed[k]
        if "group" not in node.attrs:
            self.node(f"graph {k}", node, table)
            return
        self.where = f"graph {k}, {node.source or node.op} ({node.op})"
        if self.mesh is None or len(node.inputs) != 1 or len(node.outputs) != 1:
            raise NotChecked("a collective that no rank answers")
        v, x = node.outputs[0], node.inputs[0]
        self.steps += 1
        try:
            m = self.claim(table, v)
            self.no_pieces(m)
            made = self.ranks.run(node.op, self.source(table[x]), node.attrs, x.dtype)
            self.equals(m, made)
            self.finite(node.op, node, [table[x]], [m])
        except (NotChecked, Undecided):
            if table[v].base is not None or not self.own(table[v], ("value", id(v))):
                raise
            self.claim(table, v)

    def meeting(self, kind: str, members: Sequence[tuple[int, Node]]) -> None:
        k0, first = members[0]
        self.where = f"graph {k0}, {first.source or first.op} ({first.op})"
        tables = [self.claims.distributed[k] for k, _ in members]
        if kind == "message":
            (send, recv) = members[0][1], members[1][1]
            if send.inputs[0].type != recv.outputs[0].type:
                raise NotChecked("a message of another type than is received")
            m = self.claim(tables[1], recv.outputs[0])
            self.equals(m, self.source(tables[0][send.inputs[0]]))
            self.no_pieces(m)
            return
        sources = [self.source(t[n.inputs[0]]) for t, (_, n) in zip(tables, members, strict=True)]
        if kind in ("all_reduce", "reduce_scatter") and any(
            self.no_number(t[n.inputs[0]]) for t, (_, n) in zip(tables, members, strict=True)
        ):
            raise NotChecked("a reduction of undefined contents")
        made = concrete(
            self.algebra,
            kind,
            sources,
            [n.attrs for _, n in members],
            [n.inputs[0].type for _, n in members],
        )
        done: set[Any] = set()
        unknown = kind == "all_reduce" and self._one_unknown(first, tables, members)
        for t, (_, n), s in zip(tables, members, made, strict=True):
            m = self.claim(t, n.outputs[0])
            self.no_pieces(m)
            if unknown:
                continue
            if (id(m), id(s)) not in done:
                self.steps += 1
                self.equals(m, s)
                done.add((id(m), id(s)))
        if not unknown:
            pairs = list(zip(tables, members, strict=True))
            operands = [t[n.inputs[0]] for t, (_, n) in pairs]
            self.finite(kind, first, operands, [t[n.outputs[0]] for t, (_, n) in pairs])

    def finite(
        self, kind: str, node: Node, operands: Sequence[Tensor], results: Sequence[Tensor]
    ) -> None:
        """A sum over ranks in which no infinity is lost."""
        if kind in ("all_reduce", "reduce_scatter") and node.attrs["op"] in ("sum", "avg"):
            rule = alg.Linear((Fraction(1),) * len(operands))
            self.infinite.check(rule, operands, *results)

    def _one_unknown(
        self, first: Node, tables: Sequence[dict[Value, Meaning]],
        members: Sequence[tuple[int, Node]],
    ) -> bool:  # fmt: skip
        """Whether nothing is claimed of what is reduced but that it is one value on all ranks."""
        key = ("value", id(first.outputs[0]))
        claims = [t[n.outputs[0]] for t, (_, n) in zip(tables, members, strict=True)]
        return all(m.base is None and self.own(m, key) for m in claims)
