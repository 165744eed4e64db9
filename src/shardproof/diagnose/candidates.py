"""Small changes that may mend a program, by the kind of its finding; see ``fixes.py``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from shardproof.diagnose.classify import Cause, ratio_of
from shardproof.diagnose.edit import (
    AttrsOfRank,
    Edit,
    Insert,
    Remove,
    Result,
    Set,
    group_attrs,
)
from shardproof.diagnose.facts import FACTOR, Facts
from shardproof.diagnose.partials import Partials
from shardproof.diagnose.rewire import proposals, where
from shardproof.diagnose.suspects import suspects
from shardproof.diagnose.trace import Place, Site, Tracer
from shardproof.infer.run import Inference
from shardproof.ir.graph import Graph, Node, Value, is_float
from shardproof.report.diagnostic import Finding
from shardproof.spec.problem import Problem

MAX_UPSTREAM = 24
MAX_DOWNSTREAM = 10
AT_ENTRY = (
    "%{} is a gradient that flows on: to sum it, let what is read there pass an autograd function "
    "that is the identity forward and this all_reduce backward"
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """``text`` says what to change; ``op`` is the operator at the place of the edits; ``how`` is
    what they do, where the text names more than one way."""

    text: str
    edits: tuple[Edit, ...]
    op: str = ""
    how: str = ""
    note: str = ""


class Candidates:
    """Changes of one inference over concrete ranks or one graph for all; with ``small`` also those
    that are so many that each must be cheap to try."""

    def __init__(self, inf: Inference, small: bool) -> None:
        self.inf, self.small = inf, small
        self.problem: Problem = inf.problem
        self.facts = Facts(inf)
        self.tracer = Tracer(inf, self.facts)
        self.partials = Partials(self.tracer)
        self.mesh = self.problem.distributed.mesh
        self.axes = [a for a, n in self.mesh.axes if n != 1]
        self.spmd = self.problem.distributed.spmd

    def of(self, finding: Finding, site: Site, cause: Cause) -> Iterator[Candidate]:
        """The changes of one finding, the likeliest first."""
        start = cause.wrong or (site.rank, site.value)
        if cause.kind in ("SP110", "SP121"):
            yield from self._reduce_entry(start, site)
        if cause.kind == "SP121" and len(finding.affected) > 1:
            yield from self._reduce_outputs(finding)
        if cause.code == "SP203":
            yield from self._reduce_results(finding)
        way = self.tracer.carriers(start)
        mine = [p for p in site.operands if p[0] == site.rank]
        near = [
            (site.rank, site.value),
            start,
            *way,
            *(q for p in mine for q in self.tracer.carriers(p)),
        ]
        for place in dict.fromkeys(near):
            yield from self._change_collective(place)
        if cause.kind in ("SP110", "SP118", "SP121", "SP116"):
            for place in dict.fromkeys((way[-1], start, *way)):
                yield from self._reduce(place, "max" if cause.kind == "SP116" else "sum")
        if site.oddity is not None and site.oddity.kind == FACTOR:
            yield from self._factor(finding, site)
        yield from self._attributes(site, cause)
        for place in dict.fromkeys(near):
            yield from self._slice(place)
        if cause.kind in ("SP110", "SP118"):
            yield from self._share(site)
        yield from self._scale_outputs(finding)
        yield from self._behind(near)

    def _behind(self, near: list[Place]) -> Iterator[Candidate]:
        """Reductions and changed collectives further back; where a value is a part of a sum, the
        whole sum may have been meant long before anything went wrong."""
        places = [*self._upstream(near), *self._downstream(near[0])]
        parts = [p for p in places if self._is_part(p)]
        for place in (*parts, *(p for p in places if p not in parts)):
            yield from self._reduce(place, "sum")
        for place in parts:
            yield from self._reduce(place, "avg")
        for place in places:
            yield from self._change_collective(place)
            yield from self._slice(place)
        yield from self._as_on_one_rank(places)
        if self.small:
            graph = self.problem.distributed.graphs[near[0][0]]
            for text, edits, op in proposals(graph, [v for _, v in places]):
                yield Candidate(text, edits, op)

    def _upstream(self, starts: list[Place]) -> list[Place]:
        """Real values that the given ones depend on, nearest first."""
        seen = dict.fromkeys(starts)
        todo = deque(seen)
        while todo and len(seen) < MAX_UPSTREAM:
            rank, value = todo.popleft()
            for p in self.tracer.operands((rank, value)):
                if p[0] == rank and p not in seen and is_float(p[1].dtype):
                    seen[p] = None
                    todo.append(p)
        return list(seen)

    def _downstream(self, start: Place) -> list[Place]:
        """Real values that depend on the given one, nearest first: what is wrong early may be
        put right late, as gradients are by a reduction."""
        rank, reached = start[0], {start[1]}
        out: list[Place] = []
        for node in self.problem.distributed.graphs[rank].nodes:
            if node.outputs and reached & set(node.inputs):
                reached.update(node.outputs)
                if is_float(node.outputs[0].dtype):
                    out.append((rank, node.outputs[0]))
        return out[:MAX_DOWNSTREAM]

    def _is_part(self, place: Place) -> bool:
        v = self.tracer.meaning(place)
        return v is not None and bool(self.facts.partials(v))

    def _share(self, site: Site) -> Iterator[Candidate]:
        """Add this rank's share of a replicated summand. The other ways have the same value; the
        gradient that autograd derives is another for each."""
        extents = [n for a, n in self.mesh.axes if a in self.axes and isinstance(n, int)]
        for place in (p for p in site.operands if p[0] == site.rank and not self._is_part(p)):
            at = self._at(place)
            for extent in extents if at is not None else ():
                by = Fraction(1, extent)
                name, share = place[1].name, f"{by} of it on each rank"
                text = (
                    f"add %{name} after the reduction (its gradient is then whole), or on one "
                    f"rank only, or {share} (its gradient then needs an all_reduce)"
                )
                assert at is not None
                edit = Insert(at[0], "scale", lambda rank, by=by: {"by": by})  # type: ignore[misc]
                op = at[1].op if at[1] else ""
                yield Candidate(text + where(site.node), (edit,), op, share)

    def _scale_outputs(self, finding: Finding) -> Iterator[Candidate]:
        """Take the factor out where the outputs are returned."""
        graph = self.problem.distributed.graphs[0]
        ratios: dict[str, Fraction] = {}
        for j in self.inf.judged:
            if j.holds or j.obligation.seq_output not in finding.affected:
                continue
            ratio = ratio_of(j.found, j.expected) if j.found and j.expected else None
            if not isinstance(ratio, Fraction):
                return
            if ratios.setdefault(j.obligation.dist_output, ratio) != ratio:
                return
        edits, nodes = [], []
        for name, ratio in ratios.items():
            value = _returned(graph, name)
            at = self._at((0, value)) if value is not None else None
            if at is None:
                return
            nodes.append(at[1])
            edits.append(Insert(at[0], "scale", lambda rank, by=1 / ratio: {"by": by}))  # type: ignore[misc]
        if edits:
            factors = ", ".join(f"%{n} by {1 / k}" for n, k in ratios.items())
            yield Candidate(f"multiply {factors}{where(nodes[0])}", tuple(edits))

    def _at(self, place: Place) -> tuple[int, Node | None] | None:
        """Position of the node that makes a value, or of an input (negative)."""
        graph = self.problem.distributed.graphs[place[0]]
        node = self.tracer.node(place)
        if node is not None:
            for k, n in enumerate(graph.nodes):
                if n is node:
                    return (k, n) if n.outputs and n.outputs[0] is place[1] else None
            return None
        for k, v in enumerate(graph.inputs):
            if v is place[1]:
                return -1 - k, None
        return None

    def _reduce(self, place: Place, op: str) -> Iterator[Candidate]:
        at = self._at(place)
        if at is None or not is_float(place[1].dtype):
            return
        k, node = at
        for axis in self.axes:
            text = f"all_reduce %{place[1].name} ({op}) over {axis}{where(node)}"
            yield Candidate(text, (self._reduction(k, op, axis),), node.op if node else "")

    def _reduce_entry(self, start: Place, site: Site) -> Iterator[Candidate]:
        """The sum where the gradient comes in of which a wrong one is made: that mends all that is
        made of it, of which the outputs may show little."""
        entry = self.partials.entry(start)
        if entry is None and self.partials.backward((site.rank, site.value)):
            entry = start if self.partials.backward(start) else None
        if entry is not None and entry != (site.rank, site.value):
            for c in self._reduce(entry, "sum"):
                yield replace(c, note=AT_ENTRY.format(entry[1].name))

    def _reduction(self, k: int, op: str, axis: str) -> Insert:
        group = group_attrs(self.mesh, axis, self.spmd)
        return Insert(k, "all_reduce", lambda rank: {"op": op, **group(rank)})

    def _reduce_outputs(self, finding: Finding) -> Iterator[Candidate]:
        graph = self.problem.distributed.graphs[0]
        names = [
            o.dist_output for o in self.problem.obligations if o.seq_output in finding.affected
        ]
        places = [(0, v) for n in names if (v := _returned(graph, n)) is not None]
        found = [self._at(p) for p in places]
        positions = [f[0] for f in found if f is not None]
        if len(positions) != len(places):
            return
        for axis in self.axes:
            edits = tuple(self._reduction(k, "sum", axis) for k in positions)
            at = where(next((f[1] for f in found if f is not None), None))
            yield Candidate(f"all_reduce (sum) over {axis}: {', '.join(names)}{at}", edits)

    def _reduce_results(self, finding: Finding) -> Iterator[Candidate]:
        """The same on ranks whose programs differ: what they return is summed."""
        names = [
            o.dist_output for o in self.problem.obligations if o.seq_output in finding.affected
        ]
        for axis in self.axes:
            group = group_attrs(self.mesh, axis, self.spmd)

            def attrs(rank: int, group: AttrsOfRank = group) -> dict[str, Any]:
                return {"op": "sum", **group(rank)}

            edits = tuple(Result(name, "all_reduce", attrs) for name in names)
            yield Candidate(
                f"all_reduce (sum) over {axis} what is returned: {', '.join(names)}", edits
            )

    def _factor(self, finding: Finding, site: Site) -> Iterator[Candidate]:
        """Take the wrong factor out wherever the program makes it."""
        ratio = self._ratio(site)
        if ratio is None:
            return
        same: dict[int, Node] = {}  # by position: an edit is one of every rank
        for j in self.inf.judged:
            graph = self.problem.distributed.graphs[j.graph]
            value = _returned(graph, j.obligation.dist_output)
            if j.holds or j.graph != site.rank or value is None:
                continue
            if j.obligation.seq_output not in finding.affected or j.found is None:
                continue
            assert j.expected is not None
            wrong = suspects(self.inf.evaluator.table, j.found, j.expected)
            for other in self.tracer.sites((site.rank, value), wrong):
                at = self._at((other.rank, other.value))
                if self._ratio(other) == ratio and at is not None and at[1] is not None:
                    same.setdefault(at[0], at[1])
        by = 1 / ratio
        for group in (list(same.items()), list(same.items())[:1]):
            if group:
                edits = tuple(Insert(k, "scale", lambda rank: {"by": by}) for k, _ in group)
                names = ", ".join(f"%{n.outputs[0].name}" for _, n in group)
                yield Candidate(f"multiply {names} by {by}{where(group[0][1])}", edits)

    def _ratio(self, site: Site) -> Fraction | None:
        if site.oddity is None or site.oddity.kind != FACTOR:
            return None
        t, k = site.oddity.terms[0]
        if not self.facts.factors.get(t.atom):
            return None
        phase = site.node.origin.phase if site.node is not None else ""
        ratio = k / self.facts.right_factor(t.atom, k, phase)
        return ratio if isinstance(ratio, Fraction) else None

    def _change_collective(self, place: Place) -> Iterator[Candidate]:
        k, node = self._at(place) or (0, None)
        if node is None or "group" not in node.attrs:
            return
        if node.inputs and node.inputs[0].type == node.outputs[0].type:
            yield Candidate(
                f"leave out {node.op} %{place[1].name}{where(node)}", (Remove(k),), node.op
            )
        for op in ("sum", "avg", "max"):
            if "op" in node.attrs and node.attrs["op"] != op:
                text = f"reduce %{place[1].name} with {op}{where(node)}"
                yield Candidate(text, (Set(k, lambda rank, o=op: {"op": o}),), node.op)  # type: ignore[misc]
        for axis in self.axes:
            text = f"let {node.op} %{place[1].name} run over {axis}{where(node)}"
            yield Candidate(text, (Set(k, group_attrs(self.mesh, axis, self.spmd)),), node.op)

    def _attributes(self, site: Site, cause: Cause) -> Iterator[Candidate]:
        near = cause.near.node if cause.near is not None else None
        k, node = self._at((site.rank, site.value)) or (0, None)
        if near is None or node is None or near.op != node.op:
            return
        new = {a: x for a, x in near.attrs.items() if node.attrs.get(a) != x and a != "shape"}
        if new and "group" not in node.attrs:
            shown = ", ".join(f"{a}={x}" for a, x in new.items())
            text = f"use {shown} in %{site.value.name}, as the sequential program does{where(node)}"
            yield Candidate(text, (Set(k, lambda rank: dict(new)),), node.op)

    def _as_on_one_rank(self, places: list[Place]) -> Iterator[Candidate]:
        """Attributes that differ between ranks (a slice, a factor) as they are on one of them,
        each alone and all together."""
        found = [c for p in places if (c := self._differing_attrs(p)) is not None]
        for rank in range(len(self.problem.distributed.graphs)):
            every = []
            for place, k, node, attrs in found:
                new = attrs[rank]
                shown = ", ".join(f"{a}={x}" for a, x in new.items())
                text = f"use {shown} in %{place[1].name} on every rank{where(node)}"
                edit = Set(k, lambda rank, new=new: dict(new))  # type: ignore[misc]
                yield Candidate(text, (edit,), node.op)
                every.append((text, edit))
            if len(every) > 1:
                yield Candidate("; ".join(t for t, _ in every), tuple(e for _, e in every))

    def _differing_attrs(
        self, place: Place
    ) -> tuple[Place, int, Node, list[dict[str, Any]]] | None:
        k, node = self._at(place) or (0, None)
        graphs = self.problem.distributed.graphs
        if node is None or "group" in node.attrs or any(k >= len(g.nodes) for g in graphs):
            return None
        same = [g.nodes[k] for g in graphs]
        if any(n.op != node.op or n.attrs.keys() != node.attrs.keys() for n in same):
            return None
        names = [a for a, x in node.attrs.items() if any(n.attrs[a] != x for n in same)]
        return (place, k, node, [{a: n.attrs[a] for a in names} for n in same]) if names else None

    def _slice(self, place: Place) -> Iterator[Candidate]:
        """Let every rank take its own part."""
        k, node = self._at(place) or (0, None)
        if node is None or not {"start", "stop"} <= node.attrs.keys() or self.spmd:
            return
        start, stop = node.attrs["start"], node.attrs["stop"]
        if not isinstance(start, int) or not isinstance(stop, int):
            return
        width = stop - start
        for axis in self.axes:

            def own(rank: int, axis: str = axis) -> dict[str, Any]:
                c = self.mesh.coordinates(rank)[axis]
                return {"start": c * width, "stop": (c + 1) * width}

            text = f"let %{place[1].name} take this rank's {width} along {axis}{where(node)}"
            yield Candidate(text, (Set(k, own),), node.op)


def _returned(graph: Graph, name: str) -> Value | None:
    """The output of that name; None where this rank does not return it."""
    return graph.output(name) if name in graph.output_names else None
