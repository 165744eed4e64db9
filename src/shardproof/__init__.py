"""Shardproof: prove that a distributed deep-learning program refines its sequential model."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from shardproof.errors import InputError as InputError
    from shardproof.report.diagnostic import Verdict as Verdict
    from shardproof.spec.expression import concat as concat
    from shardproof.spec.expression import seq as seq
    from shardproof.spec.live import Input as Input
    from shardproof.spec.mesh import Mesh as Mesh
    from shardproof.spec.outputs import Output as Output
    from shardproof.spec.placement import Partial as Partial
    from shardproof.spec.placement import Parts as Parts
    from shardproof.spec.placement import Replicate as Replicate
    from shardproof.spec.placement import Shard as Shard
    from shardproof.spec.spec import Spec as Spec

# Loaded on first use, so that `import shardproof` and `shardproof --help` stay quick.
_PUBLIC = {
    "Input": "shardproof.spec.live",
    "InputError": "shardproof.errors",
    "Mesh": "shardproof.spec.mesh",
    "Output": "shardproof.spec.outputs",
    "Partial": "shardproof.spec.placement",
    "Parts": "shardproof.spec.placement",
    "Replicate": "shardproof.spec.placement",
    "Shard": "shardproof.spec.placement",
    "Spec": "shardproof.spec.spec",
    "Verdict": "shardproof.report.diagnostic",
    "concat": "shardproof.spec.expression",
    "seq": "shardproof.spec.expression",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'shardproof' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
