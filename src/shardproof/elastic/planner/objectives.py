"""Objectives: what a good barrier is.

For a barrier that closes at time t, every worker should do as many iterations as end by t: both
objectives only get better when an arrival moves closer to t. A planner therefore only has to visit
the arrival times (and, with a cap on the iteration difference, the times at which the cap admits an
iteration) and evaluate one candidate at each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shardproof.elastic.errors import InvalidInput

_Vector = NDArray[np.float64]


class Objective(Protocol):
    """A cost for many candidate barriers at once (lower is better)."""

    @property
    def name(self) -> str:
        """Name used on the command line and in reports."""
        ...

    def costs(self, barrier: _Vector, first: _Vector, total: _Vector, n: int) -> _Vector:
        """Cost of each candidate.

        barrier: last arrival, seconds since the start of the superstep. first: earliest arrival.
        total: sum of all n arrivals. All on the same clock.
        """
        ...


@dataclass(frozen=True)
class MinGap:
    """The published objective: last arrival minus first arrival, seconds (arXiv 2001.01347, eq. 1).

    It ignores how long the superstep is, so a short superstep with a small gap beats a long one
    that wastes a smaller share of the time.
    """

    name: str = "min-gap"

    def costs(self, barrier: _Vector, first: _Vector, total: _Vector, n: int) -> _Vector:
        """Gap of each candidate in seconds."""
        return barrier - first


@dataclass(frozen=True)
class WaitRate:
    """Share of worker time lost: (waiting + barrier cost) / (superstep + barrier cost).

    barrier_cost: seconds every worker spends in a barrier (averaging, reconfiguration). Own
    objective; it answers the critique that ``min-gap`` has no notion of amortisation.
    """

    barrier_cost: float = 0.0
    name: str = "wait-rate"

    def __post_init__(self) -> None:
        if not self.barrier_cost >= 0:
            raise InvalidInput(f"barrier cost must be >= 0 seconds, got {self.barrier_cost}")

    def costs(self, barrier: _Vector, first: _Vector, total: _Vector, n: int) -> _Vector:
        """Lost share of each candidate, between 0 and 1."""
        lost = n * (barrier + self.barrier_cost) - total
        spent = n * (barrier + self.barrier_cost)
        return np.divide(lost, spent, out=np.full_like(lost, np.inf), where=spent > 0)


def make_objective(name: str, *, barrier_cost: float = 0.0) -> Objective:
    """Return the objective called ``name`` (``min-gap`` or ``wait-rate``)."""
    if name == "min-gap":
        return MinGap()
    if name == "wait-rate":
        return WaitRate(barrier_cost)
    raise InvalidInput(f"unknown objective {name!r}; choose min-gap or wait-rate")
