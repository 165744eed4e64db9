"""Mutations of what flows where: order of reduction and activation, earlier values, micro-batches,
offsets of ranks, sizes of splits, peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial

from shardproof.ir.graph import AttrValue, Graph, Node, Value
from shardproof.ops.base import ShapeError
from shardproof.testing.communication import REDUCING, group_of
from shardproof.testing.edit import Chain, Edit, live_nodes, removed, with_attrs, with_inputs
from shardproof.testing.sites import Site, Variant, variant

ACTIVATIONS = (
    "gelu", "relu", "silu", "tanh", "sigmoid", "exp", "log", "rsqrt", "sqrt", "reciprocal", "abs",
    "power", "leaky_relu", "elu", "softplus", "clamp", "sin", "cos",
)  # fmt: skip
PASSING = ("wait", "cast")
# Attributes that hold a position, by operator: of a slice, of ids, of a bound of a mask.
OFFSETS = {"slice": ("start", "stop"), "iota": ("start",), "shift": ("by",), "compare": ("value",)}


# ---------------------------------------------------------------- reduction and activation


def activation_order(site: Site) -> Iterator[Variant]:
    """The activation before the reduction in place of after it, or the other way round."""
    node = site.node
    if node.op in ACTIVATIONS and len(node.inputs) == 1:
        yield from variant(site, f"{node.op} before the reduction", partial(_earlier, site))
        yield from variant(site, f"reduction before {node.op}", partial(_later, site))


def _earlier(site: Site, k: int, node: Node) -> Edit:
    made = site.graph(k).producers()
    reduced = made.get(node.inputs[0])
    while reduced is not None and reduced.op in PASSING:
        reduced = made.get(reduced.inputs[0])
    if reduced is None or not _reduces(reduced) or node.output.type != node.inputs[0].type:
        raise ShapeError("no reduction before the activation")
    chain = Chain(reduced)
    early = chain.emit(node.op, reduced.inputs[0], **node.attrs)
    edit = chain.finish(reduced.op, early, **reduced.attrs)
    edit.replaced[node] = ()
    edit.rewired[node.output] = node.inputs[0]
    return edit


def _later(site: Site, k: int, node: Node) -> Edit:
    """The next reduction of what the activation made, moved to the activation's operand."""
    reached = {node.output}
    for n in site.graph(k).nodes:
        if not reached.intersection(n.inputs):
            continue
        if n.op == "all_reduce" and _reduces(n):
            edit = removed(n, n.inputs[0])
            chain = Chain(node)
            early = chain.emit(n.op, node.inputs[0], **n.attrs)
            edit.replaced.update(chain.finish(node.op, early, **node.attrs).replaced)
            return edit
        reached.update(n.outputs)
    raise ShapeError("no reduction after the activation")


def _reduces(node: Node) -> bool:
    return node.op in REDUCING and len(group_of(node)) > 1


# ---------------------------------------------------------------- earlier values, micro-batches


def stale(site: Site) -> Iterator[Variant]:
    """A use that reads an earlier value of the same type."""
    order = _values(site.own())
    place = {v: i for i, v in enumerate(order)}
    for i, v in enumerate(site.node.inputs):
        earlier = [j for j in range(place[v]) if order[j].type == v.type]
        for j in earlier[:-3:-1]:

            def edit(k: int, node: Node, i: int = i, j: int = j) -> Edit:
                w = _values(site.graph(k))[j]
                if w.type != node.inputs[i].type:
                    raise ShapeError("another type on this rank")
                return with_inputs(node, (*node.inputs[:i], w, *node.inputs[i + 1 :]))

            text = f"{site.node.op} reads %{order[j].name} in place of %{v.name}"
            for made in variant(site, text, edit):
                yield replace(made, more=(order[j],))


def _values(graph: Graph) -> list[Value]:
    return [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]


def dropped_addend(site: Site) -> Iterator[Variant]:
    """A micro-batch, or a step, that is left out of a sum of alike ones, or counted twice."""
    node = site.node
    if node.op != "add" or not _alike(site.own(), node):
        return
    for i in (0, 1):
        name, other = node.inputs[i].name, node.inputs[1 - i].name

        def dropped(_: int, node: Node, i: int = i) -> Edit:
            return removed(node, node.inputs[1 - i])

        def twice(_: int, node: Node, i: int = i) -> Edit:
            return with_inputs(node, (node.inputs[1 - i],) * 2)

        yield from variant(site, f"%{name} left out of the sum", dropped)
        yield from variant(site, f"%{other} counted twice in place of %{name}", twice)


def _alike(graph: Graph, node: Node) -> bool:
    """Whether both addends are made by the same operators out of different values."""
    x, y = (live_nodes(graph, [v]) for v in node.inputs)
    shared = set(x) & set(y)
    first, second = ({n.op for n in z if n not in shared and n.outputs} - {"add"} for z in (x, y))
    return bool(first) and first == second


# ---------------------------------------------------------------- offsets of ranks


def rank_offset(site: Site) -> Iterator[Variant]:
    """The offset of a rank in ids, a mask or a table: another rank's, none, or one too many."""
    keys = OFFSETS.get(site.node.op, ())
    if not keys or len(site.nodes) < 2:
        return
    n = len(site.nodes)
    own = [{key: node.attrs.get(key) for key in keys} for node in site.nodes]
    if any(o != own[0] for o in own):
        for text, pick in (("rank 0's", 0), ("the next rank's", 1), ("the one before's", n - 1)):

            def other(k: int, node: Node, pick: int = pick) -> Edit:
                return with_attrs(node, **own[(k + pick) % n if pick else 0])

            yield from variant(site, f"{text} offset in {site.node.op}", other)
    elif site.node.op in ("slice", "iota", "shift"):
        yield from variant(site, f"the rank's offset added to {site.node.op}", _with_offset)


def _with_offset(k: int, node: Node) -> Edit:
    keys = OFFSETS[node.op]
    extent = node.output.shape[node.attrs["dim"] if node.op == "slice" else 0]  # type: ignore[index]
    if not isinstance(extent, int):
        raise ShapeError("a symbolic size")
    return with_attrs(node, **{key: _moved(node.attrs.get(key), k * extent) for key in keys})


def _moved(x: AttrValue, by: int) -> AttrValue:
    if isinstance(x, bool) or not isinstance(x, int | Fraction):
        raise ShapeError("no number")
    return x + by


# ---------------------------------------------------------------- sums, splits, peers


def sum_for_mean(site: Site) -> Iterator[Variant]:
    """A sum where a mean is meant, a mean where a sum is, a division by a count left out."""
    node = site.node
    other = {"mean": "sum", "sum": "mean"}.get(node.op)
    if other is not None:

        def edit(_: int, node: Node) -> Edit:
            return Chain(node).finish(other, *node.inputs, **node.attrs)

        yield from variant(site, f"{other} in place of {node.op}", edit)
    by = node.attrs.get("by")
    if node.op == "scale" and isinstance(by, Fraction) and by.numerator == 1:

        def undivided(_: int, node: Node) -> Edit:
            return removed(node, node.inputs[0])

        yield from variant(site, f"not divided by {by.denominator}", undivided)


def split_sizes(site: Site) -> Iterator[Variant]:
    """The sizes of a split, of a join or of uneven shards in the wrong order."""
    node = site.node
    if node.op == "reshape":
        for at in range(max(node.inputs[0].type.rank, node.output.type.rank) - 1):
            text = f"dims {at} and {at + 1} split or joined the wrong way round"
            yield from variant(site, text, partial(_other_view, at))
    if node.op == "slice":
        yield from variant(site, "sizes of the split in reverse", partial(_reversed_parts, site))
    if node.op == "concat" and len({v.type for v in node.inputs}) > 1:
        joined = _reversed_join
        yield from variant(site, "parts joined in reverse", joined)
    for key in ("sizes", "send_sizes", "recv_sizes"):
        sizes = node.attrs.get(key)
        if isinstance(sizes, tuple) and len(set(sizes)) > 1:
            yield from variant(site, f"{key} in reverse", _reversed_sizes(key))


def _other_view(at: int, _: int, node: Node) -> Edit:
    """A dim of m x n elements taken as n x m, or two joined the other way round."""
    (x,), out = node.inputs, node.output
    wide = max((x.type, out.type), key=lambda t: t.rank)
    dims = list(wide.shape)
    if x.type.rank == out.type.rank or 1 in (dims[at], dims[at + 1]):
        raise ShapeError("nothing is split or joined here")
    if wide.shape[:at] != min((x.type, out.type), key=lambda t: t.rank).shape[:at]:
        raise ShapeError("split or joined elsewhere")
    perm = list(range(len(dims)))
    perm[at], perm[at + 1] = perm[at + 1], perm[at]
    chain = Chain(node)
    if x.type.rank > out.type.rank:
        turned = chain.emit("permute", x, perm=tuple(perm))
        return chain.finish("reshape", turned, shape=out.shape)
    dims[at], dims[at + 1] = dims[at + 1], dims[at]
    return chain.finish("permute", chain.emit("reshape", x, shape=tuple(dims)), perm=tuple(perm))


def _reversed_parts(site: Site, k: int, node: Node) -> Edit:
    """All slices of one value along one dim, with the sizes of the parts from the last on."""
    dim, (x,) = node.attrs["dim"], node.inputs
    alike = [
        n for n in site.graph(k).nodes
        if n.op == "slice" and n.inputs == node.inputs and n.attrs["dim"] == dim
    ]  # fmt: skip
    extents = {n.output.shape[dim] for n in alike}  # type: ignore[index]
    if len(extents) < 2 or alike[0] is not node:
        raise ShapeError("no split into parts of several sizes")
    edit, whole = Edit(), x.shape[dim]  # type: ignore[index]
    for n in alike:
        start, stop = n.attrs["start"], n.attrs["stop"]
        if not (isinstance(start, int) and isinstance(stop, int) and isinstance(whole, int)):
            raise ShapeError("a symbolic slice")
        turned = with_attrs(n, start=whole - stop, stop=whole - start)
        edit.replaced.update(turned.replaced)
    return edit


def _reversed_join(_: int, node: Node) -> Edit:
    return Chain(node).finish(node.op, *node.inputs[::-1], **node.attrs)


def _reversed_sizes(key: str) -> Callable[[int, Node], Edit]:
    def edit(_: int, node: Node) -> Edit:
        sizes = node.attrs[key]
        assert isinstance(sizes, tuple)
        return with_attrs(node, **{key: sizes[::-1]})

    return edit


def wrong_peer(site: Site) -> Iterator[Variant]:
    """A message sent to, or a broadcast taken from, another rank of the group."""
    node, group = site.node, group_of(site.node)
    key = {"send": "dst", "recv": "src", "broadcast": "src"}.get(node.op)
    if key is None or len(group) < 2:
        return

    def next_one(_: int, node: Node) -> Edit:
        peers = group_of(node)
        place = peers.index(node.attrs[key])
        return _with(node, key, peers[(place + 1) % len(peers)])

    yield from variant(site, f"{key} of {node.op} is the next rank", next_one)
    if node.op == "send":
        yield from variant(site, "sent the other way round", partial(_other_way, site))


def _other_way(site: Site, k: int, node: Node) -> Edit:
    nodes = site.graph(k).nodes
    place = [n for n in nodes if n.op == "send"].index(node)
    given = [n for n in nodes if n.op == "recv"]
    if place >= len(given):
        raise ShapeError("no message in return")
    there, back = node.attrs["dst"], given[place].attrs["src"]
    if there == back:
        raise ShapeError("there and back is the same")
    edit = _with(node, "dst", back)
    edit.replaced.update(_with(given[place], "src", there).replaced)
    return edit


def _with(node: Node, key: str, value: AttrValue) -> Edit:
    return Edit({node: (replace(node, attrs={**node.attrs, key: value}),)})
