"""Whether the calls that met in one collective fit together.

Pure functions over the calls of the members in group order; the first disagreement is returned,
the more basic ones first (a different kind makes every other comparison meaningless).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shardproof.collectives.errors import ErrorKind, ProtocolError, site
from shardproof.ir.graph import AttrValue, Node
from shardproof.ir.sizes import Size, divides

Member = tuple[int, Node]

# Attributes on which all members must agree, with the kind of finding when they do not.
_SHARED: tuple[tuple[str, ErrorKind], ...] = (
    ("op", "op"),
    ("dim", "dim"),
    ("split_dim", "dim"),
    ("concat_dim", "dim"),
    ("src", "src"),
    ("sizes", "sizes"),
)


def group_of(node: Node) -> tuple[int | str, ...]:
    """The ``group`` attribute: global ranks, or mesh axis names in an SPMD graph."""
    group = node.attrs.get("group", ())
    assert isinstance(group, tuple)
    return group  # type: ignore[return-value]


def sizes_of(node: Node, name: str) -> tuple[Size, ...] | None:
    """An attribute that lists one extent a member, or None where the split is even."""
    value = node.attrs.get(name)
    return value if isinstance(value, tuple) else None  # type: ignore[return-value]


def disagreement(members: Sequence[Member]) -> ProtocolError | None:
    """The first way in which the calls of one collective do not fit together, or None."""
    first = members[0][1]
    found = _declared_differs(members)
    if found:
        return found
    group = group_of(first)
    if first.op == "broadcast" and first.attrs["src"] not in group:
        return _error("src", f"root {first.attrs['src']} is not in the group", members)
    return _SHAPE_CHECKS[first.op](members)


def alike(a: Node, b: Node) -> bool:
    """Whether two calls could meet in one collective, extents of a free dim aside."""
    pair = ((0, a), (1, b))
    if _declared_differs(pair):
        return False
    dims = [a.attrs[k] for k in ("dim", "split_dim", "concat_dim") if k in a.attrs]
    return _shape_differs(pair, tuple(_int(d) for d in dims)) is None


def _declared_differs(members: Sequence[Member]) -> ProtocolError | None:
    found = _differs(members, "kind", "kinds of collective", lambda n: n.op)
    found = found or _differs(members, "group", "rank orders of the group", group_of)
    found = found or _differs(members, "kind", "calls", lambda n: n.attrs.get("how", "plain"))
    for attr, kind in _SHARED:
        found = found or _differs(members, kind, f"values of {attr}", lambda n: n.attrs.get(attr))  # noqa: B023
    found = found or _differs(members, "dtype", "element types", lambda n: n.inputs[0].dtype)
    return found or _differs(members, "shape", "numbers of dims", lambda n: n.inputs[0].type.rank)


def pair_disagreement(send: Member, recv: Member) -> ProtocolError | None:
    """Why a send and the receive it met do not fit together, or None."""
    sent, got = send[1].inputs[0].type, recv[1].output.type
    kind: ErrorKind = "dtype" if sent.dtype != got.dtype else "shape"
    if sent == got:
        return None
    sites = (site(*send, f"sends {sent}"), site(*recv, f"expects {got}"))
    text = f"rank {send[0]} sends {sent}, rank {recv[0]} expects {got}"
    return ProtocolError(kind, text, (send[0], recv[0]), sites)


def _error(kind: ErrorKind, text: str, members: Sequence[Member]) -> ProtocolError:
    return ProtocolError(kind, text, group_of(members[0][1]), tuple(site(r, n) for r, n in members))


def _differs(
    members: Sequence[Member], kind: ErrorKind, what: str, get: Callable[[Node], object]
) -> ProtocolError | None:
    values = [get(n) for _, n in members]
    if all(v == values[0] for v in values):
        return None
    sites = tuple(site(r, n, str(v)) for (r, n), v in zip(members, values, strict=True))
    shown = ", ".join(dict.fromkeys(str(v) for v in values))
    group = group_of(members[0][1])
    return ProtocolError(kind, f"the members use different {what}: {shown}", group, sites)


def _shape_differs(members: Sequence[Member], free: tuple[int, ...]) -> ProtocolError | None:
    def shape(n: Node) -> tuple[Size | None, ...]:
        x = n.inputs[0]
        free_dims = {d % x.type.rank for d in free} if x.type.rank else set()
        return tuple(None if k in free_dims else s for k, s in enumerate(x.shape))

    if _differs(members, "shape", "shapes", shape) is None:
        return None
    return _differs(members, "shape", "shapes", lambda n: n.inputs[0].shape)


def _same_shape(members: Sequence[Member]) -> ProtocolError | None:
    return _shape_differs(members, ())


def _gather_shapes(members: Sequence[Member]) -> ProtocolError | None:
    first = members[0][1]
    dim, sizes = _int(first.attrs["dim"]), sizes_of(first, "sizes")
    if sizes is None:
        return _same_shape(members)
    found = _shape_differs(members, (dim,))
    if found or len(sizes) != len(members):
        return found or _error("sizes", f"{len(sizes)} sizes for {len(members)} members", members)
    actual = tuple(n.inputs[0].shape[dim] for _, n in members)
    if actual != sizes:
        return _error("sizes", f"declared sizes {sizes}, members bring {actual}", members)
    return None


def _scatter_shapes(members: Sequence[Member]) -> ProtocolError | None:
    first = members[0][1]
    found = _same_shape(members)
    if found:
        return found
    whole, sizes = first.inputs[0].shape[_int(first.attrs["dim"])], sizes_of(first, "sizes")
    if sizes is None:
        if not divides(len(members), whole):
            return _error("sizes", f"{whole} does not divide by {len(members)} members", members)
        return None
    if len(sizes) != len(members) or sum(sizes) != whole:
        return _error("sizes", f"sizes {sizes} do not cut {whole} for the members", members)
    return _own_parts(members, sizes)


def _own_parts(members: Sequence[Member], sizes: Sequence[Size]) -> ProtocolError | None:
    """``extent``, where given, is the member's own part."""
    for member, part in zip(members, sizes, strict=True):
        own = member[1].attrs.get("extent", part)
        if own != part:
            text = f"rank {member[0]} takes {own} elements, its part is {part}"
            return _error("sizes", text, members)
    return None


def _exchange_shapes(members: Sequence[Member]) -> ProtocolError | None:
    first = members[0][1]
    split, concat = _int(first.attrs["split_dim"]), _int(first.attrs["concat_dim"])
    sends = [sizes_of(n, "send_sizes") for _, n in members]
    recvs = [sizes_of(n, "recv_sizes") for _, n in members]
    if all(s is None for s in sends) and all(r is None for r in recvs):
        return _same_shape(members)
    found = _shape_differs(members, (split, concat))
    if found:
        return found
    count = len(members)
    if any(s is None or len(s) != count for s in (*sends, *recvs)):
        return _error("sizes", "every member needs one send and one receive size", members)
    for s, (_, n) in zip(sends, members, strict=True):
        if sum(s or ()) != n.inputs[0].shape[split]:
            return _error("sizes", f"send sizes {s} do not cut the tensor", members)
    if split != concat:
        found = _one_cut(members, sends) or _own_parts(members, sends[0] or ())
        # Along the other dim every piece has its sender's extent.
        rows = tuple(n.inputs[0].shape[concat] for _, n in members)
        sends = [(n,) * count for n in rows]
    return found or _pieces(members, sends, recvs)


def _one_cut(
    members: Sequence[Member], sends: Sequence[tuple[Size, ...] | None]
) -> ProtocolError | None:
    """Pieces that are joined along another dim than the one they are cut along must be cut by
    every sender in the same places."""
    for member, mine in zip(members, sends, strict=True):
        if mine != sends[0]:
            first = members[0]
            text = f"rank {first[0]} cuts into {sends[0]}, rank {member[0]} into {mine}"
            return _error("sizes", text, (first, member))
    return None


def _pieces(
    members: Sequence[Member],
    sends: Sequence[tuple[Size, ...] | None],
    recvs: Sequence[tuple[Size, ...] | None],
) -> ProtocolError | None:
    """Every piece has the extent that its receiver expects."""
    for i, sent in enumerate(sends):
        for j, got in enumerate(recvs):
            if sent is not None and got is not None and sent[j] != got[i]:
                a, b = members[i], members[j]
                text = f"rank {a[0]} sends {sent[j]} to rank {b[0]}, which expects {got[i]}"
                return _error("sizes", text, (a, b))
    return None


def _int(value: AttrValue) -> int:
    assert isinstance(value, int)
    return value


_SHAPE_CHECKS: dict[str, Callable[[Sequence[Member]], ProtocolError | None]] = {
    "all_reduce": _same_shape,
    "broadcast": _same_shape,
    "all_gather": _gather_shapes,
    "reduce_scatter": _scatter_shapes,
    "all_to_all": _exchange_shapes,
}
