"""Claims about single values: their form, what their unknowns stand for, and whether one follows
from what an operator gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.claims import Cell, Claims, Lin, Meaning, well_formed, well_formed_atom
from shardproof.certificate.exact import Aff, NotChecked, variable
from shardproof.certificate.products import Sum
from shardproof.certificate.region import Region, fresh, place
from shardproof.certificate.rules import Moved, Source, Tensor, meaning_source, read_through
from shardproof.ir.graph import Mesh, Value
from shardproof.ir.sizes import Size

MAX_REGIONS = 4096
Tensors = dict[Value, Any]
Fits = Callable[[Region, Sequence[Aff], Sum], bool]


class Claimed:
    """The claims of one certificate. ``owner`` says what an unknown stands for; ``ready`` are the
    atoms of which that is known, ``undefined`` those that may hold undefined contents, and
    ``differs`` those that are another tensor on every rank though no symbol shows it."""

    def __init__(self, claims: Claims) -> None:
        self.claims, self.algebra = claims, Algebra(claims.atoms)
        self.where = "atoms"
        self.steps = 0
        self.owner: dict[int, Any] = {0: "1", 1: "index"}
        self.ready: set[int] = {0, 1}
        self.undefined: set[int] = set()
        self.differs: set[int] = set()
        self.formed: dict[int, Meaning] = {}  # which keeps them, so that no identity is used twice
        self.partitions: set[Any] = set()
        self.boxes: dict[Any, Region] = {}
        self.sources: dict[int, Source] = {}
        self.mesh: Mesh | None = None
        self.sequentially = True

    def claim(self, table: Tensors, v: Value) -> Meaning:
        m = table[v]
        if isinstance(m, Moved):
            raise NotChecked(f"nothing is claimed of %{v.name}")
        if m.shape != v.shape:
            raise NotChecked(f"the claimed shape of %{v.name} is not its shape")
        assert isinstance(m, Meaning)
        self.form(m)
        return m

    def form(self, m: Meaning) -> None:
        """Check the form of a claim, and that it is about values that are known."""
        if id(m) in self.formed:
            return
        well_formed(self.claims.atoms, m, self.partitions)
        self.partitions.add((m.extents, m.boxes))
        if (m.base is None) != (not m.pieces):
            raise NotChecked("an integer view without its base, or its function")
        if m.base is not None and (m.base.base is not None or m.base.shape != m.shape):
            raise NotChecked("an integer view of an integer view")
        for atom in m.atoms:
            self.known(atom)
        if m.base is not None:
            self.form(m.base)
        self.formed[id(m)] = m  # what is known stays known

    def known(self, atom: int) -> None:
        """Every unknown in a claim has been tied to what it stands for."""
        if atom in self.ready:
            return
        well_formed_atom(self.claims.atoms, atom)
        a = self.claims.atoms[atom]
        if not a.fn and atom not in self.owner:
            raise NotChecked(f"the unknown {a.name} stands for nothing")
        for lin in a.operands:
            for t, _ in lin:
                self.known(t.atom)
                if t.atom in self.undefined:
                    self.undefined.add(atom)
        self.ready.add(atom)

    def no_number(self, m: Tensor) -> bool:
        """Whether a tensor may hold undefined contents."""
        if not self.undefined or self.undefined.isdisjoint(m.atoms):
            return False
        return not isinstance(m, Moved) or any(
            b.atom in self.undefined for p, _ in read_through(m) for b, _ in p.factors
        )

    def own(self, m: Tensor, key: Any, boolean: bool = False) -> bool:
        """Let the unknown that a claim consists of stand for the value ``key``."""
        if isinstance(m, Moved):
            return False
        if len(m.cells) != 1 and m.extents and all(f != 0 for f in m.extents):
            return False
        for c in m.cells:
            if len(c.lin) != 1 or c.lin[0][1] != 1:
                return False
            t = c.lin[0][0]
            plain = t.plain and len(t.ax) == len(m.extents) and not t.restr
            if not plain or self.claims.atoms[t.atom].fn or any(len(d) > 1 for d in m.dims):
                return False
            if key[0] == "input" and self.claims.atoms[t.atom].name != key[-1]:
                return False  # assumptions speak of inputs by these names
            if self.owner.setdefault(t.atom, key) != key:
                return False
            self._owned(t.atom, boolean)
        return True

    def _owned(self, atom: int, boolean: bool) -> None:
        if self.algebra.noted is not None:
            self.algebra.noted.owned.add(atom)
        if boolean:
            self.algebra.boolean.add(atom)
        if not self.sequentially and self.mesh is not None:
            self.differs.add(atom)

    def source(self, m: Tensor) -> Source:
        if isinstance(m, Moved):
            return m.source
        found = self.sources.get(id(m))
        if found is None:
            found = self.sources[id(m)] = meaning_source(self.algebra, m)
        return found

    def cells(self, m: Meaning, fits: Fits) -> None:
        """Check every box of a claim, cutting it where a step needs that."""
        if 0 in m.extents:
            return
        k = len(m.dims)
        for c in m.cells:
            whole = self._box(m.dims, c)

            def look(r: Region, lin: Lin = c.lin) -> bool:
                return fits(r, r.index[:k], self.algebra.sum_of(lin, r.index[k:]))

            for _, follows in whole.visit(look, MAX_REGIONS, "a claim"):
                if not follows:
                    raise NotChecked("the claimed meaning does not follow from the operands")

    def _box(self, dims: tuple[tuple[Size, ...], ...], c: Cell) -> Region:
        """The region of a box: index functions of the dims, then of their factors. Equal boxes
        share their variables, which mean nothing outside one comparison."""
        found = self.boxes.get((dims, c.lo, c.hi))
        if found is None:
            names = [fresh() for _ in c.lo]
            axes = [variable(v) for v in names]
            todo = iter(axes)
            index = [place(d, [next(todo) for _ in d]) for d in dims]
            spans = dict(zip(names, zip(c.lo, c.hi, strict=True), strict=True))
            found = self.boxes[dims, c.lo, c.hi] = Region.of(spans, (*index, *axes))
        return found

    def equals(self, m: Meaning, s: Source) -> None:
        """Check that a claim says what ``s`` holds."""
        if s.shape != m.shape:
            raise NotChecked(f"the shape {s.shape} is claimed to be {m.shape}")
        self.cells(m, lambda r, at, x: self.algebra.equal(s.read(r, at), x, r))

    def no_pieces(self, m: Meaning) -> None:
        if m.base is not None:
            raise NotChecked("an integer view of an input")
