"""Integers and booleans (stub)."""
from __future__ import annotations
from typing import Any
from shardproof.certificate.exact import NotChecked
from shardproof.ops import base as alg

class Discrete:
    def __init__(self, algebra: Any, functions: Any) -> None:
        self.algebra, self.functions = algebra, functions
        self.assumed: dict[str, None] = {}

    def handles(self, rule: Any, node: Any, operands: Any, v: Any) -> bool:
        return isinstance(rule, alg.Compare | alg.Logic | alg.Select | alg.TakeRows | alg.TakeAlong | alg.AddRows | alg.PutAlong)

    def check(self, *a: Any) -> None:
        raise NotChecked("integers")

    def view(self, *a: Any) -> None:
        raise NotChecked("integer view")
