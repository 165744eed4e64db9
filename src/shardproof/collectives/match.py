"""Match the collectives of all ranks: one global execution order, or protocol findings.

The ranks are run in lock-step on paper. A rank stops at a collective until every member of its
group has arrived at its next collective over the same ranks; the calls that meet are compared
(:mod:`shardproof.collectives.agree`) and become one :class:`CollectiveStep`.

Model of blocking, chosen so that a program passes only if it runs on every legal backend:

- A collective blocks where it stands. With attribute ``async`` = True it is only *issued* there,
  in the order of its group, and blocks at the ``wait`` of its result.
- ``send`` is a rendezvous: it blocks until the matching ``recv`` is reached. With ``async`` =
  True it is buffered and blocks at the ``wait_sent`` of its ``handle`` only, but must be received
  before the program ends.
- ``recv`` blocks until the matching ``send`` is reached; with ``async`` = True at its ``wait``.
- Calls are matched within one communicator only: that of a group's members and ``comm``, which
  tells process groups over the same ranks apart. Messages of one (source, destination, tag) are
  matched in order, collectives in program order.
- Any use of an in-flight result other than ``wait`` (or returning it) is a finding. Results are
  in flight only where ``async`` is True: functional dumps, where every result goes through
  ``wait``, carry no such attribute. Writing to an operand in flight cannot be expressed in SSA
  form, so it is for the frontends to refuse.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Union

from shardproof.collectives.agree import Member, alike, disagreement, group_of, pair_disagreement
from shardproof.collectives.errors import ProtocolError, Site, site
from shardproof.collectives.stuck import Arrival, explain_leftovers, explain_stuck
from shardproof.collectives.validate import (
    validate_concrete,
    validate_inside,
    validate_spmd,
)
from shardproof.ir.communicators import MESSAGES, communicator, ends, members
from shardproof.ir.graph import Graph, Node, Program, Value

COLLECTIVE_OPS = frozenset(
    ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send", "recv")
)


@dataclass(frozen=True, slots=True)
class LocalStep:
    """``node`` runs on ``rank`` alone; its operands have been computed by earlier steps."""

    rank: int
    node: Node


@dataclass(frozen=True, slots=True)
class CollectiveStep:
    """One collective, executed by all ``members`` (rank, node) at once, in group order.

    ``kind`` is the operator name of the members, or ``send_recv`` with members (sender,
    receiver). In an SPMD program there is one member, rank 0, and ``group`` has axis names.
    """

    kind: str
    members: tuple[Member, ...]
    group: tuple[int | str, ...]


Step = Union[LocalStep, CollectiveStep]  # noqa: UP007 - alias


@dataclass(slots=True)
class Schedule:
    """Every node of every graph exactly once, operands before uses. Complete only if there are
    no ``errors``; otherwise calls that did not fit, and all that depends on them, are left out."""

    steps: list[Step] = field(default_factory=list)
    errors: list[ProtocolError] = field(default_factory=list)


def is_collective(node: Node) -> bool:
    """Whether ``node`` communicates."""
    return node.op in COLLECTIVE_OPS


def is_async(node: Node) -> bool:
    """Whether ``node`` is a collective that is only issued where it stands."""
    return node.attrs.get("async") is True and node.op in COLLECTIVE_OPS


def rank_of(program: Program, k: int) -> int:
    """The global rank of the k-th graph."""
    rank = program.graphs[k].rank
    return k if rank is None else rank


def match(program: Program) -> Schedule:
    """The global execution order of ``program`` with all protocol findings."""
    if program.spmd:
        return _match_spmd(program)
    return _Matcher(program).run()


def _match_spmd(program: Program) -> Schedule:
    (graph,) = program.graphs
    out = Schedule(errors=validate_spmd(program, graph))
    out.errors += _uses_before_wait(0, graph)
    for node in graph.nodes:
        if is_collective(node):
            out.steps.append(CollectiveStep(node.op, ((0, node),), group_of(node)))
        else:
            out.steps.append(LocalStep(0, node))
    return out


def _uses_before_wait(rank: int, graph: Graph) -> list[ProtocolError]:
    """Consumers other than ``wait`` of results of collectives with ``async`` = True."""
    flying: dict[Value, Node] = {}
    found = []

    def report(origin: Node, where: Site, text: str) -> None:
        sites = (site(rank, origin, "issued here"), where)
        found.append(ProtocolError("use_before_wait", text, group_of(origin), sites))

    for node in graph.nodes:
        for v in node.inputs:
            if v in flying and node.op != "wait":
                text = f"{node.op} uses the result of {flying[v].op} before it was waited for"
                report(flying[v], site(rank, node, "used here"), text)
        if is_async(node):
            flying.update((v, node) for v in node.outputs)
    for out in graph.outputs:
        if out is not None and out in flying:
            node = flying[out]
            where = site(rank, node, "returned without a wait")
            report(node, where, f"the result of {node.op} is returned before it was waited for")
    return found


GroupKey = tuple[object, ...]


def _key(rank: int, node: Node) -> GroupKey:
    """Calls with equal keys are matched with each other, in order."""
    where = (members(node), communicator(node))
    if node.op in MESSAGES:
        return ("p2p", *ends(rank, node), node.attrs.get("tag", 0), *where)
    return ("group", *where)


def _participants(rank: int, node: Node) -> tuple[int, ...]:
    return ends(rank, node) if node.op in MESSAGES else group_of(node)  # type: ignore[return-value]


class _Matcher:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.graphs = {rank_of(program, k): g for k, g in enumerate(program.graphs)}
        self.pc = dict.fromkeys(self.graphs, 0)
        self.out = Schedule()
        # Calls issued and not yet matched, by key and rank; p2p ends are told apart by "role".
        self.queues: dict[GroupKey, dict[tuple[int, str], deque[Node]]] = defaultdict(
            lambda: defaultdict(deque)
        )
        self.pending: dict[Node, int] = {}  # issued, not matched
        self.blocked: dict[int, Node] = {}  # the unmatched call each stopped rank waits for
        self.producer: dict[Value, Node] = {}  # async results
        self.handles: dict[tuple[int, object], Node] = {}  # sends that are waited for
        self.classes = program.inner is not None
        self.skip: set[Node] = set()  # calls that validation refused: they match nothing
        self.bad_groups: set[GroupKey] = set()

    def communicates(self, node: Node) -> bool:
        """Whether ``node`` meets calls of other graphs; collectives inside a class do not."""
        if not is_collective(node):
            return False
        return not self.classes or all(isinstance(r, int) for r in group_of(node))

    def run(self) -> Schedule:
        errors = self.out.errors
        for rank, graph in self.graphs.items():
            refused = validate_concrete(rank, graph, set(self.graphs), self.communicates)
            self.skip |= {n for n, _ in refused}
            errors += [e for _, e in refused]
            errors += _uses_before_wait(rank, graph)
            if self.program.inner is not None:
                inside = [n for n in graph.nodes if is_collective(n) and not self.communicates(n)]
                errors += validate_inside(self.program.inner, rank, inside)
        progress = True
        while progress:
            progress = False
            for rank in self.graphs:
                progress |= self.advance(rank)
        # Once calls were matched wrongly, later calls stand at the wrong place: being stuck is
        # then a consequence and not a second finding.
        if not any(e.kind != "use_before_wait" for e in errors):
            errors += explain_stuck(self.arrivals(), set(self.graphs) - set(self.blocked))
            if not self.blocked:
                errors += explain_leftovers(self.arrivals())
        if errors:
            self.out.steps = self.runnable()
        return self.out

    def runnable(self) -> list[Step]:
        """The steps whose operands are all computed by kept steps."""
        known = {v for g in self.graphs.values() for v in g.inputs}
        kept: list[Step] = []
        for step in self.out.steps:
            nodes = [step.node] if isinstance(step, LocalStep) else [n for _, n in step.members]
            if all(v in known for n in nodes for v in n.inputs):
                known |= {v for n in nodes for v in n.outputs}
                kept.append(step)
        return kept

    def advance(self, rank: int) -> bool:
        """Run ``rank`` until it stops; whether it moved at all."""
        if rank in self.blocked:
            if self.blocked[rank] in self.pending:
                return False
            del self.blocked[rank]
        nodes, start = self.graphs[rank].nodes, self.pc[rank]
        while self.pc[rank] < len(nodes):
            node = nodes[self.pc[rank]]
            unfinished = self.first_unfinished(rank, node)
            if unfinished is not None:
                self.blocked[rank] = unfinished
                break
            self.pc[rank] += 1
            if not self.communicates(node):
                self.out.steps.append(LocalStep(rank, node))
            elif node not in self.skip:
                self.issue(rank, node)
                if node in self.pending and not is_async(node):
                    self.blocked[rank] = node
                    break
        return self.pc[rank] > start

    def first_unfinished(self, rank: int, node: Node) -> Node | None:
        """An in-flight call whose result ``node`` takes, or that it waits for; it must be complete
        before."""
        if node.op == "wait_sent":
            sent = self.handles.get((rank, node.attrs["handle"]))
            return sent if sent in self.pending else None
        for v in node.inputs:
            made_by = self.producer.get(v)
            if made_by is not None and made_by in self.pending:
                return made_by
        return None

    def issue(self, rank: int, node: Node) -> None:
        key = _key(rank, node)
        role = node.op if key[0] == "p2p" else ""
        self.queues[key][rank, role].append(node)
        self.pending[node] = rank
        self.producer.update((v, node) for v in node.outputs if is_async(node))
        if "handle" in node.attrs:
            self.handles[rank, node.attrs["handle"]] = node
        participants = _participants(rank, node)
        slots = (
            list(zip(participants, ("send", "recv"), strict=True))
            if role
            else [(r, "") for r in participants]
        )
        queues = self.queues[key]
        if all(queues.get(slot) for slot in slots):
            self.meet(key, tuple((slot[0], queues[slot].popleft()) for slot in slots))

    def meet(self, key: GroupKey, members: tuple[Member, ...]) -> None:
        for _, node in members:
            del self.pending[node]
        p2p = key[0] == "p2p"
        error = pair_disagreement(*members) if p2p else disagreement(members)
        if error is not None:
            if key not in self.bad_groups:
                self.out.errors.append(self.as_order_error(key, members, error))
            self.bad_groups.add(key)
            return
        kind = "send_recv" if p2p else members[0][1].op
        group = tuple(r for r, _ in members) if p2p else group_of(members[0][1])
        self.out.steps.append(CollectiveStep(kind, members, group))

    def as_order_error(
        self, key: GroupKey, members: tuple[Member, ...], error: ProtocolError
    ) -> ProtocolError:
        """``error``, or one about order where each member makes the other's call later on."""
        if key[0] == "p2p":
            return error
        unlike = [(r, n, m) for r, n in members for _, m in members if not alike(n, m)]
        if not unlike or not all(self.comes_later(r, key, other) for r, _, other in unlike):
            return error
        text = f"the members call their collectives in different orders: {error.message}"
        return ProtocolError("order", text, error.group, error.sites)

    def comes_later(self, rank: int, key: GroupKey, wanted: Node) -> bool:
        graph = self.graphs[rank]
        return any(
            self.communicates(n)
            and n not in self.skip
            and _key(rank, n) == key
            and alike(n, wanted)
            for n in graph.nodes[self.pc[rank] :]
        )

    def arrivals(self) -> list[Arrival]:
        """Every issued and unmatched call, with the ranks that have not arrived for it."""
        found = []
        for key, queues in self.queues.items():
            for (rank, role), queue in queues.items():
                for place, node in enumerate(queue):
                    slots = _participants(rank, node)
                    roles = ("send", "recv") if role else ("",) * len(slots)
                    absent = tuple(
                        r
                        for r, s in zip(slots, roles, strict=True)
                        if len(queues.get((r, s), ())) <= place and (r, s) != (rank, role)
                    )
                    stops = self.blocked.get(rank) is node
                    found.append(Arrival(rank, node, key, slots, absent, stops))
        return found
