"""The program of one rank as it is recorded: the statements that the FX frontend lowers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardproof.frontends.fx_lexer import Ref
from shardproof.frontends.fx_text import FxStatement
from shardproof.frontends.fx_types import FxType
from shardproof.ir.graph import NO_ORIGIN, AttrValue, Origin


class Statements:
    """Appends statements in execution order; each is in SSA form and has a name of its own."""

    def __init__(self) -> None:
        self.all: list[FxStatement] = []
        self.origin: Origin = NO_ORIGIN
        self.effects: set[str] = set()
        """Statements that communicate: they stay even if nobody reads their result."""
        self.marks: dict[str, dict[str, AttrValue]] = {}
        """Attributes of the calls that statements make which their lowering cannot see: that one is
        in flight, what else its members must agree on, by which name it is waited for."""
        self._counts: dict[str, int] = {}
        self._misnamed: dict[str, str] = {}

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
        unique = self.unique(name)
        if unique != name:
            self._misnamed[unique] = name
        self._append(unique, "input", type_, "", ())
        return Ref(unique)

    def named(self, outputs: Mapping[str, Ref]) -> dict[str, Ref]:
        """Give every input its own name, which an earlier statement may have (a buffer ``cos``
        that ``cos`` computed): the two change names. Gives the outputs by their new names."""
        names = dict(self._misnamed)
        freed, taken = set(names) - set(names.values()), set(names.values()) - set(names)
        names.update(zip(sorted(taken), sorted(freed), strict=True))
        if not names:
            return dict(outputs)
        self._misnamed = {}
        self.all = [
            s._replace(
                name=names.get(s.name, s.name), target=_target(s, names),
                args=_renamed(s.args, names), kwargs=_renamed(s.kwargs, names),
            )
            for s in self.all
        ]  # fmt: skip
        self.effects = {names.get(n, n) for n in self.effects}
        self.marks = {names.get(n, n): marks for n, marks in self.marks.items()}
        return {k: _renamed(r, names) for k, r in outputs.items()}

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

    def keep(self, ref: Ref, **marks: AttrValue) -> Ref:
        """Let a statement that communicates stay, whether its result is read or not."""
        self.effects.add(ref.name)
        self.mark(ref.name, **marks)
        return ref

    def mark(self, name: str, **marks: AttrValue) -> None:
        """Say more of the call that a statement makes."""
        if marks:
            self.marks.setdefault(name, {}).update(marks)

    def landed(self, name: str) -> None:
        """A call that was waited for where it was made is not in flight."""
        self.marks.get(name, {}).pop("async", None)

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


def _target(s: FxStatement, names: Mapping[str, str]) -> str:
    return names.get(s.target, s.target) if s.kind == "getitem" else s.target


def _renamed(x: Any, names: Mapping[str, str]) -> Any:
    kind = type(x)
    if kind is Ref:
        return Ref(names.get(x.name, x.name))
    if kind is tuple or kind is list:
        return kind(_renamed(y, names) for y in x)
    if kind is dict:
        return {k: _renamed(v, names) for k, v in x.items()}
    return x


def _stem(target: str) -> str:
    parts = target.split(".")
    return (parts[1] if len(parts) > 1 else parts[0]).strip("_") or "node"
