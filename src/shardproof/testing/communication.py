"""Mutations of collectives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

from shardproof.ir.graph import Graph, Mesh, Node, Value
from shardproof.ops.base import ShapeError
from shardproof.testing.edit import Chain, Edit, removed, with_attrs
from shardproof.testing.sites import Site, Variant, attributes, variant

REDUCING = ("all_reduce", "reduce_scatter")
OTHER_OPS = {"sum": ("max", "avg"), "max": ("sum", "min"), "min": ("max",), "avg": ("sum",)}


def group_of(node: Node) -> tuple[int, ...]:
    """The ranks of a collective's group; empty where it is none."""
    group = node.attrs.get("group", ())
    assert isinstance(group, tuple)
    return tuple(g for g in group if isinstance(g, int))


def is_collective(site: Site) -> bool:
    """Whether the site is a collective of more than one rank."""
    return len(group_of(site.node)) > 1 and len(site.node.inputs) == 1


def drop(site: Site) -> Iterator[Variant]:
    """The collective is missing: its operand is used, cut or repeated to the right shape."""
    if is_collective(site):
        yield from variant(site, f"{site.node.op} dropped", _drop, communicates=True)


def _drop(rank: int, node: Node) -> Edit:
    (x,) = node.inputs
    if node.op in ("all_reduce", "broadcast"):
        return removed(node, x)
    place, group = group_of(node).index(rank), group_of(node)
    chain = Chain(node)
    if node.op == "reduce_scatter":
        start, stop = _own_part(node, x, place)
        return chain.finish("slice", x, dim=node.attrs["dim"], start=start, stop=stop)
    if node.op == "all_gather":
        return chain.finish("concat", *[x] * len(group), dim=node.attrs["dim"])
    if node.op == "all_to_all" and "send_sizes" not in node.attrs:
        split = node.attrs["split_dim"]
        assert isinstance(split, int)
        part = _extent(x, split) // len(group)
        mine = chain.emit("slice", x, dim=split, start=place * part, stop=place * part + part)
        return chain.finish("concat", *[mine] * len(group), dim=node.attrs["concat_dim"])
    raise ShapeError(f"{node.op} cannot be dropped")


def _own_part(node: Node, x: Value, place: int) -> tuple[int, int]:
    dim = node.attrs["dim"]
    assert isinstance(dim, int)
    n = len(group_of(node))
    sizes = node.attrs.get("sizes") or (_extent(x, dim) // n,) * n
    assert isinstance(sizes, tuple)
    ends = [0, *accumulate(s for s in sizes if isinstance(s, int))]
    return ends[place], ends[place + 1]


def _extent(v: Value, dim: int) -> int:
    n = v.shape[dim]
    if not isinstance(n, int):
        raise ShapeError("a symbolic size")
    return n


def duplicate(site: Site) -> Iterator[Variant]:
    """The reduction happens twice."""
    if is_collective(site) and site.node.op in REDUCING:
        yield from variant(site, f"{site.node.op} done twice", _duplicate, communicates=True)


def _duplicate(_: int, node: Node) -> Edit:
    chain = Chain(node)
    attrs = {k: node.attrs[k] for k in ("op", "group", "group_size")}
    first = chain.emit("all_reduce", *node.inputs, **attrs)
    return chain.finish(node.op, first, **node.attrs)


def group(site: Site) -> Iterator[Variant]:
    """Another group: this rank alone, half of the group, another mesh axis, another order."""
    if not is_collective(site):
        return
    mesh, n = site.problem.distributed.mesh, len(group_of(site.node))
    op = site.node.op

    def over(text: str, ranks: dict[int, tuple[int, ...]]) -> Iterator[Variant]:
        def edit(rank: int, node: Node) -> Edit:
            return with_attrs(node, group=ranks[rank], group_size=len(ranks[rank]))

        yield from variant(site, f"{op} over {text}", edit, communicates=True)

    groups = {k: group_of(node) for k, node in site.ranked()}
    if op == "all_reduce":
        yield from over("this rank alone", {k: (k,) for k in groups})
    if op == "all_reduce" and n % 2 == 0 and n > 2:
        yield from over("half of the group", {k: _half(g, k) for k, g in groups.items()})
    for axis, extent in mesh.axes:
        other = {k: axis_group(mesh, axis, k) for k in groups}
        if extent == n and other != groups:
            yield from over(f"mesh axis {axis}", other)
    if op in ("all_gather", "reduce_scatter", "all_to_all"):
        yield from over("the group in reverse order", {k: g[::-1] for k, g in groups.items()})


def _half(ranks: tuple[int, ...], rank: int) -> tuple[int, ...]:
    cut = len(ranks) // 2
    return ranks[:cut] if rank in ranks[:cut] else ranks[cut:]


def axis_group(mesh: Mesh, axis: str, rank: int) -> tuple[int, ...]:
    """The ranks that differ from ``rank`` at most in their coordinate along ``axis``."""
    mine, n = mesh.coordinates(rank), mesh.size
    assert isinstance(n, int)
    return tuple(
        r
        for r in range(n)
        if all(c == mine[a] for a, c in mesh.coordinates(r).items() if a != axis)
    )


def operation(site: Site) -> Iterator[Variant]:
    """Another reduction."""
    if not is_collective(site) or site.node.op not in REDUCING:
        return
    now = str(site.node.attrs["op"])
    for other in OTHER_OPS.get(now, ()):
        text = f"{site.node.op} with {other} in place of {now}"
        yield from variant(site, text, attributes(op=other), communicates=True)


def gather_dim(site: Site) -> Iterator[Variant]:
    """A gather or scatter along another dim, its result viewed in the right shape."""
    node = site.node
    if not is_collective(site) or node.op not in ("all_gather", "reduce_scatter"):
        return
    for dim in range(node.inputs[0].type.rank):
        if dim != node.attrs["dim"]:
            text = f"{node.op} along dim {dim} in place of {node.attrs['dim']}"
            yield from variant(site, text, along(dim), communicates=True)


def along(dim: int) -> Callable[[int, Node], Edit]:
    """The edit that applies a node along another dim and views the result in its shape."""

    def edit(_: int, node: Node) -> Edit:
        chain = Chain(node)
        return chain.reshaped(chain.emit(node.op, *node.inputs, **{**node.attrs, "dim": dim}))

    return edit


def swapped_order(site: Site) -> Iterator[Variant]:
    """The collective after the next one of its group (meant for one rank)."""
    if not is_collective(site):
        return
    orders = [_order(site.graph(k), n) for k, n in site.ranked()]
    if all(o is not None for o in orders):
        edits = tuple(Edit(order=o) for o in orders)
        yield Variant(f"{site.node.op} after the next collective", edits, communicates=True)


def _order(graph: Graph, first: Node) -> list[Node] | None:
    """The nodes with ``first``, and what needs it, moved behind the next collective."""
    start = graph.nodes.index(first)
    later: list[Node] = []
    before: list[Node] = []
    values: set[Value] = set()
    for k in range(start, len(graph.nodes)):
        node = graph.nodes[k]
        depends = node is first or any(v in values for v in node.inputs)
        if depends:
            values.update(node.outputs)
            later.append(node)
        else:
            before.append(node)
        if node is not first and set(group_of(node)) == set(group_of(first)):
            if depends:
                return None
            return [*graph.nodes[:start], *before, *later, *graph.nodes[k + 1 :]]
    return None
