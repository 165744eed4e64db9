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
from shardproof.ops.base import known

BUILT_IN = frozenset(known())
"""The operators of the package; any other was declared by a user."""

__all__ = [
    "BUILT_IN",
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
