"""Correct pairs of programs to make mutants of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from shardproof.examples import (
    grad_accumulation,
    layernorm_gradient,
    llama_hlo,
    megatron_gpt,
    qwen2,
)
from shardproof.ir.graph import Program
from shardproof.replay.resize import resize
from shardproof.spec.problem import Problem
from shardproof.spec.spec import Spec
from shardproof.testing.edit import Chain, apply
from shardproof.testing.grid import grid_block
from shardproof.testing.judge import Pair
from shardproof.testing.steps import micro_batches


def pair(spec: Spec, name: str = "", repair: Callable[[Problem], Problem] | None = None) -> Pair:
    """The pair of a check at small sizes, after a repair of the problem."""
    problem = spec.resolve()
    if repair is not None:
        problem = repair(problem)
    return Pair(name or problem.name, resize(problem), problem, spec.fixed_values)


def halved(problem: Problem) -> Problem:
    """Gradient accumulation repaired: each of the two steps adds half of its mean."""
    (graph,) = problem.distributed.graphs
    for node in list(graph.nodes):
        if node.op == "mean":
            chain = Chain(node)
            mean = chain.emit(node.op, *node.inputs, **node.attrs)
            mean.name = f"{node.output.name}_all"
            graph = apply(graph, chain.finish("scale", mean, by=Fraction(1, 2)))
    return replace(problem, distributed=Program(problem.distributed.mesh, [graph]))


def accumulation() -> Pair:
    """One step on a batch against two accumulated steps, divided by two."""
    return pair(grad_accumulation.accumulate(), "Gradient accumulation, repaired", halved)


PAIRS: dict[str, Callable[[], Pair]] = {
    "gpt_tp2_layers1": lambda: pair(megatron_gpt.gpt(2, 1)),
    "gpt_tp2_layers2": lambda: pair(megatron_gpt.gpt(2, 2)),
    "gpt_tp8_layers1": lambda: pair(megatron_gpt.gpt(8, 1)),
    "layernorm_partial": lambda: pair(layernorm_gradient.reduced_later()),
    "grad_accumulation": accumulation,
    "grid_block": lambda: pair(grid_block()),
    "micro_batches": lambda: pair(micro_batches()),
    "qwen2_tp2": lambda: pair(qwen2.tp2()),
    "llama_hlo_tp2_layers1": lambda: pair(llama_hlo.tp2_layers1()),
}
