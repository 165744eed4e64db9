"""Rename atoms in values, definitions and look-up keys."""

from __future__ import annotations

from typing import Any

from shardproof.infer.blocks import Cell, Lin, Term, Val
from shardproof.infer.integers import Index
from shardproof.infer.naming import Def, Key


class Renaming:
    """A map of atoms to atoms; atoms that it lacks stay."""

    def __init__(self, atoms: dict[int, int]) -> None:
        self.atoms = atoms
        self._terms: dict[Term, Term] = {}
        self._values: dict[int, tuple[Val, Val]] = {}

    def value(self, v: Val) -> Val:
        """The renamed value; one result for one value, so that sharing is kept."""
        found = self._values.get(id(v))
        if found is not None:
            return found[1]
        cells = tuple(Cell(c.lo, c.hi, self.lin(c.lin)) for c in v.cells)
        index = v.index
        if index is not None:
            index = Index(self.value(index.base), index.pieces)
        out = Val(v.dims, cells, index)
        # The original is kept beside the result so that its id stays taken.
        self._values[id(v)] = (v, out)
        return out

    def lin(self, lin: Lin) -> Lin:
        return tuple((self.term(t), c) for t, c in lin)

    def term(self, t: Term) -> Term:
        out = self._terms.get(t)
        if out is None:
            restr = tuple((self.label(label), a, b) for label, a, b in t.restr)
            out = Term(self.atoms.get(t.atom, t.atom), t.ax, t.off, restr)
            self._terms[t] = out
        return out

    def label(self, label: Any) -> Any:
        """A reduction label: ``(fn, atom, variable)`` or ``("in", atom, place, label)``."""
        atom = self.atoms.get(label[1], label[1])
        if label[0] == "in":
            return (label[0], atom, label[2], self.label(label[3]))
        return (label[0], atom, label[2])

    def definition(self, d: Def) -> Def:
        operands = tuple(self.lin(lin) for lin in d.operands)
        return Def(d.fn, d.attrs, operands, d.lo, d.hi, d.n_free, d.whole)

    def key(self, key: Key) -> Key:
        fn, attrs, reduces, operands = key
        renamed = tuple(
            tuple(
                (
                    self.atoms.get(atom, atom),
                    c,
                    tuple((self.label(label), a, b) for label, a, b in restr),
                )
                for atom, c, restr in op
            )
            for op in operands
        )
        return (fn, attrs, reduces, renamed)
