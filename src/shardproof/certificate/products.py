"""Products under sums: the data, and substitution in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Union

from shardproof.certificate.claims import Interval
from shardproof.certificate.exact import Aff, Coef, Rational, replace
from shardproof.ir.sizes import Size


class Read(NamedTuple):
    """An atom at an index, with reductions restricted to intervals."""

    atom: int
    at: tuple[Aff, ...]
    restr: tuple[Interval, ...] = ()


class AtLeast(NamedTuple):
    """``[base >= least]``, 0 or 1."""

    base: Read
    least: Size

    @property
    def atom(self) -> int:
        return self.base.atom


class Equal(NamedTuple):
    """``[base == position]``, 0 or 1."""

    base: Read
    position: Aff

    @property
    def atom(self) -> int:
        return self.base.atom


class Exp(NamedTuple):
    """The exponential of a term."""

    inner: Read

    @property
    def atom(self) -> int:
        return self.inner.atom


Base = Union[Read, AtLeast, Equal, Exp]  # noqa: UP007 - used at run time
Factor = tuple[Base, Rational]


class Product(NamedTuple):
    """The sum over ``ranges`` (variable, from, to) of a product of powers."""

    ranges: tuple[tuple[int, Size, Size], ...]
    factors: tuple[Factor, ...]


Sum = list[tuple[Product, Coef]]


def affs(b: Base) -> tuple[Aff, ...]:
    """The index functions in a factor."""
    if isinstance(b, Read):
        return b.at
    if isinstance(b, Exp):
        return b.inner.at
    return b.base.at if isinstance(b, AtLeast) else (*b.base.at, b.position)


def moved(b: Base, values: Mapping[int, Aff]) -> Base:
    """A factor with index variables replaced."""
    if isinstance(b, Read):
        return b._replace(at=tuple(replace(a, values) for a in b.at)) if b.at else b
    if isinstance(b, Exp):
        return Exp(b.inner._replace(at=tuple(replace(a, values) for a in b.inner.at)))
    base = b.base._replace(at=tuple(replace(a, values) for a in b.base.at))
    if isinstance(b, AtLeast):
        return AtLeast(base, b.least)
    return Equal(base, replace(b.position, values))


def sole(terms: Sum) -> Read | None:
    """The one term of a sum that is an atom."""
    if len(terms) == 1 and terms[0][1] == 1 and not terms[0][0].ranges:
        factors = terms[0][0].factors
        if len(factors) == 1 and factors[0][1] == 1 and isinstance(factors[0][0], Read):
            return factors[0][0]
    return None
