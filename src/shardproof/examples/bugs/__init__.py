"""Bugs of distributed training that were reported in public, as small programs.

    shardproof check "shardproof.examples.bugs.run:spec" ...

One module a family; each has a list BUGS. Every bug has the sequential program, the right
distributed one and the faulty one; the fault's line is marked.
"""

from __future__ import annotations

import importlib

from shardproof.examples.bugs.base import Bug

FAMILIES = (
    "partial_gradients",
    "wrong_backward",
    "partial_forward",
    "loss_scale",
    "local_statistics",
    "global_norms",
    "expert_scale",
    "positions",
    "layouts",
    "accumulation",
    "updates",
    "paper",
)


def all_bugs() -> dict[str, Bug]:
    """Every bug by its id."""
    found: dict[str, Bug] = {}
    for family in FAMILIES:
        for bug in importlib.import_module(f"{__name__}.{family}").BUGS:
            assert bug.id not in found, f"{bug.id} is there twice"
            found[bug.id] = bug
    return found
