"""Names, operands and the user's facts during the import of one graph."""

from __future__ import annotations

from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any

from shardproof.errors import InputError, shorten
from shardproof.frontends.aten.context import (
    Attribute,
    DType,
    Facts,
    LowerContext,
    NoValue,
    Record,
)
from shardproof.frontends.fx_lexer import Arith, Call, Dotted, FxSyntaxError, Item, Ref
from shardproof.frontends.fx_text import FxGraph, FxStatement
from shardproof.frontends.fx_types import FxType, arithmetic, dtype_of
from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Value
from shardproof.ir.sizes import Poly
from shardproof.ops.base import infer_types


class Scope:
    """``env`` maps every FX name to what it stands for: a value, a size, a tuple of them."""

    def __init__(self, fx: FxGraph, facts: Facts) -> None:
        self.fx = fx
        self.facts = facts
        self.record = Record()
        self.graph = Graph(fx.name, rank=facts.rank)
        self.ctx = LowerContext(Builder(self.graph, infer_types), facts, self.record, fx.path)
        self.env: dict[str, Any] = {}

    # -- operands

    def resolve(self, x: Any, s: FxStatement) -> Any:
        """The value of an operand expression."""
        kind = type(x)
        if kind is Ref:
            name = x.name
            if name not in self.env:
                return self._undefined(name, s)
            value = self.env[name]
            return self.materialise(value, s.type) if type(value) is Attribute else value
        if kind is tuple:
            return tuple([self.resolve(y, s) for y in x])
        if kind in (int, float, str, bool) or x is None:
            return x
        return self._resolve_rare(x, s)

    def _resolve_rare(self, x: Any, s: FxStatement) -> Any:
        if isinstance(x, Dotted):
            dtype = dtype_of(x.path)
            return x if dtype is None else DType(dtype)
        if isinstance(x, Call):
            return Dotted(x.func)  # device(...), torch.finfo(...): nothing that has a meaning
        if isinstance(x, dict):
            return {k: self.resolve(v, s) for k, v in x.items()}
        if isinstance(x, Item):
            base = self.resolve(x.base, s)
            if isinstance(base, tuple) and isinstance(x.index, int) and x.index < len(base):
                return base[x.index]
            return NoValue("an element of something that is no tuple")
        if isinstance(x, Arith):
            return self._arithmetic(x, s)
        return x

    def _arithmetic(self, x: Arith, s: FxStatement) -> Any:
        xs = tuple(self.resolve(y, s) for y in x.operands)
        try:
            if all(isinstance(y, int | Poly) and not isinstance(y, bool) for y in xs):
                return arithmetic(x.op, xs)
        except FxSyntaxError as e:
            if s.type is None or s.type.is_tensor:
                raise self.error(s, str(e), "polynomial arithmetic on sizes") from e
        # Where the arithmetic has no polynomial form, the annotation names the result.
        if s.type is not None and not s.type.is_tensor:
            return s.type.scalar
        return NoValue(f"the expression {x.op!r} has no value here")

    def _undefined(self, name: str, s: FxStatement) -> Any:
        if name in ("device", "cuda", "cpu"):
            return Dotted(name)
        raise self.error(
            s, f"the name {shorten(name, 60)!r} is not defined before it is used",
            "a node or an input of that name on an earlier line",
        )  # fmt: skip

    # -- constants and kernels

    def materialise(self, attribute: Attribute, t: FxType | None) -> Any:
        """A module attribute as a constant, if the user says its value, else as an input."""
        key = "self." + attribute.name
        if key in self.env:
            return self.env[key]
        fact = self.constant(attribute.name)
        if t is None or not t.is_tensor:
            if fact is None:
                return attribute
            t = FxType("f32" if isinstance(fact, float) else "i64")
        elif not self._copies_attribute():
            # The annotation is that of the node that reads the attribute, whose own shape may
            # differ; a number is a scalar.
            if fact is None:
                return attribute
            t = FxType(t.dtype)
        if fact is not None:
            value = self.fixed(attribute.name, fact, t)
        else:
            value = self.ctx.new_input(attribute.name, t.dtype, t.shape)
            self.record.constant_inputs.append(value.name)
            self.record.assume(
                "constant", f"the value of {attribute.name} is not in the dump: it is an input"
            )
        self.env[key] = value
        return value

    def untyped(self, s: FxStatement, a: Attribute) -> InputError:
        return InputError(
            f"the type of the module attribute {a.name} is not printed",
            self.fx.where(s.line),
            "an annotation at the attribute, or its value as a fact",
            f'say its value: constants={{"{a.name}": 0}}, or print the graph with a newer PyTorch',
        )

    def _copies_attribute(self) -> bool:
        s = self.ctx.statement
        return s.kind == "attr" or s.target.split(".")[1:2] in (
            ["lift_fresh_copy"], ["lift_fresh"], ["detach"], ["clone"], ["alias"]
        )  # fmt: skip

    def fixed(self, name: str, fact: Any, t: FxType) -> Value:
        self.record.assume("constant", f"{name} is {fact}")
        try:
            return self.ctx.full(fact, t.shape, t.dtype)
        except ValueError as e:
            raise self.ctx.fail(
                f"the constant {fact!r} given for {name} does not fit its type {t}: {e}",
                f"a value that {t} can hold",
                f"correct constants[{name!r}]",
            ) from e

    def constant(self, name: str) -> float | int | Fraction | None:
        facts = self.facts.constants
        if not facts:
            return None
        if name in facts:
            return facts[name]
        return next((v for k, v in facts.items() if fnmatchcase(name, k)), None)

    def user_kernel(self, target: str) -> Any:
        kernels = self.facts.kernels
        if not kernels:
            return None
        found = kernels.get(target) or kernels.get(target.removesuffix(".default"))
        if found is not None:
            self.record.assume(
                "kernel", f"{target.removesuffix('.default')} means what its kernel says"
            )
        return found

    def error(self, s: FxStatement, what: str, expected: str) -> InputError:
        """An error at a statement, to be raised."""
        return InputError(
            what,
            self.fx.where(s.line),
            expected,
            "check that the dump is complete and was not altered, or print it again",
        )
