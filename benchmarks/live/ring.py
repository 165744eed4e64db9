"""Ring attention by hand: keys and values go round, partial results are merged on the way, in the
order of the sequence or in zigzag (rank r has chunks r and 2w-1-r of 2w)."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from shardproof import Input, Mesh, Shard, Spec, concat, seq
from shardproof.testing.cases import Case, twins

LENGTH, WIDTH, SCALE = 8, 4, 0.5
NEVER = float("-inf")


def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    scores = q @ k.transpose(1, 2) * SCALE
    if causal:
        at = torch.arange(LENGTH)
        scores = scores.masked_fill(at > at.unsqueeze(1), NEVER)
    return torch.softmax(scores, -1) @ v


def passed(x: Any) -> Any:
    """What the previous rank had; the next one receives ``x``."""
    me, ranks = dist.get_rank(), dist.get_world_size()
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    both = [
        dist.P2POp(dist.isend, x.contiguous(), (me + 1) % ranks),
        dist.P2POp(dist.irecv, out, (me - 1) % ranks),
    ]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    return out


def places(rank: int, zigzag: bool) -> Any:
    """Positions in the sequence of what a rank has."""
    ranks = dist.get_world_size()
    if not zigzag:
        return torch.arange(LENGTH).chunk(ranks)[rank]
    chunks = torch.arange(LENGTH).chunk(2 * ranks)
    return torch.cat([chunks[rank], chunks[2 * ranks - 1 - rank]])


# ------------------------------------------------------------------ merging


def rescaled(blocks: Any, bug: str) -> Any:
    """Sums shifted by the largest score so far."""
    top = total = out = None
    for scores, v in blocks:
        if out is None:
            top = scores.max(-1, keepdim=True).values
            e = (scores - top).exp()
            total, out = e.sum(-1, keepdim=True), e @ v
            continue
        higher = torch.maximum(top, scores.max(-1, keepdim=True).values)
        e, scale = (scores - higher).exp(), (top - higher).exp()
        if bug == "sum not rescaled":
            total = total + e.sum(-1, keepdim=True)  # planted: sum not rescaled
        else:
            total = total * scale + e.sum(-1, keepdim=True)
        if bug == "output not rescaled":
            scale = torch.ones_like(scale)  # planted: output not rescaled
        out, top = out * scale + e @ v, higher  # carries: output not rescaled, values stay
    return out / total  # carries: sum not rescaled, one step short


def gathered(blocks: Any, bug: str) -> Any:
    """Every block by itself first; then all by the largest of their log-sums."""
    outs, logs = [], []
    for scores, v in blocks:
        outs.append(torch.softmax(scores, -1) @ v)  # carries: values stay
        logs.append(torch.logsumexp(scores, -1, keepdim=True))
    outs, logs = torch.stack(outs), torch.stack(logs)
    if bug == "mean of the blocks":
        return outs.mean(0)  # planted: mean of the blocks
    weights = (logs - logs.max(0).values).exp()
    if bug == "weights not normalised":
        return (outs * weights).sum(0)  # planted: weights not normalised
    return (outs * weights).sum(0) / weights.sum(0)  # carries: one step short


def by_logs(blocks: Any, bug: str) -> Any:
    """The output so far and its log-sum, merged by sigmoids."""
    out = log = None
    for scores, v in blocks:
        # carries: values stay
        y, s = torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1, keepdim=True)
        if out is None:
            out, log = y, s
            continue
        # planted: shares exchanged
        # carries: log-sum not updated
        share = torch.sigmoid(log - s if bug == "shares exchanged" else s - log)
        # carries: shares exchanged, log-sum not updated, one step short
        out = out - share * (out - y)
        if bug != "log-sum not updated":  # planted: log-sum not updated
            log = log - F.logsigmoid(log - s)
    return out  # carries: one step short


def by_logaddexp(blocks: Any, bug: str) -> Any:
    """The same by `logaddexp`."""
    out = log = None
    for scores, v in blocks:
        # carries: values stay
        y, s = torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1, keepdim=True)
        if out is None:
            out, log = y, s
            continue
        both = torch.logaddexp(log, s)  # carries: log-sum kept
        # carries: log-sum kept, one step short
        out = out * (log - both).exp() + y * (s - both).exp()
        if bug != "log-sum kept":  # planted: log-sum kept
            log = both
    return out  # carries: one step short


# ------------------------------------------------------------------ the ring


def ring(q: Any, k: Any, v: Any, causal: bool, zigzag: bool, merge: Any, bug: str) -> Any:
    me, ranks = dist.get_rank(), dist.get_world_size()
    mine, blocks = places(me, zigzag), []
    for step in range(ranks):
        owner = (me - step) % ranks
        if bug == "owner by the other direction":
            owner = (me + step) % ranks  # planted: owner by the other direction
        scores = q @ k.transpose(1, 2) * SCALE
        theirs = places(owner, zigzag)
        if bug == "positions in the order of ranks":
            theirs = places(owner, False)  # planted: positions in the order of ranks
        if bug == "mask of the own block":
            theirs = places(me, zigzag)  # planted: mask of the own block
        if causal:
            # carries: owner by the other direction, positions in the order of ranks
            # carries: mask of the own block
            hidden = theirs > mine.unsqueeze(1)
            # carries: owner by the other direction, positions in the order of ranks
            # carries: mask of the own block
            scores = scores.masked_fill(hidden, NEVER)
        if not causal or zigzag or owner <= me:
            blocks.append((scores, v))
        if step == ranks - 1 or (bug == "one step short" and step == ranks - 2):
            break  # planted: one step short
        k = passed(k)
        if bug != "values stay":  # planted: values stay
            v = passed(v)
    return merge(blocks, bug)


def whole(x: Any, bug: str) -> Any:
    """All parts in zigzag, in the order of the sequence."""
    ranks = dist.get_world_size()
    parts = [torch.empty_like(x) for _ in range(ranks)]
    dist.all_gather(parts, x.contiguous())
    halves = [p.chunk(2, 1) for p in parts]
    if bug == "second halves not turned round":
        back = [h[1] for h in halves]  # planted: second halves not turned round
    else:
        back = [h[1] for h in reversed(halves)]
    # carries: second halves not turned round
    return torch.cat([*(h[0] for h in halves), *back], 1)


def all_keys(q: Any, k: Any, v: Any, bug: str) -> Any:
    """Causal attention in zigzag to keys and values of all ranks."""
    if bug == "parts in the order of ranks":
        parts = [torch.empty_like(v) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, v.contiguous())
        v = torch.cat(parts, 1)  # planted: parts in the order of ranks
    else:
        v = whole(v, bug)
    scores = q @ whole(k, bug).transpose(1, 2) * SCALE
    mine = places(dist.get_rank(), bug != "queries taken for contiguous")
    hidden = torch.arange(LENGTH) > mine.unsqueeze(1)  # planted: queries taken for contiguous
    scores = scores.masked_fill(hidden, NEVER)  # carries: queries taken for contiguous
    # carries: parts in the order of ranks
    return torch.softmax(scores, -1) @ v


def gathered_spec(bug: str = "", ranks: int = 2) -> Spec:
    def placed(name: str) -> Any:
        return functools.partial(chunks, name, ranks)

    return Spec(
        sequential=lambda: functools.partial(attention, causal=True),
        distributed=lambda mesh, rank: functools.partial(all_keys, bug=bug),
        mesh=Mesh(cp=ranks),
        inputs={n: Input((2, LENGTH, WIDTH), "f32", placed(n)) for n in ("q", "k", "v")},
        step="forward",
        outputs={"output": placed("output")},
    )


def gathered_on_four(bug: str = "") -> Spec:
    return gathered_spec(bug, 4)


def chunks(name: str, ranks: int, rank: int) -> Any:
    n = LENGTH // (2 * ranks)
    last = (2 * ranks - 1 - rank) * n
    first = seq(name)[:, rank * n : rank * n + n]
    return concat(first, seq(name)[:, last : last + n], dim=1)


def spec(
    bug: str = "",
    merge: Any = rescaled,
    ranks: int = 4,
    causal: bool = False,
    zigzag: bool = False,
) -> Spec:
    def placed(name: str) -> Any:
        if zigzag:
            return functools.partial(chunks, name, ranks)
        return {"cp": Shard(1)}

    return Spec(
        sequential=lambda: functools.partial(attention, causal=causal),
        distributed=lambda mesh, rank: functools.partial(
            ring, causal=causal, zigzag=zigzag, merge=merge, bug=bug
        ),
        mesh=Mesh(cp=ranks),
        inputs={n: Input((2, LENGTH, WIDTH), "f32", placed(n)) for n in ("q", "k", "v")},
        step="forward",
        outputs={"output": placed("output")},
    )


def case(name: str, *faults: str, expected: Any = "refines", **how: Any) -> Case:
    make = functools.partial(spec, **how)
    return Case(name, make, {f: functools.partial(make, f) for f in faults}, expected)


RING = ("one step short", "values stay")
RESCALED = ("sum not rescaled", "output not rescaled", *RING)
ORDERED = ("positions in the order of ranks",)
CAUSAL = ("mask of the own block", "owner by the other direction")

ORDER = (
    "second halves not turned round", "parts in the order of ranks",
    "queries taken for contiguous",
)  # fmt: skip

CASES = [
    Case("zigzag cp2, all keys, causal", gathered_spec, twins(gathered_spec, *ORDER)),
    Case("zigzag cp4, all keys, causal", gathered_on_four, twins(gathered_on_four, *ORDER)),
    case("ring cp4", *RESCALED),
    case("ring cp4, causal", *RESCALED[:2], *CAUSAL, causal=True),
    case("ring cp2, zigzag", *RESCALED, zigzag=True, ranks=2),
    case("ring cp4, zigzag", *RESCALED[:3], zigzag=True),
    case("ring cp2, zigzag, causal", *RESCALED[1:3], *ORDERED, zigzag=True, causal=True, ranks=2),
    case("ring cp4, zigzag, causal", *RESCALED[1:3], *ORDERED, zigzag=True, causal=True),
    case("ring cp4, blocks merged at the end", "mean of the blocks", "weights not normalised",
         *RING, merge=gathered),
    case("ring cp4, causal, blocks merged at the end", "mean of the blocks", *CAUSAL,
         causal=True, merge=gathered),
    case("ring cp4, sigmoids", "shares exchanged", "log-sum not updated", *RING, merge=by_logs,
         expected="unproved"),
    case("ring cp4, logaddexp", "log-sum kept", *RING, merge=by_logaddexp),
    case("ring cp4, causal, logaddexp", "log-sum kept", *CAUSAL, causal=True, merge=by_logaddexp),
]  # fmt: skip
