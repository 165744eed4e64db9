"""ElasticBSP: plan, simulate and train with elastic synchronisation barriers.

Public names are loaded on first use, so that importing the package costs nothing: only the
``train`` package needs torch, and the command line's ``--help`` must not wait for numpy. The
functions ``simulate`` and ``train`` are in the packages of the same names.
"""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "Caps": "planner",
    "Plan": "planner",
    "plan": "planner",
    "MinGap": "planner",
    "WaitRate": "planner",
    "make_predictor": "predictors",
    "make_policy": "policies",
    "Policy": "policies",
    "plan_sync_every": "torchft_bridge",
    "ElasticError": "errors",
    "InfeasiblePlan": "errors",
    "InvalidInput": "errors",
    "TooFewWorkers": "errors",
}

__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562)."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_EXPORTS[name]}")
    return getattr(module, name)
