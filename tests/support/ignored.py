"""Cross entropy with ignored labels over a cut vocabulary, with its gradient, as DTensor's loss
parallel spells it."""

from __future__ import annotations

from shardproof import Mesh, Replicate, Shard, Spec

TOKENS, WIDTH, RANKS = 4, 4, 2

SEQUENTIAL = """graph sequential
%x = input f32[{t}, {v}]
%y = input i64[{t}]
%logp = log_softmax(%x) {{dim=1}}
%ignored = compare(%y) {{kind="eq", value={ignore}/1}}
%ids = masked_fill(%y, %ignored) {{value=0/1}}
%picked = take_along(%logp, %ids)
%minus = neg(%picked)
%terms = masked_fill(%minus, %ignored) {{value=0/1}}
%used = logic(%ignored) {{kind="not"}}
%ones = cast(%used) {{dtype="f32"}}
%count = sum(%ones) {{dims=(0,), keepdim=false}}
%total = sum(%terms) {{dims=(0,), keepdim=false}}
%loss = div(%total, %count)
%seed = full() {{value=-1/1, shape=(), dtype="f32"}}
%share = div(%seed, %count)
%wide = expand(%share) {{shape=({t},)}}
%mine = masked_fill(%wide, %ignored) {{value=0/1}}
%zeros = full() {{value=0/1, shape=({t}, {v}), dtype="f32"}}
%dlogp = put_along(%zeros, %ids, %mine)
%dx = log_softmax_grad(%dlogp, %logp) {{dim=1}}
return %loss, %dx
"""
RANK = """graph ranks
rank {r}
mesh tp={n}
%x = input f32[{t}, {w}]
%y = input i64[{t}]
%top = max(%x) {{dims=(1,), keepdim=true}}
%m = all_reduce(%top) {{group={group}, group_size={n}, op="max"}}
%d = sub(%x, %m)
%e = exp(%d)
%part = sum(%e) {{dims=(1,), keepdim=true}}
%whole = all_reduce(%part) {{group={group}, group_size={n}, op="sum"}}
%lse = log(%whole)
%logp = sub(%d, %lse)
%used = compare(%y) {{kind="ne", value={ignore}/1}}
%nought = full() {{value=0/1, shape=(), dtype="i64"}}
%ids = where(%used, %y, %nought)
%below = compare(%ids) {{kind="lt", value={lo}/1}}
%above = compare(%ids) {{kind="ge", value={hi}/1}}
%absent = logic(%below, %above) {{kind="or"}}
%moved = shift(%ids) {{by=-{lo}/1}}
%local = masked_fill(%moved, %absent) {{value=0/1}}
%found = take_along(%logp, %local)
%mine = masked_fill(%found, %absent) {{value=0/1}}
%picked = all_reduce(%mine) {{group={group}, group_size={n}, op="sum"}}
%minus = neg(%picked)
%none = full() {{value=0/1, shape=(), dtype="f32"}}
%terms = where(%used, %minus, %none)
%ints = cast(%used) {{dtype="i64"}}
%many = sum(%ints) {{dims=(0,), keepdim=false}}
%count = cast(%many) {{dtype="f32"}}
%total = sum(%terms) {{dims=(0,), keepdim=false}}
%loss = div(%total, %count)
%seed = full() {{value=1/1, shape=(), dtype="f32"}}
%share = div(%seed, %count)
%zeros = full() {{value=0/1, shape=({t}, {w}), dtype="f32"}}
%away = cast(%absent) {{dtype="f32"}}
%less = shift(%away) {{by=-1/1}}
%hit = put_along(%zeros, %local, %less)
%scale = where(%used, %share, %none)
%column = reshape(%scale) {{shape=({t}, 1)}}
%p = exp(%logp)
%sum = add(%hit, %p)
%dx = mul(%sum, %column)
return %loss, %dx
"""
# Each fault: text of a rank, what stands there instead.
FAULTS = {
    "ignored labels count": ('%used = compare(%y) {{kind="ne", value={ignore}/1}}',
                             '%used = compare(%y) {{kind="ne", value=-7/1}}'),
    "gradient of ignored labels": ("%scale = where(%used, %share, %none)",
                                   "%scale = expand(%share) {{shape=({t},)}}"),
    "gradient of absent labels": ("%less = shift(%away) {{by=-1/1}}",
                                  "%less = shift(%away) {{by=-2/1}}"),
    "absent labels not masked": ("%mine = masked_fill(%found, %absent) {{value=0/1}}",
                                 "%mine = scale(%found) {{by=1/1}}"),
    "local sum": ('%whole = all_reduce(%part) {{group={group}, group_size={n}, op="sum"}}',
                  "%whole = scale(%part) {{by=1/1}}"),
    "border off by one": ('%above = compare(%ids) {{kind="ge", value={hi}/1}}',
                          '%above = compare(%ids) {{kind="gt", value={hi}/1}}'),
    "all tokens counted": ("%count = cast(%many) {{dtype=\"f32\"}}",
                           '%count = full() {{value={t}/1, shape=(), dtype="f32"}}'),
}  # fmt: skip


def ignored_loss(ignore: int = -100, fault: str = "") -> Spec:
    """Loss and gradient with labels ``ignore`` left out, on two ranks; with a fault, that of
    FAULTS on every rank."""
    text = RANK
    if fault:
        right, wrong = FAULTS[fault]
        assert right in text
        text = text.replace(right, wrong)
    sizes = {"t": TOKENS, "w": WIDTH, "v": WIDTH * RANKS, "n": RANKS, "ignore": ignore,
             "group": tuple(range(RANKS))}  # fmt: skip
    return Spec.from_graphs(
        name=fault or "ignored labels",
        sequential=SEQUENTIAL.format(**sizes),
        distributed=[
            text.format(r=r, lo=r * WIDTH, hi=(r + 1) * WIDTH, **sizes) for r in range(RANKS)
        ],
        mesh=Mesh(tp=RANKS),
        inputs={"x": Shard(1), "y": Replicate()},
        outputs={"loss": Replicate(), "dx": Shard(1)},
    )
