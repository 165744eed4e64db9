"""Reads the user's own sharding code off its captured graph: rearrangements as expressions."""

from __future__ import annotations

from typing import Any

from shardproof.errors import InputError
from shardproof.ir.graph import Graph, Node, Value
from shardproof.spec.expression import Expr, Indexed, Joined, Permuted, Reshaped, Source


def expressions(graph: Graph) -> dict[str, Expr]:
    """Each output of ``graph`` as an expression over its inputs.

    Raises:
        InputError: the graph computes more than a rearrangement.
    """
    env: dict[Value, Expr] = {v: Source(v.name) for v in graph.inputs}
    for node in graph.nodes:
        if not all(v in env for v in node.inputs):
            continue
        found = _expression(node, [env[v] for v in node.inputs])
        if found is not None:
            env[node.output] = found
    producers = graph.producers()
    out: dict[str, Expr] = {}
    for name, v in zip(graph.output_names, graph.outputs, strict=True):
        if v is not None and v in env:
            out[name] = env[v]
        elif v is not None:
            raise _refused(name, _culprit(v, env, producers))
    return out


def _expression(node: Node, xs: list[Expr]) -> Expr | None:
    attrs: dict[str, Any] = dict(node.attrs)
    match node.op:
        case "slice":
            before = [(None, None)] * attrs["dim"]
            return Indexed(xs[0], (*before, (attrs["start"], attrs["stop"])))
        case "reshape":
            return Reshaped(xs[0], attrs["shape"])
        case "permute":
            return Permuted(xs[0], attrs["perm"])
        case "concat":
            return Joined(tuple(xs), attrs["dim"])
        case "cast":
            return xs[0]
    return None


def _culprit(v: Value, env: dict[Value, Expr], producers: dict[Value, Node]) -> Node | None:
    """The first operator that is no rearrangement."""
    node = producers.get(v)
    while node is not None:
        rest = [x for x in node.inputs if x not in env]
        if not rest:
            return node
        node = producers.get(rest[0])
    return None


def _refused(name: str, node: Node | None) -> InputError:
    what = f"is computed by {node.op}" if node is not None else "is no function of the weights"
    return InputError(
        f"the sharding code gives {name!r} a value that {what}",
        where=str(node.origin) if node is not None else "parameters",
        expected="slices, reshapes, permutations and concatenations of sequential weights",
        next_step="keep arithmetic (scaling, padding, communication) out of the sharding code",
    )
