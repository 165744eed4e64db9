"""Run relation inference over a whole problem.

The sequential graph is evaluated first and names its values; the relation graphs give every
distributed input its meaning; then every distributed operator is evaluated once. Ranks that are
one program up to rank-affine attributes are evaluated once with the rank as an index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardproof.collectives.match import CollectiveStep, Schedule, match
from shardproof.infer import blocks
from shardproof.infer.blocks import Val
from shardproof.infer.collect import Collect, CollectSpmd
from shardproof.infer.cover import covered
from shardproof.infer.equal import Equality
from shardproof.infer.evaluate import Evaluator
from shardproof.infer.meanings import Meanings
from shardproof.infer.repeat import Replayer
from shardproof.infer.spmd import Fold, NotUniform
from shardproof.infer.terms import constant
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Node, Program, Value, is_float
from shardproof.ops import base as alg
from shardproof.spec.problem import Obligation, Problem

Env = Meanings


@dataclass(slots=True)
class Judged:
    """One obligation on one distributed graph: the value it found and the value it wants."""

    obligation: Obligation
    graph: int
    found: Val | None
    expected: Val | None
    holds: bool
    reason: str = ""


@dataclass(slots=True)
class Inference:
    """Everything inference found. ``problem`` is the one evaluated: folded to one SPMD graph
    where ``symbolic_ranks`` is set. ``env[k]`` gives each value of the k-th graph its meaning;
    it is the derivation that a certificate is written from."""

    problem: Problem
    evaluator: Evaluator
    sequential: Env
    env: list[Env]
    judged: list[Judged]
    symbolic_ranks: bool
    schedule: Schedule | None = None
    unknown: dict[str, int] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        refused = self.schedule is not None and bool(self.schedule.errors)
        return not refused and bool(self.judged) and all(j.holds for j in self.judged)


class Runner:
    """Evaluates the graphs of one problem."""

    def __init__(
        self,
        problem: Problem,
        *,
        fixed: dict[str, float] | None = None,
        deep: bool = False,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.problem = problem
        self.fixed = fixed or {}
        self.ev = Evaluator(deep=deep)
        self.collect = Collect(self.ev)
        self.unknown: dict[str, int] = {}
        self.progress = progress or (lambda text: None)
        self._memo: dict[Any, list[Val]] = {}

    def run(self) -> Inference:
        """Evaluate everything and judge every obligation."""
        sequential = self.sequential()
        program = self.problem.distributed
        self.ev.table.defining = False
        inputs = [self._bind(k, sequential) for k in range(len(program.graphs))]
        schedule = None
        if program.spmd:
            env = [self._spmd(program, inputs[0])]
        else:
            self.progress("matching collectives")
            schedule = match(program)
            env = inputs
            self._concrete(schedule, env)
        judged = self._judge(sequential, env)
        return Inference(
            self.problem,
            self.ev,
            sequential,
            env,
            judged,
            program.spmd,
            schedule,
            self.unknown,
        )

    # ---- one graph

    def sequential(self) -> Env:
        """Name every value of the sequential graph."""
        self.progress("sequential graph")
        graph = self.problem.sequential
        env = Env()
        for v in graph.inputs:
            env[v] = self._sequential_input(v)
        Replayer(self, graph, env, "sequential").run()
        return env

    def _sequential_input(self, v: Value) -> Val:
        if v.name in self.fixed:
            from shardproof.ops.numbers import exact

            value = exact(self.fixed[v.name])[0]
            return blocks.filled(v.shape, lambda n: constant(value, n))
        self.ev.table.site = ("sequential", v.name)
        atom = self.ev.table.fresh(v.name, boolean=v.dtype == "b8")
        return blocks.atom_val(atom, v.shape)

    def _bind(self, k: int, sequential: Env) -> Env:
        """Meanings of the inputs of the k-th distributed graph."""
        relation = self.problem.relation[k]
        names = {v.name: v for v in self.problem.sequential.inputs}
        values = self.view_graph(
            relation, Env({v: sequential[names[v.name]] for v in relation.inputs})
        )
        given = dict(zip(relation.output_names, values, strict=True))
        graph = self.problem.distributed.graphs[k]
        env = Env()
        for v in graph.inputs:
            found = given.get(v.name)
            if found is None:
                self.ev.table.site = (k, v.name)
                found = blocks.atom_val(self.ev.table.fresh(v.name), v.shape)
                if self.problem.distributed.spmd:
                    self._mark_rank_dependent(found)  # another unknown on every rank
            env[v] = found
        return env

    def view_graph(self, graph: Graph, env: Env) -> list[Val | None]:
        """Evaluate a relation graph; rearrangements make no new names."""
        for node in graph.nodes:
            for out, val in zip(node.outputs, self.node(node, env), strict=True):
                env[out] = val
        return [env[v] if v is not None else None for v in graph.outputs]

    def node(self, node: Node, env: Env) -> list[Val]:
        """Evaluate one operator that is not a collective."""
        op = alg.lookup(node.op)
        vals = [env[v] for v in node.inputs]
        types = tuple(v.type for v in node.inputs)
        if self.ev.deep and op.define is not None:
            opened = self._opened(op, node, vals)
            if opened is not None:
                return opened
        out = []
        for k, rule in enumerate(op.algebra(types, node.attrs)):
            v = node.outputs[k]
            self.ev.table.name = node.source or v.name
            if isinstance(rule, alg.Opaque):
                self.unknown[rule.reason] = self.unknown.get(rule.reason, 0) + 1
            out.append(self.ev.apply(rule, vals, types, v.type))
        return out

    def _opened(self, op: alg.OpDef, node: Node, vals: Sequence[Val]) -> list[Val] | None:
        """The value by the operator's definition in terms of simpler ones."""
        assert op.define is not None
        b = Builder(Graph(node.op), alg.infer_types)
        b.source = node.source
        ins = tuple(
            b.input(f"x{k}", v.dtype, tuple(v.shape)) for k, v in enumerate(node.inputs)
        )
        outs = op.define(b, ins, node.attrs)
        env = Env(zip(ins, vals, strict=True))
        for inner in b.graph.nodes:
            for v, val in zip(inner.outputs, self.node(inner, env), strict=True):
                env[v] = val
        return [env[v] for v in outs]

    # ---- distributed

    def _spmd(self, program: Program, env: Env) -> Env:
        self.progress("distributed graph, rank as an index")
        Replayer(self, program.graphs[0], env, 0, CollectSpmd(self.ev, program.mesh)).run()
        return env

    def spmd_collective(self, node: Node, env: Env, collect: CollectSpmd) -> list[Val]:
        v = env[node.inputs[0]] if node.inputs else None
        kind = alg.lookup(node.op).algebra(tuple(x.type for x in node.inputs), node.attrs)[0]
        assert isinstance(kind, alg.Collective)
        self.ev.table.name = node.source or node.outputs[0].name
        try:
            if v is None:
                raise blocks.Unsupported(f"{kind.kind} with the rank as an index")
            return [collect.run(kind.kind, v, node.attrs, node.outputs[0].type)]
        except (blocks.Unsupported, blocks.Undecided) as e:
            operands = [env[x] for x in node.inputs]
            out = self.ev.opaque(_key(node), operands, node.outputs[0].type, str(e))
            self._mark_rank_dependent(out)
            return [out]

    def _mark_rank_dependent(self, v: Val) -> None:
        """What a collective makes of an unknown value may differ on every rank."""
        from shardproof.ir.sizes import only_symbol

        mesh = self.problem.distributed.mesh
        symbols = frozenset(only_symbol(mesh.index(a)) for a, n in mesh.axes if n != 1)
        for c in v.cells:
            for t, _ in c.lin:
                self.ev.table.atoms[t.atom].rank_symbols |= symbols

    def _concrete(self, schedule: Schedule, env: list[Env]) -> None:
        self.progress("distributed graphs")
        for step in schedule.steps:
            if isinstance(step, CollectiveStep):
                self._collective(step, env)
                continue
            self.ev.table.site = (step.rank, step.node)
            node, mine = step.node, env[step.rank]
            for v, val in zip(node.outputs, self._once(node, mine), strict=True):
                mine[v] = val

    def _once(self, node: Node, env: Env) -> list[Val]:
        """Ranks that apply one operator to equal values share the result."""
        key = (_key(node), tuple(id(env[v]) for v in node.inputs))
        found = self._memo.get(key)
        if found is None:
            found = self.node(node, env)
            if not self._unlike_itself(node, found):
                self._memo[key] = found
        return found

    def _unlike_itself(self, node: Node, found: list[Val]) -> bool:
        """Whether two calls may give different values: undefined contents, unknown operators."""
        rules = alg.lookup(node.op).algebra(tuple(v.type for v in node.inputs), node.attrs)
        if any(isinstance(r, alg.Opaque) for r in rules):
            return True
        return any(t.atom in self.ev.undefined for v in found for c in v.cells for t, _ in c.lin)

    def _collective(self, step: CollectiveStep, env: list[Env]) -> None:
        members = step.members
        rank0, node0 = members[0]
        self.ev.table.site = (rank0, node0)
        self.ev.table.name = node0.source or node0.op
        if step.kind == "send_recv":
            (sender, send), (receiver, recv) = members
            env[receiver][recv.outputs[0]] = env[sender][send.inputs[0]]
            return
        vals = [env[r][n.inputs[0]] for r, n in members]
        outs = [n.outputs[0].type for _, n in members]
        key = (tuple(_key(n) for _, n in members), "collective", tuple(id(v) for v in vals))
        result = self._memo.get(key)
        if result is None:
            try:
                attrs = [n.attrs for _, n in members]
                result = self.collect.run(step.kind, vals, attrs, outs)
            except (blocks.Unsupported, blocks.Undecided) as e:
                result = [
                    self.ev.opaque((_key(node0), k), vals, t, str(e)) for k, t in enumerate(outs)
                ]
            self._memo[key] = result
        for (r, n), val in zip(members, result, strict=True):
            env[r][n.outputs[0]] = val

    # ---- obligations

    def _judge(self, sequential: Env, env: list[Env]) -> list[Judged]:
        self.progress("obligations")
        equality = Equality(self.ev)
        out = []
        for ob in self.problem.obligations:
            out.extend(self._judge_one(ob, sequential, env, equality))
        return out

    def _judge_one(
        self, ob: Obligation, sequential: Env, env: list[Env], equality: Equality
    ) -> list[Judged]:
        graphs = self.problem.distributed.graphs
        seq = self.problem.sequential.output(ob.seq_output)
        out = []
        for k, relation in enumerate(ob.expected):
            if relation is None:
                continue
            value = graphs[k].output(ob.dist_output)
            found = env[k].get(value) if value is not None else None
            if seq is None or found is None:
                out.append(Judged(ob, k, found, None, False, "the value was not computed"))
                continue
            (expected,) = self.view_graph(relation, Env({relation.inputs[0]: sequential[seq]}))
            assert expected is not None
            out.append(Judged(ob, k, found, expected, False))
        if not out:
            out.append(Judged(ob, 0, None, None, False, "no rank returns it"))
        if ob.partial_over:
            self._add_partials(ob, out)
        for j in out:
            if j.found is not None and j.expected is not None and not j.reason:
                j.holds, j.reason = equality.check(j.found, j.expected)
        if seq is not None and not self._covers(ob, seq):
            for j in out:
                j.holds, j.reason = False, "the parts of the ranks do not make up the whole output"
        return out

    def _covers(self, ob: Obligation, seq: Value) -> bool:
        """Whether the declared parts of all ranks make up the sequential output."""
        whole = blocks.atom_val(self.ev.table.fresh(seq.name), seq.shape)
        relations = [g for g in ob.expected if g is not None]
        parts = [v for g in relations for v in self.view_graph(g, Env({g.inputs[0]: whole})) if v]
        program = self.problem.distributed
        return covered(parts, seq.shape, program.mesh if program.spmd else None)

    def _add_partials(self, ob: Obligation, judged: list[Judged]) -> None:
        """Replace each rank's value by the sum over the declared mesh axes."""
        mesh = self.problem.distributed.mesh
        if self.problem.distributed.spmd:
            collect = CollectSpmd(self.ev, mesh)
            for j in judged:
                if j.found is not None:
                    try:
                        j.found = collect.total(j.found, ob.partial_over)
                    except (blocks.Unsupported, blocks.Undecided) as e:
                        j.reason = str(e)
            return
        by_graph = {j.graph: j for j in judged}
        sums: dict[tuple[int, ...], Val] = {}
        for j in judged:
            group = self._group(j.graph, ob.partial_over)
            if any(g not in by_graph or by_graph[g].found is None for g in group):
                j.reason = "not every rank of the group returns it"
                continue
            if group not in sums:
                vals = [v for g in group if (v := by_graph[g].found) is not None]
                sums[group] = self.ev.linear(vals, [1] * len(vals), vals[0].shape)  # type: ignore[list-item]
        for j in judged:
            total = sums.get(self._group(j.graph, ob.partial_over))
            if total is not None:
                j.found = total

    def _group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        mesh = self.problem.distributed.mesh
        mine = mesh.coordinates(rank)
        n = mesh.size
        assert isinstance(n, int)
        return tuple(
            r
            for r in range(n)
            if all(c == mine[a] for a, c in mesh.coordinates(r).items() if a not in axes)
        )


def _key(node: Node) -> Any:
    return (node.op, tuple(sorted(node.attrs.items(), key=lambda kv: kv[0])))


def fold_problem(problem: Problem) -> Problem:
    """The same problem with the rank as an index.

    Raises:
        NotUniform: the ranks, their inputs' relations or their obligations differ in more than
            rank-affine attributes.
    """
    program = problem.distributed
    fold = Fold(program.mesh)
    obligations = []
    for ob in problem.obligations:
        expected = [g for g in ob.expected if g is not None]
        if len(expected) != len(ob.expected):
            raise NotUniform("an output is not returned by every rank")
        obligations.append(
            Obligation(ob.seq_output, ob.dist_output, [fold.graph(expected)], ob.placement, ob.partial_over)
        )
    return Problem(
        problem.name,
        problem.sequential,
        fold.program(program),
        [fold.graph(problem.relation)],
        obligations,
        problem.assumptions,
        problem.left_out,
    )


def infer(
    problem: Problem,
    *,
    fixed: dict[str, float] | None = None,
    deep: bool = False,
    symbolic_ranks: bool = True,
    progress: Callable[[str], None] | None = None,
) -> Inference:
    """Infer the meaning of every distributed value and judge the obligations."""
    if symbolic_ranks and not problem.distributed.spmd and len(problem.distributed.graphs) > 1:
        try:
            folded = fold_problem(problem)
        except NotUniform:
            pass
        else:
            done = Runner(folded, fixed=fixed, deep=deep, progress=progress).run()
            if done.holds:
                return done
    return Runner(problem, fixed=fixed, deep=deep, progress=progress).run()


__all__ = ["Inference", "Judged", "Runner", "fold_problem", "infer", "is_float"]
