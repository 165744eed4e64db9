"""Asynchronous collectives that have not been waited for, and the memory they work on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from shardproof.errors import InputError
from shardproof.frontends.fx_lexer import Ref
from shardproof.ir.graph import Origin

Extent = tuple[int, int, int]
"""A storage, and the first and last element of it that a tensor shows."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One collective in flight: its results, and the memory that it reads or writes."""

    name: str
    origin: Origin
    results: tuple[tuple[torch.Tensor, Ref], ...]
    memory: tuple[Extent, ...]


class Flights:
    """Collectives in flight, by the number of their Work object."""

    def __init__(self) -> None:
        self._flying: dict[int, Flight] = {}

    def start(
        self,
        seq: int,
        name: str,
        origin: Origin,
        results: Sequence[tuple[torch.Tensor, Ref]],
        tensors: Sequence[torch.Tensor],
    ) -> None:
        """A collective was issued on ``tensors``."""
        memory = tuple(_extent(t) for t in tensors if t.numel())
        self._flying[seq] = Flight(name, origin, tuple(results), memory)

    def land(self, seq: int) -> tuple[tuple[torch.Tensor, Ref], ...]:
        """The collective was waited for: its results."""
        flight = self._flying.pop(seq, None)
        return flight.results if flight is not None else ()

    def check_write(self, goals: Sequence[torch.Tensor], origin: Origin) -> None:
        """Refuse a write to memory that a collective in flight still works on.

        Raises:
            InputError: there is such a collective.
        """
        if not self._flying:
            return
        for goal in goals:
            storage, first, last = _extent(goal)
            for flight in self._flying.values():
                if any(s == storage and first <= b and a <= last for s, a, b in flight.memory):
                    raise InputError(
                        f"memory of an asynchronous {flight.name} is written before its wait",
                        where=str(origin),
                        expected=f"a wait for the {flight.name} issued at {flight.origin}",
                        next_step="wait for the collective before this line, or write elsewhere",
                    )


def _extent(t: torch.Tensor) -> Extent:
    first = int(t.storage_offset())
    span = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return t.untyped_storage()._cdata, first, first + span
