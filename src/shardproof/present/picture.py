"""The neighbourhood of a finding: which operators to draw, and in which row and lane.

Every operator has a row of its own in its lane, so that nothing can overlap; an operator of the
sequential program stands in the row of the distributed one that answers to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shardproof.collectives.match import CollectiveStep
from shardproof.diagnose.classify import Cause
from shardproof.diagnose.evidence import Evidence
from shardproof.diagnose.near import sequential_node
from shardproof.diagnose.trace import Place, Site, Tracer
from shardproof.infer.blocks import Val
from shardproof.infer.describe import describe
from shardproof.ir.graph import Graph, Node, Value
from shardproof.present.graphs import Twins, rows_of, state_of
from shardproof.present.ranks import Ranks
from shardproof.report.view import BLAMED, PLAIN, Picture, PictureBox, PictureEdge

LANES = 4
IN_LANE = 12
IN_SEQUENTIAL = 11
BEHIND = 3
"""At most ``LANES * IN_LANE + IN_SEQUENTIAL`` boxes: below 60."""


@dataclass(slots=True)
class Lane:
    """The operators drawn of one rank, in execution order."""

    rank: int
    nodes: list[Node] = field(default_factory=list)


class Pictures:
    """Draws findings of one inference."""

    def __init__(self, evidence: Evidence, ranks: Ranks) -> None:
        self.evidence, self.ranks = evidence, ranks
        self.inf = evidence.inference
        self.program = self.inf.problem.distributed
        self.twins = Twins(evidence)
        self.sequential = rows_of(evidence.problem.sequential)
        self._joint = self._joints()
        self._place: dict[Node, int] = {}
        for g in self.program.graphs:
            self._place.update({n: k for k, n in enumerate(g.nodes)})

    def _joints(self) -> dict[Node, CollectiveStep]:
        """The step of every collective."""
        steps = [s for s in self.inf.schedule.steps if isinstance(s, CollectiveStep)]
        return {n: s for s in steps for _, n in s.members}

    def of(
        self, site: Site, ranks: list[int], tracer: Tracer, secondary: Node | None
    ) -> Picture | None:
        """The picture of a place that is at fault on ``ranks``, or None where there is no operator
        to show."""
        mine = self._near(site, tracer)
        if not mine:
            return None
        lanes = [Lane(k, self._counterparts(site.rank, mine, k)) for k in self._lanes(site)]
        self._add_partners(lanes)
        lanes = [lane for lane in lanes if lane.nodes]
        sequential = self._sequential(lanes, site, secondary)
        return Drawing(self, lanes, sequential, site, ranks, secondary).picture()

    def _near(self, site: Site, tracer: Tracer) -> list[Node]:
        """Operators of the site's rank: the way that the meaning took, what the site reads, what
        reads it."""
        graph = self.program.graphs[site.rank]
        found: dict[Node, None] = {}
        if site.node is not None:
            found[site.node] = None
        for n in _users(graph, site.value)[:BEHIND]:
            found[n] = None
        for n in self._back(site, tracer):
            if len(found) >= IN_LANE:
                break
            found[n] = None
        return sorted(found, key=lambda n: self._place[n])

    def _back(self, site: Site, tracer: Tracer) -> Iterable[Node]:
        """Operators before the site on its rank, breadth first, those on the way of the wrong
        meaning first."""
        todo: list[Place] = [*site.carriers, *site.operands]
        seen: set[Place] = set()
        while todo:
            place = todo.pop(0)
            if place in seen or place[0] != site.rank:
                continue
            seen.add(place)
            node = tracer.node(place)
            if node is not None:
                yield node
            todo += tracer.operands(place)

    def _lanes(self, site: Site) -> list[int]:
        """The site's own graph and others, those it communicates with first."""
        joined = [r for step in self._joint.values() for r, _ in step.members]
        near = self._joint.get(site.node) if site.node is not None else None
        first = [r for r, _ in near.members] if near is not None else []
        order = dict.fromkeys([site.rank, *first, *joined[:64], *range(len(self.program.graphs))])
        return sorted([k for k in order if k < len(self.program.graphs)][:LANES])

    def _counterparts(self, mine: int, nodes: list[Node], k: int) -> list[Node]:
        """The same operators on another rank: by place where both run the same program, else by
        captured name."""
        if k == mine:
            return nodes
        own, other = self.program.graphs[mine].nodes, self.program.graphs[k].nodes
        if len(own) == len(other):
            return [other[self._place[n]] for n in nodes if other[self._place[n]].op == n.op]
        names = {(n.source, n.op): n for n in other if n.source}
        found = [names[n.source, n.op] for n in nodes if (n.source, n.op) in names]
        return sorted(dict.fromkeys(found), key=lambda n: self._place[n])

    def _add_partners(self, lanes: list[Lane]) -> None:
        """Draw the other sides of drawn collectives, with what they send."""
        by_rank = {lane.rank: lane for lane in lanes}
        drawn = [n for lane in lanes for n in lane.nodes if n in self._joint]
        for r, n in (member for node in drawn for member in self._joint[node].members):
            lane = by_rank.get(r)
            if lane is None or n in lane.nodes:
                continue
            made = self.program.graphs[r].producers()
            near = [made[v] for v in n.inputs if v in made]
            room = IN_LANE - len(lane.nodes)
            new = [x for x in (n, *near) if x not in lane.nodes][: max(room, 0)]
            lane.nodes = sorted([*lane.nodes, *new], key=lambda x: self._place[x])

    def _sequential(self, lanes: list[Lane], site: Site, secondary: Node | None) -> list[Node]:
        """Sequential operators that the drawn ones answer to, and what the sequential program does
        with the operands of the place."""
        found = dict.fromkeys(self.readers(site)[:BEHIND])
        if secondary is not None:
            found[secondary] = None
        for lane in lanes:
            for n in reversed(lane.nodes):
                twin = self.twin(lane.rank, n)
                if twin is not None and len(found) < IN_SEQUENTIAL:
                    found[twin] = None
        order = {n: k for k, (_, n) in enumerate(self.sequential) if n is not None}
        return sorted(found, key=lambda n: order.get(n, 0))

    def readers(self, site: Site) -> list[Node]:
        """Sequential operators that read what the operands of a place answer to."""
        held = set()
        for k, v in site.operands:
            row = self.twins.of(self.inf.env[k].get(v), "") if k == site.rank else -1
            if row >= 0:
                held.add(self.sequential[row][0])
        graph = self.evidence.problem.sequential
        read = [n for n in graph.nodes if held & set(n.inputs)]
        return sorted(read, key=lambda n: -len(held & set(n.inputs)))

    def twin(self, k: int, node: Node) -> Node | None:
        """The sequential operator that a distributed one answers to."""
        val = self.meaning(k, node)
        row = self.twins.of(val, node.op) if val is not None else -1
        return self.sequential[row][1] if row >= 0 else None

    def meaning(self, k: int, node: Node) -> Val | None:
        found: Val | None = self.inf.env[k].get(node.outputs[0]) if node.outputs else None
        return found

    def joint(self, node: Node) -> CollectiveStep | None:
        return self._joint.get(node)

    def place(self, node: Node) -> int:
        return self._place[node]


class Drawing:
    """One picture: rows, boxes, edges."""

    def __init__(
        self,
        owner: Pictures,
        lanes: list[Lane],
        sequential: list[Node],
        site: Site,
        ranks: list[int],
        secondary: Node | None,
    ) -> None:
        self.owner, self.lanes, self.sequential = owner, lanes, sequential
        self.site, self.secondary = site, secondary
        self.ranks = {site.rank, *ranks}
        self.boxes: list[PictureBox] = []
        self.made: dict[tuple[int, Value], int] = {}
        self._row: dict[Node, int] = {}

    def picture(self) -> Picture:
        """Lay everything out."""
        rows = self._rows()
        edges = [*self._draw_sequential(), *self._draw_lanes()]
        names = ["sequential", *(self._title(lane.rank) for lane in self.lanes)]
        total = len(self.owner.program.graphs)
        left = total - len(self.lanes)
        text = f"{left} more rank{'s' if left > 1 else ''} not drawn" if left else ""
        return Picture(names, rows, self.boxes, edges, text)

    def _title(self, k: int) -> str:
        members = self.owner.ranks.members(k)
        return f"rank {members[0].rank}" if len(members) == 1 else "every rank"

    # ---- rows

    def _rows(self) -> int:
        """Give every operator its row: the lanes in step, the sequential ones beside them."""
        spine = next((x for x in self.lanes if x.rank == self.site.rank), self.lanes[0])
        rows: list[list[Node]] = [[n] for n in spine.nodes]
        for lane in self.lanes:
            if lane is not spine:
                partner = {self._key(row[0]): row for row in rows}
                _join(rows, [(n, partner.get(self._key(n))) for n in lane.nodes])
        answers: dict[Node, Node] = {}
        for lane in self.lanes:
            for n in lane.nodes:
                twin = self.owner.twin(lane.rank, n)
                if twin is not None:
                    answers.setdefault(twin, n)
        if self.site.node is not None:
            for n in self.owner.readers(self.site)[:1]:
                answers.setdefault(n, self.site.node)
        row_of = {n: row for row in rows for n in row}
        _join(rows, [(n, row_of.get(answers.get(n, n))) for n in self.sequential])
        self._row = {n: k for k, row in enumerate(rows) for n in row}
        return len(rows)

    def _key(self, n: Node) -> object:
        step = self.owner.joint(n)
        return id(step) if step is not None else (self.owner.place(n), n.op)

    # ---- boxes

    def _draw_sequential(self) -> list[PictureEdge]:
        edges = []
        for n in self.sequential:
            state = BLAMED if n is self.secondary else PLAIN
            edges += self._box(0, n, -1, state, "")
        return edges

    def _draw_lanes(self) -> list[PictureEdge]:
        edges = []
        bars: dict[int, int] = {}
        for column, lane in enumerate(self.lanes, 1):
            for n in lane.nodes:
                step = self.owner.joint(n)
                if step is not None and self._joins(n, step, bars, lane):
                    edges += self._edges(bars[id(step)], n, column, lane.rank)
                    continue
                edges += self._box(column, n, lane.rank, *self._told(lane.rank, n))
                if step is not None:
                    bars[id(step)] = len(self.boxes) - 1
                    self._widen(bars[id(step)], step, column)
        return edges

    def _joins(self, n: Node, step: CollectiveStep, bars: dict[int, int], lane: Lane) -> bool:
        """Whether the bar of a collective is drawn already; its lanes share one box."""
        bar = bars.get(id(step))
        if bar is None:
            return False
        for v in n.outputs:
            self.made[lane.rank, v] = bar
        state, text = self._told(lane.rank, n)
        box = self.boxes[bar]
        box.state, box.meaning = max(box.state, state), box.meaning or text
        return box.row == self._row[n]

    def _widen(self, bar: int, step: CollectiveStep, column: int) -> None:
        """Let the bar span all drawn lanes of its members, in the same row."""
        members = {n for _, n in step.members}
        lanes = [
            c
            for c, lane in enumerate(self.lanes, 1)
            if any(n in members and self._row[n] == self.boxes[bar].row for n in lane.nodes)
        ]
        self.boxes[bar].members = lanes
        self.boxes[bar].span = max(lanes) - column + 1
        if step.kind == "send_recv" and len(lanes) > 1:
            self.boxes[bar].op = "send to recv"

    def _told(self, k: int, n: Node) -> tuple[int, str]:
        val = self.owner.meaning(k, n)
        ev = self.owner.inf.evaluator
        text = describe(ev, val) if val is not None else ""
        at = self._row.get(self.site.node) if self.site.node is not None else None
        mine = k in self.ranks and self._row[n] == at
        return (BLAMED if mine else state_of(ev.table, val)), text

    def _box(self, column: int, n: Node, k: int, state: int, text: str) -> list[PictureEdge]:
        v = n.outputs[0] if n.outputs else None
        name, kind = n.source or (v.name if v else ""), str(v.type) if v else ""
        self.boxes.append(PictureBox(column, self._row[n], n.op, name, kind, text, state))
        number = len(self.boxes) - 1
        for out in n.outputs:
            self.made[k, out] = number
        return self._edges(number, n, column, k)

    def _edges(self, number: int, n: Node, column: int, k: int) -> list[PictureEdge]:
        sources = dict.fromkeys(self.made[k, v] for v in n.inputs if (k, v) in self.made)
        return [PictureEdge(s, number, column) for s in sources if s != number]


def _users(graph: Graph, value: Value) -> list[Node]:
    return [n for n in graph.nodes if value in n.inputs]


def secondary_node(evidence: Evidence, cause: Cause, tracer: Tracer) -> Node | None:
    """The sequential operator that a finding shows."""
    if cause.near is not None:
        return cause.near.node
    if cause.wrong is None:
        return None
    return sequential_node(evidence.inference, tracer.meaning(cause.wrong))


def _join(rows: list[list[Node]], nodes: list[tuple[Node, list[Node] | None]]) -> None:
    """Put nodes into the rows of their partners as far as that keeps their order, and into new
    rows between."""
    here = -1
    for n, row in nodes:
        k = next((i for i, x in enumerate(rows) if x is row), -1)
        if k > here:
            rows[k].append(n)
            here = k
        else:
            here += 1
            rows.insert(here, [n])
