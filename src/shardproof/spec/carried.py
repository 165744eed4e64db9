"""What a step leaves to the next one beside parameters: buffers, and counters of the optimizer.

A buffer that either program writes is state of both: an input of unknown value, whose new value is
an output. Counters have known values while a program is captured; those that differ become outputs,
so that the programs do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shardproof.errors import shorten
from shardproof.spec.problem import Assumption

if TYPE_CHECKING:
    from shardproof.frontends.torch_capture import Captured

Programs = tuple["Captured", list["Captured"]]
_MOST = 120
_CONSTANT = "buffers hold what their initialisation gives"
_LOOSE = (
    "tensors in attributes that are no buffers start as their initialisation gives, and what the "
    "step leaves in them is not compared"
)
_COUNTERS = "counters of the optimizer start at their value after one step"


def captured(parameters: Any, once: Callable[[frozenset[str]], Programs]) -> Programs:
    """Both programs, captured again until all that they write is carried.

    Args:
        parameters: the user's rules; a buffer that they name is carried.
        once: captures both programs with the buffers and counters of these names carried.
    """
    carried: frozenset[str] = frozenset()
    asked = frozenset(parameters) if isinstance(parameters, Mapping) else frozenset()
    while True:
        sequential, ranks = once(carried)
        constant = {name for c in (sequential, *ranks) for name in c.held.constant}
        found = carried | _state(sequential, ranks) | (constant & asked)
        if found == carried:
            return sequential, ranks
        carried = found


def _state(sequential: Captured, ranks: list[Captured]) -> set[str]:
    written = {name for c in (sequential, *ranks) for name in c.held.written}
    known = sequential.held.counters
    differ = {
        name
        for c in ranks
        for name, value in c.held.counters.items()
        if value is None or value not in _values(name, known)
    }
    return written | differ


def _values(name: str, known: Mapping[str, float | None]) -> list[float | None]:
    """The value of the sequential counter; where names differ, the one that all of them have."""
    if name in known:
        return [known[name]]
    values = list(dict.fromkeys(known.values()))
    return values if len(values) == 1 else []


def assumptions(sequential: Captured, ranks: list[Captured]) -> list[Assumption]:
    """What is taken for known of buffers, attributes and counters."""
    programs = (sequential, *ranks)
    constant = _names(name for c in programs for name in c.held.constant)
    loose = _names(name for c in programs for name in c.held.loose)
    counters = _names(name.rpartition(".")[2] for c in programs for name in c.held.counters)
    lines = [(_CONSTANT, constant), (_LOOSE, loose), (_COUNTERS, counters)]
    return [Assumption("capture", f"{text}: {names}") for text, names in lines if names]


def _names(names: Any) -> str:
    return shorten(", ".join(dict.fromkeys(names)), _MOST)
