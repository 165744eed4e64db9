"""Random deep programs: one block repeated, cut along a mesh axis, with a mutation in one layer.

Inference evaluates a repeated layer once and takes its meanings over; the numeric check of claims
sees every layer."""

from __future__ import annotations

import numpy as np

from shardproof.ir.graph import Mesh
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.generate import Generator, Layout, Tensor
from shardproof.testing.fuzz.steps import Skip
from shardproof.testing.fuzz.steps import norm as add_norm

Rng = np.random.Generator
KINDS = ("mlp", "norm_mlp", "gated", "scatter", "shared")


def deep_program(seed: int) -> tuple[Generator, Problem, Rng]:
    """A residual network of three to six equal layers."""
    rng = np.random.default_rng([seed, 2])
    g = Generator(rng, Mesh.of(tp=2) if seed % 2 else Mesh.of(dp=2, tp=2))
    rows, width = int(rng.choice([2, 4])), int(rng.choice([2, 4]))
    inner = int(rng.choice([4, 6]))
    axis = len(g.size) - 1
    lead: Layout = ("R",) * axis
    batch: Layout = (0,) if axis and rng.random() < 0.5 else lead
    kind = KINDS[int(rng.integers(len(KINDS)))]
    x = g.input("f32", (rows, width), (*batch, "R"))
    up: Layout = (*lead, 1)
    down: Layout = (*lead, 0)
    shared = g.input("f32", (width, inner), up) if kind == "shared" else None
    act = str(rng.choice(["gelu", "tanh", "silu"]))
    attrs = {"approximate": "none"} if act == "gelu" else {}
    for _ in range(int(rng.integers(3, 7))):
        h = _normed(g, x) if kind == "norm_mlp" else x
        w1 = shared or g.input("f32", (width, inner), up)
        w2 = g.input("f32", (inner, width), down)
        a = g.emit("matmul", [h, w1], (*x.lay[:axis], 1))
        b = g.emit(act, [a], a.lay, attrs)
        if kind == "gated":
            gate = g.emit("matmul", [h, g.input("f32", (width, inner), up)], a.lay)
            b = g.emit("mul", [b, gate], a.lay)
        c = g.emit("matmul", [b, w2], (*x.lay[:axis], "P"))
        if kind == "scatter" and rows % 2 == 0 and 0 not in x.lay:
            c = g.to(g.to(c, axis, 0), axis, "R")
        c = g.to(c, axis, "R")
        d = g.emit("scale", [c], c.lay, {"by": 2})
        x = g.emit("add", [x, d], x.lay)
    return g, g.problem([x], f"deep {seed}"), rng


def _normed(g: Generator, x: Tensor) -> Tensor:
    g.pool[:] = [x]
    try:
        return add_norm(g)
    except Skip:
        return x
