"""Random expressions over a few inputs; whatever inference takes for equal must be equal.

Both graphs of a problem hold many expressions, so that one inference decides thousands of pairs.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from tests.support.programs import builder

from shardproof.infer.blocks import Val
from shardproof.infer.equal import Equality
from shardproof.infer.run import Runner
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Mesh, Program, Value
from shardproof.ops.base import Array
from shardproof.replay.run import run_graph
from shardproof.spec.problem import Problem

Signature = dict[str, tuple[str, tuple[int, ...]]]
Generate = Callable[[Builder, random.Random, dict[str, Value], int], list[Value]]
Draw = Callable[[np.random.Generator, str], Array]
TOLERANCE = 1e-7
GUESSES = 300


@dataclass
class Found:
    """Pairs taken for equal, those of them that are not, and the lemmas that were used."""

    equal: int = 0
    wrong: list[str] = field(default_factory=list)
    fired: dict[str, int] = field(default_factory=dict)


def judge(
    seed: int, signature: Signature, generate: Generate, draw: Draw, size: int, deep: bool
) -> Found:
    """Infer one random problem and compare what is taken for equal on numbers."""
    rnd = random.Random(seed)
    problem = _problem(seed, signature, generate, size)
    runner = Runner(problem, deep=deep)
    inference = runner.run()
    graphs = [problem.sequential, problem.distributed.graphs[0]]
    means = [inference.sequential, inference.env[0]]
    rng = np.random.default_rng(seed)
    runs = [_run(graphs, {k: draw(rng, k) for k in signature}) for _ in range(3)]
    values = [(v, m[v], k) for k, m in enumerate(means) for v in graphs[k].values()]
    out = Found(fired=inference.evaluator.fired)
    groups: dict[Any, tuple[Value, Val, int]] = {}
    for mine in values:
        first = groups.setdefault(mine[1].key(), mine)
        if first is not mine:
            _compare(out, first, mine, runs)
    equality = Equality(inference.evaluator)
    for _ in range(GUESSES):
        a, b = rnd.choice(values), rnd.choice(values)
        if a[0].shape == b[0].shape and a is not b and equality.check(a[1], b[1])[0]:
            _compare(out, a, b, runs)
    return out


def _problem(seed: int, signature: Signature, generate: Generate, size: int) -> Problem:
    graphs = []
    # Now and then both sides are one text, else they share the inputs alone.
    for side in (seed, seed if seed % 4 == 0 else seed + 10**6):
        b = builder(f"side{len(graphs)}")
        ins = {k: b.input(k, t, s) for k, (t, s) in signature.items()}
        graphs.append(b.returns(*generate(b, random.Random(side), ins, size)))
    b = builder("relation")
    held = [b.input(k, t, s) for k, (t, s) in signature.items()]
    relation = b.returns(*held, names=tuple(signature))
    return Problem("pairs", graphs[0], Program(Mesh(()), [graphs[1]]), [relation], [])


def _run(graphs: list[Graph], inputs: dict[str, Array]) -> list[dict[Value, Array]]:
    with np.errstate(all="ignore"):
        return [
            {v: np.asarray(x, dtype=float) for v, x in run_graph(g, inputs).items()} for g in graphs
        ]


def _compare(
    out: Found,
    a: tuple[Value, Val, int],
    b: tuple[Value, Val, int],
    runs: list[list[dict[Value, Array]]],
) -> None:
    out.equal += 1
    for run in runs:
        x, y = run[a[2]][a[0]], run[b[2]][b[0]]
        both = np.isfinite(x) & np.isfinite(y)  # elsewhere one program is not defined
        size = max(1.0, float(np.abs(x[both]).max(initial=0.0)))
        if float(np.abs(x[both] - y[both]).max(initial=0.0)) > TOLERANCE * size:
            out.wrong.append(f"%{a[0].name} of side {a[2]} is not %{b[0].name} of side {b[2]}")
            return


# ------------------------------------------------------------------ row algebra

ROWS: Signature = {"x": ("f32", (2, 3)), "y": ("f32", (2, 3)), "m": ("f32", (2, 1))}
ONE = tuple(
    "exp log exp log sqrt rsqrt neg sigmoid abs silu tanh softplus logsigmoid reciprocal".split()
)
TWO = ("add", "sub", "mul", "div", "mul", "div", "maximum")
HALF = Fraction(1, 2)
EXPONENTS = (2, -1, 3, -2, HALF, -HALF)


def rows(b: Builder, rnd: random.Random, ins: dict[str, Value], size: int) -> list[Value]:
    pool = list(ins.values())
    steps: list[Callable[[Value], Value]] = [
        lambda x: b.emit(rnd.choice(ONE), x),
        lambda x: b.emit(rnd.choice(ONE), x),
        lambda x: b.emit(rnd.choice(TWO), x, rnd.choice(pool)),
        lambda x: b.emit(rnd.choice(TWO), x, rnd.choice(pool)),
        lambda x: b.emit("power", x, exponent=rnd.choice(EXPONENTS)),
        lambda x: b.emit("scale", x, by=rnd.choice((2, -1, HALF, -2))),
        lambda x: b.emit("shift", x, by=rnd.choice((1, -1))),
        lambda x: b.emit(rnd.choice(("sum", "max", "mean")), x, dims=(1,), keepdim=True),
        lambda x: b.emit("logsumexp", x, dims=(1,), keepdim=True),
        lambda x: b.emit("softmax", x, dim=1),
        # Round trips over logarithms, where signs are lost.
        lambda x: b.emit("log", b.emit("power", x, exponent=2)),
        lambda x: b.emit("exp", b.emit("scale", x, by=HALF)),
    ]
    for _ in range(size):
        pool.append(rnd.choice(steps)(rnd.choice(pool)))
    return pool[len(ins) :]


def row_values(rng: np.random.Generator, name: str) -> Array:
    shape = ROWS[name][1]
    if rng.random() < 0.4:
        return np.asarray(np.abs(rng.normal(size=shape)) + 0.1)
    return np.asarray(np.round(rng.normal(size=shape) * 6) / 4 + 0.01)


# ------------------------------------------------------------------ guards

T, V = 3, 5
GUARDS: Signature = {
    "ids": ("i64", (T,)), "u": ("i64", (T,)), "x": ("f32", (T, V)), "g": ("f32", (T,)),
}  # fmt: skip
KINDS = ("lt", "le", "gt", "ge", "eq", "ne")


class GuardSteps:
    """Integers, masks, rows and tables, one step at a time."""

    def __init__(self, b: Builder, rnd: random.Random, ins: dict[str, Value]) -> None:
        self.b, self.rnd, self.ids = b, rnd, ins["ids"]
        self.integers, self.reals, self.tables = [ins["ids"], ins["u"]], [ins["g"]], [ins["x"]]
        self.masks = [b.emit("compare", ins["ids"], kind="lt", value=2)]

    def pick(self, pool: list[Value]) -> Value:
        return self.rnd.choice(pool)

    def mask(self) -> Value:
        b, rnd = self.b, self.rnd
        kind = rnd.choice(("compare", "compare", "and", "or", "xor", "not"))
        if kind == "compare":
            k, value = rnd.choice(KINDS), rnd.randrange(-1, 7)
            return b.emit("compare", self.pick(self.integers), kind=k, value=value)
        more = [] if kind == "not" else [self.pick(self.masks)]
        return b.emit("logic", self.pick(self.masks), *more, kind=kind)

    def integer(self) -> Value:
        t = self.pick(self.integers)
        if self.rnd.random() < 0.5:
            return self.b.emit("shift", t, by=self.rnd.randrange(-2, 3))
        value = self.rnd.randrange(0, 4)
        return self.b.emit("masked_fill", t, self.pick(self.masks), value=value)

    def real(self) -> Value:
        b, rnd = self.b, self.rnd
        x, y, m = self.pick(self.reals), self.pick(self.reals), self.pick(self.masks)
        kind = rnd.choice(("cast", "fill", "where", "mul", "add", "sub", "sum", "take", "shard"))
        if kind == "cast":
            return b.emit("cast", m, dtype="f32")
        if kind == "fill":
            return b.emit("masked_fill", x, m, value=rnd.choice((0, 1)))
        if kind == "where":
            return b.emit("where", m, x, y)
        if kind == "sum":
            return b.emit("sum", self.pick(self.tables), dims=(1,), keepdim=False)
        if kind == "take":
            return b.emit("take_along", self.pick(self.tables), self.ids)
        if kind == "shard":
            table, inside, local = self.shard()
            y = b.emit("take_along", table, local)
            return b.emit("masked_fill", y, inside, value=0) if rnd.random() < 0.6 else y
        return b.emit(kind, x, y)

    def shard(self) -> tuple[Value, Value, Value]:
        """A shard of a table, the mask of ids outside, the ids inside."""
        b, rnd = self.b, self.rnd
        lo = rnd.randrange(0, 4)
        w = rnd.randrange(1, V - lo + 1)
        low = b.emit("compare", self.ids, kind="lt", value=lo)
        high = b.emit("compare", self.ids, kind="ge", value=lo + w)
        outside = b.emit("logic", low, high, kind="or")
        shifted = b.emit("shift", self.ids, by=-lo)
        local = b.emit("masked_fill", shifted, outside, value=rnd.choice((0, w - 1)))
        table = b.emit("slice", self.pick(self.tables), dim=1, start=lo, stop=lo + w)
        return table, outside, local

    def table(self) -> Value:
        x, v = self.pick(self.tables), self.pick(self.reals)
        kind = self.rnd.choice(("put", "mul", "add", "sub"))
        if kind == "put":
            return self.b.emit("put_along", x, self.ids, v)
        return self.b.emit(kind, x, self.b.emit("reshape", v, shape=(T, 1)))


def guards(b: Builder, rnd: random.Random, ins: dict[str, Value], size: int) -> list[Value]:
    s = GuardSteps(b, rnd, ins)
    out = []
    for _ in range(size):
        step, pool = rnd.choice(
            [
                (s.mask, s.masks),
                (s.integer, s.integers),
                (s.real, s.reals),
                (s.real, s.reals),
                (s.table, s.tables),
            ]
        )
        out.append(step())
        pool.append(out[-1])
    return out


def guard_values(rng: np.random.Generator, name: str) -> Array:
    dtype, shape = GUARDS[name]
    if dtype == "f32":
        return np.asarray(np.round(rng.normal(size=shape) * 64) / 16)
    low, high = (0, V) if name == "ids" else (-2, 8)
    return np.asarray(rng.integers(low, high, size=shape))
