"""Token counts as symbols, another one on each rank: how the loss is normalised."""

from __future__ import annotations

import pytest

from shardproof import Mesh, Replicate, Shard, Spec
from shardproof.ir.sizes import symbol

RANKS = 3
SEQUENTIAL = """graph sequential
sizes {sizes}, h
%x = input f32[{total}, h]
%w = input f32[h, 4]
%z = matmul(%x, %w)
%q = mul(%z, %z)
%loss = mean(%q) {{dims=(0, 1), keepdim=false}}
%dq = scale(%z) {{by=2/1}}
%n = full() {{value={elements}, shape=(), dtype="f32"}}
%dz = div(%dq, %n)
%xt = permute(%x) {{perm=(1, 0)}}
%dw = matmul(%xt, %dz)
return %loss, %dw
"""
HEAD = """graph ranks
rank {r}
mesh dp={n}
sizes {own}, h
%x = input f32[{own}, h]
%w = input f32[h, 4]
%z = matmul(%x, %w)
%q = mul(%z, %z)
%dq = scale(%z) {{by=2/1}}
%xt = permute(%x) {{perm=(1, 0)}}
%own = full() {{value=4*{own}, shape=(), dtype="f32"}}
%total = all_reduce(%own) {{group={group}, group_size={n}, op="sum"}}
"""
BODIES = {
    "sums over the total": """%s = sum(%q) {{dims=(0, 1), keepdim=false}}
%sum = all_reduce(%s) {{group={group}, group_size={n}, op="sum"}}
%loss = div(%sum, %total)
%dz = div(%dq, %total)
%d = matmul(%xt, %dz)
%dw = all_reduce(%d) {{group={group}, group_size={n}, op="sum"}}
return %loss, %dw
""",
    "means by their share": """%m = mean(%q) {{dims=(0, 1), keepdim=false}}
%a = mul(%m, %own)
%b = div(%a, %total)
%loss = all_reduce(%b) {{group={group}, group_size={n}, op="sum"}}
%dm = div(%dq, %own)
%share = div(%own, %total)
%dz = mul(%dm, %share)
%d = matmul(%xt, %dz)
%dw = all_reduce(%d) {{group={group}, group_size={n}, op="sum"}}
return %loss, %dw
""",
}
MEANS = """%m = mean(%q) {{dims=(0, 1), keepdim=false}}
%loss = all_reduce(%m) {{group={group}, group_size={n}, op="avg"}}
%dz = div(%dq, %own)
%d = matmul(%xt, %dz)
%dw = all_reduce(%d) {{group={group}, group_size={n}, op="avg"}}
return %loss, %dw
"""
FAULTS = {
    "mean of means": MEANS,
    "gradients of means": BODIES["sums over the total"].replace(
        "%dz = div(%dq, %total)", "%dz = div(%dq, %own)"
    ),
    "divided by the total, then averaged": BODIES["sums over the total"].replace(
        '%dw = all_reduce(%d) {{group={group}, group_size={n}, op="sum"}}',
        '%dw = all_reduce(%d) {{group={group}, group_size={n}, op="avg"}}',
    ),
    "own share twice": BODIES["means by their share"].replace("%b = div(%a", "%b = div(%m"),
}


def spec(body: str, names: tuple[str, ...] = ("n0", "n1", "n2")) -> Spec:
    """The program on three ranks; ``names`` are the symbols for their tokens."""
    sequential = SEQUENTIAL.format(
        sizes=", ".join(dict.fromkeys(names)),
        total=" + ".join(names),
        elements=" + ".join(f"4*{n}" for n in names),
    )
    texts = [
        (HEAD + body).format(r=r, own=own, n=RANKS, group=tuple(range(RANKS)))
        for r, own in enumerate(names)
    ]
    return Spec.from_graphs(
        sequential=sequential, distributed=texts, mesh=Mesh(dp=RANKS),
        inputs={"x": Shard(0, sizes=[symbol(n) for n in names]), "w": Replicate()},
        outputs={"loss": Replicate(), "dw": Replicate()},
    )  # fmt: skip


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_right_normalisation(body: str) -> None:
    verdict = spec(body).check()
    assert (verdict.status, verdict.certificate) == ("refines", "certificate checked")
    assert any("n0" in c and "n2" in c for c in verdict.conditions)


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_a_wrong_normalisation_is_refuted(body: str) -> None:
    assert spec(body).check().status == "refuted"


def test_a_mean_of_means_is_right_for_one_count() -> None:
    """The same program is right where all ranks have one symbol for their tokens."""
    assert spec(MEANS, ("n", "n", "n")).check().status == "refines"
