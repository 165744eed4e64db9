"""Vocabulary parallelism: embedding and cross entropy by masks and reductions."""

from __future__ import annotations

from tests.support.problems import Cut, Rank, Spec, sharded

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Value
from shardproof.ir.sizes import Size
from shardproof.spec.problem import Problem


def _mask(b: Builder, ids: Value, rank: Rank, fault: str) -> tuple[Value, Value]:
    """The mask of ids outside the shard and the local ids, 0 where masked."""
    low = rank.lo + 1 if fault == "strict border" else rank.lo
    below = b.emit("compare", ids, kind="lt", value=low)
    above = b.emit("compare", ids, kind="ge", value=rank.lo + rank.width)
    mask = b.emit("logic", below, above, kind="or")
    local = b.emit("shift", ids, by=-rank.lo)
    return mask, b.emit("masked_fill", local, mask, value=0)


def masked_lookup(cut: Cut, tokens: Size, hidden: Size, fault: str = "") -> Problem:
    """A vocabulary-parallel embedding against a plain one."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        return {"y": b.emit("take_rows", v["W"], v["ids"])}

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        mask, local = _mask(b, v["ids"], rank, fault)
        y = b.emit("take_rows", v["W"], local)
        if fault != "rows stay":
            wide = b.emit("reshape", mask, shape=(*mask.shape, 1))
            y = b.emit("masked_fill", y, wide, value=0)
        y = rank.reduce(b, y, "avg" if fault == "averaged" else "sum")
        return {"y": rank.reduce(b, y) if fault == "twice" else y}

    inputs: Spec = {
        "W": ("f32", (cut.total, hidden), 0),
        "ids": ("i64", (tokens,), None),
    }
    return sharded("masked lookup", cut, inputs, sequential, distributed, {"y": None})


LOOKUP_FAULTS = ("rows stay", "strict border", "averaged", "twice")


def cross_entropy(
    cut: Cut, tokens: Size, fault: str = "", *, fused: bool = False, shift: bool = True
) -> Problem:
    """Vocabulary-parallel cross entropy, loss and gradient of the logits. The sequential side is
    the same spelling on one rank or, with ``fused``, log_softmax with its fused gradient."""

    def sequential(b: Builder, v: dict[str, Value]) -> dict[str, Value]:
        if fused:
            return _fused_loss(b, v["x"], v["ids"])
        return _parts_loss(b, v["x"], v["ids"], Rank(0, cut.total, cut.total, (), 1), "", shift)

    def distributed(b: Builder, v: dict[str, Value], rank: Rank) -> dict[str, Value]:
        return _parts_loss(b, v["x"], v["ids"], rank, fault, shift)

    inputs: Spec = {
        "x": ("f32", (tokens, cut.total), 1),
        "ids": ("i64", (tokens,), None),
    }
    outputs = {"loss": None, "dx": 1}
    return sharded("cross entropy", cut, inputs, sequential, distributed, outputs)


LOSS_FAULTS = ("local maximum", "local sum", "target twice", "gradient unmasked", "strict border")


def _fused_loss(b: Builder, x: Value, ids: Value) -> dict[str, Value]:
    """log_softmax, nll and their gradients for a gradient of one a token."""
    logp = b.emit("log_softmax", x, dim=1)
    picked = b.emit("take_along", logp, ids)
    zero = b.emit("full", value=0, shape=x.shape, dtype="f32")
    ones = b.emit("full", value=-1, shape=ids.shape, dtype="f32")
    seed = b.emit("put_along", zero, ids, ones)
    dx = b.emit("log_softmax_grad", seed, logp, dim=1)
    return {"loss": b.emit("neg", picked), "dx": dx}


def _parts_loss(
    b: Builder, x: Value, ids: Value, rank: Rank, fault: str, shift: bool
) -> dict[str, Value]:
    def total(v: Value, op: str = "sum") -> Value:
        return rank.reduce(b, v, op) if rank.group else v

    if shift:
        top = b.emit("max", x, dims=(1,), keepdim=True)
        x = b.emit("sub", x, top if fault == "local maximum" else total(top, "max"))
    mask, local = _mask(b, ids, rank, fault)
    target = b.emit("masked_fill", b.emit("take_along", x, local), mask, value=0)
    target = total(target)
    if fault == "target twice":
        target = total(target)
    e = b.emit("exp", x)
    z = b.emit("sum", e, dims=(1,), keepdim=False)
    if fault != "local sum":
        z = total(z)
    loss = b.emit("sub", b.emit("log", z), target)
    p = b.emit("div", e, b.emit("reshape", z, shape=(*z.shape, 1)))
    inside = b.emit("shift", b.emit("neg", b.emit("cast", mask, dtype="f32")), by=1)
    if fault == "gradient unmasked":
        inside = b.emit("full", value=1, shape=mask.shape, dtype="f32")
    lower = b.emit("sub", b.emit("take_along", p, local), inside)
    return {"loss": loss, "dx": b.emit("put_along", p, local, lower)}
