"""Check every claim of inference on numbers.

Inference says of every value of every rank what it is in terms of sequential values. Here both
sides are replayed, each meaning is evaluated from the definitions of the atoms it mentions
(:mod:`tests.support.atoms`), and the two must agree. Obligations are a small part of what is
checked; a wrong claim anywhere is a bug, whether or not a verdict rests on it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.support.atoms import AtomValues, Numbers, Unknown, Wrong, number

from shardproof.infer.blocks import Val, flat
from shardproof.infer.integers import Index
from shardproof.infer.prepare import class_problem, fold_problem
from shardproof.infer.run import Inference, Runner
from shardproof.infer.spmd import NotUniform
from shardproof.ir.graph import Mesh, Value
from shardproof.ir.sizes import Symbol, only_symbol, symbols
from shardproof.ops.base import Array
from shardproof.replay.instantiate import instantiate_problem
from shardproof.replay.run import Environment
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.numeric import TOLERANCE, Replay, Rng, replay, sample


@dataclass
class Report:
    """What was checked. ``unknown`` claims mention a value that has no numbers of its own (an
    opaque one that no value shows at that index)."""

    checked: int = 0
    unknown: int = 0
    undefined: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.checked += other.checked
        self.unknown += other.unknown
        self.undefined += other.undefined
        self.wrong += other.wrong


class ClaimCheck:
    """Evaluates meanings of one inference against one replay of the ranks of ``mesh``."""

    def __init__(self, inference: Inference, values: Replay, numbers: Numbers, mesh: Mesh) -> None:
        self.inference, self.values = inference, values
        self.report = Report()
        self.table = inference.evaluator.table
        program = inference.problem.distributed
        # The axes that are an index of the graphs, and the graph that a rank's meanings are in.
        inside = program.mesh if program.spmd else program.inner or Mesh(())
        self.graph: list[int] = []
        self.numbers: list[dict[Symbol, Any]] = []
        for r in range(len(values.ranks)):
            at = mesh.coordinates(r)
            index = {only_symbol(inside.index(a)): at[a] for a, _ in inside.axes}
            self.numbers.append({**numbers, **index})
            k = 0
            for a, n in mesh.axes:
                if all(a != x for x, _ in inside.axes):
                    k = k * number(n, numbers) + at[a]
            self.graph.append(k)

    def run(self) -> Report:
        with np.errstate(all="ignore"):
            self._run()
        return self.report

    def _run(self) -> None:
        inf = self.inference
        graph = inf.problem.sequential
        sequential = self._pairs(inf.sequential, list(graph.values()), self.values.sequential)
        self._check("sequential", sequential, [], self.numbers[0] if self.numbers else {})
        graphs = inf.problem.distributed.graphs
        every = []
        for r, env in enumerate(self.values.ranks):
            k = self.graph[r]
            every.append(self._pairs(inf.env[k], list(graphs[k].values()), env))
        for r, pairs in enumerate(every):
            # Ranks that are one graph may name unlike values alike.
            others = [
                p for q, p in enumerate(every) if q == r or self.numbers[q] == self.numbers[r]
            ]
            seen = [sequential, *others]
            self._check(f"rank {r}", pairs, seen, self.numbers[r])

    @staticmethod
    def _pairs(meanings: Any, order: list[Value], env: Environment) -> list[tuple[str, Val, Array]]:
        return [
            (v.name, meanings[v], x)
            for v, x in zip(order, env_values(env, order), strict=True)
            if v in meanings and x is not None
        ]

    def _check(
        self,
        where: str,
        pairs: list[tuple[str, Val, Array]],
        seen: list[list[tuple[str, Val, Array]]],
        numbers: Numbers,
    ) -> None:
        store = Seen(seen or [pairs], numbers)
        values = AtomValues(self.table, self._inputs(where), store.value, numbers)
        for name, val, actual in pairs:
            try:
                self._one(f"{where} %{name}", values, val, actual)
            except Unknown:
                self.report.unknown += 1
            except Wrong as e:
                self.report.wrong.append(f"{where} %{name}: {e}")

    def _inputs(self, where: str) -> dict[int, Array]:
        """Numbers of the atoms that graph inputs are."""
        out: dict[int, Array] = {}
        inf = self.inference
        for v in inf.problem.sequential.inputs:
            self._input(out, inf.sequential[v], self.values.sequential, v)
        return out

    @staticmethod
    def _input(out: dict[int, Array], meaning: Val, env: Environment, v: Value) -> None:
        array = next(x for u, x in env.items() if u.name == v.name)
        for c in meaning.cells:
            for t, _ in c.lin:
                if t.off and len(t.off) == np.squeeze(array).ndim and t.atom > 1:
                    out[t.atom] = np.squeeze(array)
                elif not t.off and t.atom > 1:
                    out[t.atom] = array.reshape(())

    def _one(self, what: str, values: AtomValues, val: Val, actual: Array) -> None:
        self._compare(what, evaluate(values, val), actual)
        if isinstance(val.index, Index):
            self._compare(what + " as an index", evaluate_index(values, val.index), actual)

    def _compare(self, what: str, meant: Array, actual: Array) -> None:
        got = np.asarray(actual, dtype=float)
        self.report.checked += 1
        if meant.shape != got.shape:
            self.report.wrong.append(f"{what}: shape {meant.shape}, not {got.shape}")
            return
        fine = np.isfinite(meant) & np.isfinite(got)
        if not fine.all():
            self.report.undefined += 1
        size = max(1.0, float(np.abs(got[fine]).max(initial=0.0)))
        error = float(np.abs(meant[fine] - got[fine]).max(initial=0.0))
        if error > TOLERANCE * size * 10:
            self.report.wrong.append(f"{what}: off by {error:.3g}")


def env_values(env: Environment, order: list[Value]) -> list[Array | None]:
    """Replayed values in the order of the graph that inference ran on (a copy of the graph that
    was replayed has the same values in the same order)."""
    if all(v in env for v in order):
        return [env[v] for v in order]
    return list(env.values())


class Seen:
    """Values of atoms without a definition, read off the values that they are."""

    def __init__(self, pairs: list[list[tuple[str, Val, Array]]], numbers: Numbers) -> None:
        self.pairs, self.numbers = pairs, numbers
        self._store: dict[int, dict[tuple[int, ...], float]] | None = None

    def value(self, atom: int, index: tuple[int, ...]) -> float:
        if self._store is None:
            self._store = {}
            for group in self.pairs:
                for _, val, array in group:
                    self._add(val, array)
        try:
            return self._store[atom][index]
        except KeyError:
            raise Unknown(f"atom {atom} at {index}") from None

    def _add(self, val: Val, array: Array) -> None:
        assert self._store is not None
        ext = [number(n, self.numbers) for n in flat(val.dims)]
        values = np.asarray(array, dtype=float).reshape(ext)
        for c in val.cells:
            if len(c.lin) != 1 or c.lin[0][1] != 1 or c.lin[0][0].restr:
                continue
            t = c.lin[0][0]
            if t.atom <= 1:
                continue
            mine = self._store.setdefault(t.atom, {})
            lo = [number(x, self.numbers) for x in c.lo]
            hi = [number(x, self.numbers) for x in c.hi]
            for p in np.ndindex(*(b - a for a, b in zip(lo, hi, strict=True))):
                at = [a + k for a, k in zip(lo, p, strict=True)]
                index = [number(o, self.numbers) for o in t.off]
                for j, w in enumerate(t.ax):
                    if w is not None:
                        index[w[0]] += number(w[1], self.numbers) * at[j]
                mine.setdefault(tuple(index), float(values[tuple(at)]))


def evaluate(values: AtomValues, val: Val) -> Array:
    """The tensor that a meaning stands for.

    Raises:
        Wrong: its cells leave a hole or overlap.
    """
    ext = tuple(number(n, values.numbers) for n in flat(val.dims))
    out, covered = np.zeros(ext), np.zeros(ext, dtype=int)
    for c in val.cells:
        lo = [number(x, values.numbers) for x in c.lo]
        hi = [number(x, values.numbers) for x in c.hi]
        box = tuple(slice(a, b) for a, b in zip(lo, hi, strict=True))
        if any(a < 0 or b > n for a, b, n in zip(lo, hi, ext, strict=True)):
            raise Wrong(f"the cell {lo} {hi} leaves {ext}")
        shape = tuple(max(b - a, 0) for a, b in zip(lo, hi, strict=True))
        points = np.indices(shape).reshape(len(shape), int(np.prod(shape, dtype=int)))
        if not points.shape[1]:
            continue
        out[box] = values.lin(c.lin, points + np.array(lo, dtype=int)[:, None]).reshape(shape)
        covered[box] += 1
    if (covered != 1).any():
        raise Wrong("the cells leave a hole or overlap")
    return out.reshape(tuple(number(n, values.numbers) for n in val.shape))


def evaluate_index(values: AtomValues, index: Index) -> Array:
    """The tensor that a piecewise-affine function of an integer tensor stands for."""
    base = evaluate(values, index.base)
    out, covered = np.zeros(base.shape), np.zeros(base.shape, dtype=int)
    for p in index.pieces:
        inside = np.ones(base.shape, dtype=bool)
        if p.lo is not None:
            inside &= base >= number(p.lo, values.numbers)
        if p.hi is not None:
            inside &= base < number(p.hi, values.numbers)
        out = np.where(inside, p.a * base + number(p.c, values.numbers), out)
        covered += inside
    if (covered != 1).any():
        raise Wrong("the pieces of an index leave a hole or overlap")
    return out


# ------------------------------------------------------------------ whole problems


def inferences(problem: Problem, deep: bool = False) -> list[Inference]:
    """Inference with the rank as an index, where all ranks or those of a class are uniform, and
    rank by rank (last)."""
    out = []
    if not problem.distributed.spmd and len(problem.distributed.graphs) > 1:
        for fold in (fold_problem, class_problem):
            with contextlib.suppress(NotUniform):
                out.append(Runner(fold(problem), deep=deep).run())
    out.append(Runner(problem, deep=deep).run())
    return out


def check_claims(
    problem: Problem,
    inference: Inference,
    rng: Rng,
    sizes: Mapping[str, int] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[Replay, Report]:
    """Replay ``problem`` on random inputs (at ``sizes`` where it is symbolic) and check every
    claim of ``inference`` about it."""
    concrete = instantiate_problem(problem, sizes) if sizes is not None else problem
    values = replay(concrete, sample(concrete.sequential, rng, ranges), rng)
    numbers: dict[Symbol, Any] = {}
    for v in problem.sequential.values():
        for n in v.shape:
            numbers.update({s: sizes[s.name] for s in symbols(n)} if sizes else {})
    for g in problem.distributed.graphs:
        for v in g.values():
            for n in v.shape:
                numbers.update({s: sizes[s.name] for s in symbols(n)} if sizes else {})
    for _, extent in problem.distributed.mesh.axes:
        numbers.update({s: sizes[s.name] for s in symbols(extent)} if sizes else {})
    return values, ClaimCheck(inference, values, numbers, concrete.distributed.mesh).run()
