"""Bugs of distributed training that were reported in public, as small PyTorch programs.

One module a family; each has a list BUGS. A bug is a function of a fault's name: with "" it makes
the Spec of the right program, with the name (mostly the id) that of the faulty one. The faulty line
carries ``# planted: NAME``. ``python benchmarks/bugs.py`` checks all; docs/bugs.md is about them.

    from shardproof.examples.bugs import all_bugs

    bug = all_bugs()["B001"]
    bug.make("").check().status        # refines
    bug.make("B001").check().status    # refuted
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
