"""Random programs: steps drawn by weight, on a mesh that goes round with the seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardproof.ir.graph import Mesh
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz import fused, parallel, rearrange, steps
from shardproof.testing.fuzz.build import live_problem
from shardproof.testing.fuzz.generate import Generator, Rng, Tensor
from shardproof.testing.fuzz.layers import deep_program
from shardproof.testing.fuzz.pipeline import pipeline_program
from shardproof.testing.fuzz.steps import EXTENTS, Skip, Step

STEPS: tuple[tuple[Step, float], ...] = (
    (steps.unary, 4), (steps.exponential, 2), (steps.of_positive, 3), (steps.square, 2),
    (steps.linear, 4), (steps.add, 6), (steps.mul, 5), (steps.div, 2), (steps.pairwise, 1),
    (steps.reduce, 6), (steps.matmul, 7), (steps.whole_axis, 3), (steps.norm, 2),
    (rearrange.permute, 3), (rearrange.merge_dims, 2), (rearrange.split_dim, 2),
    (rearrange.cut, 2), (rearrange.concat, 2), (rearrange.expand, 1), (rearrange.relayout, 5),
    (rearrange.to_self, 1), (rearrange.positions, 2), (rearrange.choose, 2), (rearrange.embed, 2),
    (rearrange.along, 2), (rearrange.scatter, 1),
    (parallel.broadcast, 1), (parallel.ring, 1), (parallel.joint, 2), (parallel.no_change, 1),
    (parallel.micro_batches, 2), (parallel.accumulated, 1.5), (parallel.split_products, 1),
    (parallel.parallel_softmax, 1), (parallel.parallel_norm, 0.7), (parallel.cross_entropy, 0.7),
    (parallel.experts, 2), (parallel.routed, 0.7),
    (fused.rare, 2), (fused.rare_of_positive, 0.5), (fused.rare_pair, 1), (fused.gradient, 2),
    (fused.constant, 1), (fused.cast, 1), (fused.softmax_gradient, 1), (fused.order, 1),
    (fused.any_or_all, 0.5), (fused.norm_gradient, 1.5), (fused.attention, 1),
)  # fmt: skip
WEIGHTS = np.array([w for _, w in STEPS]) / sum(w for _, w in STEPS)
LARGEST = 600  # elements of a tensor

MESHES: tuple[tuple[Mesh, tuple[int, ...]], ...] = (
    (Mesh.of(tp=2), ()), (Mesh.of(dp=2, tp=2), ()), (Mesh.of(tp=2), (0,)),
    (Mesh.of(tp=3), (0,)), (Mesh.of(tp=1), ()), (Mesh.of(tp=4), ()),
    (Mesh.of(dp=2, ep=2), (1,)), (Mesh.of(dp=3, tp=2), (0,)), (Mesh.of(dp=1, tp=2), ()),
    (Mesh.of(dp=2, tp=3), ()),
)  # fmt: skip
"""Meshes and the axes along which parts differ in size."""

Made = tuple[Generator, Problem, Rng]


def program(seed: int) -> Made:
    """The random problem of a seed, without dead code; the kind of mesh goes round."""
    rng = np.random.default_rng([seed, 1])
    mesh, uneven = MESHES[seed % len(MESHES)]
    g = Generator(rng, mesh, uneven=uneven)
    outputs = random_steps(g, int(rng.integers(3, 12)))
    return g, live_problem(g.problem(outputs, f"seed {seed}")), rng


def random_steps(g: Generator, count: int) -> Sequence[Tensor]:
    """Apply random steps; the results are the tensors to return."""
    for _ in range(2):
        rank = int(g.rng.integers(1, 4))
        g.input("f32", tuple(int(n) for n in g.rng.choice(EXTENTS, size=rank)))
    done: list[Tensor] = []
    for _ in range(10 * count):
        if len(done) == count:
            break
        step = STEPS[int(g.rng.choice(len(STEPS), p=WEIGHTS))][0]
        try:
            t = step(g)
        except Skip:
            continue
        if int(np.prod(t.shape)) <= LARGEST:
            done.append(t)
        else:
            g.pool.pop()
    return [t for t in done[-3:] if t.kind == "f"] or [g.pool[0]]


def any_program(seed: int) -> Made:
    """The program of a seed of a long run: every 12th is a pipeline, every 12th has layers."""
    if seed % 12 == 5:
        return pipeline_program(seed)
    if seed % 12 == 11:
        return deep_program(seed)
    return program(seed)
