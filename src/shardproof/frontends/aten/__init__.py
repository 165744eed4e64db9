"""Lowering of ATen, prims and functional-collective operators, one declaration each.

Importing this package loads all declarations.
"""

from shardproof.frontends.aten import (
    attention,
    collectives,
    complex_pairs,
    composite,
    creation,
    elementwise,
    foreach,
    lookup,
    losses,
    matmul,
    misc,
    normalisation,
    pointwise_grad,
    random,
    reduce,
    scatter,
    shape,
    views,
)
from shardproof.frontends.aten.context import Functionalized, LowerContext, Unsupported
from shardproof.frontends.aten.registry import find, lowers, registered

__all__ = [
    "Functionalized",
    "LowerContext",
    "Unsupported",
    "attention",
    "collectives",
    "complex_pairs",
    "composite",
    "creation",
    "elementwise",
    "find",
    "foreach",
    "lookup",
    "losses",
    "lowers",
    "matmul",
    "misc",
    "normalisation",
    "pointwise_grad",
    "random",
    "reduce",
    "registered",
    "scatter",
    "shape",
    "views",
]
