"""Evaluate the nodes of one graph in order; repeated layers are evaluated once or twice.

A layer that is the one before it up to the names of its inputs has the same meanings up to those
names, because evaluation never depends on a name. What it does depend on is checked:

* the two runs of nodes are equal but for the values they read from outside;
* the outside values are equal up to a renaming of atoms, one to one;
* an atom from outside whose definition was looked at is renamed to one that looks the same;
* every instance that was found in the naming table is there under its new name.

Then the sequential side makes the renamed atoms, and the distributed side takes over the renamed
meanings. If any check fails the layer is evaluated like everything else.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shardproof.infer.blocks import Val
from shardproof.infer.meanings import Meanings
from shardproof.infer.naming import Def, Recording
from shardproof.infer.rename import Renaming
from shardproof.ir.graph import Graph, Node, Value
from shardproof.lemmas import names as lemmas
from shardproof.ops.base import EXP, LOG

if TYPE_CHECKING:
    from shardproof.infer.collect import CollectSpmd
    from shardproof.infer.run import Runner

MIN_PERIOD = 6
MIN_REPEATS = 3
OPENED = frozenset(("prod", "sum", "ge", "eq", "power", EXP, LOG))


@dataclass(slots=True)
class CopiedLayer:
    """What the sequential side made for a layer copied from one so many layers before: the
    renaming of atoms, and the spellings (atom, identity of its definition) that were renamed."""

    atoms: dict[int, int] = field(default_factory=dict)
    spellings: set[tuple[int, int]] = field(default_factory=set)

    def has(self, atoms: dict[int, int], atom: int, d: Def) -> bool:
        """Whether the renaming ``atoms`` gives this spelling the name that the sequential side
        gave it: then it was added to the table when the layer was made."""
        if (atom, id(d)) not in self.spellings or atoms.get(atom) != self.atoms.get(atom):
            return False
        mine = self.atoms
        for lin in d.operands:
            for t, _ in lin:
                if t.restr or atoms.get(t.atom, t.atom) != mine.get(t.atom, t.atom):
                    return False
        return True


@dataclass(frozen=True, slots=True)
class Repeats:
    """``count`` runs of ``period`` nodes each, from node ``first``."""

    first: int
    period: int
    count: int


@dataclass(frozen=True, slots=True)
class Copied:
    """The run of ``period`` nodes from ``at`` took over the meanings of that from ``like``:
    ``made`` are the atoms made there with their new names, ``outside`` the others that were
    renamed. ``where`` is the graph, ``distance`` how many layers lie between."""

    where: Any
    at: int
    like: int
    period: int
    distance: int
    made: dict[int, int]
    outside: dict[int, int]


class Replayer:
    """Runs a graph whose nodes stand in execution order."""

    def __init__(
        self,
        runner: Runner,
        graph: Graph,
        env: Meanings,
        where: Any,
        collect: CollectSpmd | None = None,
    ) -> None:
        self.runner, self.graph, self.env, self.where = runner, graph, env, where
        self.collect = collect
        self.table = runner.ev.table

    def run(self) -> None:
        nodes = self.graph.nodes
        repeats = find_repeats(nodes)
        if repeats is None:
            self._nodes(nodes)
            return
        self._nodes(nodes[: repeats.first])
        base: Segment | None = None
        first = distance = 0
        for k in range(repeats.count):
            at = repeats.first + k * repeats.period
            segment = Segment(nodes[at : at + repeats.period])
            distance += 1
            atoms = None if base is None else self._copy(base, segment, distance)
            if base is None or atoms is None:
                self._evaluate(segment)
                base, first, distance = segment, at, 0
                continue
            made = {a: atoms[a] for a, _ in base.record.made} if base.record is not None else {}
            outside = {a: b for a, b in atoms.items() if a != b and a not in made}
            self.runner.copied.append(
                Copied(self.where, at, first, repeats.period, distance, made, outside)
            )
        self._nodes(nodes[repeats.first + repeats.count * repeats.period :])

    def _nodes(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.table.site = (self.where, node)
            if self.collect is not None and "group" in node.attrs:
                vals = self.runner.spmd_collective(node, self.env, self.collect)
            else:
                vals = self.runner.node(node, self.env)
            for v, val in zip(node.outputs, vals, strict=True):
                self.env[v] = val

    def _evaluate(self, segment: Segment) -> None:
        """Evaluate a layer and record what it did. Sums from outside stay closed, so that what
        is found does not depend on how the layer's input came about."""
        ev = self.runner.ev
        outside = {t.atom for v in segment.outside for c in self.env[v].cells for t, _ in c.lin}
        self.table.closed = frozenset(outside)
        self.table.record = record = Recording()
        state = self._state()
        try:
            self._nodes(segment.nodes)
        finally:
            self.table.closed = frozenset()
            self.table.record = None
        segment.record = record
        segment.plain = state == self._state()
        segment.undefined = {a for a, _ in record.made if a in ev.undefined}

    def _state(self) -> tuple[Any, ...]:
        """Facts outside the table that an evaluation may change."""
        ev = self.runner.ev
        return (
            len(ev.lookups.assumed),
            dict(ev.known.ranges),
            dict(ev.known.spans),
            len(ev.products.assumed),
            ev.opaque_calls,
            dict(self.runner.unknown),
        )

    # ---- copies

    def _copy(self, before: Segment, segment: Segment, distance: int) -> dict[int, int] | None:
        """Take over the meanings of an evaluated layer, ``distance`` layers before; the renaming
        of its atoms, or None if it is no copy."""
        if before.record is None or not before.plain or not before.same_shape(segment):
            return None
        moved = self._match_outside(before, segment)
        if moved is None or not self._alike(moved, before.record):
            return None
        atoms = dict(moved)
        defining = self.table.defining
        if not defining and not self._follow(atoms, before.record, distance):
            return None
        self._make(atoms, before, segment)
        self.table.site = None  # what follows is about the layer, not about one of its nodes
        renaming = Renaming(atoms)
        layer = None if defining else self.runner.ev.layers.get(distance)
        if not all(self._found_again(renaming, layer, hit) for hit in before.record.hits):
            return None
        for a, b in zip(before.nodes, segment.nodes, strict=True):
            self.runner.opened.like[b] = (renaming, a)
            for v, w in zip(a.outputs, b.outputs, strict=True):
                self.env.later(w, renaming, v)
        if defining:
            made = self.runner.ev.layers.setdefault(distance, CopiedLayer())
            made.atoms.update(atoms)
            made.spellings.update((a, id(d)) for _, a, d in before.record.spellings)
        self.runner.ev.copied_layers += 1
        self.table.fire(lemmas.REPEATED_LAYER)
        return atoms

    def _match_outside(self, before: Segment, segment: Segment) -> dict[int, int] | None:
        """The renaming that makes the outside values of one layer those of the next."""
        moved: dict[int, int] = {}
        for a, b in zip(before.outside, segment.outside, strict=True):
            if not _match_value(self.env[a], self.env[b], moved):
                return None
        return moved if len(set(moved.values())) == len(moved) else None

    def _alike(self, moved: dict[int, int], record: Recording) -> bool:
        """Whether outside atoms are to an evaluation what they are under their new names: the same
        flags, no known range or value, and the same kind of definition where that was looked at
        (sums are closed here, so of those only the kind was seen)."""
        facts = self.runner.ev.known
        known = {*facts.ranges, *facts.spans, *self.table.complete}
        if any(a in known for a, _ in record.made):
            return False
        for a, b in moved.items():
            if a == b:
                continue
            x, y = self.table.atoms[a], self.table.atoms[b]
            if (x.guard, x.boolean, x.rank_symbols) != (y.guard, y.boolean, y.rank_symbols):
                return False
            if a in known or b in known or facts.range(a) != facts.range(b):
                return False
            infinite = self.runner.ev.infinite
            if infinite.read(a) or infinite.read(b):
                return False
            if a in record.observed and not _same_look(x.definition, y.definition):
                return False
        return True

    def _follow(self, atoms: dict[int, int], record: Recording, distance: int) -> bool:
        """Extend the renaming of the distributed side to the sequential atoms of the layer."""
        layer = self.runner.ev.layers.get(distance)
        nxt = layer.atoms if layer is not None else {}
        for a, b in atoms.items():
            if a != b and nxt.get(a) != b:
                return False
        made = {a for a, _ in record.made}
        for _, a, _ in record.hits:
            if a not in atoms and a not in made and a in nxt:
                atoms[a] = nxt[a]
        return True

    def _make(self, atoms: dict[int, int], before: Segment, segment: Segment) -> None:
        """Make the renamed atoms of a layer and their spellings."""
        assert before.record is not None
        if all(a == b for a, b in atoms.items()):
            atoms.update((a, a) for a, _ in before.record.made)
            return
        counterpart = {id(a): b for a, b in zip(before.nodes, segment.nodes, strict=True)}
        renaming = Renaming(atoms)
        for a, d in before.record.made:
            old = self.table.atoms[a]
            node = counterpart.get(id(old.site[1]))
            self.table.site = (self.where, node)
            name = (node.source or node.outputs[0].name) if node is not None else old.name
            new = self.table.fresh(name, definition=renaming.definition(d) if d else None)
            fresh = self.table.atoms[new]
            fresh.boolean, fresh.guard = old.boolean, old.guard
            fresh.rank_symbols = old.rank_symbols
            atoms[a] = new
            if a in before.undefined:
                self.runner.ev.undefined.add(new)
        renaming = Renaming(atoms)
        for key, atom, d in before.record.spellings:
            self.table.add_spelling(
                renaming.key(key), atoms.get(atom, atom), renaming.definition(d)
            )

    def _found_again(
        self, renaming: Renaming, layer: CopiedLayer | None, hit: tuple[Any, int, Def]
    ) -> bool:
        """Whether an instance that was found is in the table under its new name."""
        key, atom, d = hit
        if layer is not None and layer.has(renaming.atoms, atom, d):
            return True
        return self.table.has_spelling(
            renaming.key(key), renaming.atoms.get(atom, atom), renaming.definition(d)
        )


def _same_look(a: Def | None, b: Def | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.fn == b.fn and a.fn not in OPENED


class Segment:
    """A run of nodes that may be a layer."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.record: Recording | None = None
        self.plain = False
        self.undefined: set[int] = set()
        inside = {v for n in nodes for v in n.outputs}
        self.outside = list(dict.fromkeys(v for n in nodes for v in n.inputs if v not in inside))

    def same_shape(self, other: Segment) -> bool:
        """Whether two runs of equal signatures (operators, attributes, types) are also wired
        alike, so that they are equal but for the values they read from outside."""
        if len(self.outside) != len(other.outside):
            return False
        pair: dict[Value, Value] = dict(zip(self.outside, other.outside, strict=True))
        for a, b in zip(self.nodes, other.nodes, strict=True):
            if len(a.inputs) != len(b.inputs) or [pair.get(v) for v in a.inputs] != list(b.inputs):
                return False
            for v, w in zip(a.outputs, b.outputs, strict=True):
                pair[v] = w
        return True


def _match_value(a: Val, b: Val, moved: dict[int, int]) -> bool:
    if a.dims != b.dims or len(a.cells) != len(b.cells) or (a.index is None) != (b.index is None):
        return False
    if a.index is not None and (
        a.index.pieces != b.index.pieces or not _match_value(a.index.base, b.index.base, moved)
    ):
        return False
    for x, y in zip(a.cells, b.cells, strict=True):
        if x.lo != y.lo or x.hi != y.hi or len(x.lin) != len(y.lin):
            return False
        for (t, c), (u, k) in zip(x.lin, y.lin, strict=True):
            if c != k or t.ax != u.ax or t.off != u.off or len(t.restr) != len(u.restr):
                return False
            if moved.setdefault(t.atom, u.atom) != u.atom:
                return False
            if Renaming(moved).term(t).restr != u.restr:
                return False
    return True


# ---------------------------------------------------------------- finding repeats


def find_repeats(nodes: list[Node]) -> Repeats | None:
    """The longest repetition of a run of nodes, by operators, attributes and result types."""
    number: dict[Any, int] = {}
    sigs = [number.setdefault(_signature(n), len(number)) for n in nodes]
    where: dict[int, list[int]] = defaultdict(list)
    for k, s in enumerate(sigs):
        where[s].append(k)
    gaps: Counter[int] = Counter()
    for places in where.values():
        gaps.update(b - a for a, b in itertools.pairwise(places))
    best: Repeats | None = None
    for period, _ in gaps.most_common(6):
        found = _longest_run(sigs, period)
        if found is not None and (best is None or _covers(found) > _covers(best)):
            best = found
    return best


def _covers(r: Repeats) -> tuple[int, int]:
    return (r.period * r.count, -r.period)


def _longest_run(sigs: list[int], period: int) -> Repeats | None:
    if period < MIN_PERIOD:
        return None
    best: Repeats | None = None
    start = 0
    for k in range(len(sigs) - period + 1):
        if k < len(sigs) - period and sigs[k] == sigs[k + period]:
            continue
        count = (k - start) // period + 1
        if count >= MIN_REPEATS and (best is None or count > best.count):
            best = Repeats(start, period, count)
        start = k + 1
    return best


def _signature(n: Node) -> Any:
    return (
        n.op,
        tuple(n.attrs.items()),
        tuple([v.type for v in n.outputs]),
        tuple([v.type.dtype for v in n.inputs]),
    )
