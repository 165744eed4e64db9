"""Mutations of operators within one rank."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import combinations

from shardproof.ir.graph import AttrValue, Graph, Node, Value, is_bool, is_float, is_integer
from shardproof.ops.base import ShapeError
from shardproof.testing.communication import REDUCING, along, group_of
from shardproof.testing.edit import Chain, Edit, with_attrs, with_inputs
from shardproof.testing.sites import Site, Variant, attributes, variant

WHOLE_AXIS = ("softmax", "log_softmax", "softmax_grad", "log_softmax_grad")
COMMUTATIVE = ("add", "mul", "maximum", "minimum", "logic")
PASSING = ("wait", "cast", "reshape")
# Attributes that hold a constant of the program, by operator.
CONSTANTS = {
    "full": ("value",), "scale": ("by",), "masked_fill": ("value",), "power": ("exponent",),
    "clamp": ("min", "max"), "leaky_relu": ("slope",), "elu": ("alpha",), "attention": ("scale",),
    "attention_grad": ("scale",),
    **dict.fromkeys(("layer_norm", "layer_norm_affine", "layer_norm_grad"), ("eps",)),
    **dict.fromkeys(("rms_norm", "rms_norm_grad"), ("eps",)),
}  # fmt: skip


def scaled(site: Site) -> Iterator[Variant]:
    """The value times the number of ranks, or divided by it (by 2 where there is one rank)."""
    node = site.node
    if len(node.outputs) != 1 or not is_float(node.outputs[0].dtype) or node.op == "undefined":
        return
    ranks = site.problem.distributed.mesh.size
    n = ranks if isinstance(ranks, int) and ranks > 1 else 2
    for by in (Fraction(1, n), Fraction(n)):

        def edit(_: int, node: Node, by: Fraction = by) -> Edit:
            chain = Chain(node)
            v = chain.emit(node.op, *node.inputs, **node.attrs)
            return chain.finish("scale", v, by=by)

        yield from variant(site, f"result of {node.op} times {by}", edit)


def shifted_slice(site: Site) -> Iterator[Variant]:
    """A slice that starts one element, or one part, too early or too late."""
    if site.node.op != "slice":
        return
    bounds = [_bounds(n) for n in site.nodes]
    length = bounds[0][1] - bounds[0][0]
    for by in sorted({-length, -1, 1, length}):

        def edit(_: int, node: Node, by: int = by) -> Edit:
            start, stop = _bounds(node)
            if start + by < 0:
                raise ShapeError("before the start")
            return with_attrs(node, start=start + by, stop=stop + by)

        yield from variant(site, f"slice shifted by {by}", edit)
    if len(set(bounds)) > 1:

        def rotated(k: int, node: Node) -> Edit:
            start, stop = bounds[(k + 1) % len(bounds)]
            return with_attrs(node, start=start, stop=stop)

        yield from variant(site, "slice of the next rank's part", rotated)


def _bounds(node: Node) -> tuple[int, int]:
    start, stop = node.attrs["start"], node.attrs["stop"]
    if not isinstance(start, int) or not isinstance(stop, int):
        raise ShapeError("a symbolic slice")
    return start, stop


def softmax_axis(site: Site) -> Iterator[Variant]:
    """A softmax over another axis."""
    node = site.node
    if node.op in WHOLE_AXIS:
        for dim in range(node.inputs[0].type.rank):
            if dim != node.attrs["dim"]:
                text = f"{node.op} over axis {dim} in place of {node.attrs['dim']}"
                yield from variant(site, text, attributes(dim=dim))


def local_dim(site: Site) -> Iterator[Variant]:
    """Another dim in a reduction, a concatenation or a slice, where the shape allows it."""
    node = site.node
    if not node.inputs or "group" in node.attrs or node.op in WHOLE_AXIS:
        return
    dims = node.attrs.get("dims")
    for dim in range(node.inputs[0].type.rank):
        if isinstance(dims, tuple) and len(dims) == 1 and dims != (dim,):
            text = f"{node.op} over dim {dim} in place of {dims[0]}"
            yield from variant(site, text, attributes(dims=(dim,)))
        if node.op in ("concat", "slice", "cumsum") and node.attrs["dim"] != dim:
            text = f"{node.op} along dim {dim} in place of {node.attrs['dim']}"
            yield from variant(site, text, along(dim))


def mask_bound(site: Site) -> Iterator[Variant]:
    """A bound of a mask of integers, or the offset of ids, off by one."""
    node = site.node
    key = {"compare": "value", "shift": "by", "iota": "start"}.get(node.op, "")
    operand = node.inputs[0] if node.inputs else node.output if node.outputs else None
    if not key or operand is None or not is_integer(operand.dtype):
        return
    for step in (-1, 1):

        def edit(_: int, node: Node, step: int = step) -> Edit:
            return with_attrs(node, **{key: _plus(node.attrs.get(key), step)})

        yield from variant(site, f"{key} of {node.op} {step:+d}", edit)


def _plus(x: AttrValue, step: int) -> AttrValue:
    if isinstance(x, bool) or not isinstance(x, int | Fraction):
        raise ShapeError("no number")
    return x + step


def constant(site: Site) -> Iterator[Variant]:
    """Another value of a constant."""
    for key in CONSTANTS.get(site.node.op, ()):
        now = site.node.attrs.get(key)
        if isinstance(now, bool) or not isinstance(now, int | Fraction):
            continue
        if site.node.op == "full" and is_bool(site.node.output.dtype):
            continue
        for other in sorted({now * 2, now + 1} - {now}):
            text = f"{key} of {site.node.op} is {other} in place of {now}"
            yield from variant(site, text, attributes(**{key: other}))


def swapped_operands(site: Site) -> Iterator[Variant]:
    """Two operands of one type in the wrong order."""
    node = site.node
    symmetric = node.op in COMMUTATIVE or node.attrs.get("kind") in ("eq", "ne")
    if symmetric or "group" in node.attrs:
        return
    for i, j in combinations(range(len(node.inputs)), 2):
        if node.inputs[i].type == node.inputs[j].type and node.inputs[i] is not node.inputs[j]:

            def edit(_: int, node: Node, i: int = i, j: int = j) -> Edit:
                return with_inputs(node, _swap(node.inputs, i, j))

            yield from variant(site, f"operands {i} and {j} of {node.op} swapped", edit)


def _swap(values: tuple[Value, ...], i: int, j: int) -> tuple[Value, ...]:
    out = list(values)
    out[i], out[j] = out[j], out[i]
    return tuple(out)


def other_input(site: Site) -> Iterator[Variant]:
    """Another input of the program, of the same type, in the place of an operand."""
    for i, v in enumerate(site.node.inputs):
        inputs = site.own().inputs
        if v not in inputs:
            continue
        for w in inputs:
            if w is v or w.type != v.type:
                continue
            edits = []
            for k, n in site.ranked():
                given = _named(site.graph(k), w.name)
                if given is None or given.type != n.inputs[i].type:
                    break
                edits.append(with_inputs(n, (*n.inputs[:i], given, *n.inputs[i + 1 :])))
            if len(edits) == len(site.nodes):
                yield Variant(
                    f"%{w.name} in place of %{v.name} at {site.node.op}", tuple(edits), more=(w,)
                )


def _named(graph: Graph, name: str) -> Value | None:
    return next((v for v in graph.inputs if v.name == name), None)


def early_bias(site: Site) -> Iterator[Variant]:
    """A bias added on every rank before the reduction, in place of once after it."""
    if site.node.op != "add":
        return
    for bias in (0, 1):
        v = site.node.inputs[bias]
        if v in site.own().inputs and v.type.rank < site.node.output.type.rank:
            text = f"%{v.name} added before the reduction"
            yield from variant(site, text, partial(_early, site, bias))


def _early(site: Site, bias: int, k: int, node: Node) -> Edit:
    made = site.graph(k).producers()
    reduced = made.get(node.inputs[1 - bias])
    way: list[Node] = []
    while reduced is not None and reduced.op in PASSING:
        way.append(reduced)
        reduced = made.get(reduced.inputs[0])
    if reduced is None or reduced.op not in REDUCING or len(group_of(reduced)) < 2:
        raise ShapeError("no reduction before the bias")
    if any(n.op == "reshape" and n.inputs[0].shape[-1] != n.output.shape[-1] for n in way):
        raise ShapeError("the bias would not fit before the view")
    chain = Chain(reduced)
    early = chain.emit("add", reduced.inputs[0], node.inputs[bias])
    early.name = node.output.name
    chain.nodes[-1].origin, chain.nodes[-1].source = node.origin, node.source or node.output.name
    edit = chain.finish(reduced.op, early, **reduced.attrs)
    edit.replaced[node] = ()
    edit.rewired[node.output] = node.inputs[1 - bias]
    if node.inputs[1 - bias].type != node.output.type:
        raise ShapeError("another type")
    return edit
