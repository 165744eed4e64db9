"""Checks of single collective nodes: groups that exist, contain the rank, and have the declared
size. Nodes refused here are not matched, so that one wrong group is one finding."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from shardproof.collectives.agree import group_of, sizes_of
from shardproof.collectives.errors import ErrorKind, ProtocolError, site
from shardproof.ir.communicators import MESSAGES, communicator, ends, members
from shardproof.ir.graph import Graph, Mesh, Node, Program
from shardproof.ir.sizes import Poly, Size, only_symbol, product, substitute, symbols


def validate_concrete(
    rank: int, graph: Graph, ranks: set[int], is_collective: Callable[[Node], bool]
) -> list[tuple[Node, ProtocolError]]:
    """Nodes of one rank's graph that cannot take part in any collective, with the reason."""
    found = []
    for node in graph.nodes:
        if is_collective(node):
            reason = _concrete_reason(rank, node, ranks)
            if reason:
                kind, text = reason
                error = ProtocolError(kind, text, group_of(node), (site(rank, node),))
                found.append((node, error))
    return found


def _concrete_reason(rank: int, node: Node, ranks: set[int]) -> tuple[ErrorKind, str] | None:
    group = group_of(node)
    if any(not isinstance(r, int) for r in group):
        return "group", f"{node.op} over {group}: ranks expected in the graph of one rank"
    if len(set(group)) != len(group):
        return "group", f"{node.op} over {list(group)}: a rank occurs twice"
    if rank not in group:
        return "group", f"{node.op} over ranks {list(group)} is called by rank {rank}"
    size = node.attrs.get("group_size", len(group))
    if size != len(group):
        return "group_size", f"group_size {size}, but the group {list(group)} has {len(group)}"
    absent = [r for r in group if r not in ranks]
    if absent:
        return "group", f"{node.op} over ranks {list(group)}: there is no rank {absent[0]}"
    peer = node.attrs.get({"send": "dst", "recv": "src"}.get(node.op, ""), rank)
    if peer not in group:
        return "group", f"{node.op}: peer {peer} is not in the group {list(group)}"
    return None


def messages_differ(graphs: Sequence[Graph]) -> str:
    """Why messages (graphs in rank order) cannot be matched by their ends, tag and communicator
    alone, or nothing: some use groups that are not equal, or have no place for an end."""
    groups: dict[Hashable, frozenset[int | str]] = {}
    for rank, g in enumerate(graphs):
        for node in g.nodes:
            if node.op not in MESSAGES:
                continue
            mine, between = members(node), ends(rank, node)
            if not mine.issuperset(between):
                return f"{node.op} of rank {rank} over a group without one of its ends"
            key = (between, node.attrs.get("tag", 0), communicator(node))
            if groups.setdefault(key, mine) != mine:
                return f"{node.op} of rank {rank} over another group than its like"
    return ""


def validate_spmd(program: Program, graph: Graph) -> list[ProtocolError]:
    """Findings of the collectives of a graph written once for all ranks."""
    found = []
    for node in graph.nodes:
        if "group" not in node.attrs:
            continue
        reason = _spmd_reason(program.mesh, node)
        if reason:
            kind, text = reason
            found.append(ProtocolError(kind, text, group_of(node), (site(0, node),)))
    return found


def _spmd_reason(mesh: Mesh, node: Node) -> tuple[ErrorKind, str] | None:
    group = group_of(node)
    axes = [name for name, _ in mesh.axes]
    unknown = [a for a in group if a not in axes]
    if unknown:
        return "group", f"{node.op} over mesh axis {unknown[0]!r}; the mesh has {', '.join(axes)}"
    if len(set(group)) != len(group):
        return "group", f"{node.op} over {group}: an axis occurs twice"
    expected: Size = product(mesh.extent(str(a)) for a in group)
    size = node.attrs.get("group_size", expected)
    if size != expected:
        return "group_size", f"group_size {size}, but the axes {group} have {expected} ranks"
    if node.op in ("send", "recv"):
        return "unsupported", f"{node.op} in a graph that every rank runs: give a graph per rank"
    return _sizes_reason(mesh, node)


def validate_inside(mesh: Mesh, rank: int, nodes: Iterable[Node]) -> list[ProtocolError]:
    """Findings of the declared sizes of collectives inside a class of ranks."""
    found = []
    for node in nodes:
        reason = _sizes_reason(mesh, node)
        if reason:
            kind, text = reason
            found.append(ProtocolError(kind, text, group_of(node), (site(rank, node),)))
    return found


def _sizes_reason(mesh: Mesh, node: Node) -> tuple[ErrorKind, str] | None:
    """Whether declared sizes are what the members bring or get. Ranks that run one graph have one
    extent, unless that is a function of the rank."""
    sizes = sizes_of(node, "sizes")
    if sizes is None:
        return None
    own = node.attrs.get("extent")
    if node.op == "all_gather":
        dim = node.attrs["dim"]
        own = node.inputs[0].shape[dim] if isinstance(dim, int) else None
    if not isinstance(own, int | Poly):
        return "unsupported", f"{node.op} with sizes, without the extent of this member"
    group = group_of(node)
    ranked = symbols(own) & {only_symbol(mesh.index(str(a))) for a, _ in mesh.axes}
    if not ranked:
        actual = (own,) * len(sizes)
    elif len(group) == 1 and ranked == {only_symbol(mesh.index(str(group[0])))}:
        (mine,) = ranked
        actual = tuple(substitute(own, {mine: k}) for k in range(len(sizes)))
    else:
        return "unsupported", f"{node.op} with sizes that depend on ranks outside of its group"
    if actual != tuple(sizes):
        return "sizes", f"declared sizes {sizes}, members bring or get {actual}"
    return None
