"""Modules that JAX printed, stored so that the frontend is tested without JAX."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "fixtures"

STORED = [
    ("tensor parallel MLP", "", True),
    ("tensor parallel MLP", "", False),
    ("tensor parallel MLP", "mean for sum", True),
    ("tensor parallel attention", "", False),
    ("sequence parallel block", "", True),
    ("sequence parallel block", "slice without sum", False),
    ("experts with all_to_all", "", False),
    ("ring product", "", True),
    ("ring product", "rows one rank off", True),
    ("ring attention", "", False),
    ("ring attention", "sum not rescaled", False),
    ("data parallel gradient", "", True),
    ("scanned stack", "", True),
    ("scanned stack", "residual in the sum", False),
]


def stem(name: str, fault: str, compiled: bool) -> str:
    """The name of a stored pair of files."""
    parts = [name, *([fault] if fault else []), "compiled" if compiled else "lowered"]
    return "-".join(parts).replace(" ", "_").lower()
