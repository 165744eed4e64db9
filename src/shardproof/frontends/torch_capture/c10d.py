"""``torch.distributed`` calls that write into their arguments, as functional collectives.

The dispatcher's ``c10d`` operators have no alias annotations; this table says which tensors each
one writes. What is emitted are the ``_c10d_functional`` operators of the FX frontend's table, so
that both kinds of program mean the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup

from shardproof.errors import InputError
from shardproof.frontends.fx_lexer import Ref
from shardproof.frontends.fx_types import FxType
from shardproof.frontends.torch_capture.memory import Memory, dtype_name
from shardproof.frontends.torch_capture.patches import REDUCE_FACTOR
from shardproof.frontends.torch_capture.statements import Statements

_REDUCTIONS = {int(v.value): k.lower() for k, v in dist.ReduceOp.RedOpType.__members__.items()}
_F = "_c10d_functional."


@dataclass(eq=False, slots=True)
class Call:
    """One collective being recorded. ``results`` are the tensors that it writes, each with the
    statement that is still in flight."""

    st: Statements
    memory: Memory
    name: str
    ranks: tuple[int, ...]
    key: str  # the name under which the group is declared to the lowering
    args: dict[str, Any]
    results: list[tuple[torch.Tensor, Ref]]
    how: str = ""

    def read(self, t: torch.Tensor) -> Ref:
        return self.memory.read(t)

    def emit(
        self, target: str, args: tuple[Any, ...], like: torch.Tensor, shape: Sequence[int]
    ) -> Ref:
        """An ordinary operator with a result of the type of ``like``."""
        return self.st.call(target, args, {}, FxType(dtype_name(like.dtype), tuple(shape)))

    def communicate(
        self, target: str, args: tuple[Any, ...], like: torch.Tensor, shape: Sequence[int],
        how: str = "",
    ) -> Ref:  # fmt: skip
        """A collective; it stays in the program even if its result is not read. ``how`` is what
        members must agree on beside what the target says."""
        ref = self.emit(_F + target + ".default", (*args, self.key), like, shape)
        return self.st.keep(ref, **({"how": how} if how else {}))

    def view(self, ref: Ref, like: torch.Tensor, shape: Sequence[int]) -> Ref:
        return self.emit("aten.view.default", (ref, tuple(shape)), like, shape)

    def give(self, t: torch.Tensor, ref: Ref) -> None:
        self.results.append((t, ref))


def record(c: Call) -> None:
    """Emit what the call means and list its results.

    Raises:
        InputError: the collective has no meaning to the verifier.
    """
    rule = _RULES.get(c.name)
    if rule is None:
        raise refused(f"torch.distributed called c10d.{c.name}", str(c.st.origin))
    rule(c)


def refused(what: str, where: str) -> InputError:
    """The error for communication that cannot be captured."""
    return InputError(
        what,
        where=where,
        expected="all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, scatter, "
        "send and recv with known ranks",
        next_step="use one of these, or leave this call out of the captured step",
    )


def reduction(c: Call) -> tuple[str, float | None]:
    """The reduction's name, and the factor of a premultiplied sum."""
    op: Any = c.args["reduce_op"]
    number = int(op.op() if hasattr(op, "op") else op)
    name = _REDUCTIONS.get(number, str(number))
    if name != "premul_sum":
        return name, None
    if not isinstance(REDUCE_FACTOR.value, float | int):
        raise refused("a premultiplied sum has a factor that cannot be read", str(c.st.origin))
    return "sum", float(REDUCE_FACTOR.value)


def _scaled(c: Call, t: torch.Tensor, ref: Ref, shape: Sequence[int]) -> tuple[Ref, str]:
    name, factor = reduction(c)
    if factor is not None:
        ref = c.emit("aten.mul.Scalar", (ref, factor), t, shape)
    return ref, name


def _all_reduce(c: Call) -> None:
    for t in c.args["tensors"]:
        x, name = _scaled(c, t, c.read(t), t.shape)
        c.give(t, c.communicate("all_reduce", (x, name), t, t.shape, stored(c, t)))


def _reduce(c: Call) -> None:
    """Only the root keeps the sum; what the others hold afterwards is not defined."""
    me, root = dist.get_rank(), c.ranks[c.args["root_rank"]]
    for t in c.args["tensors"]:
        x, name = _scaled(c, t, c.read(t), t.shape)
        how = ", ".join(filter(None, (f"reduce to member {c.args['root_rank']}", stored(c, t))))
        total = c.communicate("all_reduce", (x, name), t, t.shape, how)
        c.give(t, total if me == root else c.emit("aten.empty_like.default", (x,), t, t.shape))


def _broadcast(c: Call) -> None:
    for t in c.args["tensors"]:
        args = (c.read(t), c.args["root_rank"])
        c.give(t, c.communicate("broadcast", args, t, t.shape, stored(c, t)))


def stored(c: Call, t: torch.Tensor) -> str:
    """How a tensor lies in memory, if not row by row: backends move its elements in the order in
    which they are stored, so all members must store it alike.

    Raises:
        InputError: there is other memory between its elements.
    """
    if t.is_contiguous():
        return ""
    strides = t.stride()
    order = sorted((d for d in range(t.dim()) if t.shape[d] > 1), key=lambda d: -strides[d])
    step = 1
    for d in reversed(order):
        if strides[d] != step:
            raise _in_pieces(c)
        step *= t.shape[d]
    return f"dims stored in the order {', '.join(map(str, order))}"


def contiguous(c: Call, *tensors: torch.Tensor) -> None:
    """Refuse what backends refuse, or move in the order in which it is stored."""
    if not all(t.is_contiguous() for t in tensors):
        raise _in_pieces(c)


def _in_pieces(c: Call) -> InputError:
    return InputError(
        f"torch.distributed called c10d.{c.name} on a tensor that is not contiguous",
        where=str(c.st.origin),
        expected="contiguous tensors: backends refuse others, or move their elements in another "
        "order",
        next_step="call .contiguous() first, and copy the result back",
    )


def _gathered(c: Call, x: torch.Tensor) -> tuple[Ref, tuple[int, ...]]:
    """The members' tensors, each flat, one after another."""
    n = len(c.ranks)
    if x.dim() == 0:
        return c.communicate("all_gather_into_tensor", (c.view(c.read(x), x, (1,)), n), x, (n,)), (
            n,
        )
    shape = (x.shape[0] * n, *x.shape[1:])
    return c.communicate("all_gather_into_tensor", (c.read(x), n), x, shape), shape


def _all_gather_base(c: Call) -> None:
    _into(c, c.args["output_tensor"], c.args["input_tensor"])


def _into(c: Call, out: torch.Tensor, x: torch.Tensor) -> None:
    ref, shape = _gathered(c, x)
    c.give(out, ref if tuple(out.shape) == shape else _later(c, ref, out, out.shape))


def _later(c: Call, ref: Ref, like: torch.Tensor, shape: Sequence[int]) -> Ref:
    """A reshape of a result: the program waits first, as the result is one tensor to it."""
    return c.view(_waited(c, ref, like), like, shape)


def _waited(c: Call, ref: Ref, like: torch.Tensor) -> Ref:
    """The result just computed, waited for."""
    type_ = c.st.all[-1].type
    assert c.st.all[-1].name == ref.name
    return c.st.call(_F + "wait_tensor.default", (ref,), {}, type_)


def _all_gather_list(c: Call) -> None:
    for outs, x in zip(c.args["output_tensors"], c.args["input_tensors"], strict=True):
        if any(tuple(o.shape) != tuple(x.shape) for o in outs):
            raise refused("an all_gather of tensors of different shapes", str(c.st.origin))
        _pieces(c, _gathered(c, x)[0], outs, x)


def _pieces(c: Call, ref: Ref, outs: Sequence[torch.Tensor], like: torch.Tensor) -> None:
    """Give each of ``outs`` its rows of a joined result."""
    ref = _waited(c, ref, like)
    at = 0
    for out in outs:
        rows = out.shape[0] if out.dim() else 1
        inner = tuple(out.shape[1:])
        part = c.emit("aten.slice.Tensor", (ref, 0, at, at + rows), out, (rows, *inner))
        c.give(out, part if out.dim() else c.view(part, out, ()))
        at += rows


def _joined(c: Call, xs: Sequence[torch.Tensor]) -> tuple[Ref, tuple[int, ...]]:
    """``xs`` one after another along dim 0."""
    if xs[0].dim() == 0:
        refs = tuple(c.view(c.read(x), x, (1,)) for x in xs)
        shape: tuple[int, ...] = (len(xs),)
    else:
        refs = tuple(c.read(x) for x in xs)
        shape = (sum(x.shape[0] for x in xs), *xs[0].shape[1:])
    return c.emit("aten.cat.default", (refs, 0), xs[0], shape), shape


def _reduce_scatter_base(c: Call) -> None:
    _scatter(c, c.args["output_tensor"], c.args["input_tensor"])


def _scatter(c: Call, out: torch.Tensor, x: torch.Tensor) -> None:
    n, ref, shape = len(c.ranks), c.read(x), tuple(x.shape)
    if not shape or shape[0] % n:
        shape = (prod(shape),)
        ref = c.view(ref, x, shape)
    if shape[0] % n:
        raise refused("a reduce_scatter into unequal parts", str(c.st.origin))
    part = (shape[0] // n, *shape[1:])
    ref, name = _scaled(c, x, ref, shape)
    got = c.communicate("reduce_scatter_tensor", (ref, name, n), x, part)
    c.give(out, got if tuple(out.shape) == part else _later(c, got, out, out.shape))


def _reduce_scatter_list(c: Call) -> None:
    for out, xs in zip(c.args["output_tensors"], c.args["input_tensors"], strict=True):
        if any(tuple(x.shape) != tuple(out.shape) for x in xs):
            raise refused("a reduce_scatter of tensors of different shapes", str(c.st.origin))
        ref, shape = _joined(c, xs)
        ref, name = _scaled(c, out, ref, shape)
        part = tuple(out.shape) if out.dim() else (1,)
        got = c.communicate("reduce_scatter_tensor", (ref, name, len(c.ranks)), out, part)
        c.give(out, got if out.dim() else _later(c, got, out, ()))


def _all_to_all_base(c: Call) -> None:
    out, x = c.args["output"], c.args["input"]
    contiguous(c, out, x)
    recv, send = (tuple(c.args[f"{k}_split_sizes"]) for k in ("output", "input"))
    c.give(out, c.communicate("all_to_all_single", (c.read(x), recv, send), out, out.shape))


def _all_to_all_list(c: Call) -> None:
    outs, xs = c.args["output_tensors"], c.args["input_tensors"]
    if any(t.dim() == 0 for t in (*outs, *xs)):
        raise refused("an all_to_all of numbers", str(c.st.origin))
    joined, _ = _joined(c, xs)
    recv, send = tuple(t.shape[0] for t in outs), tuple(t.shape[0] for t in xs)
    shape = (sum(recv), *outs[0].shape[1:])
    _pieces(
        c, c.communicate("all_to_all_single", (joined, recv, send), outs[0], shape), outs, xs[0]
    )


def _scatter_from_root(c: Call) -> None:
    """Member i gets part i of the root's list: a broadcast of the list, then its part."""
    me = c.ranks.index(dist.get_rank())
    for k, out in enumerate(c.args["output_tensors"]):
        shape = (len(c.ranks), *out.shape)
        lists = c.args["input_tensors"]
        if lists:
            refs = tuple(c.read(x) for x in lists[k])
            x = c.emit("aten.stack.default", (refs,), out, shape)
        else:
            x = c.st.call("aten.empty.memory_format", (shape,), {"dtype": dtype_name(out.dtype)},
                          FxType(dtype_name(out.dtype), shape))  # fmt: skip
        got = c.communicate("broadcast", (x, c.args["root_rank"]), out, shape, "scatter")
        c.give(out, c.emit("aten.select.int", (_waited(c, got, out), 0, me), out, out.shape))


def _send(c: Call) -> None:
    contiguous(c, *c.args["tensors"])
    for t in c.args["tensors"]:
        peer = c.ranks[c.args["dst"]]
        args = (c.read(t), peer, c.args["tag"], c.key)
        c.st.keep(c.st.call(_F + "isend.default", args, {}, None))


def _recv(c: Call) -> None:
    contiguous(c, *c.args["tensors"])
    for t in c.args["tensors"]:
        args = (c.read(t), c.ranks[c.args["src"]], c.args["tag"])
        c.give(t, c.communicate("irecv", args, t, t.shape))


def _each(rule: Callable[[Call, torch.Tensor, torch.Tensor], None]) -> Callable[[Call], None]:
    def run(c: Call) -> None:
        for out, x in zip(c.args["outputs"], c.args["inputs"], strict=True):
            rule(c, out, x)

    return run


SILENT = frozenset(("check_for_nan",))
"""Calls that concern no other rank."""
BARRIER = "barrier"
"""It moves no data, and blocks until every rank of the group has come."""


def _barrier(c: Call) -> None:
    """A sum of nothing that nobody reads: what it is for is that all members must call it."""
    scalar = FxType("f32", ())
    x = c.st.call("aten.zeros.default", ((),), {"dtype": "f32"}, scalar)
    args = (x, "sum", c.key)
    c.st.keep(c.st.call(_F + "all_reduce.default", args, {}, scalar), how=c.how or c.name)


_RULES: dict[str, Callable[[Call], None]] = {
    "allreduce_": _all_reduce,
    "allreduce_coalesced_": _all_reduce,
    "reduce_": _reduce,
    "broadcast_": _broadcast,
    "allgather_": _all_gather_list,
    "_allgather_base_": _all_gather_base,
    "allgather_into_tensor_coalesced_": _each(_into),
    "reduce_scatter_": _reduce_scatter_list,
    "_reduce_scatter_base_": _reduce_scatter_base,
    "reduce_scatter_tensor_coalesced_": _each(_scatter),
    "alltoall_base_": _all_to_all_base,
    "alltoall_": _all_to_all_list,
    "scatter_": _scatter_from_root,
    BARRIER: _barrier,
    "send": _send,
    "recv_": _recv,
}


def unboxed(group: Any) -> ProcessGroup:
    """The process group of a dispatcher argument."""
    return group if isinstance(group, ProcessGroup) else ProcessGroup.unbox(group)
