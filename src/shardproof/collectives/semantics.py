"""What each collective computes, on the NumPy arrays of its members in group order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from shardproof.collectives.agree import group_of, sizes_of
from shardproof.ir.graph import Node

Array = np.ndarray[Any, np.dtype[Any]]


def execute(kind: str, nodes: Sequence[Node], operands: Sequence[Array | None]) -> list[Array]:
    """Results of all members of one collective step.

    Args:
        kind: that of :class:`~shardproof.collectives.match.CollectiveStep`; ``nodes`` are its
            members' nodes in group order, with concrete attributes.
        operands: one array a member; None where a member brings nothing (a receiver).

    Returns:
        One array a member; the sender's own entry of ``send_recv`` is what it sent.

    Raises:
        ValueError: the operands do not fit (matching reports this before anything runs).
    """
    brought = [x for x in operands if x is not None]
    if kind == "send_recv":
        (sent,) = brought
        return [sent, sent]
    if len(brought) != len(nodes):
        raise ValueError(f"{kind}: {len(nodes)} members, {len(brought)} operands")
    return _MEANING[kind](nodes, brought)


def reduce(op: str, arrays: Sequence[Array]) -> Array:
    """``arrays`` (equal shapes) combined elementwise; op is sum, avg, max, min or product.

    Booleans are combined by or (max) and and (min, product).
    """
    dtype = arrays[0].dtype
    if op not in _COMBINE:
        raise ValueError(f"unknown reduction {op!r}")
    if (op == "avg" and dtype.kind in "bi") or (op == "sum" and dtype.kind == "b"):
        raise ValueError(f"{op} of {dtype} arrays has no meaning here")
    total = arrays[0]
    for x in arrays[1:]:
        total = _COMBINE[op](total, x)
    return total / len(arrays) if op == "avg" else total


_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "avg": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "product": np.multiply,
}


def _cut(x: Array, dim: int, sizes: Sequence[int] | None, parts: int) -> list[Array]:
    extent = x.shape[dim]
    if sizes is None:
        if extent % parts:
            raise ValueError(f"{extent} does not divide into {parts} equal parts")
        sizes = [extent // parts] * parts
    if sum(sizes) != extent:
        raise ValueError(f"sizes {list(sizes)} do not cut {extent}")
    return np.split(x, list(accumulate(sizes))[:-1], axis=dim)


def _ints(node: Node, name: str) -> Sequence[int] | None:
    return sizes_of(node, name)  # type: ignore[return-value]


def _dim(node: Node, name: str = "dim") -> int:
    return node.attrs[name]  # type: ignore[return-value]


def _all_reduce(nodes: Sequence[Node], xs: list[Array]) -> list[Array]:
    return [reduce(str(nodes[0].attrs["op"]), xs)] * len(xs)


def _all_gather(nodes: Sequence[Node], xs: list[Array]) -> list[Array]:
    return [np.concatenate(xs, axis=_dim(nodes[0]))] * len(xs)


def _reduce_scatter(nodes: Sequence[Node], xs: list[Array]) -> list[Array]:
    total = reduce(str(nodes[0].attrs["op"]), xs)
    return _cut(total, _dim(nodes[0]), _ints(nodes[0], "sizes"), len(xs))


def _all_to_all(nodes: Sequence[Node], xs: list[Array]) -> list[Array]:
    split, concat = _dim(nodes[0], "split_dim"), _dim(nodes[0], "concat_dim")
    pieces = [
        _cut(x, split, _ints(n, "send_sizes"), len(xs)) for n, x in zip(nodes, xs, strict=True)
    ]
    return [np.concatenate([p[k] for p in pieces], axis=concat) for k in range(len(xs))]


def _broadcast(nodes: Sequence[Node], xs: list[Array]) -> list[Array]:
    root = group_of(nodes[0]).index(nodes[0].attrs["src"])
    return [xs[root]] * len(xs)


_MEANING: dict[str, Callable[[Sequence[Node], list[Array]], list[Array]]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
    "all_to_all": _all_to_all,
    "broadcast": _broadcast,
}
