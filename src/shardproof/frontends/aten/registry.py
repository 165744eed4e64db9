"""The table of lowering rules, filled by the :func:`lowers` decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

LowerRule = Callable[..., Any]
F = TypeVar("F", bound=LowerRule)

_RULES: dict[str, LowerRule] = {}


def lowers(*targets: str) -> Callable[[F], F]:
    """Declare the lowering of operators, named as FX prints them after ``torch.ops.``.

    The function takes the :class:`~shardproof.frontends.aten.context.LowerContext` and the
    operator's arguments under their schema names; it returns a value, a tuple of values (None
    for one that nobody reads) or a number. Arguments without meaning over the reals (layout,
    device, memory format) are dropped before the call.
    """

    def declare(rule: F) -> F:
        for target in targets:
            add(target, rule)
        return rule

    return declare


def add(target: str, rule: LowerRule) -> None:
    """Add one rule; a second one for the same operator is an error."""
    if target in _RULES:
        raise ValueError(f"lowering of {target!r} is declared twice")
    _RULES[target] = rule


def find(target: str) -> LowerRule | None:
    """The rule for an operator; ``aten.mm`` means ``aten.mm.default``."""
    return _RULES.get(target) or _RULES.get(target + ".default")


def registered() -> dict[str, LowerRule]:
    """All rules by operator."""
    return dict(_RULES)
