"""Write the certificate of a proof. Not trusted: a mistake here makes a certificate that the
checker refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec

from shardproof.certificate.document import (
    KIND,
    VERSION,
    AtomRow,
    CopyRow,
    Document,
    Evaluated,
    InnerRow,
    MeaningRow,
    ObligationRow,
    Proof,
    TemplateRow,
    TermRow,
)
from shardproof.certificate.rules import VIEWS
from shardproof.infer.blocks import Lin, Term, Val
from shardproof.infer.rename import Renaming
from shardproof.infer.repeat import Copied
from shardproof.infer.run import Inference
from shardproof.ir.graph import Graph, Node, Value
from shardproof.ir.printer import format_attr, print_graph
from shardproof.ir.sizes import Size
from shardproof.ops.base import lookup
from shardproof.spec.problem import Problem


def proof_of(inf: Inference, *, copies: bool = True) -> Proof:
    """The tables of a proof; with ``copies`` nothing is said of repeated layers but the first."""
    return _Writer(inf, copies).proof()


def document_of(
    problem: Problem,
    inf: Inference,
    fixed: dict[str, float] | None = None,
    *,
    copies: bool = True,
) -> Document:
    """The whole certificate of a proof of ``problem``."""
    texts = _Texts()
    program = problem.distributed
    evaluated = None
    if inf.problem is not problem:
        e = inf.problem
        inner = e.distributed.inner
        evaluated = Evaluated(
            [a for a, _ in inner.axes] if inner is not None else [],
            [texts.add(g) for g in e.distributed.graphs],
            [texts.add(g) for g in e.relation],
            [[texts.maybe(g) for g in ob.expected] for ob in e.obligations],
        )
    obligations = [
        ObligationRow(ob.seq_output, ob.dist_output, [texts.maybe(g) for g in ob.expected],
                      ob.placement, list(ob.partial_over))
        for ob in problem.obligations
    ]  # fmt: skip
    assumed = [*inf.evaluator.lookups.assumed, *inf.evaluator.products.assumed]
    return Document(
        KIND, VERSION, problem.name, texts.all, texts.add(problem.sequential),
        [(a, _size(n)) for a, n in program.mesh.axes], program.spmd,
        [texts.add(g) for g in program.graphs], [texts.add(g) for g in problem.relation],
        obligations, [(a.kind, a.text) for a in problem.assumptions], list(problem.left_out),
        dict(fixed or {}), assumed, proof_of(inf, copies=copies), evaluated,
    )  # fmt: skip


def write(
    problem: Problem,
    inf: Inference,
    fixed: dict[str, float] | None = None,
    *,
    copies: bool = True,
) -> bytes:
    """The certificate as a file."""
    return msgspec.json.encode(document_of(problem, inf, fixed, copies=copies))


class _Texts:
    def __init__(self) -> None:
        self.all: list[str] = []
        self._known: dict[str, int] = {}
        self._graphs: dict[int, int] = {}

    def add(self, g: Graph) -> int:
        if id(g) not in self._graphs:
            text = print_graph(g, origins=False)
            if text not in self._known:
                self._known[text] = len(self.all)
                self.all.append(text)
            self._graphs[id(g)] = self._known[text]
        return self._graphs[id(g)]

    def maybe(self, g: Graph | None) -> int | None:
        return None if g is None else self.add(g)


def _size(x: Size) -> int | str:
    return x if isinstance(x, int) else str(x)


def _label(label: Any) -> list[Any]:
    if label[0] == "in":
        return [*label[:3], _label(label[3])]
    return list(label)


class Layers:
    """The layers that were copied, and from which."""

    def __init__(self, copied: list[Copied]) -> None:
        self.copied = copied
        self.graphs = [0 if c.where == "sequential" else c.where + 1 for c in copied]
        self.images = {b: a for c in copied for a, b in c.made.items() if a != b}
        self._nodes: dict[int, set[int]] = {}
        for k, c in zip(self.graphs, copied, strict=True):
            self._nodes.setdefault(k, set()).update(range(c.at, c.at + c.period))

    def nodes(self, graph: int) -> set[int]:
        """The numbers of the nodes of a graph that are in copies."""
        return self._nodes.get(graph, set())

    def rows(self) -> tuple[list[TemplateRow], list[CopyRow]]:
        """Templates and copies. A distributed layer follows the sequential one that lies as many
        layers behind its template."""
        places: dict[tuple[int, int], int] = {}
        templates: list[TemplateRow] = []
        copies: list[CopyRow] = []
        sequential: dict[int, int] = {}
        for k, c in zip(self.graphs, self.copied, strict=True):
            of = sequential.get(c.distance) if k else None
            like = None if of is None else copies[of].template
            made = [a for a in sorted(c.made) if c.made[a] != a]
            if (k, c.like) not in places:
                places[k, c.like] = len(templates)
                templates.append(TemplateRow(k, c.like, c.period, made, [], like))
            t = templates[places[k, c.like]]
            known = {*t.made, *t.moved}
            if like is not None:
                known |= {*templates[like].made, *templates[like].moved}
            t.moved += sorted(c.outside.keys() - known)
            if not k:
                sequential[c.distance] = len(copies)
            copies.append(CopyRow(places[k, c.like], c.at, [c.made[a] for a in made], of))
        return templates, copies


class _Writer:
    def __init__(self, inf: Inference, copies: bool) -> None:
        self.inf = inf
        self.layers = Layers(inf.copied if copies else [])
        self.terms: list[TermRow] = []
        self.meanings: list[MeaningRow] = []
        self._terms: dict[Term, int] = {}
        self._values: dict[int, tuple[Val, int]] = {}
        self._keys: dict[Any, int] = {}
        self.axes: dict[int, int] = {0: 0, 1: 1}

    def proof(self) -> Proof:
        inf = self.inf
        graphs = [inf.problem.sequential, *inf.problem.distributed.graphs]
        envs = [inf.sequential, *inf.env]
        tables = [self.row(k, g, e) for k, (g, e) in enumerate(zip(graphs, envs, strict=True))]
        opened = []
        for k, g in enumerate(graphs):
            copied = self.layers.nodes(k)
            for j, node in enumerate(g.nodes):
                if j in copied:
                    continue
                record, renamings = self.record(node)
                if record is not None:
                    opened.append((k, j, self.inner(record, renamings)))
        atoms: list[tuple[Any, ...]] = []
        for a in inf.evaluator.table.atoms:
            d = a.definition
            if len(atoms) in self.layers.images:
                self.axes[len(atoms)] = self._axes(len(atoms))
                d = None
            if d is None:
                atoms.append((a.name, "", "", [], (), (), 0, []))
                continue
            ops = [self.lin(x) for x in d.operands]
            attrs = format_attr(tuple(d.attrs)) if d.attrs else ""
            atoms.append((a.name, d.fn, attrs, ops, self.box(d.lo), self.box(d.hi), d.n_free,
                          sorted(d.whole)))  # fmt: skip
        rows = [
            AtomRow(*row)
            if row[1]
            else AtomRow(row[0], "", "", [], (), (), self.axes.get(k, 0), [])
            for k, row in enumerate(atoms)
        ]
        templates, copies = self.layers.rows()
        return Proof(
            rows, self.terms, self.meanings, tables[0], tables[1:], opened, templates, copies
        )

    def _axes(self, atom: int) -> int:
        """The number of axes of an image, which are those of the atom that it is the image of."""
        like = self.layers.images[atom]
        d = self.inf.evaluator.table.atoms[like].definition
        return d.n_free if d is not None else self.axes.get(like, 0)

    def row(self, k: int, graph: Graph, env: Any) -> list[int | None]:
        """The meanings of the values of a graph."""
        moved, copied = rearrangements(graph), self.layers.nodes(k)
        given = set(self.inf.problem.relation[k - 1].output_names) if k else set()
        row = [None if v.name in given else self.value(env[v]) for v in graph.inputs]
        for j, node in enumerate(graph.nodes):
            if j in copied:
                row += [None for _ in node.outputs]
            else:
                row += [self.maybe(env, v, moved) for v in node.outputs]
        return row

    def maybe(self, env: Any, v: Value, moved: dict[Value, Node]) -> int | None:
        """The meaning of a value; none if it is a rearrangement that makes no new name, and not
        fewer pieces."""
        node = moved.get(v)
        if node is None or _in_fewer(node, env):
            return self.value(env[v])
        known = {a for x in node.inputs for a in _names(env[x])}
        return None if _names(env[v]) <= known else self.value(env[v])

    def record(self, node: Node) -> tuple[list[Any] | None, list[Renaming]]:
        """What a node was opened to, and the renamings that make another's record its own."""
        opened = self.inf.opened
        renamings: list[Renaming] = []
        while node not in opened.inner and node in opened.like:
            renaming, node = opened.like[node]
            if renaming is not None:
                renamings.append(renaming)
        return opened.inner.get(node), renamings[::-1]

    def inner(self, record: list[Any], renamings: list[Renaming]) -> list[InnerRow]:
        out = []
        for vals, nested in record:
            for r in renamings:
                vals = [r.value(v) for v in vals]
            more = None if nested is None else self.inner(nested, renamings)
            out.append(InnerRow([self.value(v) for v in vals], more))
        return out

    def value(self, v: Val) -> int:
        """The number of a meaning in the table."""
        found = self._values.get(id(v))
        if found is not None:
            return found[1]
        base = None if v.index is None else self.value(v.index.base)
        pieces = () if v.index is None else v.index.pieces
        key = (v.dims, v.cells, base, pieces)
        k = self._keys.get(key)
        if k is None:
            row = MeaningRow(
                [self.box(d) for d in v.dims],
                [(self.box(c.lo), self.box(c.hi), self.lin(c.lin)) for c in v.cells],
                base,
                [(_end(p.lo), _end(p.hi), p.a, _size(p.c)) for p in pieces],
            )
            k = self._keys[key] = len(self.meanings)
            self.meanings.append(row)
        self._values[id(v)] = (v, k)
        return k

    def lin(self, lin: Lin) -> list[tuple[int, Any]]:
        return [(self.term(t), _coef(c)) for t, c in lin]

    def term(self, t: Term) -> int:
        k = self._terms.get(t)
        if k is None:
            ax = [None if w is None else (w[0], _size(w[1])) for w in t.ax]
            restr = [(_label(n), _size(a), _size(b)) for n, a, b in t.restr]
            k = self._terms[t] = len(self.terms)
            self.terms.append(TermRow(t.atom, ax, self.box(t.off), restr))
            self.axes[t.atom] = len(t.off)
        return k

    @staticmethod
    def box(x: Any) -> tuple[int | str, ...]:
        return tuple(_size(s) for s in x)


def rearrangements(graph: Graph) -> dict[Value, Node]:
    """The results that are rearrangements of tensors, with their nodes."""
    out: dict[Value, Node] = {}
    for n in graph.nodes:
        if len(n.outputs) == 1 and n.inputs and "group" not in n.attrs:
            rule = lookup(n.op).algebra(tuple(v.type for v in n.inputs), n.attrs)[0]
            if isinstance(rule, VIEWS):
                out[n.outputs[0]] = n
    return out


def _in_fewer(node: Node, env: Any) -> bool:
    """Whether all of some tensors is in fewer pieces after a rearrangement: what reads it then has
    less to look at, which is worth a claim."""
    v = node.outputs[0]
    whole = v.type.numel == sum([x.type.numel for x in node.inputs], start=0)
    return whole and len(env[v].cells) < sum(len(env[x].cells) for x in node.inputs)


def _names(v: Val) -> set[int]:
    return {t.atom for c in v.cells for t, _ in c.lin}


def _end(x: Size | None) -> int | str | None:
    return None if x is None else _size(x)


def _coef(c: Any) -> Any:
    if isinstance(c, Fraction):
        return c.numerator if c.denominator == 1 else f"{c.numerator}/{c.denominator}"
    return (_size(c.num), _size(c.den))
