"""The table of named operator instances.

The sequential program is evaluated first and *names* every operator instance (an atom); the
distributed program then looks its instances up. A hash on the operator, its attributes and the
atoms of its operands keeps the candidates few; each candidate is decided by solving for the
affine substitution (:mod:`shardproof.infer.solve`). An instance that nobody named becomes a new
atom, which is *foreign* when the distributed program made it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, permutations, product
from typing import Any

from shardproof.infer.blocks import Box, Label, Lin, Term, Walk
from shardproof.infer.coef import Coef
from shardproof.infer.solve import Affine, Solution, solve
from shardproof.ir.sizes import Poly, Size, Symbol, Undecided, div_mod, divides, symbols
from shardproof.lemmas import names as lemmas

UNIT = 0  # the atom whose value is 1
IOTA = 1  # the atom whose value at index v is v

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Def:
    """What an atom is: a function of operands over free variables (the atom's axes, first) and
    bound variables (reduction indices). ``lo, hi`` are the ranges the defining program used."""

    fn: str
    attrs: tuple[Any, ...]
    operands: tuple[Lin, ...]
    lo: Box
    hi: Box
    n_free: int
    whole: frozenset[int]


@dataclass(slots=True)
class Atom:
    """``site`` is where it was first computed; ``foreign`` when the distributed side made it."""

    name: str
    definition: Def | None
    site: Any
    foreign: bool
    boolean: bool = False
    guard: bool = False
    rank_symbols: frozenset[Symbol] = frozenset()


@dataclass(frozen=True, slots=True)
class Instance:
    """An operator instance at hand, over the box ``[lo, hi)`` of its axes. ``single`` marks a
    reduction of which only one element is at hand, so that no axis is bound."""

    fn: str
    attrs: tuple[Any, ...]
    lo: Box
    hi: Box
    operands: tuple[Lin, ...]
    bound: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()
    commutative: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """What an atom equals where some of its reductions are complete, as a term over the atom's
    own axes. ``places`` maps operand places of the atom that may still carry partial sums to
    their place in the term's atom (None: the term is that operand)."""

    term: Term
    places: dict[int, int | None]


@dataclass(slots=True)
class Recording:
    """What an evaluation did with the table: atoms made (with their definition), spellings
    added, instances found, and atoms whose definition was looked at."""

    made: list[tuple[int, Def | None]] = field(default_factory=list)
    spellings: list[tuple[Key, int, Def]] = field(default_factory=list)
    hits: list[tuple[Key, int, Def]] = field(default_factory=list)
    observed: set[int] = field(default_factory=set)


class Table:
    """Atoms, their definitions, and the look-up of instances."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = [
            Atom("1", None, None, foreign=False),
            Atom("iota", None, None, foreign=False),
        ]
        self.defining = True
        self.site: Any = None
        self.name = ""
        self._index: dict[Key, list[tuple[int, Def]]] = {}
        self.closed: frozenset[int] = frozenset()
        self.complete: dict[int, Completion] = {}
        self.record: Recording | None = None
        self.fired: dict[str, int] = {}
        # The lemmas used for a node that was evaluated itself, for reports; no proof reads them.
        self.used: dict[Any, tuple[str, ...]] = {}

    def fire(self, lemma: str) -> None:
        """Count a use of a lemma, and note it at the node that is evaluated."""
        self.fired[lemma] = self.fired.get(lemma, 0) + 1
        if self.site is not None:
            at = self.site[1]
            before = self.used.get(at, ())
            if lemma not in before:
                self.used[at] = (*before, lemma)

    # ---- atoms

    def fresh(self, name: str, *, definition: Def | None = None, boolean: bool = False) -> int:
        ranks: frozenset[Symbol] = frozenset()
        if definition is not None and not self.defining:
            ranks = frozenset(_rank_symbols(definition, self.atoms))
        atom = Atom(name, definition, self.site, not self.defining, boolean, rank_symbols=ranks)
        self.atoms.append(atom)
        if self.record is not None and definition is None:
            self.record.made.append((len(self.atoms) - 1, None))
        return len(self.atoms) - 1

    def definition(self, atom: int) -> Def | None:
        if self.record is not None:
            self.record.observed.add(atom)
        return self.atoms[atom].definition

    def is_foreign(self, atom: int) -> bool:
        return self.atoms[atom].foreign

    def full(self, label: Label) -> tuple[Size, Size] | None:
        """The complete interval of a reduction of the sequential program. A reduction that only
        the distributed program knows has none: it is always printed with its interval."""
        while label[0] == "in":
            label = label[3]
        atom = self.atoms[label[1]]
        d = atom.definition
        return None if d is None or atom.foreign else (d.lo[label[2]], d.hi[label[2]])

    # ---- instances

    def find(self, inst: Instance, *, partial: bool = False) -> Term | None:
        """The named value that equals the instance, or None. With ``partial``, only a part of a
        named reduction will do."""
        inst = _sorted(inst)
        key = _key(inst)
        for atom, d in self._index.get(key, ()):
            term = self._match(inst, atom, d)
            if term is not None and (term.restr or not partial):
                if self.record is not None:
                    self.record.hits.append((key, atom, d))
                if not self.defining:
                    self.fire(lemmas.CONGRUENCE)
                return term
        return None

    def name_of(self, inst: Instance) -> Term:
        """Look the instance up, or make a new atom for it."""
        found = self.find(inst)
        return found if found is not None else self.define(inst)

    def define(self, inst: Instance) -> Term:
        inst = _sorted(inst)
        n = len(inst.lo)
        used = {j for lin in inst.operands for t, _ in lin for j, w in enumerate(t.ax) if w}
        free = [j for j in range(n) if j in used and j not in inst.bound]
        order = free + [j for j in inst.bound if j in used]
        operands = tuple(
            tuple((t._replace(ax=tuple(t.ax[j] for j in order)), c) for t, c in lin)
            for lin in inst.operands
        )
        d = Def(
            inst.fn,
            inst.attrs,
            operands,
            tuple(inst.lo[j] for j in order),
            tuple(inst.hi[j] for j in order),
            len(free),
            frozenset(order.index(j) for j in inst.whole if j in used),
        )
        shift: tuple[Size, ...] = (0,) * len(order)
        if not self.defining:
            d, shift = _rebased(d)
        atom = self.fresh(self.name or inst.fn, definition=d)
        self.add_spelling(_key(inst), atom, d)
        if self.record is not None:
            self.record.made.append((atom, d))
        place = {j: p for p, j in enumerate(free)}
        ax: tuple[Walk, ...] = tuple((place[j], 1) if j in place else None for j in range(n))
        restr: list[tuple[Label, Size, Size]] = []
        for p in range(len(free), len(order)):
            if not self.defining and p not in d.whole:
                restr.append(((d.fn, atom, p), d.lo[p], d.hi[p]))
        return Term(atom, ax, shift[: len(free)], tuple(restr))

    def alias(self, inst: Instance, target: Term, n_axes: int) -> None:
        """Another spelling of ``target``: the instance must be over the axes ``0..n_axes`` that
        ``target`` walks one to one."""
        inst = _sorted(inst)
        key = _key(inst)
        walks = list(target.ax)
        if any(w is not None and w[1] != 1 for w in walks):
            return
        axis_of = {w[0]: j for j, w in enumerate(walks) if w is not None}
        if len(axis_of) != len(target.off) or any(o != 0 for o in target.off):
            return
        order = [axis_of[p] for p in range(len(target.off))]
        used = {j for lin in inst.operands for t, _ in lin for j, w in enumerate(t.ax) if w}
        if used != set(order) or n_axes != len(walks):
            return
        d = Def(
            inst.fn,
            inst.attrs,
            tuple(
                tuple((t._replace(ax=tuple(t.ax[j] for j in order)), c) for t, c in lin)
                for lin in inst.operands
            ),
            tuple(inst.lo[j] for j in order),
            tuple(inst.hi[j] for j in order),
            len(order),
            frozenset(),
        )
        self.add_spelling(key, target.atom, d)

    def add_spelling(self, key: Key, atom: int, d: Def) -> None:
        """Let instances of ``key`` that match ``d`` be ``atom``."""
        self._index.setdefault(key, []).append((atom, d))
        if self.record is not None:
            self.record.spellings.append((key, atom, d))

    def has_spelling(self, key: Key, atom: int, d: Def) -> bool:
        return (atom, d) in self._index.get(key, ())

    def _match(self, inst: Instance, atom: int, d: Def) -> Term | None:
        for pairs in _pairings(d.operands, inst.operands, inst.commutative):
            try:
                found = solve(pairs, inst.lo, inst.hi, d.lo, d.hi)
                if found is not None:
                    term = self._place(inst, atom, d, found)
                    if term is not None:
                        return term
            except Undecided:
                continue
        return None

    def _place(self, inst: Instance, atom: int, d: Def, found: Solution) -> Term | None:
        n = len(inst.lo)
        ax: list[Walk] = [None] * n
        off: list[Size] = []
        for p in range(d.n_free):
            a = found.get(p, Affine(0))
            off.append(a.const)
            for x, s in a.slope.items():
                if x in inst.bound or ax[x] is not None:
                    return None
                ax[x] = (p, s)
        if not _whole_in_order(inst, d, found):
            return None
        restr = self._intervals(inst, atom, d, found)
        return None if restr is None else Term(atom, tuple(ax), tuple(off), restr)

    def _intervals(
        self, inst: Instance, atom: int, d: Def, found: Solution
    ) -> tuple[tuple[Label, Size, Size], ...] | None:
        """The part of each reduction of the named instance that the instance at hand covers."""
        out: list[tuple[Label, Size, Size]] = []
        taken: set[int] = set()
        for p in range(d.n_free, len(d.lo)):
            a = found.get(p, Affine(0))
            if taken & set(a.slope) or not set(a.slope) <= set(inst.bound):
                return None
            taken |= set(a.slope)
            span = interval(a, inst.lo, inst.hi)
            if span is None:
                return None
            if p in d.whole:
                if span != (d.lo[p], d.hi[p]):
                    return None
            elif self.full((d.fn, atom, p)) != span:
                out.append(((d.fn, atom, p), *span))
        # Every reduction index at hand must drive exactly one of the named instance, else a term
        # would be summed several times or not at all.
        return tuple(out) if taken == set(inst.bound) else None


def _whole_in_order(inst: Instance, d: Def, found: Solution) -> bool:
    """Whether the whole axes at hand are those of the named instance, complete and in the same
    order. A function of a whole axis (a scan, a sort) may depend on the order of its elements,
    and a function along one axis is another function along the next."""
    axes = sorted(inst.whole, key=lambda j: (j in inst.bound, j))
    at = 0
    for p in sorted(d.whole):
        a = found.get(p, Affine(0))
        run = axes[at : at + len(a.slope)]
        at += len(a.slope)
        width: Size = 1
        for j in reversed(run):
            if a.slope.get(j) != width:
                return False
            width = width * (inst.hi[j] - inst.lo[j])
        if not run or interval(a, inst.lo, inst.hi) != (d.lo[p], d.hi[p]):
            return False
    return at == len(axes)


def _rebased(d: Def) -> tuple[Def, tuple[Size, ...]]:
    """Shift every variable of a definition so that the first operand axis that it walks alone
    starts at zero; also returns the shifts. A function of a slice thereby becomes the same atom
    on every rank, read elsewhere."""
    shift: list[Size] = [0] * len(d.lo)
    for v in range(len(d.lo)):
        shift[v] = _own_offset(d, v)
    if not any(k != 0 for k in shift):
        return d, tuple(shift)

    def moved(t: Term) -> Term:
        off = list(t.off)
        for v, w in enumerate(t.ax):
            if w is not None:
                off[w[0]] = off[w[0]] - w[1] * shift[v]
        return t._replace(off=tuple(off))

    operands = tuple(tuple((moved(t), c) for t, c in lin) for lin in d.operands)
    lo = tuple(a + k for a, k in zip(d.lo, shift, strict=True))
    hi = tuple(a + k for a, k in zip(d.hi, shift, strict=True))
    return replace(d, operands=operands, lo=lo, hi=hi), tuple(shift)


def _own_offset(d: Def, v: int) -> Size:
    for lin in d.operands:
        for t, _ in lin:
            w = t.ax[v]
            if w is None or any(x is not None and x[0] == w[0] for x in t.ax[:v] + t.ax[v + 1 :]):
                continue
            off, s = t.off[w[0]], w[1]
            return off if s == 1 else div_mod(off, s)[0] if divides(s, off) else 0
    return 0


def interval(a: Affine, lo: Box, hi: Box) -> tuple[Size, Size] | None:
    """The image of a box under ``a`` when it is an interval hit exactly once each, else None."""
    width: Size = 1
    low = a.const
    left = dict(a.slope)
    while left:
        x = next((x for x, s in left.items() if s == width), None)
        if x is None:
            return None
        low = low + left.pop(x) * lo[x]
        width = width * (hi[x] - lo[x])
    return low, low + width


def _term_key(t: Term, c: Coef) -> tuple[Any, ...]:
    return (t.atom, c, t.restr)


def _sort_key(tc: tuple[Term, Coef]) -> tuple[Any, ...]:
    t, c = tc
    return (t.atom, str(c), str(t.restr))


def _sorted(inst: Instance) -> Instance:
    if all(len(lin) < 2 for lin in inst.operands):
        return inst
    operands = tuple(
        tuple(sorted(lin, key=_sort_key)) if len(lin) > 1 else lin for lin in inst.operands
    )
    return replace(inst, operands=operands)


def _key(inst: Instance) -> Key:
    ops = tuple(tuple(_term_key(t, c) for t, c in lin) for lin in inst.operands)
    return (inst.fn, inst.attrs, len(inst.bound) > 0 or inst.single, ops)


MAX_PAIRINGS = 24


def _pairings(
    named: Sequence[Lin], at_hand: Sequence[Lin], commutative: bool
) -> Iterable[list[tuple[Term, Term]]]:
    """Ways to pair the terms of equal key; only terms of one key leave a choice. The summands of
    one operand may always change places, whole operands only where the function is symmetric
    in them."""
    choices = [list(_orders(lin)) for lin in at_hand]
    if commutative and len(at_hand) > 1 and all(len(lin) == 1 for lin in at_hand):
        singles = [lin[0] for lin in at_hand]
        for order in islice(_orders(tuple(singles)), MAX_PAIRINGS):
            yield [(n[0][0], t) for n, (t, _) in zip(named, order, strict=True)]
        return
    for combo in islice(product(*choices), MAX_PAIRINGS):
        yield [
            (tn, ti)
            for lin_n, lin_i in zip(named, combo, strict=True)
            for (tn, _), (ti, _) in zip(lin_n, lin_i, strict=True)
        ]


def _orders(lin: Sequence[tuple[Term, Coef]]) -> Iterable[tuple[tuple[Term, Coef], ...]]:
    groups: list[list[tuple[Term, Coef]]] = []
    for t, c in lin:
        if groups and _term_key(*groups[-1][0]) == _term_key(t, c):
            groups[-1].append((t, c))
        else:
            groups.append([(t, c)])
    if all(len(g) == 1 for g in groups):
        yield tuple(lin)
        return
    for combo in product(*(permutations(g) for g in groups)):
        yield tuple(x for g in combo for x in g)


def _rank_symbols(d: Def, atoms: list[Atom]) -> Iterable[Symbol]:
    """Rank symbols that a definition mentions, itself or through its operands: such a value is a
    different tensor on every rank."""
    ranges = tuple((d.lo[p], d.hi[p]) for p in d.whole)
    for x in _sizes((d.attrs, ranges)):
        yield from (s for s in symbols(x) if s.extent is not None)
    for lin in d.operands:
        for t, c in lin:
            yield from atoms[t.atom].rank_symbols
            for x in _sizes((t.off, t.ax, t.restr, getattr(c, "num", 0), getattr(c, "den", 1))):
                yield from (s for s in symbols(x) if s.extent is not None)


def _sizes(x: Any) -> Iterable[Poly]:
    if isinstance(x, Poly):
        yield x
    elif isinstance(x, tuple):
        for y in x:
            yield from _sizes(y)
