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
from shardproof.infer.evaluate import Evaluator
from shardproof.infer.judge import Judge, Judged
from shardproof.infer.meanings import Meanings
from shardproof.infer.prepare import class_problem, fold_problem
from shardproof.infer.rename import Renaming
from shardproof.infer.repeat import Copied, Replayer
from shardproof.infer.spmd import NotUniform
from shardproof.infer.stating import state_ranges
from shardproof.infer.terms import constant
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Node, Program, Value, is_float
from shardproof.ir.sizes import Undecided
from shardproof.lemmas import names as lemmas
from shardproof.ops import base as alg
from shardproof.spec.problem import Problem

Env = Meanings


@dataclass(slots=True)
class Opened:
    """What fused operators were evaluated by: for each inner node the values of its results and
    of what it was opened to itself. ``like`` are nodes that took over the values of another."""

    inner: dict[Node, list[Any]] = field(default_factory=dict)
    like: dict[Node, tuple[Renaming | None, Node]] = field(default_factory=dict)


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
    schedule: Schedule
    unknown: dict[str, int] = field(default_factory=dict)
    opened: Opened = field(default_factory=Opened)
    copied: list[Copied] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.schedule.errors and bool(self.judged) and all(j.holds for j in self.judged)

    @property
    def failed(self) -> set[str]:
        """Outputs that are not proved on some rank."""
        return {j.obligation.seq_output for j in self.judged if not j.holds}

    def again(self, problem: Problem, fixed: dict[str, float] | None = None) -> Inference:
        """Inference of another problem, with the same reading of its operators."""
        ev = self.evaluator
        return infer(
            problem,
            fixed=fixed,
            deep=ev.deep,
            multiplied=ev.products.multiplied,
            closed=ev.closed,
        )


class Runner:
    """Evaluates the graphs of one problem."""

    def __init__(
        self,
        problem: Problem,
        *,
        fixed: dict[str, float] | None = None,
        deep: bool = False,
        multiplied: bool = False,
        closed: frozenset[str] = frozenset(),
        progress: Callable[[str], None] | None = None,
        proved: Callable[[str], object] | None = None,
    ) -> None:
        self.problem = problem
        self.fixed = fixed or {}
        self.ev = Evaluator(deep=deep, multiplied=multiplied, closed=closed)
        self.ev.folder.spread(len(problem.distributed.graphs))
        self.collect = Collect(self.ev)
        self.unknown: dict[str, int] = {}
        self.progress = progress or (lambda text: None)
        self.proved = proved or (lambda output: None)
        self._memo: dict[Any, list[Val]] = {}
        self._first: dict[Any, Node] = {}
        self.opened = Opened()
        self.copied: list[Copied] = []
        self._views: dict[Any, tuple[int, list[Val]]] = {}

    def run(self) -> Inference:
        """Evaluate everything and judge every obligation."""
        sequential = self.sequential()
        program = self.problem.distributed
        self.ev.table.defining = False
        inputs = [self._bind(k, sequential) for k in range(len(program.graphs))]
        self.progress("matching collectives")
        schedule = match(program)
        if program.spmd:
            env = [self._spmd(program, inputs[0])]
        else:
            env = inputs
            self._concrete(schedule, env)
        self.ev.table.site = None
        judge = Judge(self.problem, self.ev, self.view_graph)
        # Where calls do not fit together nothing is proved until they do.
        told = (lambda output: None) if schedule.errors else self.proved
        judged = judge.all(sequential, env, self.progress, told)
        return Inference(
            self.problem,
            self.ev,
            sequential,
            env,
            judged,
            program.spmd,
            schedule,
            self.unknown,
            self.opened,
            self.copied,
        )

    # ---- one graph

    def sequential(self) -> Env:
        """Name every value of the sequential graph."""
        self.progress("sequential graph")
        graph = self.problem.sequential
        env = Env()
        for v in graph.inputs:
            env[v] = self._sequential_input(v)
        state_ranges(self.ev, graph, env)
        Replayer(self, graph, env, "sequential").run()
        self.ev.folder.respell()
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
                if self._over_ranks():
                    self._mark_rank_dependent(found)  # another unknown on every rank
            env[v] = found
        return env

    def view_graph(self, graph: Graph, env: Env) -> list[Val | None]:
        """Evaluate a relation graph; rearrangements make no new names."""
        for node in graph.nodes:
            for out, val in zip(node.outputs, self._view(node, env), strict=True):
                env[out] = val
        return [env[v] if v is not None else None for v in graph.outputs]

    def _view(self, node: Node, env: Env) -> list[Val]:
        """A rearrangement of a plain tensor is that of another one of its shape, renamed; a
        network has many parameters of few shapes."""
        atom = _plain_atom([env[v] for v in node.inputs])
        if atom is None:
            return self.node(node, env)
        key = (_key(node), env[node.inputs[0]].dims)
        if key not in self._views:
            self._views[key] = (atom, self.node(node, env))
        like, vals = self._views[key]
        return vals if like == atom else [Renaming({like: atom}).value(v) for v in vals]

    def node(self, node: Node, env: Env) -> list[Val]:
        """Evaluate one operator that is not a collective."""
        op = alg.lookup(node.op)
        vals = [env[v] for v in node.inputs]
        types = tuple(v.type for v in node.inputs)
        rules = op.algebra(types, node.attrs)
        opens = self.ev.deep and node.op not in self.ev.closed
        if op.define is not None and (opens or any(map(alg.makes_axis, rules))):
            return self._opened(op, node, vals)
        out = []
        for k, rule in enumerate(rules):
            v = node.outputs[k]
            self.ev.table.name = node.source or v.name
            if isinstance(rule, alg.Opaque):
                self.unknown[rule.reason] = self.unknown.get(rule.reason, 0) + 1
            out.append(self.ev.apply(rule, vals, types, v.type))
            if isinstance(rule, alg.Opaque | alg.Undefined) and self._over_ranks():
                self._mark_rank_dependent(out[-1])
        return out

    def _over_ranks(self) -> bool:
        """Whether a distributed graph is being evaluated for several ranks at once."""
        program = self.problem.distributed
        return not self.ev.table.defining and (program.spmd or program.inner is not None)

    def _opened(self, op: alg.OpDef, node: Node, vals: Sequence[Val]) -> list[Val]:
        """The value by the operator's definition in terms of simpler ones."""
        assert op.define is not None
        b = Builder(Graph(node.op), alg.infer_types)
        b.source = node.source
        ins = tuple(b.input(f"x{k}", v.dtype, tuple(v.shape)) for k, v in enumerate(node.inputs))
        outs = op.define(b, ins, node.attrs)
        self.ev.table.fire(lemmas.OPENED)
        env = Env(zip(ins, vals, strict=True))
        record = self.opened.inner[node] = []
        for inner in b.graph.nodes:
            vals = self.node(inner, env)
            record.append((vals, self.opened.inner.pop(inner, None)))
            for v, val in zip(inner.outputs, vals, strict=True):
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
        except (blocks.Unsupported, Undecided) as e:
            operands = [env[x] for x in node.inputs]
            out = self.ev.opaque(_key(node), operands, node.outputs[0].type, str(e))
            self._mark_rank_dependent(out)
            return [out]

    def _mark_rank_dependent(self, v: Val) -> None:
        """What a collective makes of an unknown value may differ on every rank."""
        from shardproof.ir.sizes import only_symbol

        program = self.problem.distributed
        mesh = program.inner or program.mesh
        symbols = frozenset(only_symbol(mesh.index(a)) for a, n in mesh.axes if n != 1)
        for c in v.cells:
            for t, _ in c.lin:
                self.ev.table.atoms[t.atom].rank_symbols |= symbols

    def _concrete(self, schedule: Schedule, env: list[Env]) -> None:
        self.progress("distributed graphs")
        mesh = self.problem.distributed.inner
        inner = CollectSpmd(self.ev, mesh) if mesh is not None else None
        for step in schedule.steps:
            if isinstance(step, CollectiveStep):
                self._collective(step, env)
                continue
            self.ev.table.site = (step.rank, step.node)
            node, mine = step.node, env[step.rank]
            if inner is not None and "group" in node.attrs:
                vals = self.spmd_collective(node, mine, inner)
            else:
                vals = self._once(node, mine)
            for v, val in zip(node.outputs, vals, strict=True):
                mine[v] = val

    def _once(self, node: Node, env: Env) -> list[Val]:
        """Ranks that apply one operator to equal values share the result."""
        key = (_key(node), tuple(id(env[v]) for v in node.inputs))
        found = self._memo.get(key)
        if found is None:
            found = self.node(node, env)
            if not self._unlike_itself(node, found):
                self._memo[key] = found
                self._first[key] = node
        else:
            self.opened.like[node] = (None, self._first[key])
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
            except (blocks.Unsupported, Undecided) as e:
                # What is reduced is one value on all ranks, whatever it is.
                one = step.kind == "all_reduce"
                result = [
                    self.ev.opaque((_key(node0), 0 if one else k), vals, t, str(e))
                    for k, t in enumerate(outs)
                ]
                self.ev.keep_undefined(vals, result)
            self._memo[key] = result
        for (r, n), val in zip(members, result, strict=True):
            env[r][n.outputs[0]] = val


def _plain_atom(vals: Sequence[Val]) -> int | None:
    """The atom of a single operand that is an atom and nothing else."""
    if len(vals) != 1 or len(vals[0].cells) != 1 or vals[0].index is not None:
        return None
    lin = vals[0].cells[0].lin
    if len(lin) != 1 or lin[0][1] != 1:
        return None
    t = lin[0][0]
    plain = blocks.atom_val(t.atom, vals[0].shape)
    return t.atom if plain.key() == vals[0].key() else None


def _key(node: Node) -> Any:
    return (node.op, tuple(sorted(node.attrs.items(), key=lambda kv: kv[0])))


def infer(
    problem: Problem,
    *,
    fixed: dict[str, float] | None = None,
    deep: bool = False,
    multiplied: bool = False,
    closed: frozenset[str] = frozenset(),
    symbolic_ranks: bool = True,
    progress: Callable[[str], None] | None = None,
    proved: Callable[[str], object] | None = None,
) -> Inference:
    """Infer the meaning of every distributed value and judge the obligations.

    Args:
        deep: fused operators are taken by their definitions.
        multiplied: products of sums are multiplied out.
        closed: fused operators that are taken as they are all the same.
        symbolic_ranks: ranks that run one program are first taken as one, with its rank open.
        proved: is told every sequential output when it is proved, for who may be stopped.
    """
    options: dict[str, Any] = {
        "fixed": fixed, "deep": deep, "multiplied": multiplied, "closed": closed,
        "progress": progress, "proved": proved,
    }  # fmt: skip
    if symbolic_ranks and not problem.distributed.spmd and len(problem.distributed.graphs) > 1:
        folded = _folded(problem)
        if folded is not None:
            done = Runner(folded, **options).run()
            if done.holds:
                return done
    return Runner(problem, **options).run()


def _folded(problem: Problem) -> Problem | None:
    """The problem over rank symbols: of all ranks, else of classes of ranks."""
    for fold in (fold_problem, class_problem):
        try:
            return fold(problem)
        except NotUniform:
            continue
    return None


__all__ = ["Inference", "Judged", "Runner", "fold_problem", "infer", "is_float"]
