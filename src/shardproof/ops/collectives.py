"""Shape rules of the communication operators. Their meaning across ranks is not local to one
graph; it belongs to the `collectives` package."""

from __future__ import annotations

from shardproof.ir.graph import Attrs, TensorType
from shardproof.ir.sizes import Size, at_least, div_mod
from shardproof.ops import attributes as at
from shardproof.ops.base import Collective, ShapeError
from shardproof.ops.declare import Types, declare

REDUCTIONS = ("sum", "avg", "max", "min", "product")


def _group(attrs: Attrs) -> Size:
    """The checked group size."""
    group, n = attrs.get("group"), at.size(attrs, "group_size")
    if not isinstance(group, tuple) or not all(isinstance(g, int | str) for g in group):
        raise ShapeError(f"attribute 'group' must be a tuple of ranks or axes, got {group!r}")
    if all(isinstance(g, int) for g in group) and group and n != len(group):
        raise ShapeError(f"group {group} has {len(group)} members, group_size is {n}")
    for name in ("comm", "how"):
        if not isinstance(attrs.get(name, ""), str):
            raise ShapeError(f"attribute {name!r} must be a text, got {attrs[name]!r}")
    if not at_least(n, 1):
        raise ShapeError(f"group_size {n} is not shown to be >= 1")
    return n


def _parts(attrs: Attrs, name: str, count: Size) -> tuple[Size, ...] | None:
    """Per-member extents, if the node gives them."""
    if attrs.get(name) is None:
        return None
    parts = at.sizes(attrs, name)
    if count != len(parts):
        raise ShapeError(f"attribute {name!r} has {len(parts)} entries for a group of {count}")
    return parts


def _total(parts: tuple[Size, ...]) -> Size:
    out: Size = 0
    for p in parts:
        out = out + p
    return out


def _share(extent: Size, count: Size) -> Size:
    quotient, rest = div_mod(extent, count)
    if rest != 0:
        raise ShapeError(f"extent {extent} does not divide into {count} equal parts")
    return quotient


def _with(t: TensorType, dim: int, extent: Size) -> TensorType:
    return TensorType(t.dtype, (*t.shape[:dim], extent, *t.shape[dim + 1 :]))


def _all_reduce(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    _group(attrs)
    at.choice(attrs, "op", REDUCTIONS)
    return inputs[0]


def _all_gather(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), n = inputs, _group(attrs)
    dim, parts = at.dim(attrs, inputs[0].rank), _parts(attrs, "sizes", n)
    if parts is None:
        return _with(x, dim, x.shape[dim] * n)
    if x.shape[dim] not in parts:
        raise ShapeError(f"extent {x.shape[dim]} of dim {dim} is not among the sizes {parts}")
    return _with(x, dim, _total(parts))


def _reduce_scatter(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), n = inputs, _group(attrs)
    at.choice(attrs, "op", REDUCTIONS)
    dim, parts = at.dim(attrs, x.rank), _parts(attrs, "sizes", n)
    if parts is None:
        return _with(x, dim, _share(x.shape[dim], n))
    return _with(x, dim, _own_share(x.shape[dim], parts, attrs))


def _own_share(extent: Size, parts: tuple[Size, ...], attrs: Attrs) -> Size:
    if extent != _total(parts):
        raise ShapeError(f"the sizes {parts} do not add up to the extent {extent}")
    own = at.size(attrs, "extent")
    if own not in parts:
        raise ShapeError(f"extent {own} is not among the sizes {parts}")
    return own


def _all_to_all(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    (x,), n = inputs, _group(attrs)
    split, join = at.dim(attrs, x.rank, "split_dim"), at.dim(attrs, x.rank, "concat_dim")
    send, recv = _parts(attrs, "send_sizes", n), _parts(attrs, "recv_sizes", n)
    if send is None and recv is None:
        part = _with(x, split, _share(x.shape[split], n))
        return _with(part, join, part.shape[join] * n)
    if send is None or recv is None:
        raise ShapeError("send_sizes and recv_sizes must be given together")
    if split == join:
        if x.shape[split] != _total(send):
            raise ShapeError(f"send_sizes {send} do not add up to the extent {x.shape[split]}")
        return _with(x, join, _total(recv))
    return _with(_with(x, split, _own_share(x.shape[split], send, attrs)), join, _total(recv))


def _broadcast(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    _group(attrs)
    at.size(attrs, "src")
    return inputs[0]


def _send(inputs: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    _group(attrs)
    at.size(attrs, "dst")
    return ()


def _recv(inputs: tuple[TensorType, ...], attrs: Attrs) -> TensorType:
    _group(attrs)
    at.size(attrs, "src")
    return TensorType(at.dtype(attrs), at.sizes(attrs, "shape"))


_GROUP = "group group_size comm? how?"
_TABLE: tuple[tuple[str, str, str, Types, str], ...] = (
    ("all_reduce", "x", f"op {_GROUP} async?", _all_reduce,
     """Every member gets the `op` (sum, avg, max, min, product) of all members' x."""),
    ("all_gather", "x", f"dim {_GROUP} sizes? async?", _all_gather,
     """Every member gets the members' x joined along `dim` in group order. `sizes` gives every
     member's extent where they differ."""),
    ("reduce_scatter", "x", f"op dim {_GROUP} sizes? extent? async?", _reduce_scatter,
     """The `op` of all members' x, cut along `dim`: member i gets part i. Equal parts, or, where
     they differ, `sizes` (one a member) and `extent` (this member's part)."""),
    ("all_to_all", "x", f"split_dim concat_dim {_GROUP} send_sizes? recv_sizes? extent? async?",
     _all_to_all,
     """Every member cuts x along `split_dim` and sends part j to member j; what it receives is
     joined along `concat_dim` in group order. Uneven: `send_sizes` are this member's parts and
     `recv_sizes` what it receives along `concat_dim`; where the two dims differ, `extent` is
     this member's share of `split_dim`, the same from every sender."""),
    ("broadcast", "x", f"src {_GROUP} async?", _broadcast,
     """Every member gets the x of the global rank `src`."""),
    ("send", "x", f"dst tag {_GROUP} async? handle?", _send,
     """Sends x to the global rank `dst`; no output. Matched with `recv` by source, destination
     and tag, in program order. An asynchronous one may have a `handle`, by which `wait_sent` waits
     for it."""),
    ("recv", "", f"src tag {_GROUP} shape dtype async?", _recv,
     """The tensor, of the given shape and type, that the global rank `src` sends."""),
)  # fmt: skip

for _name, _operands, _attributes, _types, _doc in _TABLE:
    declare(
        _name, _operands, _attributes,
        doc=_doc + " `group` lists the members as global ranks, or names mesh axes."
        " `comm` tells process groups over the same ranks apart; `how` is what else all"
        " members must agree on (another call of the backend, the order in memory).",
        types=_types,
        algebra=lambda inputs, attrs, kind=_name: Collective(kind),  # type: ignore[misc]
        evaluate=None,
    )  # fmt: skip

declare(
    "wait_sent", "", "handle",
    doc="Waits until the earlier asynchronous `send` with this `handle` was received; no output.",
    types=lambda inputs, attrs: (),
    algebra=lambda inputs, attrs: (),
    evaluate=None,
)  # fmt: skip
