"""The program of one rank as it is recorded: the statements that the FX frontend lowers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardproof.frontends.fx_lexer import Ref
from shardproof.frontends.fx_text import FxStatement
from shardproof.frontends.fx_types import FxType
from shardproof.ir.graph import NO_ORIGIN, Origin


class Statements:
    """Appends statements in execution order; each is in SSA form and has a name of its own."""

    def __init__(self) -> None:
        self.all: list[FxStatement] = []
        self.origin: Origin = NO_ORIGIN
        self.effects: set[str] = set()
        """Statements that communicate: they stay even if nobody reads their result."""
        self.asynchronous: set[str] = set()
        self.how: dict[str, str] = {}
        """What members of a collective must agree on beside its operator."""
        self.waited: set[str] = set()
        """Sends that a later statement waits for."""
        self._counts: dict[str, int] = {}

    def unique(self, stem: str) -> str:
        """A name that no statement has: ``mm``, ``mm_1``, ..."""
        k = self._counts.get(stem)
        self._counts[stem] = 0 if k is None else k + 1
        if k is None:
            return stem
        name = f"{stem}_{k + 1}"
        return self.unique(name) if name in self._counts else self._taken(name)

    def _taken(self, name: str) -> str:
        self._counts[name] = 0
        return name

    def input(self, name: str, type_: FxType) -> Ref:
        """A new graph input."""
        name = self.unique(name)
        self._append(name, "input", type_, "", ())
        return Ref(name)

    def call(
        self, target: str, args: Sequence[Any], kwargs: dict[str, Any], type_: FxType | None
    ) -> Ref:
        """One operator; ``type_`` is None where it returns several tensors."""
        name = self.unique(_stem(target))
        self._append(name, "call", type_, target, tuple(args), kwargs)
        return Ref(name)

    def item(self, base: Ref, index: int, type_: FxType) -> Ref:
        """Element ``index`` of a statement that returns several tensors."""
        name = self.unique("getitem")
        self._append(name, "getitem", type_, base.name, (index,))
        return Ref(name)

    def _append(
        self, name: str, kind: str, type_: FxType | None, target: str, args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        line = len(self.all)
        self.all.append(
            FxStatement(name, kind, type_, target, args, kwargs or {}, self.origin, line)
        )


def live(
    statements: Sequence[FxStatement], outputs: Sequence[Any], effects: set[str]
) -> list[FxStatement]:
    """The statements that outputs or effects depend on, and all inputs."""
    needed = {o.name for o in outputs if isinstance(o, Ref)} | effects
    kept = []
    for s in reversed(statements):
        if s.kind != "input" and s.name not in needed:
            continue
        kept.append(s)
        if s.kind == "getitem":
            needed.add(s.target)
        _add_names((s.args, s.kwargs), needed)
    return kept[::-1]


def _add_names(x: Any, names: set[str]) -> None:
    kind = type(x)
    if kind is Ref:
        names.add(x.name)
    elif kind is tuple or kind is list:
        for y in x:
            _add_names(y, names)
    elif kind is dict:
        for y in x.values():
            _add_names(y, names)


def _stem(target: str) -> str:
    parts = target.split(".")
    return (parts[1] if len(parts) > 1 else parts[0]).strip("_") or "node"
