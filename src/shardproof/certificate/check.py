"""Check a certificate: every claimed meaning follows from those of the operands.

What is trusted: the graphs of the problem, the declarations of operators (``ops``), the
arithmetic of sizes (``ir``), and this package. The certificate only says where to look.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Claims, Lin, Meaning, well_formed, well_formed_atom
from shardproof.certificate.communication import concrete
from shardproof.certificate.copies import Copies, Copy, Layer, Table
from shardproof.certificate.discrete import LOOKUPS, Discrete
from shardproof.certificate.exact import Aff, NotChecked, variable
from shardproof.certificate.extrema import over_dims
from shardproof.certificate.fold import check_fold
from shardproof.certificate.functions import Functions
from shardproof.certificate.infinite import Infinite
from shardproof.certificate.judge import Judge
from shardproof.certificate.products import Sum, term_of
from shardproof.certificate.ranks import Ranks
from shardproof.certificate.region import Region, fresh, place, restart
from shardproof.certificate.rules import (
    VIEWS,
    Moved,
    Source,
    Tensor,
    meaning_source,
    read_through,
    simple,
    unit,
)
from shardproof.certificate.schedule import Walk, waits
from shardproof.ir.builder import Builder
from shardproof.ir.check import check_graph
from shardproof.ir.graph import Graph, Mesh, Node, Value
from shardproof.ir.sizes import Size, Undecided
from shardproof.ops import base as alg
from shardproof.ops.numbers import exact
from shardproof.spec.problem import Problem

MAX_REGIONS = 4096
Tensors = dict[Value, Any]
Fits = Callable[[Region, Sequence[Aff], Sum], bool]


@dataclass(slots=True)
class Outcome:
    """``problem`` is empty if the certificate proves the problem; else the step that was not
    checked. ``assumed`` are the facts that the proof rests on beside those of the problem."""

    problem: str = ""
    assumed: list[str] = field(default_factory=list)
    steps: int = 0

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


class Checker:
    """One certificate."""

    def __init__(
        self, original: Problem, evaluated: Problem, claims: Claims, fixed: dict[str, float]
    ) -> None:
        self.original, self.problem, self.claims, self.fixed = original, evaluated, claims, fixed
        self.algebra = Algebra(claims.atoms)
        self.functions = Functions(self.algebra)
        self.discrete = Discrete(self.algebra, self.functions)
        self.where = "atoms"
        self.steps = 0
        self.owner: dict[int, Any] = {0: "1", 1: "index"}
        self.ready: set[int] = {0, 1}
        self.undefined: set[int] = set()
        self.infinite = Infinite(claims.atoms, self.algebra.boolean)
        self.alive: list[Graph] = []  # so that no identity is used twice
        self.differs: set[int] = set()
        self.formed: set[int] = set()
        self.checked: set[Any] = set()
        self.side: int | None = None
        self.sources: dict[int, Source] = {}
        self.moved: dict[Any, Moved] = {}
        self.mesh: Mesh | None = None
        claims.sequential = Table(claims.sequential)
        claims.distributed = [Table(t) for t in claims.distributed]
        self.copies = Copies(self)
        self.images: set[int] = set()
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
        self.side = 0
        self.discrete.stating = False
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
        found = check_graph(g, alg.infer_types, None, typed)
        flaws = [f for f in found if "the group ()" not in f.message]
        if flaws:
            raise NotChecked(f"graph {g.name}: {flaws[0]}")

    # ---- claims

    def claim(self, table: Tensors, v: Value) -> Meaning:
        m = table[v]
        if isinstance(m, Moved):
            raise NotChecked(f"nothing is claimed of %{v.name}")
        if m.shape != v.shape:
            raise NotChecked(f"the claimed shape of %{v.name} is not its shape")
        assert isinstance(m, Meaning)
        self.form(m)
        return m

    def form(self, m: Meaning) -> None:
        """Check the form of a claim, and that it is about values that are known."""
        if id(m) not in self.formed:
            well_formed(self.claims.atoms, m)
            if (m.base is None) != (not m.pieces):
                raise NotChecked("an integer view without its base, or its function")
            if m.base is not None and (m.base.base is not None or m.base.shape != m.shape):
                raise NotChecked("an integer view of an integer view")
            self.formed.add(id(m))
        for c in m.cells:
            for t, _ in c.lin:
                self.known(t.atom)
        if m.base is not None:
            self.form(m.base)

    def known(self, atom: int) -> None:
        """Every unknown in a claim has been tied to what it stands for."""
        if atom in self.ready:
            return
        well_formed_atom(self.claims.atoms, atom)
        a = self.claims.atoms[atom]
        if not a.fn and atom not in self.owner:
            raise NotChecked(f"the unknown {a.name} stands for nothing")
        for lin in a.operands:
            for t, _ in lin:
                self.known(t.atom)
                if t.atom in self.undefined:
                    self.undefined.add(atom)
        self.ready.add(atom)

    def no_number(self, m: Tensor) -> bool:
        """Whether a tensor may hold undefined contents."""
        if not self.undefined:
            return False
        if isinstance(m, Moved):
            if not any(map(self.no_number, m.operands)):
                return False
            return any(
                term_of(b).atom in self.undefined for p, _ in read_through(m) for b, _ in p.factors
            )
        return any(t.atom in self.undefined for c in m.cells for t, _ in c.lin)

    def own(self, m: Tensor, key: Any, boolean: bool = False) -> bool:
        """Let the unknown that a claim consists of stand for the value ``key``."""
        if isinstance(m, Moved):
            return False
        if len(m.cells) != 1 and m.extents and all(f != 0 for f in m.extents):
            return False
        for c in m.cells:
            if len(c.lin) != 1 or c.lin[0][1] != 1:
                return False
            t = c.lin[0][0]
            n = len(m.dims) and len(m.extents)
            plain = t.ax == tuple((j, 1) for j in range(n)) and t.off == (0,) * n and not t.restr
            if not plain or self.claims.atoms[t.atom].fn or any(len(d) > 1 for d in m.dims):
                return False
            if key[0] == "input" and self.claims.atoms[t.atom].name != key[-1]:
                return False  # assumptions speak of inputs by these names
            if self.owner.setdefault(t.atom, key) != key:
                return False
            self._owned(t.atom, boolean)
        return True

    def _owned(self, atom: int, boolean: bool) -> None:
        if self.algebra.noted is not None:
            self.algebra.noted.owned.add(atom)
        if boolean:
            self.algebra.boolean.add(atom)
        if self.side is not None and self.mesh is not None:
            self.differs.add(atom)

    def source(self, m: Tensor) -> Source:
        if isinstance(m, Moved):
            return m.source
        found = self.sources.get(id(m))
        if found is None:
            found = self.sources[id(m)] = meaning_source(self.algebra, m)
        return found

    def cells(self, m: Meaning, fits: Fits) -> None:
        """Check every box of a claim, cutting it where a step needs that."""
        if 0 in m.extents:
            return
        k = len(m.dims)
        for c in m.cells:
            names = [fresh() for _ in c.lo]
            axes = [variable(v) for v in names]
            todo = iter(axes)
            index = [place(d, [next(todo) for _ in d]) for d in m.dims]
            whole = Region.of(dict(zip(names, zip(c.lo, c.hi, strict=True), strict=True)),
                              (*index, *axes))  # fmt: skip

            def look(r: Region, lin: Lin = c.lin) -> bool:
                return fits(r, r.index[:k], self.algebra.sum_of(lin, r.index[k:]))

            for _, follows in whole.visit(look, MAX_REGIONS, "a claim"):
                if not follows:
                    raise NotChecked("the claimed meaning does not follow from the operands")

    def equals(self, m: Meaning, s: Source) -> None:
        """Check that a claim says what ``s`` holds."""
        if s.shape != m.shape:
            raise NotChecked(f"the shape {s.shape} is claimed to be {m.shape}")
        self.cells(m, lambda r, at, x: self.algebra.equal(s.read(r, at), x, r))

    # ---- graphs

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
        origin = {v: v for v in graph.inputs}
        for node in graph.nodes:
            types = tuple(v.type for v in node.inputs)
            origin.update((v, v) for v in node.outputs)
            for rule in alg.lookup(node.op).algebra(types, node.attrs)[:1]:
                v = node.outputs[0]
                if isinstance(rule, VIEWS) and v not in table:
                    origin[v] = origin[node.inputs[0]]  # it holds the same ids
                rows = alg.rows_indexed(rule, types)
                if rows is not None:
                    self.where = f"sequential, the index of {node.op}"
                    ids = table.get(origin[node.inputs[1]])
                    if isinstance(ids, Meaning):
                        self.discrete.state(rows, ids, inputs)

    def no_pieces(self, m: Meaning) -> None:
        if m.base is not None:
            raise NotChecked("an integer view of an input")

    def through(self, graph: Graph, values: dict[Value, Source]) -> dict[Value, Source]:
        """The values of a relation graph, read through it."""
        out = dict(values)
        for node in graph.nodes:
            types = tuple(v.type for v in node.inputs)
            rules = alg.lookup(node.op).algebra(types, node.attrs)
            for v, rule in zip(node.outputs, rules, strict=True):
                found = simple(rule, [out[x] for x in node.inputs], v.shape, self.algebra.assume)
                if found is None:
                    raise NotChecked(f"the relation uses {node.op}")
                out[v] = found
        return out

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

    def node(self, where: str, node: Node, table: Tensors) -> None:
        """Check the claims about the results of one operator that is not a collective."""
        first = node.outputs[0] if node.outputs else None
        self.where = f"{where}, {node.source or (first.name if first else node.op)} ({node.op})"
        operands = [table[v] for v in node.inputs]
        op = alg.lookup(node.op)
        if op.define is not None and first is not None and first in self.claims.opened:
            self._opened(where, node, table)
            return
        types = tuple(v.type for v in node.inputs)
        for k, rule in enumerate(op.algebra(types, node.attrs)):
            v = node.outputs[k]
            if v not in table and isinstance(rule, VIEWS):
                table[v] = self.rearranged(rule, operands, v.shape)
                continue
            key: Any = (rule, v.dtype, *map(id, operands), *(t.dtype for t in types))
            if isinstance(rule, alg.Pointwise | alg.Signature):
                key = (*key, repr(rule.attrs))
            if isinstance(rule, alg.Opaque | alg.Undefined):
                key = ("value", id(v))
            if (key, id(table[v])) in self.checked:
                continue
            self._result(rule, node, operands, v, table, key)
            self.checked.add((key, id(table[v])))

    def rearranged(
        self, rule: alg.Algebra, operands: list[Tensor], shape: tuple[Size, ...]
    ) -> Moved:
        """What a rule gives for tensors where nothing is claimed of it; the same for the same."""
        key = (rule, shape, *map(id, operands))
        found = self.moved.get(key)
        if found is None:

            def moved(ms: Sequence[Tensor]) -> Source:
                out = simple(rule, [self.source(m) for m in ms], shape, self.algebra.assume)
                if out is None:
                    raise NotChecked(f"the rule {type(rule).__name__} where nothing is claimed")
                return out

            found = self.moved[key] = Moved(rule, moved(operands), tuple(operands))
            base = operands[0].base if len(operands) == 1 else None
            if base is not None:
                found.base, found.pieces = Moved(rule, moved([base]), (base,)), operands[0].pieces
        return found

    def _result(
        self, rule: alg.Algebra, node: Node, operands: list[Tensor], v: Value,
        table: Tensors, key: Any,
    ) -> None:  # fmt: skip
        self.steps += 1
        try:
            self.result(rule, node, operands, v, self.claim(table, v))
        except (NotChecked, Undecided):
            # A value that nothing is claimed of is an unknown.
            known = set(self.owner)
            if table[v].base is not None or not self.own(table[v], key):
                raise
            m = self.claim(table, v)
            atoms = {t.atom for c in m.cells for t, _ in c.lin}
            if isinstance(rule, alg.Undefined):
                self.undefined |= atoms
            elif isinstance(rule, LOOKUPS) and self.side is not None:
                # It may leave its table, and then has no value, even if it is masked later.
                self.undefined |= atoms - known
        if isinstance(rule, alg.Constant) and isinstance(rule.value, float):
            self.infinite.constant(self.claim(table, v), rule.value)
        if not self.no_number(table[v]):
            self.infinite.check(rule, operands, table[v])
        # What is computed from undefined contents is undefined: they need not cancel.
        lost = not isinstance(rule, VIEWS) and any(map(self.no_number, operands))
        if lost and not self.no_number(table[v]):
            raise NotChecked("undefined contents that cancel")

    def result(
        self, rule: alg.Algebra, node: Node, operands: list[Tensor], v: Value, m: Meaning
    ) -> None:
        """Check one result of one operator."""
        sources = [self.source(x) for x in operands]
        shape = v.shape
        if self.discrete.check(self, rule, operands, v, [x.type for x in node.inputs], m):
            return
        found = simple(rule, sources, shape, self.algebra.assume)
        if found is not None:
            self.equals(m, found)
        elif isinstance(rule, alg.Pointwise):
            self.cells(m, lambda r, at, x: self.functions.pointwise(rule, sources, shape, r, at, x))
        elif isinstance(rule, alg.Monomial):
            self.cells(m, lambda r, at, x: self.functions.monomial(rule, sources, shape, r, at, x))
        elif isinstance(rule, alg.Signature):
            self.cells(m, lambda r, at, x: self.functions.signature(rule, sources, r, at, x))
        elif isinstance(rule, alg.Extremum):
            self.cells(m, lambda r, at, x: over_dims(self.algebra, rule, sources[0], r, at, x))
        else:
            raise NotChecked(f"the rule {type(rule).__name__}")

    def _opened(self, where: str, node: Node, table: Tensors) -> None:
        """An operator by its definition: the inner values are claimed too."""
        op = alg.lookup(node.op)
        assert op.define is not None
        b = Builder(Graph(node.op), alg.infer_types)
        ins = tuple(b.input(f"x{k}", v.dtype, tuple(v.shape)) for k, v in enumerate(node.inputs))
        outs = op.define(b, ins, node.attrs)
        self.alive.append(b.graph)
        claimed = self.claims.opened[node.outputs[0]]
        inner = dict(zip(ins, (table[v] for v in node.inputs), strict=True))
        for n, row in zip(b.graph.nodes, claimed, strict=True):
            inner.update(
                (v, m) for v, m in zip(n.outputs, row.results, strict=True) if m is not None
            )
            if row.inner is not None:
                if alg.lookup(n.op).define is None:
                    raise NotChecked("an operator opened that has no definition")
                self.claims.opened[n.outputs[0]] = row.inner
            self.node(f"{where}, in {node.source or node.op}", n, inner)
        for v, w in zip(node.outputs, outs, strict=True):
            if v.type.shape != w.type.shape or table.setdefault(v, inner[w]) is not inner[w]:
                raise NotChecked("a result is not that of the definition")

    # ---- distributed graphs

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
