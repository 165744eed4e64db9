"""What exactly was checked of a fix: an edit of the captured graph, never one of the source."""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.diagnose.edit import Edit, Result
from shardproof.ir.graph import Graph

# Phases in which the capture has operators that autograd derived from others.
DERIVED = ("backward", "joint")


def checked(graph: Graph, edits: Sequence[Edit], how: str, whole: bool) -> str:
    """One line for a report. ``how`` is the edit where the fix names several ways; with ``whole``
    every output is proved, else those that the finding affects."""
    what = "refines" if whole else "has what this affects right"
    kept = ", its backward pass left as captured" if _kept_backward(graph, edits) else ""
    return (
        f"with {how or 'this change'} the captured graph {what}{kept}; check again after the "
        "change of the source"
    )


def _kept_backward(graph: Graph, edits: Sequence[Edit]) -> bool:
    """Whether something is changed that the captured backward pass was derived from: autograd
    derives another one from the changed source."""
    first = next((k for k, n in enumerate(graph.nodes) if n.origin.phase in DERIVED), None)
    if first is None:
        return False
    edits = [e for e in edits if not isinstance(e, Result)]
    return any(e.at < 0 or graph.nodes[e.at].origin.phase != "backward" for e in edits)
