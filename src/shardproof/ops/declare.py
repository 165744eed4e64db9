"""The short form in which the operators of this package are declared.

:func:`declare` takes rules that return one thing where an operator has one output, and adds what
every operator needs: a check of the operands and attributes a node brings, and errors that name
the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, Union

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Attrs, TensorType, Value
from shardproof.ir.sizes import Undecided
from shardproof.ops.base import Algebra, Array, OpDef, ShapeError, register

T = TypeVar("T")
OneOrMore = Union[T, tuple[T, ...]]  # noqa: UP007 - generic alias
Types = Callable[[tuple[TensorType, ...], Attrs], OneOrMore[TensorType]]
AlgebraOf = Callable[[tuple[TensorType, ...], Attrs], OneOrMore[Algebra]]
Evaluate = Callable[[tuple[Array, ...], Attrs], OneOrMore[Array]]
Define = Callable[[Builder, tuple[Value, ...], Attrs], OneOrMore[Value]]


def declare(
    name: str,
    operands: str,
    attributes: str = "",
    *,
    doc: str,
    types: Types,
    algebra: AlgebraOf,
    evaluate: Evaluate | None,
    define: Define | None = None,
) -> OpDef:
    """Register an operator.

    ``operands`` and ``attributes`` are names separated by blanks; ``x?`` may be left out, ``x*``
    stands for one or more operands, ``*`` alone allows anything.
    """
    return register(
        OpDef(
            name=name,
            doc=" ".join(doc.split()),
            types=_types(name, operands, attributes, types),
            algebra=lambda inputs, attrs: _many(algebra(inputs, attrs)),
            evaluate=None if evaluate is None else _evaluate(evaluate),
            define=None if define is None else _define(define),
            operands=operands,
            attributes=attributes,
        )
    )


def _many(x: OneOrMore[T]) -> tuple[T, ...]:
    return x if isinstance(x, tuple) else (x,)


def _types(
    name: str, operands: str, attributes: str, rule: Types
) -> Callable[[tuple[TensorType, ...], Attrs], tuple[TensorType, ...]]:
    names, given = operands.split(), attributes.split()
    least = sum(not n.endswith("?") for n in names)
    most = None if any(n.endswith("*") for n in names) else len(names)
    any_operands, any_attributes = "*" in names, "*" in given
    required = [n for n in given if n != "*" and not n.endswith("?")]
    known = {n.rstrip("?") for n in given}

    def check(inputs: tuple[TensorType, ...], attrs: Attrs) -> None:
        n = len(inputs)
        if not any_operands and (n < least or (most is not None and n > most)):
            raise ShapeError(f"expected operands ({', '.join(names)}), got {n}")
        for a in required:
            if a not in attrs:
                raise ShapeError(f"attribute {a!r} is missing")
        if not any_attributes and not attrs.keys() <= known:
            raise ShapeError(f"unknown attribute {min(set(attrs) - known)!r}")

    def types(inputs: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
        try:
            check(inputs, attrs)
            return _many(rule(inputs, attrs))
        except ShapeError as err:
            raise ShapeError(f"{name}: {err}") from err
        except Undecided as err:
            raise ShapeError(f"{name}: not decided for all values of the symbols: {err}") from err

    return types


def _evaluate(
    rule: Evaluate,
) -> Callable[[tuple[Array, ...], Attrs], tuple[Array, ...]]:
    def evaluate(arrays: tuple[Array, ...], attrs: Attrs) -> tuple[Array, ...]:
        # Infinities and not-a-number are values of the reference semantics, not accidents.
        with np.errstate(all="ignore"):
            return tuple(np.asarray(a) for a in _many(rule(arrays, attrs)))

    return evaluate


def _define(
    rule: Define,
) -> Callable[[Builder, tuple[Value, ...], Attrs], tuple[Value, ...]]:
    return lambda b, inputs, attrs: _many(rule(b, inputs, attrs))
