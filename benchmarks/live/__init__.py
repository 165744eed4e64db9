"""Live PyTorch programs, each with its faulty twins: what `benchmarks/cases.py` checks.

One module a kind of parallelism; each has a list CASES. A model or step that several modules
use stands in `common.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from shardproof.testing.cases import Case

MODULES = (
    "accumulation",
    "checkpointing",
    "clipping",
    "context",
    "data_parallel",
    "dropout",
    "dtensor",
    "experts",
    "experts_sequence",
    "fsdp",
    "gpt_3d",
    "hf_llama",
    "llama_8b",
    "lora",
    "pipeline",
    "renormalised",
    "ring",
    "ring_step",
    "routing",
    "schedules",
    "sequence_parallel",
    "tensor_parallel",
    "vocabulary",
    "zero",
)


def cases_of(module: str) -> dict[str, Case]:
    """The cases of one module by name."""
    cases: list[Case] = importlib.import_module(f"benchmarks.live.{module}").CASES
    return {case.name: case for case in cases}


def all_cases(modules: Sequence[str] = MODULES) -> dict[str, Case]:
    """Every case by name."""
    found: dict[str, Case] = {}
    for module in modules:
        for name, case in cases_of(module).items():
            assert name not in found, f"two cases are called {name}"
            found[name] = case
    return found
