"""From failed obligations to findings: one cause, one finding."""

from __future__ import annotations

from dataclasses import replace

from shardproof.collectives.errors import ProtocolError
from shardproof.collectives.errors import Site as ProtocolSite
from shardproof.diagnose.backward import is_zero
from shardproof.diagnose.classify import Cause, Classifier
from shardproof.diagnose.codes import lookup
from shardproof.diagnose.facts import Facts
from shardproof.diagnose.fold import Fold
from shardproof.diagnose.near import sequential_node
from shardproof.diagnose.sharpen import Sharpener
from shardproof.diagnose.suspects import suspects
from shardproof.diagnose.trace import Place, Site, Tracer
from shardproof.diagnose.ways import Ways, node_name
from shardproof.infer.coef import format_coef
from shardproof.infer.describe import describe
from shardproof.infer.run import Inference, Judged
from shardproof.ir.graph import UNREACHED, Node, Origin, Value
from shardproof.report.diagnostic import Finding, OperandMeaning, Span

PROTOCOL = {
    "order": "SP100",
    "missing": "SP101",
    "deadlock": "SP101",
    "wait": "SP103",
    "use_before_wait": "SP103",
}
MAX_CAUSES = 8
# The order of what no operator makes: it is told after what operators do wrong.
AFTER_ALL = 10**9


class Findings:
    """Findings of one inference that did not prove everything."""

    def __init__(self, inf: Inference) -> None:
        self.inf = inf
        self.facts = Facts(inf)
        self.tracer = Tracer(inf, self.facts)
        self.classifier = Classifier(inf, self.facts, self.tracer)
        self.sharpener = Sharpener(inf, self.facts, self.tracer)
        self.ways = Ways(self.facts, self.tracer)
        self.located: list[tuple[Finding, Site, Cause]] = []

    def all(self) -> list[Finding]:
        """Protocol findings if there are any (nothing after them is meaningful), else one
        finding a cause, in execution order."""
        if self.inf.schedule.errors:
            return _once([protocol(e) for e in self.inf.schedule.errors])
        merged: dict[object, tuple[int, Finding]] = {}
        for j in self.inf.judged:
            if not j.holds:
                self._add(j, merged)
        found = [f for _, f in sorted(merged.values(), key=lambda x: x[0])]
        return Fold(self.tracer).fold(found, self.located)[:MAX_CAUSES]

    def _add(self, j: Judged, merged: dict[object, tuple[int, Finding]]) -> None:
        graph = self.inf.problem.distributed.graphs[j.graph]
        value = graph.output(j.obligation.dist_output)
        if value is None or j.found is None or j.expected is None:
            finding = self._uncovered(j)
            self._merge(merged, ("missing", j.obligation.dist_output), AFTER_ALL, finding, j)
            return
        place = (j.graph, value)
        wrong = suspects(self.inf.evaluator.table, j.found, j.expected)
        sites = self.tracer.sites(place, wrong)
        plain = self.facts.oddity(j.found) is None
        if plain or not sites or self.facts.unreduced(j.found, j.expected):
            self._add_output(j, place, merged)
            return
        site = sites[0]
        cause = self.sharpener.sharpen(self.classifier.classify(site), site, j)
        key = (cause.code, node_name(site.node, site.value))
        finding = self._dress(site, cause)
        step = self.ways.constant(site)
        if step is not None:
            name = node_name(step.node, step.place[1])
            finding.primary = span("distributed", step.node, step.place[1])
            finding.notes.insert(0, f"%{name} makes the constant it is multiplied by "
                                 f"(times {format_coef(step.by)})")  # fmt: skip
        self._merge(merged, key, site.order, finding, j)

    def _add_output(
        self, j: Judged, place: Place, merged: dict[object, tuple[int, Finding]]
    ) -> None:
        assert j.found is not None
        assert j.expected is not None
        kind = "gradient" if len(self.inf.problem.obligations) > 1 else ""
        cause = self.classifier.output(place, j.found, j.expected, kind)
        site = self.tracer.site(place)
        site.carriers = self.tracer.carriers(place)
        cause = self.sharpener.sharpen(cause, site, j)
        zero = cause.kind == "SP203" and cause.code in ("SP203", "SP127")
        shown = self._made_elsewhere(j, site) if zero else None
        name = j.obligation.dist_output
        key: object = (cause.code, place[1].name)
        if shown is not None:
            said = f"%{name} is zero where nothing makes it; rank {shown[0]} makes it"
            cause = replace(cause, code="SP203", base="", message=said)
        elif _unreached(site):
            key = (cause.code, UNREACHED)
        elif site.node is None and cause.code == "SP203":
            key = (cause.code, "given")
            said = f"%{name} is %{place[1].name} as it was given: nothing changes it"
            cause = replace(cause, message=said)
        elif cause.code in ("SP110", "SP121"):
            key = (cause.code,)
        finding = self._dress(site, cause)
        finding.found = describe(self.inf.evaluator, j.found)
        if shown is not None:
            label = f"rank {shown[0]} makes it here"
            finding.primary = span("distributed", self.tracer.node(shown), shown[1], label)
        elif finding.primary is None or not finding.primary.file:
            finding.primary = self._first_use(j, place) or finding.primary
        of = sequential_node(self.inf, j.expected) if finding.secondary is None else None
        if of is not None:
            finding.secondary = span("sequential", of, None)
        order = site.order if site.node is not None else AFTER_ALL
        self._merge(merged, key, order, finding, j)

    def _first_use(self, j: Judged, place: Place) -> Span | None:
        """Where the input is used first that an output is, or whose gradient it is."""
        names = (place[1].name, j.obligation.dist_output.partition(".")[2])
        found = (self.tracer.first_use(j.graph, name) for name in names)
        node = next((n for n in found if n is not None), None)
        return span("distributed", node, None, "first used here") if node is not None else None

    def _made_elsewhere(self, j: Judged, site: Site) -> Place | None:
        """The same output on another rank that has a source line for it, where this one returns a
        zero without one: a parameter that its program does not use."""
        made = site.node is not None and site.node.origin.file and not _unreached(site)
        if made or not is_zero(j.found):
            return None
        for other in self.inf.judged:
            if other.obligation is j.obligation and not is_zero(other.found):
                graph = self.inf.problem.distributed.graphs[other.graph]
                value = graph.output(j.obligation.dist_output)
                node = self.tracer.node((other.graph, value)) if value is not None else None
                if value is not None and node is not None and node.origin.file:
                    return other.graph, value
        return None

    def _merge(
        self,
        merged: dict[object, tuple[int, Finding]],
        key: object,
        order: int,
        finding: Finding,
        j: Judged,
    ) -> None:
        if key in merged:
            order, finding = min(merged[key][0], order), merged[key][1]
        if not self.inf.symbolic_ranks and j.graph not in finding.ranks:
            finding.ranks.append(j.graph)
        name = j.obligation.seq_output
        if name not in finding.affected:
            finding.affected.append(name)
        finding.ranks.sort()
        merged[key] = (order, finding)

    def _uncovered(self, j: Judged) -> Finding:
        code = lookup("SP120")
        return Finding(
            "SP120",
            code.title,
            f"the distributed program does not return %{j.obligation.dist_output}",
            certain=False,
            notes=[j.reason] if j.reason else [],
        )

    def _dress(self, site: Site, cause: Cause) -> Finding:
        ev = self.inf.evaluator
        node = site.node
        v = self.tracer.meaning((site.rank, site.value))
        finding = Finding(
            cause.code,
            lookup(cause.code).title,
            cause.message,
            certain=False,
            primary=span("distributed", node, site.value),
            ranks=[] if self.inf.symbolic_ranks else [site.rank],
            axes=[a for a, n in self.inf.problem.distributed.mesh.axes if n != 1],
            collective=self._collective(site, cause),
            expected=cause.expected,
            found=describe(ev, v) if v is not None else "",
            notes=list(cause.notes),
        )
        for rank, value in site.operands[:6]:
            if rank != site.rank and node is not None and "group" not in node.attrs:
                continue
            meaning = self.tracer.meaning((rank, value))
            if meaning is not None:
                name = value.name if rank == site.rank else f"{value.name} (rank {rank})"
                finding.operands.append(OperandMeaning(name, describe(ev, meaning)))
        if cause.near is not None:
            finding.secondary = span("sequential", cause.near.node, None)
        elif cause.wrong is not None:
            finding.secondary = self._sequential_span(cause.wrong)
        finding.notes.extend(self._where_from(site, cause))
        self.located.append((finding, site, cause))
        return finding

    def _collective(self, site: Site, cause: Cause) -> str:
        if site.node is not None and "group" in site.node.attrs:
            return f"{site.node.op} {node_name(site.node, site.value)}"
        for place in self._way(site, cause):
            node = self.tracer.node(place)
            if node is not None and "group" in node.attrs:
                return f"{node.op} {node_name(node, place[1])}"
        return ""

    def _way(self, site: Site, cause: Cause) -> list[Place]:
        return self.tracer.carriers(cause.wrong) if cause.wrong is not None else site.carriers

    def _where_from(self, site: Site, cause: Cause) -> list[str]:
        """Where the wrong operand got its meaning."""
        starts = [cause.wrong] if cause.wrong is not None else site.operands
        notes = [n for start in starts[:4] if (n := self._origin(site, start))]
        return notes + self.ways.notes(site, cause)

    def _origin(self, site: Site, start: Place) -> str:
        """The operator that made a value what it is; others only passed it on."""
        first = self.tracer.carriers(start)[-1]
        node, meaning = self.tracer.node(first), self.tracer.meaning(first)
        if node is None or meaning is None or first == (site.rank, site.value):
            return ""
        return (
            f"%{start[1].name} has its meaning from %{node_name(node, first[1])} "
            f"({_where(node.origin)}) on rank {first[0]}: "
            f"{describe(self.inf.evaluator, meaning)}"
        )

    def _sequential_span(self, place: Place) -> Span | None:
        node = sequential_node(self.inf, self.tracer.meaning(place))
        return span("sequential", node, None) if node is not None else None


def _unreached(site: Site) -> bool:
    """Whether an output stands for a gradient that autograd did not make."""
    return site.node is not None and site.node.origin.phase == UNREACHED


def only_unreduced(inf: Inference) -> bool:
    """Whether all that fails are outputs of which each rank holds its part of the right sum."""
    facts = Facts(inf)
    return all(
        j.holds or (j.found and j.expected and facts.unreduced(j.found, j.expected))
        for j in inf.judged
    )


def span(graph: str, node: Node | None, value: Value | None, label: str = "") -> Span | None:
    """The place of a node in the user's program."""
    if node is None:
        return Span(graph, value.name, "input", label=label) if value is not None else None
    o = node.origin
    name = node_name(node, value)
    return Span(
        graph, name, node.op, o.file, o.line, o.function, o.code, label, list(o.callers)
    )  # fmt: skip


def _where(origin: Origin) -> str:
    return f"{origin.file}:{origin.line}" if origin.file else "no source line"


def _once(findings: list[Finding]) -> list[Finding]:
    """The same violation at the same line on several ranks is one finding."""
    kept: dict[object, Finding] = {}
    for f in findings:
        line = f.primary and (f.primary.node, f.primary.file, f.primary.line)
        first = kept.setdefault((f.code, f.message, line), f)
        if first is not f:
            first.ranks = sorted({*first.ranks, *f.ranks})
            first.notes += [n for n in f.notes if n not in first.notes]
    return list(kept.values())


def protocol(error: ProtocolError) -> Finding:
    """A protocol violation as a finding; it is certain, its witness is a step of every rank."""
    code = PROTOCOL.get(error.kind, "SP102")
    first: ProtocolSite | None = error.sites[0] if error.sites else None
    finding = Finding(
        code,
        lookup(code).title,
        error.message,
        certain=error.kind != "unsupported",
        ranks=error.ranks,
        notes=[str(s) for s in error.sites],
    )
    if first is not None and first.node is not None:
        outs = first.node.outputs
        finding.primary = span("distributed", first.node, outs[0] if outs else None)
        finding.collective = f"{first.node.op} {first.name}"
    return finding
