"""Problems that refine, small enough to be altered thousands of times."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from tests.support.causal import causal_ring
from tests.support.fused import softmax
from tests.support.ignored import ignored_loss
from tests.support.layers import stack
from tests.support.problems import all_ranks, data_parallel, even, mlp, uneven
from tests.support.vocabulary import cross_entropy, masked_lookup

from shardproof.certificate.write import write
from shardproof.infer.run import Inference, infer
from shardproof.ir.sizes import symbol
from shardproof.spec.problem import Problem

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "mlp": lambda: mlp(even(3, 2), 4, 5),
    "uneven mlp": lambda: mlp(uneven(0, 2, 5), 4, 3),
    "mlp for all": lambda: mlp(all_ranks(), symbol("S"), symbol("D")),
    "data parallel": lambda: data_parallel(even(2, 3), 4),
    "data parallel for all": lambda: data_parallel(all_ranks(), symbol("D")),
    "lookup": lambda: masked_lookup(even(2, 3), 5, 2),
    "lookup for all": lambda: masked_lookup(all_ranks(), symbol("T"), symbol("h")),
    "cross entropy": lambda: cross_entropy(even(2, 3), 5),
    "cross entropy for all": lambda: cross_entropy(all_ranks(), symbol("T")),
    "layers": lambda: stack(even(2, 1), 4),
    "layers for all": lambda: stack(all_ranks(), 4),
    "ignored labels": lambda: ignored_loss().resolve(),
    "causal attention in blocks": lambda: causal_ring().resolve(),
    "softmax, a column": lambda: softmax(uneven(0, 1, 3), 2),
    "fused cross entropy": lambda: cross_entropy(even(2, 3), 5, fused=True),
}


def inferred(problem: Problem, *, symbolic_ranks: bool = True) -> Inference:
    """The proof, deep where that is needed."""
    inf = infer(problem, symbolic_ranks=symbolic_ranks)
    return inf if inf.holds else infer(problem, symbolic_ranks=symbolic_ranks, deep=True)


def certificate(name: str, *, symbolic_ranks: bool = True) -> bytes:
    """The certificate of a problem."""
    problem = PROBLEMS[name]()
    inf = inferred(problem, symbolic_ranks=symbolic_ranks)
    assert inf.holds
    return write(problem, inf)


def as_data(certificate: bytes) -> dict[str, object]:
    """A certificate as plain data to alter."""
    out: dict[str, object] = msgspec.json.decode(certificate)
    return out
