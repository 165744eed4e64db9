"""Live PyTorch programs, each with its faulty twins: what `benchmarks/cases.py` checks.

One module a kind of parallelism; each has a list CASES. A model or step that several modules
use stands in `common.py`.
"""

from __future__ import annotations

import importlib

from shardproof.testing.cases import Case

MODULES = (
    "accumulation",
    "checkpointing",
    "clipping",
    "context",
    "data_parallel",
    "dtensor",
    "experts",
    "fsdp",
    "hf_llama",
    "llama_8b",
    "pipeline",
    "ring",
    "sequence_parallel",
    "tensor_parallel",
    "vocabulary",
    "zero",
)


def all_cases() -> dict[str, Case]:
    """Every case by name."""
    found = {}
    for module in MODULES:
        for case in importlib.import_module(f"benchmarks.live.{module}").CASES:
            assert case.name not in found, f"two cases are called {case.name}"
            found[case.name] = case
    return found
