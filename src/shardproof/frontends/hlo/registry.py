"""Lowering rules by HLO operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardproof.frontends.hlo.context import Held, HloContext

Rule = Callable[[HloContext, Sequence[Held]], Held]
_RULES: dict[str, Rule] = {}


def lowers(*opcodes: str) -> Callable[[Rule], Rule]:
    """Declare the rule of one or more operators."""

    def declare(rule: Rule) -> Rule:
        for opcode in opcodes:
            if opcode in _RULES:
                raise ValueError(f"lowering of {opcode!r} is declared twice")
            _RULES[opcode] = rule
        return rule

    return declare


def find(opcode: str) -> Rule | None:
    """The rule of an operator."""
    return _RULES.get(opcode)
