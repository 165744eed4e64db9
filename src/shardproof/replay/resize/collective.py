"""Scale classes of collectives: inside one rank, and across the members that met."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardproof.collectives.agree import sizes_of
from shardproof.collectives.match import CollectiveStep
from shardproof.ir.graph import Node
from shardproof.ops import base as alg
from shardproof.replay.resize.analysis import Analysis, Tensor


def within_rank(
    a: Analysis, node: Node, algebra: alg.Collective, ins: Sequence[Tensor], out: Tensor
) -> None:
    """Operand and result of one member. Even splits imply their ratio, so a shard and its whole
    share a class; uneven ones are tied in :func:`across_ranks`, where every part is known."""
    if not ins:
        return
    (x,) = ins
    for k, (d, e) in enumerate(zip(x.dims, out.dims, strict=True)):
        if k not in _uneven_dims(node):
            a.scales.unify(d, e)
    a.flow(x, out)
    out.summed = x.summed


def _uneven_dims(node: Node) -> set[object]:
    if "sizes" in node.attrs:
        return {node.attrs["dim"]}
    if "send_sizes" in node.attrs:
        return {node.attrs["split_dim"], node.attrs["concat_dim"]}
    return set()


def across_ranks(a: Analysis, step: CollectiveStep) -> None:
    """Tie the operands and results of all members of one collective."""
    _ACROSS[step.kind](a, [n for _, n in step.members])


def _pair(a: Analysis, nodes: Sequence[Node]) -> None:
    send, recv = nodes
    a.same(a.tensor(send.inputs[0]), a.tensor(recv.output))


def _members(a: Analysis, nodes: Sequence[Node], skip: set[object]) -> None:
    """Dims of the members scale alike; ``skip`` names those that may differ."""
    first = a.tensor(nodes[0].inputs[0])
    for n in nodes[1:]:
        other = a.tensor(n.inputs[0])
        for k, (d, e) in enumerate(zip(first.dims, other.dims, strict=True)):
            if k not in skip:
                a.scales.unify(d, e)
        a.flow(first, other)


def _all_alike(a: Analysis, nodes: Sequence[Node]) -> None:
    _members(a, nodes, set())


def _gather(a: Analysis, nodes: Sequence[Node]) -> None:
    skip = _uneven_dims(nodes[0])
    _members(a, nodes, skip)
    if not skip:
        return
    dim = int(nodes[0].attrs["dim"])  # type: ignore[arg-type]
    parts = tuple(a.tensor(n.inputs[0]).dims[dim] for n in nodes)
    for n in nodes:
        a.scales.partition(a.tensor(n.output).dims[dim], parts)
        a.lists[n, "sizes"] = parts


def _scatter(a: Analysis, nodes: Sequence[Node]) -> None:
    _members(a, nodes, set())
    if not _uneven_dims(nodes[0]):
        return
    dim = int(nodes[0].attrs["dim"])  # type: ignore[arg-type]
    parts = tuple(a.tensor(n.output).dims[dim] for n in nodes)
    for k, n in enumerate(nodes):
        a.scales.partition(a.tensor(n.inputs[0]).dims[dim], parts)
        a.lists[n, "sizes"] = parts
        a.lists[n, "extent"] = (parts[k],)


def _exchange(a: Analysis, nodes: Sequence[Node]) -> None:
    skip = _uneven_dims(nodes[0])
    _members(a, nodes, skip)
    if not skip:
        return
    split = int(nodes[0].attrs["split_dim"])  # type: ignore[arg-type]
    concat = int(nodes[0].attrs["concat_dim"])  # type: ignore[arg-type]
    xs = [a.tensor(n.inputs[0]).dims for n in nodes]
    ys = [a.tensor(n.output).dims for n in nodes]
    if split == concat:
        sent = [tuple(a.scales.new(int(s)) for s in sizes_of(n, "send_sizes") or ()) for n in nodes]  # type: ignore[arg-type]
        got = [tuple(row[k] for row in sent) for k in range(len(nodes))]
    else:
        # Every sender gives member k the same share of the split dim, and all of its own extent
        # along the other.
        sent = [tuple(y[split] for y in ys)] * len(nodes)
        got = [tuple(x[concat] for x in xs)] * len(nodes)
    for k, n in enumerate(nodes):
        a.scales.partition(xs[k][split], sent[k])
        a.scales.partition(ys[k][concat], got[k])
        a.lists[n, "send_sizes"], a.lists[n, "recv_sizes"] = sent[k], got[k]
        if split != concat:
            a.lists[n, "extent"] = (ys[k][split],)


_ACROSS: dict[str, Callable[[Analysis, Sequence[Node]], None]] = {
    "send_recv": _pair,
    "all_reduce": _all_alike,
    "broadcast": _all_alike,
    "all_gather": _gather,
    "reduce_scatter": _scatter,
    "all_to_all": _exchange,
}
