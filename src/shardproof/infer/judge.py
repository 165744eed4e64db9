"""Judge the obligations: is every declared output what the declaration says, on every rank?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardproof.infer import blocks
from shardproof.infer.blocks import Val
from shardproof.infer.coef import ONE
from shardproof.infer.collect import CollectSpmd
from shardproof.infer.cover import covered
from shardproof.infer.equal import Equality
from shardproof.infer.evaluate import Evaluator
from shardproof.infer.meanings import Meanings
from shardproof.ir.graph import Graph, Mesh, Value
from shardproof.ir.sizes import Undecided
from shardproof.spec.problem import Obligation, Problem

ViewGraph = Callable[[Graph, Meanings], list[Val | None]]


@dataclass(slots=True)
class Judged:
    """One obligation on one distributed graph: the value it found and the value it wants."""

    obligation: Obligation
    graph: int
    found: Val | None
    expected: Val | None
    holds: bool
    reason: str = ""


class Judge:
    """Judges one problem over the meanings of its values."""

    def __init__(self, problem: Problem, ev: Evaluator, view_graph: ViewGraph) -> None:
        self.problem, self.ev, self.view_graph = problem, ev, view_graph
        self.equality = Equality(ev)
        program = problem.distributed
        self.rank_axes: Mesh | None = program.mesh if program.spmd else program.inner
        self.graph_axes = Mesh(()) if program.spmd else program.mesh

    def all(
        self,
        sequential: Meanings,
        env: Sequence[Meanings],
        progress: Callable[[str], object] = lambda text: None,
        proved: Callable[[str], object] = lambda output: None,
    ) -> list[Judged]:
        """Every obligation on every graph; ``progress`` is told of each and how many hold,
        ``proved`` of the outputs that do."""
        out: list[Judged] = []
        held = 0
        for k, ob in enumerate(self.problem.obligations):
            total = len(self.problem.obligations)
            progress(f"obligation {k + 1} of {total}, {held} proved: {ob.seq_output}")
            judged = self.one(ob, sequential, env)
            if all(j.holds for j in judged):
                held += 1
                proved(ob.seq_output)
            out += judged
        return out

    def one(self, ob: Obligation, sequential: Meanings, env: Sequence[Meanings]) -> list[Judged]:
        seq = self.problem.sequential.output(ob.seq_output)
        out = self._compared(ob, seq, sequential, env)
        if not out:
            out.append(Judged(ob, 0, None, None, False, "no rank returns it"))
        if ob.partial_over:
            self._add_partials(ob, out)
        for j in out:
            if j.found is not None and j.expected is not None and not j.reason:
                j.holds, j.reason = self.equality.check(j.found, j.expected)
        if seq is not None and not self._covers(ob, seq):
            for j in out:
                j.holds, j.reason = False, "the parts of the ranks do not make up the whole output"
        return out

    def _compared(
        self,
        ob: Obligation,
        seq: Value | None,
        sequential: Meanings,
        env: Sequence[Meanings],
    ) -> list[Judged]:
        out = []
        for k, relation in enumerate(ob.expected):
            if relation is None:
                continue
            value = self.problem.distributed.graphs[k].output(ob.dist_output)
            found = env[k].get(value) if value is not None else None
            if seq is None or found is None:
                out.append(Judged(ob, k, found, None, False, "the value was not computed"))
                continue
            want = self.view_graph(relation, Meanings({relation.inputs[0]: sequential[seq]}))
            assert want[0] is not None
            out.append(Judged(ob, k, found, want[0], False))
        return out

    def _covers(self, ob: Obligation, seq: Value) -> bool:
        """Whether the declared parts of all ranks make up the sequential output."""
        whole = blocks.atom_val(self.ev.table.fresh(seq.name), seq.shape)
        relations = [g for g in ob.expected if g is not None]
        parts = [
            v for g in relations for v in self.view_graph(g, Meanings({g.inputs[0]: whole})) if v
        ]
        return covered(parts, seq.shape, self.rank_axes)

    # ---- declared partial sums

    def _add_partials(self, ob: Obligation, judged: list[Judged]) -> None:
        """Replace each rank's value by the sum over the declared mesh axes."""
        inside = [a for a in ob.partial_over if self._is_inside(a)]
        outside = [a for a in ob.partial_over if not self._is_inside(a)]
        if inside and self.rank_axes is not None:
            collect = CollectSpmd(self.ev, self.rank_axes)
            for j in judged:
                if j.found is None:
                    continue
                try:
                    j.found = collect.total(j.found, inside)
                except (blocks.Unsupported, Undecided) as e:
                    j.reason = str(e)
        if outside:
            self._add_graphs(judged, outside)

    def _is_inside(self, axis: str) -> bool:
        return self.rank_axes is not None and any(a == axis for a, _ in self.rank_axes.axes)

    def _add_graphs(self, judged: list[Judged], axes: Sequence[str]) -> None:
        by_graph = {j.graph: j for j in judged}
        sums: dict[tuple[int, ...], Val] = {}
        for j in judged:
            group = self._group(j.graph, axes)
            members = [by_graph[g].found for g in group if g in by_graph]
            vals = [v for v in members if v is not None]
            if len(vals) != len(group):
                j.reason = "not every rank of the group returns it"
            elif group not in sums:
                sums[group] = self.ev.linear(vals, [ONE] * len(vals), vals[0].shape)
        for j in judged:
            total = sums.get(self._group(j.graph, axes))
            if total is not None:
                j.found = total

    def _group(self, graph: int, axes: Sequence[str]) -> tuple[int, ...]:
        mesh = self.graph_axes
        mine = mesh.coordinates(graph)
        n = mesh.size
        assert isinstance(n, int)
        return tuple(
            r
            for r in range(n)
            if all(c == mine[a] for a, c in mesh.coordinates(r).items() if a not in axes)
        )
