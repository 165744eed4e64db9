"""The core operator set: one declaration an operator.

Importing the package registers all operators. What a declaration holds is in
:mod:`shardproof.ops.base`.
"""

from shardproof.ops import (
    arithmetic,
    attention,
    calls,
    collectives,
    contraction,
    creation,
    identity,
    integer,
    lookup,
    norms,
    opaque,
    pointwise,
    reductions,
    views,
    wholeaxis,
)

__all__ = [
    "arithmetic",
    "attention",
    "calls",
    "collectives",
    "contraction",
    "creation",
    "identity",
    "integer",
    "lookup",
    "norms",
    "opaque",
    "pointwise",
    "reductions",
    "views",
    "wholeaxis",
]
