"""Small problems in the text form, shared by the tests of replay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardproof import Mesh, Replicate, Shard, Spec

Text = str


def mlp(size: dict[str, int], ranks: int = 2, *, drop: str = "", bias: bool = True) -> Spec:
    """A tensor-parallel MLP with a LayerNorm. ``drop``: "all_reduce" leaves the sum out,
    "bias" adds the bias on every rank before it."""
    s, d, f = size["s"], size["d"], size["f"]
    part = f // ranks
    head = f"""\
%x = input f32[{s}, {d}]
%g = input f32[{d}]
%c = input f32[{d}]
"""
    norm = "%n, %m, %r = layer_norm_affine(%x, %g, %c) {eps=1/100000, naxes=1}\n"
    group = f"group=({', '.join(map(str, range(ranks)))}), group_size={ranks}"

    def rank(k: int) -> Text:
        reduce = f'%t = all_reduce(%p) {{op="sum", {group}}}\n%y = add(%t, %b)\n'
        if drop == "all_reduce":
            reduce = "%y = add(%p, %b)\n"
        elif drop == "bias":
            reduce = f'%t = add(%p, %b)\n%y = all_reduce(%t) {{op="sum", {group}}}\n'
        return (
            f"graph part\nrank {k}\nmesh tp={ranks}\n{head}"
            f"%w = input f32[{d}, {part}]\n%v = input f32[{part}, {d}]\n%b = input f32[{d}]\n"
            f'{norm}%h = matmul(%n, %w)\n%a = gelu(%h) {{approximate="none"}}\n'
            f"%p = matmul(%a, %v)\n{reduce}return %y\n"
        )

    sequential = (
        f"graph seq\n{head}%w = input f32[{d}, {f}]\n%v = input f32[{f}, {d}]\n"
        f'%b = input f32[{d}]\n{norm}%h = matmul(%n, %w)\n%a = gelu(%h) {{approximate="none"}}\n'
        "%p = matmul(%a, %v)\n%y = add(%p, %b)\nreturn %y\n"
    )
    return Spec.from_graphs(
        sequential=sequential,
        distributed=[rank(k) for k in range(ranks)],
        mesh=Mesh(tp=ranks),
        inputs={"w": Shard(1), "v": Shard(0), "*": Replicate()},
    )


def pair(
    sequential: Text,
    rank: Callable[[int], Text] | Text,
    inputs: dict[str, Any],
    ranks: int = 2,
    **more: Any,
) -> Spec:
    """Two programs from the bodies of their graphs (inputs, nodes, return)."""

    def text(k: int) -> Text:
        body = rank if isinstance(rank, str) else rank(k)
        return f"graph part\nrank {k}\nmesh tp={ranks}\n{body}"

    return Spec.from_graphs(
        sequential=f"graph seq\n{sequential}",
        distributed=[text(k) for k in range(ranks)],
        mesh=Mesh(tp=ranks),
        inputs=inputs,
        **more,
    )


def embedding(vocab: int, ranks: int, *, shift: int = 0, rows: int = 64) -> Spec:
    """A vocabulary-parallel embedding; ``shift`` moves every rank's upper bound."""
    part = vocab // ranks
    group = f"group=({', '.join(map(str, range(ranks)))}), group_size={ranks}"

    def rank(k: int) -> Text:
        low = k * part
        return f"""\
%ids = input i64[{rows}]
%table = input f32[{part}, 96]
%below = compare(%ids) {{kind="lt", value={low}}}
%above = compare(%ids) {{kind="ge", value={low + part + shift}}}
%out = logic(%below, %above) {{kind="or"}}
%local = shift(%ids) {{by={-low}}}
%safe = masked_fill(%local, %out) {{value=0}}
%e = take_rows(%table, %safe)
%flag = reshape(%out) {{shape=({rows}, 1)}}
%z = masked_fill(%e, %flag) {{value=0}}
%y = all_reduce(%z) {{op="sum", {group}}}
return %y
"""

    sequential = f"""\
%ids = input i64[{rows}]
%table = input f32[{vocab}, 96]
%y = take_rows(%table, %ids)
return %y
"""
    inputs = {"ids": Replicate(), "table": Shard(0)}
    return pair(sequential, rank, inputs, ranks)
