"""A block on a mesh of two axes: data parallelism, and tensor with sequence parallelism.

The captured graphs have one mesh axis each. This program, written in the text form, has two of
equal extent, so that a mutation can reduce over the wrong one.
"""

from __future__ import annotations

from shardproof.spec.mesh import Mesh
from shardproof.spec.placement import Replicate, Shard
from shardproof.spec.spec import Spec

B, S, D, H, F = 4, 8, 12, 4, 16  # rows, positions, width, heads, inner width

INPUTS = f"""\
%x = input f32[{{b}}, {{s}}, {D}]
%mask = input b8[{S}, {S}]
%g = input f32[{D}]
%c = input f32[{D}]
"""

ATTENTION = f"""\
%q = matmul(%full, %wq)
%k = matmul(%full, %wk)
%v = matmul(%full, %wv)
%qh = reshape(%q) {{{{shape=({{b}}, {S}, {{h}}, 3)}}}}
%kh = reshape(%k) {{{{shape=({{b}}, {S}, {{h}}, 3)}}}}
%vh = reshape(%v) {{{{shape=({{b}}, {S}, {{h}}, 3)}}}}
%qt = permute(%qh) {{{{perm=(0, 2, 1, 3)}}}}
%kt = permute(%kh) {{{{perm=(0, 2, 3, 1)}}}}
%vt = permute(%vh) {{{{perm=(0, 2, 1, 3)}}}}
%scores = matmul(%qt, %kt)
%scaled = scale(%scores) {{{{by=1/2}}}}
%seen = masked_fill(%scaled, %mask) {{{{value=-30}}}}
%weights = softmax(%seen) {{{{dim=3}}}}
%mixed = matmul(%weights, %vt)
%back = permute(%mixed) {{{{perm=(0, 2, 1, 3)}}}}
%heads = reshape(%back) {{{{shape=({{b}}, {S}, {{w}})}}}}
%o = matmul(%heads, %wo)
"""


def _weights(w: int, f: int) -> str:
    square = "".join(f"%{n} = input f32[{D}, {w}]\n" for n in ("wq", "wk", "wv"))
    return (
        square + f"%wo = input f32[{w}, {D}]\n%bo = input f32[{D}]\n"
        f"%w1 = input f32[{D}, {f}]\n%b1 = input f32[{f}]\n"
        f"%w2 = input f32[{f}, {D}]\n%b2 = input f32[{D}]\n"
    )


def _norm(x: str, y: str) -> str:
    return f"%{y}, %{y}_mean, %{y}_dev = layer_norm_affine(%{x}, %g, %c) {{eps=1/1000, naxes=1}}\n"


def sequential_block() -> str:
    """Attention, MLP, and the mean of squares as the loss."""
    return (
        "graph block\n" + INPUTS.format(b=B, s=S) + _weights(D, F) + _norm("x", "full")
        + ATTENTION.format(b=B, h=H, w=D)
        + "%ob = add(%o, %bo)\n%r = add(%x, %ob)\n" + _norm("r", "n")
        + "%up = matmul(%n, %w1)\n%upb = add(%up, %b1)\n%act = gelu(%upb) {approximate=\"none\"}\n"
        + "%down = matmul(%act, %w2)\n%downb = add(%down, %b2)\n%y = add(%r, %downb)\n"
        + "%sq = mul(%y, %y)\n%loss = mean(%sq) {dims=(0, 1, 2), keepdim=False}\n"
        + "return %y, %loss\n"
    )  # fmt: skip


def rank_block(dp: int, tp: int) -> str:
    """The program of one rank of the mesh (dp=2, tp=2): sequence parallel outside the matmuls."""
    b, s, rank = B // 2, S // 2, 2 * dp + tp
    over_tp = f"group=({2 * dp}, {2 * dp + 1}), group_size=2"
    over_dp = f"group=({tp}, {2 + tp}), group_size=2"
    return (
        f"graph block\nrank {rank}\nmesh dp=2, tp=2\n" + INPUTS.format(b=b, s=s)
        + _weights(D // 2, F // 2) + _norm("x", "n0")
        + f"%full = all_gather(%n0) {{dim=1, {over_tp}}}\n"
        + ATTENTION.format(b=b, h=H // 2, w=D // 2)
        + f'%os = reduce_scatter(%o) {{op="sum", dim=1, {over_tp}}}\n'
        + "%ob = add(%os, %bo)\n%r = add(%x, %ob)\n" + _norm("r", "n1")
        + f"%n = all_gather(%n1) {{dim=1, {over_tp}}}\n"
        + "%up = matmul(%n, %w1)\n%upb = add(%up, %b1)\n%act = gelu(%upb) {approximate=\"none\"}\n"
        + f'%down = matmul(%act, %w2)\n%ds = reduce_scatter(%down) {{op="sum", dim=1, {over_tp}}}\n'
        + "%downb = add(%ds, %b2)\n%y = add(%r, %downb)\n"
        + "%sq = mul(%y, %y)\n%total = sum(%sq) {dims=(0, 1, 2), keepdim=False}\n"
        + f'%rows = all_reduce(%total) {{op="sum", {over_tp}}}\n'
        + f"%per = scale(%rows) {{by=1/{b * S * D}}}\n"
        + f'%loss = all_reduce(%per) {{op="avg", {over_dp}}}\n'
        + "return %y, %loss\n"
    )  # fmt: skip


def grid_block() -> Spec:
    """The check of the block on four ranks."""
    column, row = {"tp": Shard(1)}, {"tp": Shard(0)}
    return Spec.from_graphs(
        name="Block, dp=2, tp=2, sequence parallel",
        sequential=sequential_block(),
        distributed=[rank_block(d, t) for d in range(2) for t in range(2)],
        mesh=Mesh(dp=2, tp=2),
        inputs={
            "x": {"dp": Shard(0), "tp": Shard(1)},
            "wq": column, "wk": column, "wv": column, "wo": row,
            "w1": column, "b1": row, "w2": row,
            "*": Replicate(),
        },
        outputs={"y": {"dp": Shard(0), "tp": Shard(1)}, "loss": Replicate()},
    )  # fmt: skip
