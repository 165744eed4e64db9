"""Results of operators that are no collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardproof.certificate.claimed import Claimed, Tensors
from shardproof.certificate.claims import Claims, Meaning
from shardproof.certificate.discrete import LOOKUPS, Discrete
from shardproof.certificate.exact import NotChecked
from shardproof.certificate.extrema import over_dims
from shardproof.certificate.functions import Functions
from shardproof.certificate.infinite import Infinite
from shardproof.certificate.rules import VIEWS, Moved, Source, Tensor, simple
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Node, Value
from shardproof.ir.sizes import Size, Undecided
from shardproof.ops import base as alg


class Operators(Claimed):
    """Checks nodes one by one. ``checked`` are results that need no second look, by the claim and
    the operands; ``moved`` the rearrangements of tensors."""

    def __init__(self, claims: Claims) -> None:
        super().__init__(claims)
        self.functions = Functions(self.algebra)
        self.discrete = Discrete(self.algebra, self.functions)
        self.infinite = Infinite(claims.atoms, self.algebra.boolean)
        self.alive: list[Graph] = []  # so that no identity is used twice
        self.checked: dict[Any, list[Any]] = {}
        self.moved: dict[Any, Moved] = {}

    def node(self, where: str, node: Node, table: Tensors) -> None:
        """Check the claims about the results of one operator that is not a collective."""
        first = node.outputs[0] if node.outputs else None
        self.where = f"{where}, {node.source or (first.name if first else node.op)} ({node.op})"
        operands = [table[v] for v in node.inputs]
        op = alg.lookup(node.op)
        if op.define is not None and first is not None and first in self.claims.opened:
            self._opened(where, node, table)
            return
        types = tuple([v.type for v in node.inputs])
        for k, rule in enumerate(op.algebra(types, node.attrs)):
            if isinstance(rule, alg.Collective) and "group" not in node.attrs:
                raise NotChecked(f"{node.op} without a group")
            v = node.outputs[k]
            if v not in table and isinstance(rule, VIEWS):
                table[v] = self.rearranged(rule, operands, v.shape)
                continue
            made: Any = (rule, v.dtype, [t.dtype for t in types])
            if isinstance(rule, alg.Opaque | alg.Undefined):
                made = ("value", id(v))  # never equal to another
            before = self.checked.setdefault((id(table[v]), *map(id, operands)), [])
            if not any(_alike(made, x) for x in before):
                self._result(rule, node, operands, v, table)
                before.append(made)

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
        self, rule: alg.Algebra, node: Node, operands: list[Tensor], v: Value, table: Tensors
    ) -> None:
        self.steps += 1
        try:
            self.result(rule, node, operands, v, self.claim(table, v))
        except (NotChecked, Undecided):
            # A value that nothing is claimed of is an unknown.
            known = set(self.owner)
            if table[v].base is not None or not self.own(table[v], _key(rule, node, operands, v)):
                raise
            m = self.claim(table, v)
            if isinstance(rule, alg.Undefined):
                self.undefined |= m.atoms
            elif not self.sequentially and (isinstance(rule, LOOKUPS) or alg.is_partial(rule)):
                # It may leave its table or domain, and then has no value, even if it cancels.
                self.undefined |= m.atoms - known
        if isinstance(rule, alg.Constant) and isinstance(rule.value, float):
            self.infinite.constant(self.claim(table, v), rule.value)
        if self.no_number(table[v]):
            return
        self.infinite.check(rule, operands, table[v])
        # What is computed from undefined contents is undefined: they need not cancel.
        if any(map(self.no_number, operands)) and not isinstance(rule, VIEWS):
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


def _alike(a: Any, b: Any) -> bool:
    """Whether two rules are the same; equal attributes may be of different kinds."""
    return bool(a == b) and repr(getattr(a[0], "attrs", ())) == repr(getattr(b[0], "attrs", ()))


def _key(rule: alg.Algebra, node: Node, operands: Sequence[Tensor], v: Value) -> Any:
    """What an unexplained result is: the same for the same rule and operands."""
    if isinstance(rule, alg.Opaque | alg.Undefined):
        return "value", id(v)
    types = tuple(x.dtype for x in node.inputs)
    return rule, v.dtype, *map(id, operands), types, repr(getattr(rule, "attrs", ()))
