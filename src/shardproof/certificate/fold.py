"""Whether one graph over rank symbols is, with a rank's coordinates put in, that rank's graph.

A proof about the folded graph is then a proof about every rank. Nothing has to be known about how
the fold was found: operators, wiring, types, attributes and groups are compared.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any

from shardproof.certificate.exact import NotChecked, same_attrs
from shardproof.certificate.schedule import one_group_a_message
from shardproof.ir.graph import Graph, Mesh, Node, Program
from shardproof.ir.sizes import Poly, Size, Symbol, only_symbol, substitute
from shardproof.spec.problem import Problem

PEER = {"send": "dst", "recv": "src"}
KINDS: dict[type, type] = {Poly: int, Fraction: int}


class Members:
    """The ranks of every evaluated graph, in the order of the inner mesh axes."""

    def __init__(self, mesh: Mesh, evaluated: Program) -> None:
        self.mesh = mesh
        inner = evaluated.mesh if evaluated.spmd else evaluated.inner or Mesh(())
        outer = Mesh(()) if evaluated.spmd else evaluated.mesh
        if sorted([*inner.axes, *outer.axes], key=str) != sorted(mesh.axes, key=str):
            raise NotChecked("the evaluated axes are not those of the mesh")
        self.inner = inner
        self.ranks: list[list[int]] = [[] for _ in range(_count(outer))]
        self.coordinates = [mesh.coordinates(r) for r in range(_count(mesh))]
        self.where: dict[int, tuple[int, int]] = {}
        self._groups: dict[Any, tuple[int, ...]] = {}
        found = {}
        for r, c in enumerate(self.coordinates):
            found[outer.rank(c), inner.rank(c)] = r
        for (k, place), r in sorted(found.items()):
            self.where[r] = (k, place)
            self.ranks[k].append(r)

    def values(self, rank: int) -> dict[Symbol, Size]:
        """The rank symbols' values on a rank."""
        c = self.coordinates[rank]
        return {only_symbol(self.inner.index(a)): c[a] for a, n in self.inner.axes if n != 1}

    def group(self, rank: int, group: tuple[Any, ...]) -> tuple[int, ...]:
        """The ranks that a group of axes, or of classes, is for one rank."""
        if (rank, group) not in self._groups:
            self._groups[rank, group] = self._group(rank, group)
        return self._groups[rank, group]

    def _group(self, rank: int, group: tuple[Any, ...]) -> tuple[int, ...]:
        if all(isinstance(g, str) for g in group):
            out = [self.coordinates[rank]]
            for a in group:
                n = self.mesh.extent(a)
                assert isinstance(n, int)
                out = [{**c, a: i} for c in out for i in range(n)]
            return tuple(self.coordinates.index(c) for c in out)
        if not all(isinstance(g, int) and 0 <= g < len(self.ranks) for g in group):
            raise NotChecked("a group of no axes and no classes")
        return tuple(self.ranks[g][self.where[rank][1]] for g in group)


def _count(mesh: Mesh) -> int:
    n = mesh.size
    if not isinstance(n, int):
        raise NotChecked("a symbolic mesh has no concrete ranks")
    return n


def check_fold(original: Problem, evaluated: Problem) -> None:
    """Whether a proof about ``evaluated`` is one about ``original``.

    Raises:
        NotChecked: some rank's graph, relation or expected output is not reproduced.
    """
    if evaluated.sequential is not original.sequential:
        raise NotChecked("the evaluated sequential graph is another one")
    program = evaluated.distributed
    members = Members(original.distributed.mesh, program)
    if not len(program.graphs) == len(members.ranks) == len(evaluated.relation):
        raise NotChecked("there are not as many graphs as classes of ranks")
    if len(original.distributed.graphs) != len(members.where):
        raise NotChecked("there are not as many graphs as ranks")
    one_group_a_message(original.distributed.graphs)
    for k, ranks in enumerate(members.ranks):
        graph, relation = Layout(program.graphs[k]), Layout(evaluated.relation[k])
        for r in ranks:
            same_graph(graph, original.distributed.graphs[r], members, r)
            same_graph(relation, original.relation[r], members, r)
    _same_obligations(original, evaluated, members)


def _same_obligations(original: Problem, evaluated: Problem, members: Members) -> None:
    if len(original.obligations) != len(evaluated.obligations):
        raise NotChecked("an obligation is missing")
    for ob, mine in zip(original.obligations, evaluated.obligations, strict=True):
        names = ("seq_output", "dist_output", "partial_over")
        if any(getattr(ob, n) != getattr(mine, n) for n in names):
            raise NotChecked("an obligation is another one")
        if len(ob.expected) != len(members.where) or len(mine.expected) != len(members.ranks):
            raise NotChecked("an obligation is not stated for every rank")
        layouts = [None if g is None else Layout(g) for g in mine.expected]
        for r, (k, _) in members.where.items():
            folded, one = layouts[k], ob.expected[r]
            if (folded is None) != (one is None):
                raise NotChecked("an output is returned by some ranks of a class only")
            if folded is not None and one is not None:
                same_graph(folded, one, members, r)


class Layout:
    """A graph as flat lists, which are compared at the speed of lists."""

    def __init__(self, g: Graph) -> None:
        number = {v: k for k, v in enumerate(g.values())}
        self.nodes = g.nodes
        self.names = [v.name for v in g.inputs]
        self.returned = [None if v is None else number[v] for v in g.outputs]
        self.output_names = g.output_names
        self.types = [v.type for v in number]
        self.ops = [n.op for n in g.nodes]
        self.arity = [(len(n.inputs), len(n.outputs)) for n in g.nodes]
        self.wiring = [number[v] for n in g.nodes for v in n.inputs]
        self.attrs = [n.attrs for n in g.nodes]
        self.kinds = _kinds([a for a in self.attrs if a and "group" not in a])

    @cached_property
    def ranked(self) -> list[int]:
        """The nodes with attributes in which the rank may occur."""
        attrs = enumerate(self.attrs)
        return [k for k, a in attrs if "group" in a or _symbolic(tuple(a.values()))]


def _kinds(attrs: list[dict[str, Any]]) -> list[list[Any]]:
    """The names and the types of attributes: 1 and true are equal, but not the same. A symbol
    stands for a number."""
    out: list[list[Any]] = [[name for a in attrs for name in a]]
    values = [x for a in attrs for x in a.values()]
    while values:
        out.append([KINDS.get(k, k) for k in map(type, values)])
        values = [y for x in values if isinstance(x, tuple) for y in x]
    return out


def _symbolic(x: Any) -> bool:
    return any(map(_symbolic, x)) if isinstance(x, tuple) else isinstance(x, Poly)


def same_graph(folded: Layout, one: Graph, members: Members, rank: int) -> None:
    """Compare a folded graph with that of one rank."""
    mine = Layout(one)
    if folded.names != mine.names or folded.types != mine.types:
        raise NotChecked(f"rank {rank} has other inputs, or values of other types")
    if folded.ops != mine.ops or folded.arity != mine.arity or folded.wiring != mine.wiring:
        raise NotChecked(f"rank {rank} has other operators than those that were checked")
    if folded.returned != mine.returned or folded.output_names != mine.output_names:
        raise NotChecked(f"rank {rank} returns other values")
    differ = set(folded.ranked)
    alike = folded.kinds == mine.kinds
    pairs = zip(folded.attrs, mine.attrs, strict=True)
    differ |= {k for k, (a, b) in enumerate(pairs) if a != b or not alike}
    values = members.values(rank)
    for k in differ:
        _same_attrs(folded.nodes[k], mine.nodes[k], members, rank, values)


def _same_attrs(a: Node, b: Node, members: Members, rank: int, values: Any) -> None:
    mine, theirs = dict(a.attrs), dict(b.attrs)
    group = mine.pop("group", None)
    if group is not None:
        _same_group(a.op, mine, theirs, group, members, rank)
    if not same_attrs(_at(mine, values), theirs):
        raise NotChecked(f"rank {rank}: {b.op} has other attributes than those that were checked")


def _same_group(
    op: str, mine: dict[str, Any], theirs: dict[str, Any], group: Any, members: Members, rank: int
) -> None:
    want = theirs.pop("group", None)
    ranks = members.group(rank, group)
    key = PEER.get(op, "src")
    peer = mine.pop(key, None)
    if peer is not None:
        if op in PEER or not isinstance(group[0] if group else None, str):
            # A class stands for this rank's like in it.
            target = members.group(rank, (peer,))[0]
        else:
            target = ranks[peer] if isinstance(peer, int) and 0 <= peer < len(ranks) else -1
        if target < 0 or theirs.pop(key, None) != target:
            raise NotChecked(f"rank {rank}: {op} has another peer")
    if op in PEER:  # messages are matched by their ends and tag, not by a group
        mine.pop("group_size", None), theirs.pop("group_size", None)
    elif ranks != want:
        raise NotChecked(f"rank {rank}: {op} joins the ranks {want}, not {ranks}")


def _at(x: Any, values: dict[Symbol, Size]) -> Any:
    if isinstance(x, Poly):
        return substitute(x, values)
    if isinstance(x, tuple):
        return tuple(_at(y, values) for y in x)
    return {k: _at(y, values) for k, y in x.items()} if isinstance(x, dict) else x
