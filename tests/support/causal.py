"""Causal attention in blocks on two ranks: the first leaves out the keys that no query of its own
sees, the second merges a block without a mask with the one on the diagonal."""

from __future__ import annotations

from shardproof import Mesh, Replicate, Shard, Spec

SEQUENTIAL = """graph sequential
%q = input f32[6, 3]
%k = input f32[6, 3]
%v = input f32[6, 3]
%kt = permute(%k) {perm=(1, 0)}
%s = matmul(%q, %kt)
%key = iota() {size=6, start=0, step=1, dtype="i64"}
%query = reshape(%key) {shape=(6, 1)}
%late = compare(%key, %query) {kind="gt"}
%x = masked_fill(%s, %late) {value=-inf}
%p = softmax(%x) {dim=1}
%out = matmul(%p, %v)
return %out
"""
START = """graph ranks
rank {r}
mesh cp=2
%q = input f32[3, 3]
%k = input f32[6, 3]
%v = input f32[6, 3]
%i = iota() {{size=3, start={at}, step=1, dtype="i64"}}
%query = reshape(%i) {{shape=(3, 1)}}
"""
# One block: scores, their mask (``masks`` says how they are masked), sums shifted by ``m``.
BLOCK = """%k{n} = slice(%k) {{dim=0, start={first}, stop={last}}}
%v{n} = slice(%v) {{dim=0, start={first}, stop={last}}}
%t{n} = permute(%k{n}) {{perm=(1, 0)}}
%s{n} = matmul(%q, %t{n})
"""
MASK = """%key{n} = iota() {{size=3, start={first}, step=1, dtype="i64"}}
%late{n} = compare(%key{n}, %query) {{kind="gt"}}
%x{n} = masked_fill(%s{n}, %late{n}) {{value=-inf}}
"""
NO_MASK = "%x{n} = scale(%s{n}) {{by=1/1}}\n"
SUMS = """%d{n} = sub(%x{n}, %m)
%e{n} = exp(%d{n})
%z{n} = sum(%e{n}) {{dims=(1,), keepdim=true}}
%o{n} = matmul(%e{n}, %v{n})
"""
FIRST = (
    START
    + BLOCK
    + MASK
    + "%m = max(%x{n}) {{dims=(1,), keepdim=true}}\n"
    + SUMS
    + """\
%out = div(%o0, %z0)
return %out
"""
)


def second(past: str) -> str:
    """The text of the second rank; ``past`` masks the block of the first, or does not."""
    early, own = BLOCK.format(n=0, first=0, last=3), BLOCK.format(n=1, first=3, last=6)
    tops = "".join(f"%m{n} = max(%x{n}) {{dims=(1,), keepdim=true}}\n" for n in range(2))
    return (
        START.format(r=1, at=3) + early + past.format(n=0, first=0)
        + own + MASK.format(n=1, first=3) + tops + "%m = maximum(%m0, %m1)\n"
        + SUMS.format(n=0) + SUMS.format(n=1)
        + "%z = add(%z0, %z1)\n%o = add(%o0, %o1)\n%out = div(%o, %z)\nreturn %out\n"
    )  # fmt: skip


# Each fault: the rank, text of it, what stands there instead.
FAULTS = {
    "own block without a mask": (1, "%x1 = masked_fill(%s1, %late1) {value=-inf}",
                                 "%x1 = scale(%s1) {by=1/1}"),
    "later block not hidden": (0, "stop=3", "stop=6"),
    "mask by local positions": (1, "%key1 = iota() {size=3, start=3",
                                "%key1 = iota() {size=3, start=0"),
    "strict mask": (1, '%late1 = compare(%key1, %query) {kind="gt"}',
                    '%late1 = compare(%key1, %query) {kind="ge"}'),
    "own maximum": (1, "%d0 = sub(%x0, %m)", "%d0 = sub(%x0, %m0)"),
    "past block left out": (1, "%z = add(%z0, %z1)", "%z = scale(%z1) {by=1/1}"),
    "filled with a number": (1, "%x1 = masked_fill(%s1, %late1) {value=-inf}",
                             "%x1 = masked_fill(%s1, %late1) {value=-3/1}"),
    "filled with infinity": (1, "%x1 = masked_fill(%s1, %late1) {value=-inf}",
                             "%x1 = masked_fill(%s1, %late1) {value=inf}"),
}  # fmt: skip


def causal_ring(past: str = NO_MASK, fault: str = "") -> Spec:
    """The blocks; with a fault, that of FAULTS."""
    ranks = [FIRST.format(r=0, at=0, n=0, first=0, last=3), second(past)]
    if fault:
        rank, right, wrong = FAULTS[fault]
        assert right in ranks[rank]
        ranks[rank] = ranks[rank].replace(right, wrong)
        if fault == "later block not hidden":
            ranks[rank] = (
                ranks[rank]
                .replace("%key0 = iota() {size=3", "%key0 = iota() {size=6")
                .replace("masked_fill(%s0, %late0) {value=-inf}", "scale(%s0) {by=1/1}")
            )
    return Spec.from_graphs(
        name=fault or "causal attention in blocks",
        sequential=SEQUENTIAL,
        distributed=ranks,
        mesh=Mesh(cp=2),
        inputs={"q": Shard(0), "k": Replicate(), "v": Replicate()},
        outputs={"out": Shard(0)},
    )
