"""Random changes of a distributed program.

A mutation rewrites one node on one rank or on all ranks. The graph is built again, so shape rules
hold; where they do not, or where an output changes its type, there is no mutant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from shardproof.ir.builder import Builder
from shardproof.ir.graph import Graph, Node, Program, Value
from shardproof.ir.sizes import Undecided
from shardproof.ops.base import ShapeError
from shardproof.spec.problem import Problem
from shardproof.testing.fuzz.build import builder

Rng = np.random.Generator
Edit = Callable[[Builder, Node, tuple[Value, ...], dict[Value, Value]], tuple[Value, ...]]
"""Emits the replacement of a node: operands are given in the new graph, with the map from old to
new values."""

REDUCING = ("all_reduce", "reduce_scatter")
MOVING = ("all_gather", "all_to_all", "broadcast", *REDUCING)
SWAPS = {
    "exp": ("tanh",), "tanh": ("sin", "sigmoid"), "sigmoid": ("tanh",), "gelu": ("silu",),
    "silu": ("relu",), "relu": ("abs",), "sin": ("tanh",), "abs": ("relu",), "add": ("sub",),
    "sub": ("add",), "mul": ("div", "add"), "div": ("mul",), "max": ("min", "sum"),
    "min": ("max",), "sum": ("mean", "max"), "mean": ("sum",), "maximum": ("minimum", "add"),
    "softmax": ("log_softmax",), "log_softmax": ("softmax",), "cumsum": ("softmax",),
    "floor": ("ceil",), "sqrt": ("rsqrt",), "rsqrt": ("reciprocal",), "log": ("sqrt",),
}  # fmt: skip


class NoMutant(Exception):
    """The mutation does not apply."""


def rebuild(graph: Graph, at: int, edit: Edit) -> Graph:
    """The graph with node ``at`` replaced."""
    b = builder(graph.name)
    new: dict[Value, Value] = {v: b.input(v.name, v.dtype, v.shape) for v in graph.inputs}
    for k, n in enumerate(graph.nodes):
        operands = tuple(new[v] for v in n.inputs)
        if k == at:
            outs = edit(b, n, operands, new)
        else:
            name = n.outputs[0].name if n.outputs else ""
            outs = b.emit_all(n.op, *operands, name=name, **n.attrs)
        if len(outs) != len(n.outputs):
            raise NoMutant
        new.update(zip(n.outputs, outs, strict=True))
    out = b.returns(
        *(new[v] if v else None for v in graph.outputs), names=tuple(graph.output_names)
    )
    same = zip(graph.outputs, out.outputs, strict=True)
    if any(v and w and v.type != w.type for v, w in same):
        raise NoMutant
    out.rank = graph.rank
    return out


def again(b: Builder, n: Node, operands: Sequence[Value], **changed: Any) -> tuple[Value, ...]:
    return b.emit_all(n.op, *operands, **{**n.attrs, **changed})


# ------------------------------------------------------------------ the mutations


def drop(n: Node, rng: Rng) -> Edit:
    if n.op not in MOVING or n.inputs[0].type != n.outputs[0].type:
        raise NoMutant
    return lambda b, n, x, new: (b.emit("wait", x[0]),)


def double(n: Node, rng: Rng) -> Edit:
    if n.op != "all_reduce":
        raise NoMutant
    return lambda b, n, x, new: again(b, n, again(b, n, x))


def other_reduction(n: Node, rng: Rng) -> Edit:
    if n.op not in REDUCING:
        raise NoMutant
    ops = [op for op in ("sum", "avg", "max", "min", "product") if op != n.attrs["op"]]
    op = str(rng.choice(ops))
    return lambda b, n, x, new: again(b, n, x, op=op)


def other_group(n: Node, rng: Rng) -> Edit:
    """The members in another order, or another process group over them."""
    group = n.attrs.get("group")
    if not isinstance(group, tuple) or len(group) < 2:
        raise NoMutant
    if rng.random() < 0.5:
        return lambda b, n, x, new: again(b, n, x, comm="2")
    return lambda b, n, x, new: again(b, n, x, group=tuple(reversed(n.attrs["group"])))  # type: ignore[arg-type]


def other_peer(n: Node, rng: Rng) -> Edit:
    """Another source, destination or tag."""
    names = [k for k in ("src", "dst", "tag") if k in n.attrs]
    if not names:
        raise NoMutant
    name, by = str(rng.choice(names)), int(rng.choice([-1, 1]))
    return lambda b, n, x, new: again(b, n, x, **{name: n.attrs[name] + by})  # type: ignore[operator]


def other_sizes(n: Node, rng: Rng) -> Edit:
    """The sizes of uneven parts in reverse."""
    names = [k for k in ("sizes", "send_sizes", "recv_sizes") if k in n.attrs]
    if not names:
        raise NoMutant
    return lambda b, n, x, new: again(b, n, x, **{k: n.attrs[k][::-1] for k in names})  # type: ignore[index]


def other_dim(n: Node, rng: Rng) -> Edit:
    """Another dim of a collective, a softmax, a scan, a reduction; another permutation."""
    rank = len(n.inputs[0].shape) if n.inputs else 0
    if rank < 2:
        raise NoMutant
    shift = int(rng.integers(1, rank))
    names = [k for k in ("dim", "dims", "split_dim", "concat_dim", "perm") if k in n.attrs]
    if not names:
        raise NoMutant
    name = str(rng.choice(names))

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple((v + shift) % rank for v in value)
        return (value + shift) % rank

    return lambda b, n, x, new: again(b, n, x, **{name: moved(n.attrs[name])})


def other_offset(n: Node, rng: Rng) -> Edit:
    """A slice or a range of positions that starts elsewhere."""
    by = int(rng.choice([-2, -1, 1, 2]))
    if n.op == "slice":
        return lambda b, n, x, new: again(
            b, n, x, start=n.attrs["start"] + by, stop=n.attrs["stop"] + by  # type: ignore[operator]
        )  # fmt: skip
    if n.op == "iota":
        if rng.random() < 0.3:
            return lambda b, n, x, new: again(b, n, x, step=n.attrs["step"] + by)  # type: ignore[operator]
        return lambda b, n, x, new: again(b, n, x, start=n.attrs["start"] + by)  # type: ignore[operator]
    raise NoMutant


def rank_zero_offset(n: Node, rng: Rng) -> Edit:
    """Every rank computes as if it were the first."""
    if n.op == "slice":
        return lambda b, n, x, new: again(
            b, n, x, start=0, stop=n.attrs["stop"] - n.attrs["start"]  # type: ignore[operator]
        )  # fmt: skip
    if n.op == "iota" and n.attrs["start"] != 0:
        return lambda b, n, x, new: again(b, n, x, start=0)
    if n.op == "shift" and n.attrs["by"] != 0:
        return lambda b, n, x, new: again(b, n, x, by=0)
    raise NoMutant


def other_constant(n: Node, rng: Rng) -> Edit:
    by = int(rng.choice([-1, 1, 2]))
    for name in ("by", "value", "eps", "exponent"):
        old = n.attrs.get(name)
        if isinstance(old, int | Fraction):
            value = old * 2 if name == "eps" else old + by
            return lambda b, n, x, new: again(b, n, x, **{name: value})
    raise NoMutant


def other_kind(n: Node, rng: Rng) -> Edit:
    """Off-by-one comparisons, another connective."""
    if n.op not in ("compare", "logic") or n.attrs["kind"] == "not":
        raise NoMutant
    kinds = ("lt", "le", "gt", "ge", "eq", "ne") if n.op == "compare" else ("and", "or", "xor")
    kind = str(rng.choice([k for k in kinds if k != n.attrs["kind"]]))
    return lambda b, n, x, new: again(b, n, x, kind=kind)


def other_operator(n: Node, rng: Rng) -> Edit:
    if n.op not in SWAPS:
        raise NoMutant
    op = str(rng.choice(SWAPS[n.op]))
    attrs: dict[str, Any] = {} if n.op == "gelu" else dict(n.attrs)
    return lambda b, n, x, new: b.emit_all(op, *x, **attrs)


def other_operand(n: Node, rng: Rng) -> Edit:
    """An operand replaced by another value of its type."""
    if not n.inputs or n.op == "wait":
        raise NoMutant
    k = int(rng.integers(len(n.inputs)))
    draw = float(rng.random())

    def edit(
        b: Builder, n: Node, x: tuple[Value, ...], new: dict[Value, Value]
    ) -> tuple[Value, ...]:
        found = [w for v, w in new.items() if w.type == x[k].type and w is not x[k]]
        if not found:
            raise NoMutant
        return again(b, n, [*x[:k], found[int(draw * len(found))], *x[k + 1 :]])

    return edit


def swap_operands(n: Node, rng: Rng) -> Edit:
    if len(n.inputs) != 2:
        raise NoMutant
    return lambda b, n, x, new: again(b, n, x[::-1])


def scale_result(n: Node, rng: Rng) -> Edit:
    """The right value times a wrong factor, or a partial sum where the whole is owed."""
    if len(n.outputs) != 1 or n.outputs[0].dtype != "f32":
        raise NoMutant
    by = Fraction(int(rng.choice([1, 2, -1])), int(rng.choice([1, 2, 3])))
    return lambda b, n, x, new: (b.emit("scale", again(b, n, x)[0], by=by),)


def add_on_each(n: Node, rng: Rng) -> Edit:
    """A value of the right type added on each rank (a bias before the reduction)."""
    if n.op not in (*REDUCING, "matmul", "sum") or n.outputs[0].dtype != "f32":
        raise NoMutant
    draw = float(rng.random())

    def edit(
        b: Builder, n: Node, x: tuple[Value, ...], new: dict[Value, Value]
    ) -> tuple[Value, ...]:
        y = again(b, n, x)[0]
        found = [
            w for w in new.values()
            if w.dtype == "f32" and w.shape and y.shape[len(y.shape) - len(w.shape) :] == w.shape
        ]  # fmt: skip
        if not found:
            raise NoMutant
        return (b.emit("add", y, found[int(draw * len(found))]),)

    return edit


def reversed_result(n: Node, rng: Rng) -> Edit:
    """The two halves of a dim change places."""
    if len(n.outputs) != 1 or not n.outputs[0].shape:
        raise NoMutant
    d = int(rng.integers(len(n.outputs[0].shape)))
    extent = n.outputs[0].shape[d]
    if not isinstance(extent, int) or extent < 2:
        raise NoMutant

    def edit(
        b: Builder, n: Node, x: tuple[Value, ...], new: dict[Value, Value]
    ) -> tuple[Value, ...]:
        y = again(b, n, x)[0]
        w = y.shape[d]
        assert isinstance(w, int)
        low = b.emit("slice", y, dim=d, start=0, stop=w // 2)
        high = b.emit("slice", y, dim=d, start=w // 2, stop=w)
        return (b.emit("concat", high, low, dim=d),)

    return edit


def transposed(n: Node, rng: Rng) -> Edit:
    """The result read in another order (its shape stays)."""
    if len(n.outputs) != 1 or len(n.outputs[0].shape) < 2:
        raise NoMutant
    perm = tuple(int(p) for p in rng.permutation(len(n.outputs[0].shape)))

    def edit(
        b: Builder, n: Node, x: tuple[Value, ...], new: dict[Value, Value]
    ) -> tuple[Value, ...]:
        y = again(b, n, x)[0]
        return (b.emit("reshape", b.emit("permute", y, perm=perm), shape=y.shape),)

    return edit


MUTATIONS: tuple[Callable[[Node, Rng], Edit], ...] = (
    drop, double, other_reduction, other_group, other_peer, other_sizes, other_dim, other_offset,
    rank_zero_offset, other_constant, other_kind, other_operator, other_operand, other_operand,
    swap_operands, scale_result, add_on_each, reversed_result, transposed,
)  # fmt: skip


def swapped_inputs(problem: Problem, rng: Rng) -> Problem:
    """Two ranks hold each other's shards."""
    n = len(problem.relation)
    if n < 2:
        raise NoMutant
    a, b = (int(k) for k in rng.choice(n, size=2, replace=False))
    relation = list(problem.relation)
    shapes = [[v.shape for v in relation[k].outputs if v] for k in (a, b)]
    if shapes[0] != shapes[1]:
        raise NoMutant
    relation[a], relation[b] = relation[b], relation[a]
    return replace(problem, relation=relation)


def _ranks(problem: Problem, rank: int, rng: Rng) -> tuple[str, list[int]]:
    """All ranks, one, or those with one coordinate along some axis."""
    mesh = problem.distributed.mesh
    every = range(len(problem.distributed.graphs))
    draw = rng.random()
    if draw < 0.55:
        return "all", list(every)
    if draw < 0.75 or len(mesh.axes) < 2:
        return "one", [rank]
    axis = mesh.axes[int(rng.integers(len(mesh.axes)))][0]
    mine = mesh.coordinates(rank)[axis]
    return "some", [r for r in every if mesh.coordinates(r)[axis] == mine]


def _op(graph: Graph, at: int) -> str:
    return graph.nodes[at].op if at < len(graph.nodes) else ""


def mutant(problem: Problem, rng: Rng) -> tuple[str, Problem]:
    """One random mutant and the name of what was done.

    Raises:
        NoMutant: the dice fell on something that does not apply.
    """
    if rng.random() < 0.03:
        return "swapped_inputs", swapped_inputs(problem, rng)
    graphs = list(problem.distributed.graphs)
    rank = int(rng.integers(len(graphs)))
    where, ranks = _ranks(problem, rank, rng)
    if not graphs[rank].nodes:
        raise NoMutant
    at = int(rng.integers(len(graphs[rank].nodes)))
    rule = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
    edit = rule(graphs[rank].nodes[at], rng)
    if any(_op(graphs[k], at) != _op(graphs[rank], at) for k in ranks):
        where, ranks = "one", [rank]  # the stages of a pipeline differ
    try:
        for k in ranks:
            graphs[k] = rebuild(graphs[k], at, edit)
    except (ShapeError, Undecided, ValueError) as e:
        raise NoMutant from e
    program = Program(problem.distributed.mesh, graphs)
    return f"{rule.__name__}/{where}", replace(problem, distributed=program)
