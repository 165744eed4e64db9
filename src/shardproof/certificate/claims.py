"""What a certificate claims: definitions of atoms, and meanings of values.

An *atom* is an abbreviation: a scalar function of its free variables, spelled with earlier atoms.
A definition can therefore never be wrong, only useless; what a certificate claims is that a value
of a graph equals terms over atoms. Atoms without a definition are unknowns, each of which the
checker ties to one input or one unexplained result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from shardproof.certificate.exact import Coef, NotChecked
from shardproof.ir.graph import Value
from shardproof.ir.sizes import Size, at_least, product

UNIT, IOTA = 0, 1  # the constant 1, and the function v -> v

INTERNAL = frozenset(("lin", "sum", "prod", "power", "ge", "eq", "max", "min"))
"""Functions with a meaning of their own; those of operators never have these names."""

REDUCTIONS = frozenset(("sum", "max", "min"))
"""Functions over the bound variables of an atom; any other has these as whole axes."""

PLACES = {"lin": 1, "power": 1, "ge": 1, "eq": 2, "max": 1, "min": 1}

Label = tuple[Any, ...]
Interval = tuple[Label, Size, Size]


class Term(NamedTuple):
    """``atom[off + sum of stride * axis]`` with reductions restricted to intervals."""

    atom: int
    ax: tuple[tuple[int, Size] | None, ...]
    off: tuple[Size, ...]
    restr: tuple[Interval, ...]
    walks: tuple[tuple[tuple[int, Size], ...], ...]
    """For every axis of the atom the axes (number, stride) that walk it."""
    plain: bool
    """Whether the axes of the atom are those of the tensor, in order."""

    @staticmethod
    def of(
        atom: int, ax: tuple[tuple[int, Size] | None, ...], off: tuple[Size, ...],
        restr: tuple[Interval, ...],
    ) -> Term:  # fmt: skip
        walks: list[list[tuple[int, Size]]] = [[] for _ in off]
        for j, w in enumerate(ax):
            if w is not None:
                if not 0 <= w[0] < len(off):
                    raise NotChecked("a term that walks an axis its atom does not have")
                walks[w[0]].append((j, w[1]))
        plain = off == (0,) * len(off) and ax == tuple([(j, 1) for j in range(len(off))])
        return Term(atom, ax, off, restr, tuple(map(tuple, walks)), plain)


Lin = tuple[tuple[Term, Coef], ...]


@dataclass(eq=False, slots=True)
class Atom:
    """``fn`` is empty for an unknown with ``n_free`` axes."""

    name: str
    fn: str
    attrs: tuple[Any, ...]
    operands: tuple[Lin, ...]
    lo: tuple[Size, ...]
    hi: tuple[Size, ...]
    n_free: int
    whole: tuple[int, ...]

    @property
    def bound(self) -> range:
        """The reduction variables."""
        return range(self.n_free, len(self.lo))


class Cell(NamedTuple):
    lo: tuple[Size, ...]
    hi: tuple[Size, ...]
    lin: Lin


class Piece(NamedTuple):
    """``a * t + c`` where ``lo <= t < hi``; None is an infinite end."""

    lo: Size | None
    hi: Size | None
    a: int
    c: Size


@dataclass(eq=False, slots=True)
class Meaning:
    """A tensor: the factors of its dims, and a linear combination of terms on each box. With
    ``pieces`` it is, as an integer, that function of the tensor ``base``."""

    dims: tuple[tuple[Size, ...], ...]
    cells: tuple[Cell, ...]
    base: Meaning | None = None
    pieces: tuple[Piece, ...] = ()
    shape: tuple[Size, ...] = field(init=False)
    extents: tuple[Size, ...] = field(init=False)
    boxes: tuple[tuple[tuple[Size, ...], tuple[Size, ...]], ...] = field(init=False)
    atoms: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.boxes = tuple([c[:2] for c in self.cells])
        self.atoms = frozenset([t.atom for c in self.cells for t, _ in c.lin])
        self.shape = tuple([d[0] if len(d) == 1 else product(d) for d in self.dims])
        self.extents = tuple([f for d in self.dims for f in d])


Row = list[Meaning | None]


@dataclass(eq=False, slots=True)
class Inner:
    """The meanings of the results of one inner node of an operator that was opened to its
    definition, and of what that node was opened to."""

    results: Row
    inner: list[Inner] | None


@dataclass(eq=False, slots=True)
class Claims:
    """The meanings of the values of the sequential graph, of each evaluated distributed graph,
    and of what fused operators are made of, by the node's first result. Nothing need be claimed
    of a rearrangement, nor of what is in a copy of a layer. ``assumed`` is what the coefficients
    themselves rest on."""

    atoms: list[Atom]
    sequential: dict[Value, Any]
    distributed: list[dict[Value, Any]]
    opened: dict[Value, list[Inner]] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    layers: list[Any] = field(default_factory=list)


def well_formed_atom(atoms: list[Atom], k: int) -> None:
    """A definition uses earlier atoms only, with as many indices as these have."""
    a = atoms[k]
    if k in (UNIT, IOTA) and (a.fn or a.n_free != k):
        raise NotChecked("the first two atoms are not 1 and the index")
    if a.fn:
        _defined(atoms, k, a)
    elif a.operands or a.lo or a.hi or a.whole or a.attrs or a.n_free < 0:
        raise NotChecked(f"atom {k} is an unknown with a definition")


def _defined(atoms: list[Atom], k: int, a: Atom) -> None:
    if not 0 <= a.n_free <= len(a.lo) == len(a.hi) or not set(a.whole) <= set(range(len(a.lo))):
        raise NotChecked(f"atom {k} has variables that do not fit")
    if len(a.operands) != PLACES.get(a.fn, len(a.operands)):
        raise NotChecked(f"atom {k} has another number of operands")
    if a.whole and a.fn in INTERNAL:
        raise NotChecked(f"atom {k} is no function of whole axes")
    if a.fn not in REDUCTIONS and not set(a.bound) <= set(a.whole):
        raise NotChecked(f"atom {k} is no reduction")
    if a.fn in ("sum", "prod") and any(len(op) != 1 for op in a.operands):
        raise NotChecked(f"atom {k} is a product of other than terms")
    if not all(at_least(a.hi[q], a.lo[q]) for q in a.bound):
        raise NotChecked(f"atom {k} has a reduction that ends before it starts")
    for op in a.operands:
        _well_formed(atoms, k, op, len(a.lo))


def _well_formed(atoms: list[Atom], before: int, lin: Lin, axes: int) -> None:
    for t, _ in lin:
        if not 0 <= t.atom < before:
            raise NotChecked("a term of an atom that is not defined before")
        n = atoms[t.atom].n_free
        if len(t.ax) != axes or len(t.off) != n:
            raise NotChecked("a term with the wrong number of axes")
        if not t.restr:
            continue
        labels = [label for label, _, _ in t.restr]
        if len(set(labels)) != len(labels):
            raise NotChecked("a term with two intervals for one reduction")
        for label, lo, hi in t.restr:
            innermost(atoms, t.atom, label)
            if not at_least(hi, lo):
                raise NotChecked("an interval that ends before it starts")


def innermost(atoms: list[Atom], atom: int, label: Label) -> tuple[int, int]:
    """The atom and the variable of the reduction that a label of ``atom`` names."""
    while True:
        a = atoms[atom]
        if len(label) < 3 or label[1] != atom:
            raise NotChecked("a label of another atom")
        if label[0] != "in":
            if label[0] != a.fn or label[2] not in a.bound or label[2] in a.whole:
                raise NotChecked("a label of something that is no reduction")
            return atom, label[2]
        if not 0 <= label[2] < len(a.operands) or len(a.operands[label[2]]) != 1:
            raise NotChecked("a label of a place that does not exist")
        atom, label = a.operands[label[2]][0][0].atom, label[3]


def well_formed(atoms: list[Atom], m: Meaning, known: Collection[Any] = ()) -> None:
    """The boxes of a meaning are a partition of its index box. ``known`` are extents with boxes of
    which that was shown before, of another meaning: it says nothing of what is in the boxes."""
    if (m.extents, m.boxes) not in known:
        _partition(m.boxes, m.extents)
    for c in m.cells:
        _well_formed(atoms, len(atoms), c.lin, len(m.extents))
    if not all(at_least(f, 0) for d in m.dims if len(d) > 1 for f in d):
        raise NotChecked("digits of less than no values")


def _partition(boxes: Sequence[Any], ext: tuple[Size, ...]) -> None:
    if not all(len(lo) == len(hi) == len(ext) for lo, hi in boxes):
        raise NotChecked("a box with the wrong number of axes")
    if any(f == 0 for f in ext):
        return
    if len(boxes) == 1:
        if any(a != 0 for a in boxes[0][0]) or boxes[0][1] != ext:
            raise NotChecked("one box that is not the whole tensor")
        return
    ends = [0, *(hi[0] for _, hi in boxes)]
    in_order = len(ext) == 1 and ends[-1] == ext[0] and [lo[0] for lo, _ in boxes] == ends[:-1]
    if not in_order:
        _apart(boxes, ext)
    elif not all(at_least(b, a) for a, b in pairwise(ends)):
        raise NotChecked("a box that ends before it starts")


def _apart(boxes: Sequence[Any], ext: tuple[Size, ...]) -> None:
    """Boxes inside the whole, of which no two overlap, and that have its volume, are all of it."""
    volume: Size = 0
    for k, (low, high) in enumerate(boxes):
        rows = list(zip(low, high, ext, strict=True))
        if not all(at_least(a, 0) and at_least(b, a) and at_least(n, b) for a, b, n in rows):
            raise NotChecked("a box that leaves the tensor")
        volume = volume + product(b - a for a, b, _ in rows)
        for other in boxes[:k]:
            if not any(
                at_least(a, y) or at_least(x, b)
                for a, b, x, y in zip(low, high, *other, strict=True)
            ):
                raise NotChecked("boxes that overlap")
    if volume != product(ext):
        raise NotChecked("boxes that do not cover the tensor")
