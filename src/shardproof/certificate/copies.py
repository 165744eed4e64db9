"""Repeated layers: one is checked, and what was found holds for its copies.

A *template* is a run of nodes that is checked with what it reads from outside as unknowns: the
definitions of the atoms that its copies rename, and of all atoms that are spelled with these, are
hidden but for those made inside. What is shown then is shown for any values of the hidden atoms.
A *copy* is a run of nodes that is the template but for the values that it reads from outside, and
the meanings of these are the template's with atoms renamed. So the meanings of its results are
the template's, renamed; atoms made in the template have images whose definitions are renamed too.

Facts outside the definitions (ranges of ids, undefined contents, dependence on the rank) must be
the same for a hidden atom and its image, and the template must not have added any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import proxy

from shardproof.certificate.algebra import Noted
from shardproof.certificate.claims import IOTA, Atom, Cell, Label, Lin, Meaning, Term
from shardproof.certificate.exact import NotChecked, same_attrs
from shardproof.certificate.rules import Moved, Tensor
from shardproof.ir.graph import Node, Value

if TYPE_CHECKING:
    from shardproof.certificate.check import Checker


@dataclass(eq=False, slots=True)
class Template:
    """``period`` nodes of a graph from node ``at``. ``made`` are the atoms made there, ``moved``
    those that copies rename beside these; ``of`` is the sequential template that a distributed
    one names its values by."""

    graph: int
    at: int
    period: int
    made: tuple[int, ...]
    moved: tuple[int, ...]
    of: Template | None = None
    nodes: Sequence[Node] = ()
    plain: bool = False
    divisors: frozenset[int] = frozenset()

    def inside(self) -> set[int]:
        """Atoms whose definitions are seen though they are renamed."""
        return {*self.made, *(self.of.made if self.of is not None else ())}

    def renamed(self) -> set[int]:
        """All atoms that a copy may rename."""
        return {*self.inside(), *self.moved, *(self.of.moved if self.of is not None else ())}


@dataclass(eq=False, slots=True)
class Copy:
    """A copy from node ``at``; ``new`` are the images of the atoms made in the template."""

    template: Template
    at: int
    new: tuple[int, ...]
    of: Copy | None = None
    atoms: dict[int, int] = field(default_factory=dict)

    @property
    def graph(self) -> int:
        return self.template.graph

    @property
    def period(self) -> int:
        return self.template.period


Layer = Template | Copy


class Table(dict[Value, Tensor]):
    """The tensors of a graph; those of copies are made when they are asked for."""

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        self.later: dict[Value, tuple[Renaming, Value]] = {}

    def __missing__(self, v: Value) -> Tensor:
        renaming, like = self.later[v]
        self[v] = found = renaming.tensor(self[like])
        return found


class Copies:
    """The copies of one certificate."""

    def __init__(self, run: Checker) -> None:
        self.run: Checker = proxy(run)  # no cycle, so that all is freed when the check ends
        self.atoms = run.claims.atoms
        self.known_meanings: dict[Any, Meaning] = {}

    # ---- templates

    @contextmanager
    def closed(self, t: Template, nodes: Sequence[Node]) -> Iterator[None]:
        """Check the nodes of a template in this context."""
        run, algebra = self.run, self.run.algebra
        if len(nodes) != t.period or (t.of is not None and not t.of.plain):
            raise NotChecked("a layer that is not there")
        if list(t.made) != sorted({*t.made}):
            raise NotChecked("a layer whose atoms are not in the order of their definitions")
        seen, touched = t.inside(), t.renamed()
        view = algebra.atoms
        full = list(view)
        for k, a in enumerate(full):
            if k > IOTA and (k in touched or _mentions(a, touched)):
                touched.add(k)
                if k not in seen:
                    view[k] = Atom(a.name, "", (), (), (), (), a.n_free, ())
        checked, run.checked = run.checked, {}
        algebra.noted = noted = Noted()
        before = run.facts()
        try:
            yield
        finally:
            view[:] = full
            algebra.noted = None
        run.checked = checked
        t.nodes, t.divisors = nodes, frozenset(noted.divisors)
        t.plain = not noted.assumed and noted.owned <= seen and before == run.facts()

    # ---- copies

    def add(self, c: Copy, nodes: Sequence[Node], table: Table) -> None:
        """Check that ``nodes`` are a copy, and let their results mean what the template's do."""
        t = c.template
        if not t.plain or (t.of is None) != (c.of is None):
            raise NotChecked("a copy of a layer that was not checked on its own")
        if len(c.new) != len(t.made) or (c.of is not None and c.of.template is not t.of):
            raise NotChecked("a copy with other names than its layer")
        if c.of is not None:
            if not c.of.atoms:
                raise NotChecked("a copy of a sequential layer that was not checked")
            c.atoms = dict(c.of.atoms)
        c.atoms.update({0: 0, IOTA: IOTA})
        for v, w in outside(t.nodes, nodes):
            match(table[v], table[w], c.atoms, c.of.atoms if c.of is not None else {})
        self._alike(c)
        for a, b in zip(t.made, c.new, strict=True):
            self._make(c, a, b)
        self._facts(c)
        renaming = Renaming(self, c.atoms)
        for x, y in zip(t.nodes, nodes, strict=True):
            for v, w in zip(x.outputs, y.outputs, strict=True):
                if w in table:
                    raise NotChecked("a claim about a value of a copy")
                table.later[w] = (renaming, v)

    def _alike(self, c: Copy) -> None:
        """Whether outside atoms and their images are alike where that is no matter of their
        definitions, and whether all that are renamed were hidden."""
        t, run = c.template, self.run
        hidden = t.renamed()
        spelled = {x for a in t.of.made for x in _atoms(self.atoms[a])} if t.of else set()
        old = c.of.atoms if c.of is not None else {}
        ranges: tuple[dict[int, Any], ...] = (run.algebra.known, run.algebra.spans)
        domains = run.functions.domains
        sets = (run.algebra.boolean, domains.stated, domains.divisors)
        for a, b in c.atoms.items():
            if a == b or a in old:
                continue
            if a not in hidden or a in t.made or a in spelled:
                raise NotChecked("a copy that renames what its layer has looked at")
            if any(a in facts and facts.get(b) != facts[a] for facts in ranges):
                raise NotChecked("a copy that renames an atom of a known range")
            if run.algebra.range(a) != run.algebra.range(b):
                raise NotChecked("a copy that renames positions along another axis")
            if any(a in facts and b not in facts for facts in sets):
                raise NotChecked("a copy that renames a condition, or what has a value")
            if run.infinite.reads(a) or run.infinite.reads(b):
                raise NotChecked("a copy that renames infinities")
            if (a in run.undefined) != (b in run.undefined):
                raise NotChecked("a copy that renames undefined contents")
            if run.ranks.symbols_of(a, ()) != run.ranks.symbols_of(b, ()):
                raise NotChecked("a copy that renames what depends on the rank")

    def _make(self, c: Copy, a: int, b: int) -> None:
        """Let ``b`` be the image of ``a``."""
        run, d = self.run, self.atoms[a]
        taken = b in run.owner or b in run.ready or b in c.atoms
        if not 0 <= b < len(self.atoms) or taken or self.atoms[b].fn or b in run.images:
            raise NotChecked("a copy whose atoms have another meaning already")
        if a in c.atoms or d.n_free != self.atoms[b].n_free:
            raise NotChecked("an atom that is made in a layer and read from outside")
        run.images.add(b)
        if d.fn:
            operands = tuple(renamed(op, c.atoms) for op in d.operands)
            if any(t.atom >= b for op in operands for t, _ in op):
                raise NotChecked("a copy that is defined by later atoms")
            self.atoms[b] = Atom(
                self.atoms[b].name, d.fn, d.attrs, operands, d.lo, d.hi, d.n_free, d.whole
            )
            run.algebra.atoms[b] = self.atoms[b]
        elif a in run.owner:
            run.owner[b] = ("copy", b)
        c.atoms[a] = b

    def _facts(self, c: Copy) -> None:
        """What is known of the template's atoms is known of their images."""
        run, t = self.run, c.template
        domains = run.functions.domains
        for a in t.inside():
            b = c.atoms[a]
            for group in (run.undefined, run.differs, domains.stated):
                if a in group:
                    group.add(b)
            every: tuple[dict[int, Any], ...] = (run.algebra.linear, run.functions.axes)
            for facts in every:
                if a in facts and facts.setdefault(b, facts[a]) != facts[a]:
                    raise NotChecked("one function with two declarations")
        divisors = {c.atoms.get(a, a) for a in t.divisors}
        run.algebra.divisors |= divisors
        if t.graph == 0:
            domains.divisors |= divisors

    def interned(self, m: Meaning) -> Meaning:
        """One object for equal meanings of copies."""
        key = (m.dims, m.cells, id(m.base), m.pieces)
        return self.known_meanings.setdefault(key, m)


class Renaming:
    """The tensors of a template as those of a copy."""

    def __init__(self, copies: Copies, atoms: dict[int, int]) -> None:
        self.copies, self.atoms = copies, atoms
        self._made: dict[int, Tensor] = {}

    def tensor(self, x: Tensor) -> Tensor:
        """``x`` with atoms renamed."""
        found = self._made.get(id(x))
        if found is None:
            if isinstance(x, Moved):
                operands = list(map(self.tensor, x.operands))
                found = self.copies.run.rearranged(x.rule, operands, x.shape)
            else:
                found = self.meaning(x)
            self._made[id(x)] = found
        return found

    def meaning(self, m: Meaning) -> Meaning:
        cells = tuple(Cell(c.lo, c.hi, renamed(c.lin, self.atoms)) for c in m.cells)
        base = None if m.base is None else self.meaning(m.base)
        return self.copies.interned(Meaning(m.dims, cells, base, m.pieces))


# ------------------------------------------------------------------ helpers


def outside(a: Sequence[Node], b: Sequence[Node]) -> list[tuple[Value, Value]]:
    """The values that two runs of nodes read from outside, which are equal apart from these."""
    if len(a) != len(b):
        raise NotChecked("a copy of another length")
    inner = {v for n in b for v in n.outputs}
    pairs: dict[Value, Value] = {}
    out: list[tuple[Value, Value]] = []
    for x, y in zip(a, b, strict=True):
        if x.op != y.op or len(x.inputs) != len(y.inputs) or not same_attrs(x.attrs, y.attrs):
            raise NotChecked(f"{y.op} is not the operator of the layer that was checked")
        for v, w in zip(x.inputs, y.inputs, strict=True):
            if v not in pairs:
                if w in inner or v.type != w.type:
                    raise NotChecked("a copy that is wired otherwise than its layer")
                pairs[v] = w
                out.append((v, w))
            elif pairs[v] is not w:
                raise NotChecked("a copy that is wired otherwise than its layer")
        if [v.type for v in x.outputs] != [v.type for v in y.outputs]:
            raise NotChecked("a copy of other types")
        pairs.update(zip(x.outputs, y.outputs, strict=True))
    return out


def match(a: Tensor, b: Tensor, atoms: dict[int, int], old: dict[int, int]) -> None:
    """Extend a renaming so that it makes ``b`` of ``a``. Only atoms of ``old`` may be read in
    part and renamed."""
    if isinstance(a, Moved) and isinstance(b, Moved):
        if a.shape != b.shape or a.rule != b.rule or len(a.operands) != len(b.operands):
            raise NotChecked("a copy that reads another rearrangement")
        for x, y in zip(a.operands, b.operands, strict=True):
            match(x, y, atoms, old)
    elif isinstance(a, Meaning) and isinstance(b, Meaning):
        _match_meaning(a, b, atoms, old)
    else:
        raise NotChecked("a copy that reads a rearrangement, or does not")


def _match_meaning(a: Meaning, b: Meaning, atoms: dict[int, int], old: dict[int, int]) -> None:
    if (a.base is None) != (b.base is None) or (a.dims, a.pieces) != (b.dims, b.pieces):
        raise NotChecked("a copy that reads another tensor")
    if a.base is not None and b.base is not None:
        match(a.base, b.base, atoms, old)
    if [(c.lo, c.hi, len(c.lin)) for c in a.cells] != [(c.lo, c.hi, len(c.lin)) for c in b.cells]:
        raise NotChecked("a copy that reads a tensor of other pieces")
    for x, y in zip(a.cells, b.cells, strict=True):
        for (t, c), (u, k) in zip(x.lin, y.lin, strict=True):
            if c != k or atoms.setdefault(t.atom, u.atom) != u.atom or _term(t, atoms) != u:
                raise NotChecked("a copy that reads a tensor of another meaning")
            if t.restr and t.atom != u.atom and t.atom not in old:
                raise NotChecked("a copy that reads part of a sum")


def renamed(lin: Lin, atoms: dict[int, int]) -> Lin:
    return tuple((_term(t, atoms), c) for t, c in lin)


def _term(t: Term, atoms: dict[int, int]) -> Term:
    restr = tuple((_label(n, atoms), a, b) for n, a, b in t.restr)
    return t._replace(atom=atoms.get(t.atom, t.atom), restr=restr)


def _label(n: Label, atoms: dict[int, int]) -> Label:
    first = (n[0], atoms.get(n[1], n[1]), n[2])
    return (*first, _label(n[3], atoms)) if n[0] == "in" else first


def _atoms(a: Atom) -> Iterator[int]:
    return (t.atom for op in a.operands for t, _ in op)


def _mentions(a: Atom, atoms: set[int]) -> bool:
    return any(k in atoms for k in _atoms(a))
