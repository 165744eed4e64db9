"""Names of tensors within a model, such as ``layers.0.mlp.weight``."""

from __future__ import annotations


def may_mean(a: str, b: str) -> bool:
    """Whether two names may be of one tensor: one of them within a larger or a smaller module."""
    return a.endswith("." + b) or b.endswith("." + a)
