"""Makers of arguments for the operator tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")


@dataclass(frozen=True)
class Case:
    """One call. ``tolerance`` is looser where PyTorch itself works in less than float64."""

    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tolerance: float = 1e-9


_generator = torch.Generator().manual_seed(20240917)
DOUBLE = torch.float64


def f(*shape: int) -> Any:
    """Normal floats."""
    return torch.randn(shape, dtype=DOUBLE, generator=_generator)


def pos(*shape: int) -> Any:
    """Floats in [0.5, 1.5)."""
    return torch.rand(shape, dtype=DOUBLE, generator=_generator) + 0.5


def unit(*shape: int) -> Any:
    """Floats in (-0.9, 0.9)."""
    return (torch.rand(shape, dtype=DOUBLE, generator=_generator) - 0.5) * 1.8


def ints(high: int, *shape: int, low: int = 0) -> Any:
    """Integers in [low, high)."""
    return torch.randint(low, high, shape, generator=_generator)


def bits(*shape: int) -> Any:
    """Booleans."""
    return torch.randint(0, 2, shape, generator=_generator) > 0
