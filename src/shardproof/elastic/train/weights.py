"""Averaging weights of a barrier; apart from the tensors, so that the server can use them."""

from __future__ import annotations

from collections.abc import Sequence


def weights_of(steps: Sequence[int], rule: str) -> list[float]:
    """Averaging weights of workers that did these numbers of local steps; they sum to 1.

    ``uniform``: each contributing worker counts the same. ``steps``: in proportion to its steps,
    hence its samples. A worker without steps (it has just joined) has weight 0 under both.
    """
    shares = [float(s > 0) if rule == "uniform" else float(s) for s in steps]
    total = sum(shares)
    return [share / total if total else 0.0 for share in shares]
