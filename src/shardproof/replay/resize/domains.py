"""Value domains: which table an integer tensor finally indexes.

A size can also occur as a *value*: the first vocabulary row that a rank owns, the bound of a
position mask. Integer tensors between which values flow unchanged (views, casts, integer addition,
selection, comparison) share a domain; a lookup binds the domain to the dim that is indexed. The
literals of a domain then scale with that dim.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from shardproof.ir.graph import Node
from shardproof.replay.resize.scales import Dim, Scales

# A literal this close to a multiple of the table is read as "multiple, plus or minus a few":
# kept as it is, an off-by-one bound would become a bound that is never reached.
NEAR = 8


@dataclass(eq=False, slots=True)
class Literal:
    """An integer constant of a node's attribute that is a value of a domain."""

    node: Node
    attr: str
    value: int


@dataclass(eq=False, slots=True)
class Domain:
    """A union-find node. ``tables``: bound dims; ``sequential_tables``: those bound by lookups
    of the sequential graph."""

    parent: Domain | None = None
    tables: list[Dim] = field(default_factory=list)
    sequential_tables: list[Dim] = field(default_factory=list)
    literals: list[Literal] = field(default_factory=list)

    def root(self) -> Domain:
        d = self
        while d.parent is not None:
            if d.parent.parent is not None:
                d.parent = d.parent.parent
            d = d.parent
        return d


def join(domains: Iterable[Domain | None]) -> Domain:
    """One domain of all the given ones (a new one if there are none)."""
    roots = list({id(d.root()): d.root() for d in domains if d is not None}.values())
    if not roots:
        return Domain()
    first = roots[0]
    for other in roots[1:]:
        other.parent = first
        first.tables += other.tables
        first.sequential_tables += other.sequential_tables
        first.literals += other.literals
    return first


def bind(domain: Domain, table: Dim, sequential: bool) -> None:
    """Values of ``domain`` index ``table``; its tables are put into one class later, as domains
    may still be joined."""
    d = domain.root()
    d.tables.append(table)
    if sequential:
        d.sequential_tables.append(table)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a literal is rewritten: ``base * factor(dim) + offset``, or with ``prefix`` that dim's
    reduced size times the sign of the literal, or kept (``dim`` is None)."""

    value: int
    dim: Dim | None = None
    base: int = 0
    offset: int = 0
    prefix: Dim | None = None
    why: str = ""


def read(literal: Literal, domain: Domain, scales: Scales) -> Reading:
    """The meaning of a literal; registers the cuts and least sizes that it needs."""
    value = literal.value
    tables = domain.root().tables
    if value == 0:
        return Reading(value)
    if not tables:
        return Reading(value, why="an integer that indexes nothing")
    dim = tables[0]
    sizes = sorted({scales.size[t] for t in tables if scales.size[t] > 1}, reverse=True)
    if any(value % n == 0 for n in sizes):
        scales.cut(dim, value)
        return Reading(value, dim, value)
    head = scales.known_prefix(dim, abs(value))
    if head is not None:
        return Reading(value, dim, prefix=head)
    near = _nearest(value, sizes)
    if near is None:
        if 0 < value <= NEAR:
            _room(tables, value + 1, scales)
        return Reading(value, why="no multiple of the table that it indexes")
    base, offset = near
    scales.cut(dim, base)
    _room(tables, abs(offset) + 2, scales)
    return Reading(value, dim, base, offset, why=f"read as {base}{offset:+d}")


def _nearest(value: int, sizes: list[int]) -> tuple[int, int] | None:
    """``value == k * n + e`` with ``k != 0`` and the smallest ``|e|``, if that is small."""
    found = []
    for n in sizes:
        base = round(Fraction(value, n)) * n
        if base and abs(value - base) <= min(NEAR, max(n // 8, 1)):
            found.append((abs(value - base), base, value - base))
    return min(found)[1:] if found else None


def _room(tables: list[Dim], size: int, scales: Scales) -> None:
    for t in tables:
        scales.at_least(t, size)
