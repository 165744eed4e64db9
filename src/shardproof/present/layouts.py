"""Where on the ranks a named sequential value lies, as boxes of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shardproof.diagnose.facts import spans
from shardproof.infer.blocks import Val
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
        self._plans: dict[int, _Plan] = {}

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
        plan = self._plans.get(id(val))
        if plan is None:
            # The value is kept, so that its id stays its own.
            plan = self._plans[id(val)] = _Plan(val, *self._planned(val))
        if plan.atom is None:
            return None
        if plan.same is None:
            parts = [_numbered(member, *cell) for cell in plan.cells]
            found = tuple(p for p in parts if p is not None)
            if len(found) != len(parts):
                return None
            if not plan.fixed:
                return plan.atom, found
            plan.same = found
        return plan.atom, plan.same

    def _planned(self, val: Val) -> tuple[int | None, list[_CellPlan], bool]:
        """The named value, the box of every cell, and whether these are the same on all ranks."""
        atom = single_atom(val)
        if atom is None or self.table.is_foreign(atom) or len(val.cells) > MAX_BOXES:
            return None, [], False
        cells: list[_CellPlan] = []
        for c in val.cells:
            if len(c.lin) != 1:
                return None, [], False
            t = c.lin[0][0]
            cells.append((spans(c, t), [self._interval(r) for r in t.restr]))
        sizes = [n for box, sums in cells for span in (*box, *sums) for n in span]
        return atom, cells, all(n is None or isinstance(n, int) for n in sizes)

    def _interval(self, r: tuple[object, Size, Size]) -> tuple[Size, Size, Size | None]:
        """The part of a reduction and, where it is known, how long all of it is."""
        label, lo, hi = r
        full = self.table.full(label)  # type: ignore[arg-type]
        return lo, hi, full[1] - full[0] if full is not None else None


_CellPlan = tuple[list[tuple[Size, Size]], list[tuple[Size, Size, Size | None]]]


@dataclass(slots=True)
class _Plan:
    """What is known of a value before ranks have numbers; ``same`` is what all ranks have, where
    it is ``fixed``."""

    val: Val
    atom: int | None
    cells: list[_CellPlan]
    fixed: bool
    same: tuple[Part, ...] | None = None


def _numbered(
    member: Member, box: list[tuple[Size, Size]], sums: list[tuple[Size, Size, Size | None]]
) -> Part | None:
    """A cell on one rank, or None where it has no numbers."""
    ends = [(member.number(lo), member.number(hi)) for lo, hi in box]
    found = tuple((lo, hi) for lo, hi in ends if lo is not None and hi is not None)
    texts = []
    for lo, hi, full in sums:
        of = f" of {member.number(full)}" if full is not None else ""
        texts.append(f"{member.number(lo)}:{member.number(hi)}{of}")
    return (found, ", ".join(texts)) if len(found) == len(ends) else None


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
