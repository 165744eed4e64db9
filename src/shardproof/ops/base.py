"""What an operator declaration is.

One :class:`OpDef` an operator: shape rule, NumPy reference evaluation, and *algebra*, which is all
that relation inference ever learns about it. The algebra is data (the classes below); inference
dispatches on its class and never on the operator's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from shardproof.ir.graph import Attrs, AttrValue, TensorType, Value
from shardproof.ir.sizes import Poly, Size

if TYPE_CHECKING:
    from shardproof.ir.builder import Builder

Array = np.ndarray[Any, np.dtype[Any]]

Scalar = Union[Fraction, float, Poly]  # noqa: UP007 - used in annotations of data classes
"""A constant of an operator: exact, or ``inf``/``-inf`` (the only floats), or symbolic."""

ONE = "1"
"""The label of an axis of extent 1 that is no index variable (it is broadcast, or kept by a
reduction). Allowed in operands and outputs of :class:`Contract` and :class:`Signature`."""


EXP, LOG = "exp", "log"
FILL = "masked_fill"  # with a number that is not finite
# Functions of one argument that lack values, and where they have one.
PARTIAL = {
    LOG: "positive", "log2": "positive", "log10": "positive", "log1p": "greater than -1",
    "acos": "in [-1, 1]", "asin": "in [-1, 1]", "atanh": "in (-1, 1)", "acosh": "at least 1",
    "erfinv": "in (-1, 1)", "lgamma": "no integer below 1", "digamma": "no integer below 1",
    "tan": "no odd multiple of pi/2",
}  # fmt: skip
"""The two scalar functions with an algebra of their own (row algebra)."""


POSITIONS = frozenset(("sort.indices", "argmax", "argmin"))
"""Functions of whole axes whose values are positions along these, counted as one axis."""


class ShapeError(ValueError):
    """Operands that an operator's shape rule refuses; the text says what was expected."""


# ------------------------------------------------------------------------------ algebra classes


@dataclass(frozen=True, slots=True)
class Identity:
    """The output is operand 0 (over the reals)."""


@dataclass(frozen=True, slots=True)
class Linear:
    """``sum_i coefs[i] * operand_i + constant`` elementwise, operands broadcast. The constant
    is symbolic where a program adds a size, such as the first row that a rank owns, and a
    coefficient where it does so under a mask."""

    coefs: tuple[Fraction | Poly, ...]
    constant: Fraction | Poly = Fraction(0)


@dataclass(frozen=True, slots=True)
class Monomial:
    """``prod_i operand_i ** exponents[i]`` elementwise, operands broadcast. Defined where each
    power is: a negative exponent needs a nonzero operand, a fractional one an operand >= 0. So
    nested powers of one operand must not be joined blindly: ``(x**2) ** (1/2)`` is ``|x|``."""

    exponents: tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Pointwise:
    """A scalar function ``fn`` of the operands, elementwise with broadcasting.

    ``linear`` lists the operands in which it is linear (the others held fixed).
    """

    fn: str
    attrs: tuple[AttrValue, ...] = ()
    linear: tuple[int, ...] = ()
    commutative: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """A sum of products over labelled dims: one label a dim and operand; labels missing in
    ``output`` are summed over. The label :data:`ONE` stands for an extent-1 axis without an
    index; it may occur several times. All other labels of an operand differ, and axes with the
    same label have the same extent. ``scale_by_count`` divides by the number of summed terms
    (a mean)."""

    operands: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    scale_by_count: bool = False


@dataclass(frozen=True, slots=True)
class Extremum:
    """Maximum or minimum over ``dims``."""

    kind: str
    dims: tuple[int, ...]
    keepdim: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """A function that acts on whole axes: one label a dim and operand; every label in ``whole``
    is an axis whose full extent takes part (``softmax: i k! -> i k``). Operators that act on
    axes ``whole`` independently for each index of the other labels commute with every
    rearrangement of those other labels. ``linear`` as in :class:`Pointwise`.

    Labels that the output lacks are in ``whole``. An output label that no operand has is a new
    axis made by the function (``topk``) and is in ``whole`` too. :data:`ONE` as in
    :class:`Contract`. ``unused`` lists operands that this output does not depend on (the saved
    mean of a layer norm does not read the weight); to ignore the field is sound."""

    fn: str
    operands: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    whole: tuple[str, ...]
    attrs: tuple[AttrValue, ...] = ()
    linear: tuple[int, ...] = ()
    unused: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reshape:
    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Permute:
    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """``operand[..., start:stop, ...]`` at ``dim``, unit step, ``0 <= start <= stop <= size``."""

    dim: int
    start: Size
    stop: Size


@dataclass(frozen=True, slots=True)
class Concat:
    dim: int


@dataclass(frozen=True, slots=True)
class Expand:
    """NumPy broadcasting to ``shape``."""

    shape: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """Every element is ``value`` (booleans are 0 and 1)."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Iota:
    """``start + i * step`` along the only dim."""

    start: Size
    step: int = 1


@dataclass(frozen=True, slots=True)
class Undefined:
    """Contents are not defined (``empty``); the value must never reach an output."""


@dataclass(frozen=True, slots=True)
class Compare:
    """Elementwise comparison of operand 0 with operand 1 or with ``value``; kinds lt le gt ge
    eq ne. Boolean outputs are the numbers 0 and 1."""

    kind: str
    value: Scalar | None = None


@dataclass(frozen=True, slots=True)
class Logic:
    """and, or, xor, not on booleans (0 and 1)."""

    kind: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand_1 if operand_0 else operand_2``, elementwise with broadcasting. With ``other``
    set, masked fill: ``other if operand_1 else operand_0`` (data first, then the mask)."""

    other: Scalar | None = None


@dataclass(frozen=True, slots=True)
class TakeRows:
    """``operand_0[operand_1]``: rows of a table by integer index (embedding)."""


@dataclass(frozen=True, slots=True)
class TakeAlong:
    """``out[i] = operand_0[i, operand_1[i]]`` over the last dim (target gather)."""


@dataclass(frozen=True, slots=True)
class AddRows:
    """``out[v] = sum over positions p with operand_1[p] == v of operand_0[p]`` for
    ``0 <= v < rows`` (gradient of :class:`TakeRows`)."""

    rows: Size


@dataclass(frozen=True, slots=True)
class PutAlong:
    """Operand 0 with ``[i, operand_1[i]]`` replaced by ``operand_2[i]`` over the last dim."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective; ``kind`` is one of all_reduce, all_gather, reduce_scatter, all_to_all,
    broadcast, send, recv; the other facts are the node's attributes."""

    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """Nothing is known; what depends on the output is unproved. ``reason`` is shown.

    Equal only to itself: two applications to equal operands may differ (in attributes, or by
    chance), and so may two outputs of one application.
    """

    reason: str


Algebra = Union[  # noqa: UP007 - alias of many classes
    Identity, Linear, Monomial, Pointwise, Contract, Extremum, Signature, Reshape, Permute,
    Slice, Concat, Expand, Constant, Iota, Undefined, Compare, Logic, Select, TakeRows,
    TakeAlong, AddRows, PutAlong, Collective, Opaque,
]  # fmt: skip


def is_partial(rule: Algebra) -> bool:
    """Whether an elementwise rule has no value for some numbers."""
    if isinstance(rule, Monomial):
        return any(e < 0 or e.denominator != 1 for e in rule.exponents)
    return isinstance(rule, Pointwise) and rule.fn in PARTIAL


def makes_axis(rule: Algebra) -> bool:
    """Whether an output has an axis that no operand has. No instance of such a function can be
    named, so its operator is taken by its definition, if it has one."""
    if not isinstance(rule, Signature):
        return False
    given = {x for operand in rule.operands for x in operand}
    return any(x != ONE and x not in given for x in rule.output)


def rows_indexed(rule: Algebra, types: tuple[TensorType, ...]) -> Size | None:
    """How many rows a lookup's operand 1 indexes; None of what is no lookup."""
    match rule:
        case TakeRows():
            return types[0].shape[0]
        case TakeAlong() | PutAlong():
            return types[0].shape[-1]
        case AddRows():
            return rule.rows
    return None


# ------------------------------------------------------------------------------ declarations

TypeRule = Callable[[tuple[TensorType, ...], Attrs], tuple[TensorType, ...]]
AlgebraRule = Callable[[tuple[TensorType, ...], Attrs], tuple[Algebra, ...]]
Evaluator = Callable[[tuple[Array, ...], Attrs], tuple[Array, ...]]
Definition = Callable[["Builder", tuple[Value, ...], Attrs], tuple[Value, ...]]


@dataclass(frozen=True)
class OpDef:
    """One operator of the core IR.

    ``types``: output types from operand types and attributes, or :class:`ShapeError`.
    ``algebra``: one :class:`Algebra` an output.
    ``evaluate``: reference evaluation over float64 / int64 / bool arrays (None for collectives
    and for opaque operators).
    ``define``: the same operator spelled with simpler ones; inference falls back on it when the
    closed form did not lead to a proof.
    ``operands``, ``attributes``: names for people, ``?`` after optional ones, ``*`` for any.
    """

    name: str
    doc: str
    types: TypeRule
    algebra: AlgebraRule
    evaluate: Evaluator | None
    define: Definition | None = None
    operands: str = "*"
    attributes: str = "*"


_REGISTRY: dict[str, OpDef] = {}


def register(op: OpDef) -> OpDef:
    """Add an operator declaration. A second declaration of a name is an error."""
    if op.name in _REGISTRY:
        raise ValueError(f"operator {op.name!r} is declared twice")
    _REGISTRY[op.name] = op
    return op


def lookup(name: str) -> OpDef:
    """The declaration of ``name``.

    Raises:
        KeyError: there is none.
    """
    return _REGISTRY[name]


def known() -> dict[str, OpDef]:
    """All declarations by name."""
    return dict(_REGISTRY)


def infer_types(op: str, inputs: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    """Shape rule of the operator ``op``; the function a :class:`Builder` is made with."""
    if op not in _REGISTRY:
        raise ShapeError(f"unknown operator {op!r}")
    return _REGISTRY[op].types(inputs, attrs)
