"""What collectives give over concrete members; :mod:`shardproof.certificate.ranks` has those with
the rank as an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardproof.certificate.algebra import Algebra
from shardproof.certificate.exact import (
    NotChecked,
    quotient,
)
from shardproof.certificate.extrema import of_members
from shardproof.certificate.rules import Source, added, joined, sliced, times
from shardproof.ir.graph import Attrs, TensorType, is_bool, is_float
from shardproof.ir.sizes import (
    Size,
    div_mod,
)

EXTREMA = ("max", "min")
SHARED = ("how", "op", "dim", "split_dim", "concat_dim", "src", "sizes", "group")


def exact_part(n: Size, parts: Size) -> Size:
    q, r = div_mod(n, parts)
    if r != 0:
        raise NotChecked(f"{n} does not divide into {parts} equal parts")
    return q


def reduction(algebra: Algebra, op: str, sources: Sequence[Source], dtype: str) -> Source:
    """The elementwise sum, mean, product, maximum or minimum of tensors."""
    if any(s.shape != sources[0].shape for s in sources):
        raise NotChecked("a reduction of tensors of different shapes")
    if op in EXTREMA:
        return of_members(algebra, op, sources)
    if op == "product" and not is_bool(dtype):
        return Source(sources[0].shape, lambda r, at: times([s.read(r, at) for s in sources]))
    summable(op, dtype)
    by = quotient(1, len(sources)) if op == "avg" else 1
    return added(sources, [by] * len(sources))


def summable(op: str, dtype: str) -> None:
    """Refuse what is no sum of numbers."""
    if op not in ("sum", "avg") or is_bool(dtype) or (op == "avg" and not is_float(dtype)):
        raise NotChecked(f"the reduction {op} of {dtype}")


def concrete(
    algebra: Algebra, kind: str, sources: Sequence[Source],
    attrs: Sequence[Attrs], types: Sequence[TensorType],
) -> list[Source]:  # fmt: skip
    """The result of every member; all arguments are in group order, ``types`` those of the
    operands."""
    a: Any = attrs[0]
    n = len(sources)
    if any(x.get(k) != a.get(k) for x in attrs for k in SHARED):
        raise NotChecked("a collective whose members disagree")
    if any(t.dtype != types[0].dtype or t.rank != types[0].rank for t in types):
        raise NotChecked("a collective of unlike tensors")
    if kind == "all_reduce":
        return [reduction(algebra, str(a["op"]), sources, types[0].dtype)] * n
    if kind == "all_gather":
        return [joined(sources, a["dim"] % types[0].rank)] * n
    if kind == "reduce_scatter":
        dim = a["dim"] % types[0].rank
        whole = reduction(algebra, str(a["op"]), sources, types[0].dtype)
        sizes: Any = a.get("sizes") or (exact_part(whole.shape[dim], n),) * n
        return _cut(whole, dim, sizes)
    if kind == "broadcast":
        return [sources[a["group"].index(a["src"])]] * n
    if kind == "all_to_all":
        return _exchanged(sources, attrs, types[0].rank)
    raise NotChecked(f"the collective {kind}")


def _exchanged(sources: Sequence[Source], attrs: Sequence[Any], rank: int) -> list[Source]:
    split, join, n = attrs[0]["split_dim"] % rank, attrs[0]["concat_dim"] % rank, len(sources)
    pieces = []
    for s, x in zip(sources, attrs, strict=True):
        sizes = x.get("send_sizes") or (exact_part(s.shape[split], n),) * n
        pieces.append(_cut(s, split, sizes))
    for r, x in enumerate(attrs):
        got = x.get("recv_sizes")
        if got is not None and got != tuple(p[r].shape[join] for p in pieces):
            raise NotChecked("parts of other sizes than are sent")
    return [joined([p[r] for p in pieces], join) for r in range(n)]


def _cut(s: Source, dim: int, sizes: Sequence[Any]) -> list[Source]:
    out = []
    start: Size = 0
    for n in sizes:
        out.append(sliced(s, dim, start, n))
        start = start + n
    if start != s.shape[dim]:
        raise NotChecked("parts that do not make up the tensor")
    return out
