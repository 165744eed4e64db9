"""What the lookups of a sequential program state of its integer inputs, worked out before anything
is named: a comparison of labels may come before the lookup that says which labels there are."""

from __future__ import annotations

from shardproof.infer.blocks import Unsupported, Val
from shardproof.infer.evaluate import Evaluator
from shardproof.infer.meanings import Meanings
from shardproof.ir.graph import Graph, Node, is_bool, is_integer
from shardproof.ir.sizes import Undecided
from shardproof.ops import base as alg


def state_ranges(ev: Evaluator, graph: Graph, env: Meanings) -> None:
    """Let ``ev``, which knows the inputs of the sequential graph and nothing else, know the values
    that its lookups say these have."""
    scratch = Evaluator()
    inputs = len(ev.table.atoms)
    scratch.table.atoms = list(ev.table.atoms)
    values: dict[object, Val] = {v: env[v] for v in graph.inputs if is_integer(v.dtype)}
    for node in graph.nodes:
        rules = alg.lookup(node.op).algebra(tuple(v.type for v in node.inputs), node.attrs)
        if rules:
            _state(scratch, node, rules[0], values)
        if any(v not in values for v in node.inputs):
            continue
        types = [v.type for v in node.inputs]
        for v, rule in zip(node.outputs, rules, strict=True):
            if is_integer(v.dtype) or is_bool(v.dtype):
                operands = [values[x] for x in node.inputs]
                values[v] = scratch.apply(rule, operands, types, v.type)
    ev.known.take(scratch.known, inputs)


def _state(ev: Evaluator, node: Node, rule: alg.Algebra, values: dict[object, Val]) -> None:
    rows = alg.rows_indexed(rule, tuple(v.type for v in node.inputs))
    ids = values.get(node.inputs[1]) if rows is not None else None
    if rows is None or ids is None:
        return
    try:
        ev.lookups.stated(ids, rows)
    except (Unsupported, Undecided):
        return
