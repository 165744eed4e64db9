"""The meanings of the values of one graph.

Meanings of repeated layers are renamed ones of an evaluated layer. Most are never asked for, so
they are made when they are.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any

from shardproof.infer.blocks import Val
from shardproof.infer.rename import Renaming
from shardproof.ir.graph import Value


class Meanings(dict[Value, Val]):
    """A dict from values to meanings, some of which are made on demand."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._later: dict[Value, tuple[Renaming, Value]] = {}

    def later(self, value: Value, renaming: Renaming, like: Value) -> None:
        """``value`` means what ``like`` means, renamed."""
        self._later[value] = (renaming, like)

    def __missing__(self, value: Value) -> Val:
        renaming, like = self._later.pop(value)
        out = renaming.value(self[like])
        self[value] = out
        return out

    def get(self, value: Value, default: Any = None) -> Any:
        try:
            return self[value]
        except KeyError:
            return default

    def force(self) -> Meanings:
        """Make everything that is still to be made."""
        for value in list(self._later):
            self[value]
        return self

    def __contains__(self, value: object) -> bool:
        return super().__contains__(value) or value in self._later

    def __len__(self) -> int:
        return super().__len__() + len(self._later)

    def __iter__(self) -> Iterator[Value]:
        return super(Meanings, self.force()).__iter__()

    def items(self) -> ItemsView[Value, Val]:  # type: ignore[override]
        return super(Meanings, self.force()).items()

    def keys(self) -> KeysView[Value]:  # type: ignore[override]
        return super(Meanings, self.force()).keys()

    def values(self) -> ValuesView[Val]:  # type: ignore[override]
        return super(Meanings, self.force()).values()
