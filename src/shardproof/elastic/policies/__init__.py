"""Synchronisation policies behind one interface, and ``make_policy`` to get one by name."""

from __future__ import annotations

from collections.abc import Callable

from shardproof.elastic.errors import InvalidInput
from shardproof.elastic.planner import Caps

from .barrier import DyLU, LocalSgd, TimeBudget
from .base import Action, Policy, Progress
from .elastic import ElasticBsp, published
from .staleness import Asp, Dssp, Ssp

__all__ = [
    "POLICIES",
    "Action",
    "Asp",
    "Dssp",
    "DyLU",
    "ElasticBsp",
    "LocalSgd",
    "Policy",
    "Progress",
    "Ssp",
    "TimeBudget",
    "make_policy",
    "published",
]


def _elastic(objective: str, steps: int) -> ElasticBsp:
    return ElasticBsp(
        objective=objective,
        lookahead=steps,
        caps=Caps(staleness=steps),
        name="elastic" if objective == "wait-rate" else "elastic-min-gap",
    )


POLICIES: dict[str, Callable[[int], Policy]] = {
    "bsp": lambda steps: LocalSgd(1, "bsp"),
    "local-sgd": LocalSgd,
    "time-budget": TimeBudget,
    "dylu": DyLU,
    "elastic": lambda steps: _elastic("wait-rate", steps),
    "elastic-min-gap": lambda steps: _elastic("min-gap", steps),
    "elastic-published": lambda steps: published(steps, Caps(staleness=steps)),
    "asp": lambda steps: Asp(),
    "ssp": Ssp,
    "dssp": lambda steps: Dssp(max(steps // 4, 1), steps),
}
"""Policy by name; the argument is the cap on iterations between barriers (SSP: on the lead)."""


def make_policy(name: str, steps: int = 15) -> Policy:
    """Return a fresh policy. ``steps`` caps staleness so that policies can be matched on it.

    Raises InvalidInput for an unknown name or ``steps`` below 1.
    """
    if name not in POLICIES:
        raise InvalidInput(f"unknown policy {name!r}; choose one of {', '.join(sorted(POLICIES))}")
    if steps < 1:
        raise InvalidInput(f"steps must be at least 1, got {steps}")
    return POLICIES[name](steps)
