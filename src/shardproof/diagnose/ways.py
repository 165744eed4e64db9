"""Where on the way to a cause things were decided: which part of a tensor an operand is, which
factor it has, which integers bound it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from shardproof.diagnose.classify import Cause
from shardproof.diagnose.facts import FACTOR, Facts
from shardproof.diagnose.trace import Place, Site, Tracer
from shardproof.infer.blocks import Val
from shardproof.infer.coef import Coef, format_coef
from shardproof.infer.naming import UNIT
from shardproof.ir.graph import Node, Value, is_float

MAX_STEPS = 6
MAX_VISITED = 400
# Codes of causes in which the parts that meet do not belong together, and in which a factor is
# wrong.
MISPLACED = ("SP113", "SP114", "SP115", "SP117")
FACTORS = ("SP111", "SP112")
PLACING = ("slice", "concat", "all_gather", "reduce_scatter", "all_to_all")
# Integer operators with a constant, and how it is written.
BOUNDS = {"compare": "value", "shift": "by", "iota": "start", "scale": "by"}
SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@dataclass(frozen=True, slots=True)
class Step:
    """A node on the way that changed the factor of the value by ``by``."""

    place: Place
    node: Node
    by: Coef


class Ways:
    """What to say about the way to a cause."""

    def __init__(self, facts: Facts, tracer: Tracer) -> None:
        self.facts, self.tracer = facts, tracer

    def notes(self, site: Site, cause: Cause) -> list[str]:
        """Notes for a finding, the most telling first."""
        out = []
        if cause.kind in FACTORS:
            out += self._factor_note(cause.wrong or (site.rank, site.value))
        elif cause.wrong is not None and (cause.kind not in MISPLACED or _communicates(site)):
            out += self._part_note(cause.wrong)
        else:
            for p in self._local(site):
                out += self._part_note(p)
        return out + self._bounds_note(site, cause)

    def _local(self, site: Site) -> list[Place]:
        """The operands on the site's own rank; all members' for a collective."""
        if _communicates(site):
            return site.operands[:4]
        return [p for p in site.operands if p[0] == site.rank][:4]

    # ---- parts

    def _part_note(self, place: Place) -> list[str]:
        found = self.placers(place)
        if not found:
            return []
        text = ", ".join(self._told(p) for p in found)
        return [f"which part %{place[1].name} is was decided at {text}"]

    def _told(self, place: Place) -> str:
        node = self.tracer.node(place)
        what = node.op if node is not None else "input"
        return f"%{node_name(node, place[1])} ({what})"

    def placers(self, start: Place) -> list[Place]:
        """The nearest operators and inputs from which a value has the part of the sequential
        value that it holds: slices, concatenations, gathers, scatters and sharded inputs."""
        out: list[Place] = []
        seen: set[Place] = set()
        todo = [start]
        while todo and len(seen) < MAX_VISITED and len(out) < MAX_STEPS:
            place = todo.pop(0)
            if place in seen:
                continue
            seen.add(place)
            node = self.tracer.node(place)
            if node is not None and node.op not in PLACING:
                todo += [p for p in self.tracer.operands(place) if p[0] == place[0]]
                continue
            if self._decides(place):
                out.append(place)
            if node is not None and node.op in ("slice", "concat"):
                # A part of a part: along another axis it may have been cut before.
                todo += [p for p in self.tracer.operands(place) if self._decides(p)][:2]
            else:
                # What was out of order before was not put in order here.
                todo += [p for p in self.tracer.operands(place) if self._misordered(p)][:1]
        return out

    def _decides(self, place: Place) -> bool:
        v = self.tracer.meaning(place)
        return v is not None and (self.facts.is_part(v) or self.facts.misordered(v))

    def _misordered(self, place: Place) -> bool:
        v = self.tracer.meaning(place)
        return v is not None and self.facts.misordered(v)

    # ---- factors

    def _factor_note(self, place: Place) -> list[str]:
        steps = self.factor_steps(place)[:MAX_STEPS]
        if not steps:
            return []
        text = ", ".join(
            f"%{node_name(s.node, s.place[1])} ({s.node.op}, times {format_coef(s.by)})"
            for s in steps
        )
        return [f"the factor of %{place[1].name} was made by {text}"]

    def factor_steps(self, start: Place) -> list[Step]:
        """The nodes that changed the factor on the way to ``start``, the last first: the factor
        of one named value, then that of the operand from which it comes."""
        out: list[Step] = []
        todo, seen = [start], {start}
        while todo and len(seen) < MAX_VISITED:
            way = self.tracer.carriers(todo.pop())
            for after, before in pairwise(way):
                by, node = self._changed(before, after), self.tracer.node(after)
                if by is not None and node is not None:
                    out.append(Step(after, node, by))
            above = [p for p in self.tracer.operands(way[-1]) if self._scaled(p) and p not in seen]
            todo += above
            seen.update(above)
        return out

    def constant(self, site: Site) -> Step | None:
        """The node that made the constant by which a value is multiplied wrongly: what a loss is
        scaled by comes to its gradients through constants."""
        if site.oddity is None or site.oddity.kind != FACTOR:
            return None
        t, k = site.oddity.terms[0]
        ratios = {k / right for right in self.facts.factors[t.atom]}
        made = [(site.rank, site.value)]
        changed = self.factor_steps(made[0])
        if any(s.by in ratios for s in changed):
            return None  # an operator on the way makes just this factor
        made += [s.place for s in changed]
        operands = dict.fromkeys(p for m in made for p in self.tracer.operands(m) if p[0] == m[0])
        steps = [s for p in operands for s in self._constants(p)]
        exact = [s for s in steps if s.by in ratios]
        return exact[0] if exact else steps[0] if len(steps) == 1 else None

    def _constants(self, place: Place) -> list[Step]:
        """The nodes that changed a constant on the way to ``place``, the last first."""
        out: list[Step] = []
        seen: set[Place] = set()
        while place not in seen and (value := self._number(place)):
            seen.add(place)
            node = self.tracer.node(place)
            above = [p for p in self.tracer.operands(place) if self._number(p)]
            if node is None or not above:
                break
            by = value / self._number(above[0])  # type: ignore[operator]
            if by not in (1, -1):
                out.append(Step(place, node, by))
            place = above[0]
        return out

    def _number(self, place: Place) -> Coef | None:
        """The value of a constant other than zero."""
        v = self.tracer.meaning(place)
        if v is None or len(v.cells) != 1 or len(v.cells[0].lin) != 1:
            return None
        t, k = v.cells[0].lin[0]
        return k if t.atom == UNIT and is_float(place[1].dtype) else None

    def _changed(self, before: Place, after: Place) -> Coef | None:
        """By how much an operator changed the factor of a named value, if it did."""
        u, v = self.tracer.meaning(before), self.tracer.meaning(after)
        if u is None or v is None:
            return None
        mine, given = _factors(v), _factors(u)
        changed = [mine[a] / given[a] for a in mine if a in given and mine[a] != given[a]]
        return changed[0] if changed else None

    def _scaled(self, place: Place) -> bool:
        v = self.tracer.meaning(place)
        odd = self.facts.oddity(v) if v is not None else None
        return odd is not None and odd.kind == FACTOR

    # ---- integers

    def _bounds_note(self, site: Site, cause: Cause) -> list[str]:
        """The offsets and bounds of ids that reach a lookup or a mask."""
        if _communicates(site) and cause.wrong is not None:
            operands = [cause.wrong]
        else:
            operands = [p for p in self._local(site) if p[0] == site.rank]
        start = [p for p in operands if not is_float(p[1].dtype)]
        if not start:
            start = [p for p in self._below(operands) if not is_float(p[1].dtype)]
        found = self._bounds(start)
        if not found:
            return []
        return [f"the indices on rank {operands[0][0]} pass {', '.join(found[:MAX_STEPS])}"]

    def _below(self, places: list[Place]) -> list[Place]:
        """Integer operands of the operators that made ``places``, back through what passes on."""
        ends = [self.tracer.carriers(p)[-1] for p in places]
        return [q for p in ends for q in self.tracer.operands(p) if q[0] == p[0]]

    def _bounds(self, start: list[Place]) -> list[str]:
        out: list[str] = []
        seen: set[Place] = set()
        todo = list(start)
        while todo and len(seen) < MAX_VISITED:
            place = todo.pop(0)
            node = self.tracer.node(place)
            if place in seen or node is None:
                continue
            seen.add(place)
            if node.op in BOUNDS:
                out.append(_bound(node, place[1]))
            todo += [p for p in self.tracer.operands(place) if not is_float(p[1].dtype)]
        return list(dict.fromkeys(out))


def _communicates(site: Site) -> bool:
    return site.node is not None and "group" in site.node.attrs


def _factors(v: Val) -> dict[int, Coef]:
    return {t.atom: k for c in v.cells for t, k in c.lin}


def _bound(node: Node, value: Value) -> str:
    constant = node.attrs.get(BOUNDS[node.op], "")
    sign = SIGNS.get(str(node.attrs.get("kind", "")), node.op)
    return f"%{node_name(node, value)} ({sign} {constant})"


def node_name(node: Node | None, value: Value | None) -> str:
    """The captured name of a node, or the name of a value where no operator was captured."""
    if node is not None and node.source:
        return node.source
    if value is not None:
        return value.name
    return node.outputs[0].name if node is not None and node.outputs else ""
