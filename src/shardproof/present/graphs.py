"""The graphs of both programs as rows, with what every value means and which one it answers to."""

from __future__ import annotations

from shardproof.diagnose.evidence import Evidence
from shardproof.diagnose.facts import is_partial
from shardproof.infer.blocks import Val
from shardproof.infer.describe import describe
from shardproof.infer.naming import Table
from shardproof.ir.graph import NO_ORIGIN, Graph, Node, Origin, Value
from shardproof.ir.printer import format_attr
from shardproof.lemmas.names import REPEATED_LAYER
from shardproof.present.layouts import Layouts, single_atom
from shardproof.present.ranks import Member, Ranks
from shardproof.report.view import BLAMED, FOREIGN, NAMED, NONE, PARTIAL, PLAIN, GraphView, Row

MAX_ROWS = 400_000
"""Rows of all graphs together; further ranks are left out, and the report says so."""


class Texts:
    """Texts that are kept once."""

    def __init__(self) -> None:
        self.all: list[str] = [""]
        self._index: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        """The number of a text."""
        if text not in self._index:
            self._index[text] = len(self.all)
            self.all.append(text)
        return self._index[text]


class Twins:
    """Rows of the sequential graph by the named value they hold."""

    def __init__(self, evidence: Evidence) -> None:
        self._rows: dict[int, list[tuple[int, str]]] = {}
        graph, env = evidence.problem.sequential, evidence.inference.sequential
        for k, (v, node) in enumerate(rows_of(graph)):
            val = env.get(v)
            atom = single_atom(val) if val is not None else None
            if atom is not None:
                self._rows.setdefault(atom, []).append((k, node.op if node else "input"))

    def of(self, val: Val | None, op: str) -> int:
        """The sequential row that a distributed value answers to: one that holds the same named
        value, made by the same operator where there is one."""
        atom = single_atom(val) if val is not None else None
        rows = self._rows.get(atom, []) if atom is not None else []
        return next((k for k, other in rows if other == op), rows[0][0] if rows else NONE)


def rows_of(graph: Graph) -> list[tuple[Value, Node | None]]:
    """The values of a graph with the nodes that make them, in the order of the rows."""
    out: list[tuple[Value, Node | None]] = [(v, None) for v in graph.inputs]
    return out + [(v, n) for n in graph.nodes for v in n.outputs]


class Graphs:
    """Makes the rows of all graphs of one problem."""

    def __init__(self, evidence: Evidence, ranks: Ranks, layouts: Layouts, texts: Texts) -> None:
        self.evidence, self.ranks, self.layouts, self.texts = evidence, ranks, layouts, texts
        self.inf = evidence.inference
        self.program = self.inf.problem.distributed
        self.twins = Twins(evidence)
        self.blamed = {
            (site.rank, site.value) for finding, site, _ in evidence.located if finding.primary
        }
        self._described: dict[int, tuple[Val, int]] = {}
        self._held = self._by_name()
        self._laid: dict[tuple[str, int], int] = {}

    def all(self) -> tuple[list[GraphView], str]:
        """The sequential graph, then the distributed ones; and what was left out."""
        out = [self._graph(self.evidence.problem.sequential, "sequential", [])]
        count = len(out[0].rows)
        for k, graph in enumerate(self.program.graphs):
            if count > MAX_ROWS:
                left = len(self.program.graphs) - k
                return out, f"the graphs of {left} more ranks are not shown"
            members = self.ranks.members(k)
            view = self._graph(graph, _label(members), [m.rank for m in members], k)
            out.append(view)
            count += len(view.rows)
        return out, ""

    def _by_name(self) -> dict[str, list[tuple[Member, Val]]]:
        """What every rank holds under a name."""
        out: dict[str, list[tuple[Member, Val]]] = {}
        for k, graph in enumerate(self.program.graphs):
            members, env = self.ranks.members(k), self.inf.env[k]
            for v in graph.values():
                val = env.get(v)
                if val is not None:
                    out.setdefault(v.name, []).extend((m, val) for m in members)
        return out

    def layout(self, name: str, val: Val | None) -> int:
        """The layout over all ranks of the value of this name."""
        atom = single_atom(val) if val is not None else None
        if atom is None:
            return NONE
        if (name, atom) not in self._laid:
            self._laid[name, atom] = self.layouts.of(self._held.get(name, []), atom)
        return self._laid[name, atom]

    def _graph(self, graph: Graph, label: str, ranks: list[int], k: int | None = None) -> GraphView:
        pairs = rows_of(graph)
        place = {v: row for row, (v, _) in enumerate(pairs)}
        rows = [self._row(v, node, place, k) for v, node in pairs]
        outputs = [
            (name, place[v])
            for name, v in zip(graph.output_names, graph.outputs, strict=True)
            if v is not None
        ]
        return GraphView(label, ranks, rows, outputs)

    def _row(self, v: Value, node: Node | None, place: dict[Value, int], k: int | None) -> Row:
        val = self.inf.env[k].get(v) if k is not None else None
        op = node.op if node is not None else "input"
        origin = node.origin if node is not None else NO_ORIGIN
        return Row(
            name=v.name,
            op=self.texts.add(op),
            type=self.texts.add(str(v.type)),
            inputs=[place[x] for x in node.inputs] if node is not None else [],
            attrs=self.texts.add(_attrs(node)),
            module=self.texts.add(module_of(node, v)),
            origin=self.texts.add(_where(origin)),
            code=self.texts.add(origin.code.strip()),
            meaning=self._meaning(val),
            layout=self.layout(v.name, val) if k is not None else NONE,
            twin=self.twins.of(val, op) if k is not None else NONE,
            state=self._state(val, v, k),
            lemmas=self.texts.add(", ".join(self._lemmas(node))),
        )

    def _lemmas(self, node: Node | None) -> tuple[str, ...]:
        """The lemmas by which a node was evaluated, or the node that it is a copy of."""
        if node is None:
            return ()
        copied, like = self.inf.opened.like.get(node, (None, None))
        if like is None:
            return self.inf.evaluator.table.used.get(node, ())
        inner = self._lemmas(like)
        return (*inner, REPEATED_LAYER) if copied is not None else inner

    def _meaning(self, val: Val | None) -> int:
        if val is None:
            return 0
        found = self._described.get(id(val))
        if found is None:
            text = self.texts.add(describe(self.inf.evaluator, val))
            found = self._described[id(val)] = (val, text)
        return found[1]

    def _state(self, val: Val | None, v: Value, k: int | None) -> int:
        if k is not None and (k, v) in self.blamed:
            return BLAMED
        return state_of(self.inf.evaluator.table, val)


def state_of(table: Table, val: Val | None) -> int:
    """What a value is in terms of the sequential program."""
    if val is None:
        return PLAIN
    terms = [t for c in val.cells for t, _ in c.lin]
    if any(table.is_foreign(t.atom) for t in terms):
        return FOREIGN
    return PARTIAL if any(is_partial(t) for t in terms) else NAMED


def module_of(node: Node | None, v: Value) -> str:
    """The path under which an operator is listed, parts joined by ``/``: phase and module of a
    live program, else the function of the source line. Inputs are listed by their dotted name."""
    if node is None:
        return "inputs/" + "/".join(v.name.split(".")[:-1])
    o = node.origin
    inner = o.module.replace(".", "/") or o.function
    return "/".join(p for p in (o.phase, inner) if p)


def _attrs(node: Node | None) -> str:
    if node is None:
        return ""
    return ", ".join(f"{k}={format_attr(x)}" for k, x in node.attrs.items())


def _where(origin: Origin) -> str:
    return str(origin) if origin.file else ""


def _label(members: list[Member]) -> str:
    if len(members) == 1:
        return f"rank {members[0].rank}"
    ranks = ", ".join(str(m.rank) for m in members[:8])
    return f"ranks {ranks}" + (", ..." if len(members) > 8 else "")
