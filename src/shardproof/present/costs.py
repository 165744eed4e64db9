"""Memory and traffic that the placements imply. Nothing is measured: sizes of tensors, freed after
their last use, and collectives as rings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shardproof.collectives.match import is_collective
from shardproof.ir.graph import Graph, Mesh, Node, Value
from shardproof.ops import base as alg
from shardproof.present.ranks import Member
from shardproof.report.view import Memory, Traffic

_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1,
          "u16": 2, "u32": 4, "u64": 8, "b8": 1, "c64": 8, "c128": 16, "f8e4m3": 1,
          "f8e5m2": 1}  # fmt: skip
_VIEWS = (alg.Identity, alg.Reshape, alg.Permute, alg.Slice, alg.Expand)
Key = tuple[str, str]


def bytes_of(v: Value, member: Member) -> int | None:
    """The size of a tensor on a rank, or None where it is not a number."""
    n = member.number(v.type.numel)
    return None if n is None else n * _BYTES[v.dtype]


def memory(graph: Graph, member: Member, label: str) -> Memory | None:
    """What one rank holds; None where a size is not a number."""
    size = {v: bytes_of(v, member) for v in graph.values()}
    if any(n is None for n in size.values()):
        return None
    known = {v: n for v, n in size.items() if n is not None}
    outputs = {v for v in graph.outputs if v is not None}
    return Memory(
        label,
        sum(known[v] for v in graph.inputs),
        sum(known[v] for v in outputs),
        _peak(graph, known, outputs),
    )


def _peak(graph: Graph, size: dict[Value, int], outputs: set[Value]) -> int:
    """The most bytes alive at once. Inputs and outputs stay; a view takes no memory and keeps
    what it looks at alive."""
    root: dict[Value, Value] = {v: v for v in graph.inputs}
    last: dict[Value, int] = {}
    for k, n in enumerate(graph.nodes):
        for v in n.inputs:
            last[root[v]] = k
        viewed = _viewed(n)
        for v in n.outputs:
            root[v] = root[viewed] if viewed is not None else v
            last.setdefault(root[v], k)
    kept = {root[v] for v in outputs} | set(graph.inputs)
    alive = sum(size[v] for v in graph.inputs)
    peak, ends = alive, _ends(last, kept)
    for k, n in enumerate(graph.nodes):
        alive += sum(size[v] for v in n.outputs if root[v] is v)
        peak = max(peak, alive)
        alive -= sum(size[v] for v in ends.get(k, ()))
    return peak


def _ends(last: dict[Value, int], kept: set[Value]) -> dict[int, list[Value]]:
    out: dict[int, list[Value]] = {}
    for v, k in last.items():
        if v not in kept:
            out.setdefault(k, []).append(v)
    return out


def _viewed(n: Node) -> Value | None:
    """What a node only looks at, if it makes nothing."""
    if len(n.outputs) != 1 or len(n.inputs) != 1 or is_collective(n):
        return None
    rule = alg.lookup(n.op).algebra(tuple(v.type for v in n.inputs), n.attrs)[0]
    same = n.inputs[0].dtype == n.outputs[0].dtype
    return n.inputs[0] if same and isinstance(rule, _VIEWS) else None


def fixed(graph: Graph) -> bool:
    """Whether all sizes are numbers, the same on every rank that runs the graph."""
    return all(isinstance(n, int) for v in graph.values() for n in v.shape)


# ---------------------------------------------------------------- traffic

_RING: dict[str, Callable[[int, int, int], int]] = {
    "all_reduce": lambda n, given, made: 2 * (n - 1) * given // n,
    "all_gather": lambda n, given, made: (n - 1) * given,
    "reduce_scatter": lambda n, given, made: (n - 1) * given // n,
    "all_to_all": lambda n, given, made: (n - 1) * given // n,
    "broadcast": lambda n, given, made: made,
    "send": lambda n, given, made: given,
}


def traffic(graphs: Iterable[tuple[Graph, Member]], mesh: Mesh, outer: Mesh) -> list[Traffic]:
    """Collectives by kind and ranks, of the rank that sends most of each. A group of numbers is
    one of ``outer``, the mesh of the graphs."""
    most: dict[Key, Traffic] = {}
    for graph, member in graphs:
        for key, t in _of_rank(graph, member, mesh, outer).items():
            if key not in most or t.sent > most[key].sent:
                most[key] = t
    return sorted(most.values(), key=lambda t: (-t.sent, t.kind, t.over))


def _of_rank(graph: Graph, member: Member, mesh: Mesh, outer: Mesh) -> dict[Key, Traffic]:
    out: dict[Key, Traffic] = {}
    for n in graph.nodes:
        if n.op not in _RING:
            continue
        given = sum(bytes_of(v, member) or 0 for v in n.inputs[:1])
        made = sum(bytes_of(v, member) or 0 for v in n.outputs[:1])
        over, ranks = _over(n, member, mesh, outer)
        t = out.setdefault((n.op, over), Traffic(n.op, over, 0, 0, 0))
        t.count += 1
        t.payload += max(given, made)
        t.sent += _RING[n.op](max(ranks, 1), given, made)
    return out


def _over(n: Node, member: Member, mesh: Mesh, outer: Mesh) -> tuple[str, int]:
    """The ranks that a collective joins, as mesh axes where they are such, and how many."""
    group = n.attrs.get("group")
    if n.op == "send":
        return "pairs", 2
    if not isinstance(group, tuple):
        return "", 1
    if all(isinstance(g, str) for g in group):
        size = 1
        for a in group:
            size *= member.number(mesh.extent(str(a))) or 1
        return ", ".join(map(str, group)), size
    return _axes(group, outer) or f"{len(group)} ranks", len(group)


def _axes(group: tuple[object, ...], mesh: Mesh) -> str:
    """The mesh axes along which the ranks of a group differ, where it is all along them."""
    ranks = [r for r in group if isinstance(r, int)]
    if len(ranks) != len(group) or not isinstance(mesh.size, int) or max(ranks) >= mesh.size:
        return ""
    at = [mesh.coordinates(r) for r in ranks]
    axes = [a for a, _ in mesh.axes if len({c[a] for c in at}) > 1]
    size = 1
    for a in axes:
        n = mesh.extent(a)
        size *= n if isinstance(n, int) else 1
    return ", ".join(axes) if size == len(ranks) else ""
