"""From a wrong output back to the operator where things went wrong.

Walk from the output to operands that are odd themselves; an odd value whose operands are not odd
is where a cause enters. Integer and boolean values are not followed: a mask of ids is naturally
odd, and what it does to real values shows in those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from shardproof.collectives.match import CollectiveStep
from shardproof.diagnose.facts import FACTOR, ORDER, Facts, Oddity, is_partial, out_of_order
from shardproof.diagnose.shifts import Shifts
from shardproof.diagnose.suspects import Suspects
from shardproof.infer.blocks import Label, Term, Val
from shardproof.infer.coef import Coef
from shardproof.infer.run import Inference
from shardproof.infer.terms import innermost
from shardproof.ir.graph import Node, Value, is_float
from shardproof.ir.sizes import Size

Place = tuple[int, Value]  # (graph, value)


@dataclass(slots=True)
class Site:
    """An operator where a cause enters: ``rank``, ``node``, its output and operands, what is
    odd, and the position in the schedule. ``carriers`` are values that brought a wrong meaning
    to it, outermost first."""

    rank: int
    node: Node | None
    value: Value
    oddity: Oddity | None
    order: int
    operands: list[Place] = field(default_factory=list)
    carriers: list[Place] = field(default_factory=list)


class Tracer:
    """Dataflow of all ranks of one inference."""

    def __init__(self, inf: Inference, facts: Facts) -> None:
        self.inf, self.facts = inf, facts
        self.shifts, self.scales = Shifts(facts), Shifts(facts, scales=True)
        self._made: dict[Place, tuple[Node, int, list[Place]]] = {}
        self._index()
        self._behind_factor = self._behind(self._wrong_factors())

    def _wrong_factors(self) -> set[Place]:
        """The outputs that have a wrong factor."""
        graphs = self.inf.problem.distributed.graphs
        out = set()
        for j in self.inf.judged:
            odd = None if j.holds or j.found is None else self.facts.oddity(j.found)
            value = graphs[j.graph].output(j.obligation.dist_output)
            if odd is not None and odd.kind == FACTOR and value is not None:
                out.add((j.graph, value))
        return out

    def _behind(self, places: set[Place]) -> set[Place]:
        """The given values, and all that are made of them on their own ranks."""
        out = set(places)
        for rank in {rank for rank, _ in places}:
            for node in self.inf.problem.distributed.graphs[rank].nodes:
                if any((rank, v) in out for v in node.inputs):
                    out.update((rank, v) for v in node.outputs)
        return out

    def _index(self) -> None:
        for order, step in enumerate(self.inf.schedule.steps):
            if not isinstance(step, CollectiveStep):
                places = [(step.rank, x) for x in step.node.inputs]
                for v in step.node.outputs:
                    self._made[step.rank, v] = (step.node, order, places)
                continue
            inputs = [(r, x) for r, n in step.members for x in n.inputs]
            for r, n in step.members:
                for v in n.outputs:
                    self._made[r, v] = (n, order, inputs)

    def meaning(self, place: Place) -> Val | None:
        found: Val | None = self.inf.env[place[0]].get(place[1])
        return found

    def node(self, place: Place) -> Node | None:
        made = self._made.get(place)
        return made[0] if made else None

    def reduced(self) -> list[Place]:
        """What collectives work on."""
        return [p for n, _, operands in self._made.values() if "group" in n.attrs for p in operands]

    def operands(self, place: Place) -> list[Place]:
        made = self._made.get(place)
        return made[2] if made else []

    def sites(self, start: Place, wrong: Suspects) -> list[Site]:
        """Where causes enter on the way to ``start``, of which ``wrong`` is wrong, in execution
        order. A maximum that the sequential program does not have is the cause only where nothing
        else is."""
        out = self._walk(start, wrong, self.shifts)
        apart = any(self._scaled_apart((s.rank, s.value)) for s in out)
        if out and (apart or self._joined_later(out[0], start)):
            out = self._walk(start, wrong, self.scales)
        return out

    def _joined_later(self, site: Site, start: Place) -> bool:
        """Whether the parts of sums that a value holds are joined with others on the way to the
        end, so that their being parts is not the cause."""
        return not self._parts((site.rank, site.value)) <= self._parts(start)

    def _parts(self, place: Place) -> set[tuple[Label, frozenset[tuple[Size, Size]]]]:
        """The parts of named sums in a value, also those inside of what has no meaning; parts that
        are added up count as one."""
        v = self.meaning(place)
        todo = [c.lin for c in v.cells] if v is not None else []
        out: set[tuple[Label, frozenset[tuple[Size, Size]]]] = set()
        seen: set[int] = set()
        while todo:
            lin = todo.pop()
            added: dict[Label, set[tuple[Size, Size]]] = {}
            for t, _ in lin:
                for label, lo, hi in t.restr:
                    if self.facts.known_sum(label):
                        added.setdefault(innermost(label), set()).add((lo, hi))
                d = self.facts.table.definition(t.atom)
                if d is not None and t.atom not in seen and self.facts.table.is_foreign(t.atom):
                    seen.add(t.atom)
                    todo.extend(d.operands)
            out.update((label, frozenset(parts)) for label, parts in added.items())
        return out

    def _walk(self, start: Place, wrong: Suspects, shifts: Shifts) -> list[Site]:
        out: list[Site] = []
        seen: set[Place] = set()
        todo = [start]
        while todo:
            place = todo.pop()
            if place in seen:
                continue
            seen.add(place)
            odd = [p for p in self._blamed(place, wrong) if self._odd(p, shifts)]
            odd = [p for p in odd if self._inherited(p, place)]
            odd = [p for p in odd if is_float(p[1].dtype)] or odd[:1]
            stop = self._hides(place, odd) or self._mixes(place) or self._scaled_apart(place)
            if odd and not stop:
                todo.extend(odd)
            else:
                out.append(self.site(place))
        return sorted(out, key=lambda s: (self._extremum(s), s.order))

    def _extremum(self, site: Site) -> bool:
        v = self.meaning((site.rank, site.value))
        return v is not None and self.shifts.is_extremum(v)

    def _scaled_apart(self, place: Place) -> bool:
        """Whether parts of one sum that are scaled differently are added up here."""
        v = self.meaning(place)
        if v is None or not self.scales.mixed(v):
            return False
        operands = [self.meaning(p) for p in self.operands(place)]
        return not any(u is not None and self.scales.mixed(u) for u in operands)

    def _blamed(self, place: Place, wrong: Suspects) -> list[Place]:
        """The operands that can have brought what is wrong with a value: those that hold a term
        at fault, or all where the operator made that term itself."""
        operands = self.operands(place)
        meanings = [(p, self.meaning(p)) for p in operands]
        held = {t.atom for _, v in meanings if v is not None for t in _terms(v)}
        mine = self.meaning(place)
        if mine is not None:
            made = {t.atom for t in _terms(mine)} - held
            if made & wrong.foreign:
                return operands
        return [p for p, v in meanings if v is not None and wrong.has(v)] or operands

    def _inherited(self, operand: Place, place: Place) -> bool:
        """Whether a wrong factor of a value is that of the operand. A factor that changes on the
        way was put right, or wrong, by the operator in between; not where the operand is made of an
        output that has a wrong factor already (what an optimizer makes of a gradient)."""
        u, v = self.meaning(operand), self.meaning(place)
        if u is None or v is None or operand in self._behind_factor:
            return True
        odd = self.facts.oddity(u)
        if odd is None or odd.kind != FACTOR:
            # How pieces lie side by side makes no factor.
            own = self.facts.oddity(v)
            return own is None or own.kind != FACTOR or odd is None or odd.kind != ORDER
        mine = self.facts.ratios(v)
        given = self.facts.ratios(u, means=self._averages(place, mine))
        common = mine.keys() & given.keys()
        return not common or any(_alike_up_to_sign(mine[a], given[a]) for a in common)

    def _averages(self, place: Place, ratios: dict[int, set[Coef]]) -> bool:
        """Whether a mean over ranks is wrong by another factor than their number: the means over
        their parts then were so before. By their number it is the reduction that is another one."""
        node = self.node(place)
        if node is None or "group" not in node.attrs or node.attrs.get("op") != "avg":
            return False
        return not any(len(self.operands(place)) in found for found in ratios.values())

    def _hides(self, place: Place, odd: list[Place]) -> bool:
        """Whether every odd operand is an integer while the value is real: then the operator
        itself is the place to show."""
        return is_float(place[1].dtype) and not any(is_float(p[1].dtype) for p in odd)

    def _mixes(self, place: Place) -> bool:
        """Whether a collective combines partial sums other than by adding them up."""
        node = self.node(place)
        if (
            node is None
            or node.attrs.get("op", "sum") in ("sum", "avg")
            or "group" not in node.attrs
        ):
            return False
        meanings = [self.meaning(p) for p in self.operands(place)]
        return any(v is not None and self.facts.partials(v) for v in meanings)

    def _odd(self, place: Place, shifts: Shifts) -> bool:
        v = self.meaning(place)
        return v is not None and self.facts.oddity(v) is not None and not shifts.only(v)

    def site(self, place: Place) -> Site:
        made = self._made.get(place)
        v = self.meaning(place)
        odd = self.facts.oddity(v) if v is not None else None
        if made is None:
            return Site(place[0], None, place[1], odd, -1)
        node, order, operands = made
        site = Site(place[0], node, place[1], odd, order, operands)
        for p in operands:
            site.carriers.extend(self.carriers(p))
        return site

    def first_use(self, rank: int, name: str) -> Node | None:
        """The first operator with a source line that works on an input of a rank's graph, or on
        what was made of that without a line (a shard is gathered by the framework)."""
        graph = self.inf.problem.distributed.graphs[rank]
        reached = {v for v in graph.inputs if v.name == name}
        for node in graph.nodes:
            if reached & set(node.inputs):
                if node.origin.file:
                    return node
                reached.update(node.outputs)
        return None

    def carriers(self, place: Place) -> list[Place]:
        """The way a meaning took to ``place``: back through operators that only pass it on, to
        the one that made it what it is."""
        out = [place]
        while len(out) < 40:
            nxt = self._passed_on(out[-1])
            if nxt is None:
                return out
            out.append(nxt)
        return out

    def _passed_on(self, place: Place) -> Place | None:
        v = self.meaning(place)
        if v is None:
            return None
        atoms = {t.atom for c in v.cells for t, _ in c.lin}
        for p in self.operands(place):
            u = self.meaning(p)
            if u is None or (u is v and p[1] is place[1]):
                continue
            if {t.atom for c in u.cells for t, _ in c.lin} == atoms and self._alike(u, v):
                return p
        return None

    @staticmethod
    def _alike(u: Val, v: Val) -> bool:
        """Whether ``v`` can have its peculiarity from ``u``."""
        part_u = any(is_partial(t) for c in u.cells for t, _ in c.lin)
        part_v = any(is_partial(t) for c in v.cells for t, _ in c.lin)
        return part_u == part_v or not part_v or out_of_order(u.cells)


def _terms(v: Val) -> Iterable[Term]:
    return (t for c in v.cells for t, _ in c.lin)


def _alike_up_to_sign(a: set[Coef], b: set[Coef]) -> bool:
    return bool(a & b) or bool({k * Fraction(-1) for k in a} & b)
