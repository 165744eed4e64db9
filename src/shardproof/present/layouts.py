"""Where on the ranks a named sequential value lies, as boxes of numbers."""

from __future__ import annotations

from collections.abc import Iterable

from shardproof.diagnose.facts import spans
from shardproof.infer.blocks import Cell, Term, Val
from shardproof.infer.naming import IOTA, UNIT, Table
from shardproof.ir.sizes import Size
from shardproof.present.ranks import Member
from shardproof.report.view import NONE, Box, Holding, Layout

Part = tuple[tuple[tuple[int, int], ...], str]
"""A box of a value, as intervals, and what it sums over."""
MAX_BOXES = 16


class Layouts:
    """Collects layouts; equal ones are kept once."""

    def __init__(self, table: Table, sequential: Iterable[Val], anywhere: Member) -> None:
        self.table = table
        self.all: list[Layout] = []
        self._extents = _extents(sequential, anywhere)
        self._index: dict[object, int] = {}
        self._parts: dict[tuple[int, int], tuple[Val, tuple[int, tuple[Part, ...]] | None]] = {}

    def of(self, held: list[tuple[Member, Val]], atom: int) -> int:
        """The number of the layout of one named value, given what ranks hold; ``NONE`` where it
        is not simply a piece of that value."""
        by: dict[tuple[Part, ...], list[int]] = {}
        for member, val in held:
            found = self._of_rank(member, val)
            if found is not None and found[0] == atom:
                by.setdefault(found[1], []).append(member.rank)
        shape = self._extents.get(atom)
        if not by or shape is None:
            return NONE
        key = (shape, tuple((parts, tuple(ranks)) for parts, ranks in by.items()))
        if key not in self._index:
            self._index[key] = len(self.all)
            holdings = [h for parts, ranks in by.items() for h in _holdings(parts, ranks)]
            self.all.append(Layout(list(shape), holdings))
        return self._index[key]

    def _of_rank(self, member: Member, val: Val) -> tuple[int, tuple[Part, ...]] | None:
        key = (id(val), member.rank)
        if key not in self._parts:
            # The value is kept, so that its id stays its own.
            self._parts[key] = (val, self._make(member, val))
        return self._parts[key][1]

    def _make(self, member: Member, val: Val) -> tuple[int, tuple[Part, ...]] | None:
        atom = single_atom(val)
        if atom is None or self.table.is_foreign(atom) or len(val.cells) > MAX_BOXES:
            return None
        parts = []
        for c in val.cells:
            if len(c.lin) != 1:
                return None
            part = self._part(member, c, c.lin[0][0])
            if part is None:
                return None
            parts.append(part)
        return atom, tuple(parts)

    def _part(self, member: Member, c: Cell, t: Term) -> Part | None:
        ends = [(member.number(lo), member.number(hi)) for lo, hi in spans(c, t)]
        box = tuple((lo, hi) for lo, hi in ends if lo is not None and hi is not None)
        sums = ", ".join(self._sum(member, r) for r in t.restr)
        return (box, sums) if len(box) == len(ends) else None

    def _sum(self, member: Member, r: tuple[object, Size, Size]) -> str:
        label, lo, hi = r
        full = self.table.full(label)  # type: ignore[arg-type]
        of = f" of {member.number(full[1] - full[0])}" if full is not None else ""
        return f"{member.number(lo)}:{member.number(hi)}{of}"


def single_atom(v: Val) -> int | None:
    """The one named value that a value is a piece or a part of, if it is one."""
    atoms = {t.atom for c in v.cells for t, _ in c.lin}
    if len(atoms) != 1 or atoms <= {UNIT, IOTA}:
        return None
    return next(iter(atoms))


def _extents(sequential: Iterable[Val], anywhere: Member) -> dict[int, tuple[int, ...]]:
    """How far each named value reaches along each of its axes."""
    out: dict[int, tuple[int, ...]] = {}
    for v in sequential:
        for c in v.cells:
            for t, _ in c.lin:
                ends = tuple(anywhere.number(hi) or 0 for _, hi in spans(c, t))
                known = out.get(t.atom, ends)
                out[t.atom] = tuple(map(max, ends, known))
    return out


def _holdings(parts: tuple[Part, ...], ranks: list[int]) -> Iterable[Holding]:
    sums: dict[str, list[Box]] = {}
    for box, text in parts:
        sums.setdefault(text, []).append(Box([lo for lo, _ in box], [hi for _, hi in box]))
    return [Holding(list(ranks), boxes, text) for text, boxes in sums.items()]
