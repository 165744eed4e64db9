"""Builds the plain data of a report from what decided the verdict."""

from __future__ import annotations

from msgspec.structs import replace

from shardproof import __version__
from shardproof.diagnose.evidence import Evidence
from shardproof.diagnose.facts import Facts
from shardproof.diagnose.findings import protocol
from shardproof.diagnose.trace import Tracer
from shardproof.ir.graph import Graph, Node, Value
from shardproof.present.change import diff_lines
from shardproof.present.costs import fixed, memory, traffic
from shardproof.present.graphs import Graphs, Texts, rows_of
from shardproof.present.heat import heats
from shardproof.present.layouts import Layouts
from shardproof.present.picture import Pictures, secondary_node
from shardproof.present.protocol import protocol_picture
from shardproof.present.ranks import Member, Ranks
from shardproof.report.diagnostic import Verdict
from shardproof.report.view import NONE, FindingView, Memory, Picture, Related, Traffic, View
from shardproof.uncollected import uncollected

MEMORY_ROWS = 64


def build(verdict: Verdict, evidence: Evidence) -> View:
    """Everything that a report of this verdict shows beside it."""
    with uncollected():
        return _Build(verdict, evidence).view()


class _Build:
    def __init__(self, verdict: Verdict, evidence: Evidence) -> None:
        self.verdict, self.evidence = verdict, evidence
        self.inf = evidence.inference
        self.program = self.inf.problem.distributed
        self.mesh = evidence.problem.distributed.mesh
        self.ranks = Ranks(self.mesh, self.program, evidence.problem.sequential)
        self.anywhere = self.ranks.members(0)[0]
        texts = Texts()
        env = self.inf.sequential
        sequential = [env[v] for v in evidence.problem.sequential.values() if v in env]
        self.layouts = Layouts(self.inf.evaluator.table, sequential, self.anywhere)
        self.graphs = Graphs(evidence, self.ranks, self.layouts, texts)
        self.texts = texts

    def view(self) -> View:
        graphs, left = self.graphs.all()
        n = self.mesh.size
        inputs, outputs = self.inputs(), self.outputs()
        return View(
            version=__version__,
            mesh=[(a, str(k)) for a, k in self.mesh.axes],
            ranks=str(n),
            texts=self.texts.all,
            graphs=graphs,
            layouts=self.layouts.all,
            inputs=inputs,
            outputs=outputs,
            findings=self.findings(),
            memory=self.memory(),
            traffic=self.traffic(),
            sample=self.ranks.sample_text,
            notes=[left] if left else [],
        )

    # ---- relations

    def inputs(self) -> list[Related]:
        """What every distributed input is, each name once."""
        types = {v.name: str(v.type) for v in self.evidence.problem.sequential.inputs}
        out: dict[str, Related] = {}
        for k, graph in enumerate(self.program.graphs):
            relation = self.inf.problem.relation[k]
            given = dict(zip(relation.output_names, relation.outputs, strict=True))
            producers = relation.producers()
            for v in graph.inputs:
                if v.name not in out:
                    sources, how = _how(producers, given.get(v.name))
                    kind = types[sources[0]] if len(sources) == 1 else ""
                    layout = self.graphs.layout(v.name, self.inf.env[k].get(v))
                    names = (v.name, ", ".join(sources))
                    out[v.name] = Related(*names, kind, str(v.type), how, layout)
        return list(out.values())

    def outputs(self) -> list[Related]:
        """Every obligation with what the ranks return."""
        graph = self.evidence.problem.sequential
        out = []
        for ob, line in zip(self.evidence.problem.obligations, self.verdict.outputs, strict=False):
            value, local, val = graph.output(ob.seq_output), None, None
            for k, g in enumerate(self.program.graphs):
                if ob.dist_output in g.output_names and val is None:
                    local = g.output(ob.dist_output)
                    val = self.inf.env[k].get(local) if local is not None else None
            layout = self.graphs.layout(local.name, val) if local is not None else NONE
            kind = str(value.type) if value is not None else ""
            here = str(local.type) if local is not None else ""
            out.append(
                Related(
                    ob.dist_output, ob.seq_output, kind, here, ob.placement, layout, line.status
                )
            )
        return out

    # ---- findings

    def findings(self) -> list[FindingView]:
        if self.inf.schedule.errors:
            return self._protocol()
        tracer = Tracer(self.inf, Facts(self.inf))
        pictures = Pictures(self.evidence, self.ranks)
        located = {id(f): (site, cause) for f, site, cause in self.evidence.located}
        changes = {id(f): (site, c) for f, site, c in self.evidence.mended}
        out = []
        for f in self.verdict.findings:
            view = FindingView()
            if id(f) in located:
                site, cause = located[id(f)]
                secondary = secondary_node(self.evidence, cause, tracer)
                view.picture = pictures.of(site, f.ranks, tracer, secondary)
                view.graph, view.row = self._found(site.rank, site.value)
            if id(f) in changes:
                site, change = changes[id(f)]
                view.diff = diff_lines(self.inf.problem, change, site.rank)
            if f.counterexample is not None:
                view.heats = heats(self.evidence)
            out.append(view)
        return out

    def _found(self, k: int, value: Value) -> tuple[int, int]:
        """The number of a graph of the view (0 is the sequential one) and the row of a value."""
        rows = rows_of(self.program.graphs[k])
        return k + 1, next((row for row, (v, _) in enumerate(rows) if v is value), NONE)

    def _protocol(self) -> list[FindingView]:
        """Protocol findings, each with the calls that do not fit."""
        drawn: dict[tuple[str, str], Picture | None] = {}
        for e in self.inf.schedule.errors:
            f = protocol(e)
            drawn.setdefault((f.code, f.message), protocol_picture(self.program, e))
        return [FindingView(drawn.get((f.code, f.message))) for f in self.verdict.findings]

    # ---- costs

    def memory(self) -> list[Memory]:
        """The sequential program, then every rank as far as they differ."""
        found = [memory(self.evidence.problem.sequential, self.anywhere, "sequential")]
        known: dict[int, Memory | None] = {}
        for graph, member in self._members():
            label = f"rank {member.rank}"
            like = known.get(id(graph))
            mine = replace(like, label=label) if like else memory(graph, member, label)
            found.append(mine)
            if fixed(graph):
                known[id(graph)] = mine
        return _like([m for m in found if m is not None])

    def traffic(self) -> list[Traffic]:
        return traffic(self._members(), self.ranks.mesh, self.ranks.numbered(self.program.mesh))

    def _members(self) -> list[tuple[Graph, Member]]:
        pairs = [(g, m) for k, g in enumerate(self.program.graphs) for m in self.ranks.members(k)]
        return sorted(pairs, key=lambda x: x[1].rank)[:MEMORY_ROWS]


def _how(producers: dict[Value, Node], made: Value | None) -> tuple[list[str], str]:
    """The sequential inputs that an input is made of, and how."""
    if made is None:
        return [], "anything"
    sources: dict[str, None] = {}
    ops: list[str] = []
    todo = [made]
    while todo:
        v = todo.pop()
        node = producers.get(v)
        if node is None:
            sources[v.name] = None
            continue
        ops.append(f"slice of dim {node.attrs['dim']}" if node.op == "slice" else node.op)
        todo.extend(node.inputs)
    return list(sources), " of ".join(ops) if ops else "whole"


def _like(rows: list[Memory]) -> list[Memory]:
    """Ranks with the same figures in one row, named by the first and their number."""
    out: list[Memory] = []
    same: dict[tuple[int, int, int, bool], list[Memory]] = {}
    for m in rows:
        key = (m.inputs, m.outputs, m.peak, m.label == "sequential")
        same.setdefault(key, []).append(m)
    for group in same.values():
        first = group[0]
        more = f" and {len(group) - 1} more" if len(group) > 1 else ""
        first.label += more
        out.append(first)
    return out


__all__ = ["build"]
