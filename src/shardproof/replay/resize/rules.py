"""Which dims scale together, read off the algebra that operators declare.

One letter of a signature is one class, a whole axis is a wide axis (statistics over two elements
hide errors). The rules know classes of algebra and no operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import Any

from shardproof.ir.graph import Graph, Node, is_bool
from shardproof.ops import base as alg
from shardproof.replay.errors import NotReplayable
from shardproof.replay.resize.analysis import Analysis, Count, Tensor
from shardproof.replay.resize.collective import within_rank
from shardproof.replay.resize.scales import Dim, Scales

Rule = Callable[[Analysis, Node, Any, Sequence[Tensor], Tensor], None]


def apply_rules(a: Analysis, graph: Graph) -> None:
    """Add the restrictions of every node of one graph.

    Raises:
        NotReplayable: an operator is not declared.
    """
    for v in graph.inputs:
        a.tensor(v)
    for node in graph.nodes:
        ins = [a.tensor(v) for v in node.inputs]
        outs = [a.tensor(v) for v in node.outputs]
        try:
            op = alg.lookup(node.op)
        except KeyError:
            raise NotReplayable(f"{node.op} is not declared") from None
        algebras = op.algebra(tuple(v.type for v in node.inputs), node.attrs)
        for algebra, out in zip(algebras, outs, strict=False):
            _RULES[type(algebra)](a, node, algebra, ins, out)


def unify_broadcast(s: Scales, x: Sequence[Dim], out: Sequence[Dim]) -> None:
    """Right-aligned dims scale together, an extent of 1 with another extent of 1 only."""
    for a, b in zip(reversed(x), reversed(out), strict=False):
        unify_extent(s, a, b)


def unify_extent(s: Scales, a: Dim, b: Dim) -> None:
    """Unify two dims of one extent; those of different extents are broadcast."""
    if s.size[a] == s.size[b]:
        s.unify(a, b)


# ------------------------------------------------------------------------------ elementwise


def _identity(a: Analysis, node: Node, _: alg.Identity, ins: Sequence[Tensor], out: Tensor) -> None:
    a.same(ins[0], out)
    out.summed, out.constant = ins[0].summed, ins[0].constant


def _elementwise(a: Analysis, node: Node, _: object, ins: Sequence[Tensor], out: Tensor) -> None:
    for x in ins:
        unify_broadcast(a.scales, x.dims, out.dims)


def _linear(
    a: Analysis, node: Node, algebra: alg.Linear, ins: Sequence[Tensor], out: Tensor
) -> None:
    _elementwise(a, node, algebra, ins, out)
    if all(c in (1, -1) for c in algebra.coefs):
        a.flow(*ins, out)
        a.literal(node, "by", out)
    elif is_bool(node.inputs[0].dtype):
        a.literal(node, "by", out)  # an offset where a mask holds, else 0
    elif len(ins) == 1 and ins[0].summed and isinstance(algebra.coefs[0], Fraction):
        _count(a, node, "by", algebra.coefs[0], ins[0].summed)


def _monomial(
    a: Analysis, node: Node, algebra: alg.Monomial, ins: Sequence[Tensor], out: Tensor
) -> None:
    _elementwise(a, node, algebra, ins, out)
    if any(is_bool(v.dtype) for v in node.inputs):
        a.flow(*ins, out)  # an integer where a mask holds, else 0
    if len(ins) != 2 or set(map(abs, algebra.exponents)) != {1}:
        return
    for x, other, exponent in zip(ins, reversed(ins), reversed(algebra.exponents), strict=True):
        value = other.constant.attrs["value"] if other.constant is not None else 0
        if other.constant is not None and x.summed and isinstance(value, int | Fraction) and value:
            factor = Fraction(value) ** int(exponent)
            _count(a, other.constant, "value", factor, x.summed, inverse=exponent < 0)


def _count(
    a: Analysis,
    node: Node,
    attr: str,
    factor: Fraction,
    summed: tuple[Dim, ...],
    inverse: bool = False,
) -> None:
    """A factor that is the reciprocal of the number of summed terms, up to a number of ranks."""
    ratio = factor * prod(a.scales.size[d] for d in summed)
    ranks = len(a.problem.distributed.graphs)
    if ratio > 0 and 1 in (ratio.numerator, ratio.denominator) and max(ratio, 1 / ratio) <= ranks:
        a.counts[node] = Count(node, attr, ratio, summed, inverse)


# Scalar functions that return one of their operands or bounds unchanged.
_CHOOSING = frozenset(("clamp", "maximum", "minimum"))


def _pointwise(
    a: Analysis, node: Node, algebra: alg.Pointwise, ins: Sequence[Tensor], out: Tensor
) -> None:
    _elementwise(a, node, algebra, ins, out)
    if algebra.fn in _CHOOSING:
        a.flow(*ins, out)
        a.literal(node, "min", out)
        a.literal(node, "max", out)


def _compare(
    a: Analysis, node: Node, algebra: alg.Compare, ins: Sequence[Tensor], out: Tensor
) -> None:
    _elementwise(a, node, algebra, ins, out)
    a.flow(*ins)
    a.literal(node, "value", ins[0])


def _select(
    a: Analysis, node: Node, algebra: alg.Select, ins: Sequence[Tensor], out: Tensor
) -> None:
    _elementwise(a, node, algebra, ins, out)
    a.flow(*ins, out)
    if algebra.other is not None:
        a.literal(node, "value", out)


# ------------------------------------------------------------------------------ labelled axes


def _unify_labels(
    a: Analysis,
    algebra: alg.Contract | alg.Signature,
    ins: Sequence[Tensor],
    out: Tensor,
) -> dict[str, Dim]:
    """One letter, one class; a dim of each letter."""
    first: dict[str, Dim] = {}
    for labels, t in zip((*algebra.operands, algebra.output), (*ins, out), strict=True):
        for label, dim in zip(labels, t.dims, strict=True):
            if label != alg.ONE:
                unify_extent(a.scales, first.setdefault(label, dim), dim)
    return first


def _contract(
    a: Analysis, node: Node, algebra: alg.Contract, ins: Sequence[Tensor], out: Tensor
) -> None:
    letters = _unify_labels(a, algebra, ins, out)
    if len(ins) == 1 and not algebra.scale_by_count:
        summed = [d for label, d in letters.items() if label not in algebra.output]
        out.summed = (*ins[0].summed, *summed)


def _signature(
    a: Analysis, node: Node, algebra: alg.Signature, ins: Sequence[Tensor], out: Tensor
) -> None:
    letters = _unify_labels(a, algebra, ins, out)
    known = {label for labels in algebra.operands for label in labels}
    made = [letters[w] for w in algebra.whole if w not in known]
    whole = [letters[w] for w in algebra.whole if w in known]
    a.scales.wide.update(whole)
    # An axis that the function makes has an extent that an attribute fixes (the k of the k
    # largest), and is a part of the whole axis.
    for d in made:
        a.scales.pinned.add(d)
        for w in whole:
            a.scales.at_least(w, a.scales.size[d])
    if out.domain is not None and len(whole) == 1 and ins[0].domain is None:
        a.bind(out, whole[0])


def _extremum(
    a: Analysis, node: Node, algebra: alg.Extremum, ins: Sequence[Tensor], out: Tensor
) -> None:
    kept = [d for k, d in enumerate(ins[0].dims) if algebra.keepdim or k not in algebra.dims]
    for x, y in zip(kept, out.dims, strict=True):
        unify_extent(a.scales, x, y)
    a.flow(ins[0], out)


# ------------------------------------------------------------------------------ views


def _reshape(a: Analysis, node: Node, _: alg.Reshape, ins: Sequence[Tensor], out: Tensor) -> None:
    reshape_equations(a.scales, ins[0].dims, out.dims)
    a.flow(ins[0], out)
    out.summed, out.constant = ins[0].summed, ins[0].constant


def reshape_equations(s: Scales, x: Sequence[Dim], out: Sequence[Dim]) -> None:
    """Cut both shapes, extents of 1 removed, into minimal segments of equal product. A segment
    of one dim each is the same dim; any other gives an equation between products."""
    xs, ys = ([d for d in dims if s.size[d] != 1] for dims in (x, out))
    if any(s.size[d] == 0 for d in xs):
        for d, e in zip(x, out, strict=False):
            unify_extent(s, d, e)
        return
    while xs:
        left, right = [xs.pop(0)], [ys.pop(0)]
        m, n = s.size[left[0]], s.size[right[0]]
        while m != n:
            if m < n:
                left.append(xs.pop(0))
                m *= s.size[left[-1]]
            else:
                right.append(ys.pop(0))
                n *= s.size[right[-1]]
        if len(left) == len(right) == 1:
            s.unify(left[0], right[0])
        else:
            s.products.append((tuple(left), tuple(right)))


def _permute(
    a: Analysis, node: Node, algebra: alg.Permute, ins: Sequence[Tensor], out: Tensor
) -> None:
    a.scales.unify_all([ins[0].dims[p] for p in algebra.perm], out.dims)
    a.flow(ins[0], out)
    out.summed = ins[0].summed


def _slice(a: Analysis, node: Node, algebra: alg.Slice, ins: Sequence[Tensor], out: Tensor) -> None:
    assert isinstance(algebra.start, int)
    for k, (d, e) in enumerate(zip(ins[0].dims, out.dims, strict=True)):
        if k != algebra.dim:
            a.scales.unify(d, e)
    whole, piece = ins[0].dims[algebra.dim], out.dims[algebra.dim]
    a.bounds[node] = a.scales.part(whole, piece, algebra.start)
    a.flow(ins[0], out)


def _concat(
    a: Analysis, node: Node, algebra: alg.Concat, ins: Sequence[Tensor], out: Tensor
) -> None:
    for x in ins:
        for k, (d, e) in enumerate(zip(x.dims, out.dims, strict=True)):
            if k != algebra.dim:
                a.scales.unify(d, e)
    a.scales.partition(out.dims[algebra.dim], [x.dims[algebra.dim] for x in ins])
    a.flow(*ins, out)


def _expand(a: Analysis, node: Node, _: alg.Expand, ins: Sequence[Tensor], out: Tensor) -> None:
    unify_broadcast(a.scales, ins[0].dims, out.dims)
    a.flow(ins[0], out)
    out.constant = ins[0].constant


# ------------------------------------------------------------------------------ creation, lookup


def _constant(a: Analysis, node: Node, _: alg.Constant, ins: Sequence[Tensor], out: Tensor) -> None:
    a.literal(node, "value", out)
    out.constant = node if out.domain is None else None


def _iota(a: Analysis, node: Node, algebra: alg.Iota, ins: Sequence[Tensor], out: Tensor) -> None:
    if abs(algebra.step) == 1:
        a.bind(out, out.dims[0])
    a.literal(node, "start", out)


def _take_rows(
    a: Analysis, node: Node, _: alg.TakeRows, ins: Sequence[Tensor], out: Tensor
) -> None:
    table, ids = ins
    a.bind(ids, table.dims[0])
    a.scales.unify_all((*ids.dims, *table.dims[1:]), out.dims)
    a.flow(table, out)


def _take_along(
    a: Analysis, node: Node, _: alg.TakeAlong, ins: Sequence[Tensor], out: Tensor
) -> None:
    x, ids = ins
    a.bind(ids, x.dims[-1])
    a.scales.unify_all(ids.dims, x.dims[:-1])
    a.scales.unify_all(ids.dims, out.dims)
    a.flow(x, out)


def _add_rows(a: Analysis, node: Node, _: alg.AddRows, ins: Sequence[Tensor], out: Tensor) -> None:
    g, ids = ins
    a.bind(ids, out.dims[0])
    a.scales.unify_all(ids.dims, g.dims[: len(ids.dims)])
    a.scales.unify_all(g.dims[len(ids.dims) :], out.dims[1:])


def _put_along(
    a: Analysis, node: Node, _: alg.PutAlong, ins: Sequence[Tensor], out: Tensor
) -> None:
    x, ids, v = ins
    a.bind(ids, x.dims[-1])
    a.scales.unify_all(ids.dims, x.dims[:-1])
    a.scales.unify_all(ids.dims, v.dims)
    a.scales.unify_all(x.dims, out.dims)
    a.flow(x, v, out)


def _nothing(a: Analysis, node: Node, _: object, ins: Sequence[Tensor], out: Tensor) -> None:
    """The extents of the output are free; what is done with it restricts them."""


_RULES: dict[type, Rule] = {
    alg.Identity: _identity,
    alg.Linear: _linear,
    alg.Monomial: _monomial,
    alg.Pointwise: _pointwise,
    alg.Logic: _elementwise,
    alg.Compare: _compare,
    alg.Select: _select,
    alg.Contract: _contract,
    alg.Signature: _signature,
    alg.Extremum: _extremum,
    alg.Reshape: _reshape,
    alg.Permute: _permute,
    alg.Slice: _slice,
    alg.Concat: _concat,
    alg.Expand: _expand,
    alg.Constant: _constant,
    alg.Iota: _iota,
    alg.Undefined: _nothing,
    alg.Opaque: _nothing,
    alg.TakeRows: _take_rows,
    alg.TakeAlong: _take_along,
    alg.AddRows: _add_rows,
    alg.PutAlong: _put_along,
    alg.Collective: within_rank,
}
