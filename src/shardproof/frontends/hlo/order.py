"""Sorting: along a whole axis, by a comparator that is only told apart from others."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from shardproof.frontends.hlo.context import Held, HloContext, Unsupported
from shardproof.frontends.hlo.module import Computation
from shardproof.frontends.hlo.registry import lowers


@lowers("sort")
def _sort(ctx: HloContext, xs: Sequence[Held]) -> Held:
    i = ctx.instruction
    body = ctx.module.computations.get(i.computation("to_apply"))
    values = ctx.listed(xs)
    if body is None or any(v.shape != values[0].shape for v in values):
        raise Unsupported("a sort without a comparator")
    (dim,) = i.ints("dimensions")
    labels = " ".join(f"i{k}" + "!" * (k == dim) for k in range(len(values[0].shape)))
    call = f"{', '.join(labels for _ in values)} -> {labels}"
    stable = i.attrs.get("is_stable", "false")
    outs = [
        ctx.emit(
            "signature_call", *values, target="sort", signature=call, dtype=v.dtype,
            parameters=(k, fingerprint(body), stable),
        )
        for k, v in enumerate(values)
    ]  # fmt: skip
    return outs[0] if len(outs) == 1 else tuple(outs)


def fingerprint(body: Computation) -> str:
    """A text that is equal for computations that do the same steps."""
    places = {i.name: k for k, i in enumerate(body.instructions)}
    steps = [
        (i.opcode, str(i.shape), tuple(places.get(x) for x in i.operands), i.literal,
         tuple(sorted((k, v) for k, v in i.attrs.items() if k not in _IRRELEVANT)))
        for i in body.instructions
    ]  # fmt: skip
    if any(i.opcode in ("call", "fusion", "custom-call") for i in body.instructions):
        raise Unsupported("a sort by a comparator that calls another computation")
    root = places[body.root.name] if body.root is not None else -1
    return sha256(repr((steps, root)).encode()).hexdigest()[:16]


_IRRELEVANT = frozenset(("backend_config", "frontend_attributes", "sharding"))
