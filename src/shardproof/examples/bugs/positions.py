"""F08 and F09: groups, positions, labels, masks."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from shardproof import Mesh, Shard, Spec
from shardproof.examples.bugs import parts as p
from shardproof.examples.bugs.base import Bug

CP2 = Mesh(cp=2)
SEQUENCE = {"cp": Shard(0)}


class Recomputed(torch.autograd.Function):
    """A layer that gathers its input over a group, and again when it is recomputed."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any, group: Any, again: Any) -> Any:
        ctx.save_for_backward(x, w)
        ctx.group, ctx.again = group, again
        return p.gathered(x, 0, group) @ w

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, w = ctx.saved_tensors
        whole = p.gathered(x, 0, ctx.again)  # carries: B091
        dw = whole.T @ grad  # carries: B091
        return p.scattered(grad @ w.T, 0, ctx.group), dw, None, None


def recompute_group(bug: str) -> Spec:
    """Recomputation gathers over the global group instead of the one passed in."""
    groups: dict[str, Any] = {}

    def built(mesh: Any, rank: int) -> None:
        groups.update(own=mesh.get_group("tp"), other=mesh.get_group("dp"))

    def sequential(x: Any, w: Any, c: Any) -> Any:
        return (x @ w * c).sum()

    def distributed(x: Any, w: Any, c: Any) -> Any:
        again = groups["other"] if bug == "B091" else groups["own"]  # planted: B091
        y = Recomputed.apply(x, w, groups["own"], again)  # carries: B091
        return (y * c).sum()

    def after(v: Any) -> None:
        dist.all_reduce(v["w"].grad, group=groups["other"])

    inputs = {
        "x": p.f32(8, 4, at={"dp": Shard(0), "tp": Shard(0)}, grad=True),
        "w": p.f32(4, 6, at={"tp": Shard(1)}, grad=True),
        "c": p.f32(8, 6, at={"dp": Shard(0), "tp": Shard(1)}),
    }
    mesh = Mesh(dp=2, tp=2)
    return p.spec(sequential, distributed, mesh, inputs, after=after, built=built,
                  outputs=p.OWN_LOSS)  # fmt: skip


def scatter_group(bug: str) -> Spec:
    """Embeddings are scattered over one group and gathered over another."""
    groups: dict[str, Any] = {}

    def built(mesh: Any, rank: int) -> None:
        groups.update(tp=mesh.get_group("tp"), dp=mesh.get_group("dp"))

    def sequential(x: Any) -> Any:
        return torch.tanh(x)

    def distributed(x: Any) -> Any:
        group = groups["dp"] if bug == "B092" else groups["tp"]
        own = p.mine(x, 0, group)  # planted: B092
        return p.gathered(torch.tanh(own), 0, groups["tp"])  # carries: B092

    mesh = Mesh(dp=2, tp=2)
    inputs = {"x": p.f32(8, 4, at={"dp": Shard(1)})}
    return p.spec(sequential, distributed, mesh, inputs, built=built, step="forward",
                  outputs={"output": {"dp": Shard(1)}})  # fmt: skip


def shifted_labels(bug: str) -> Spec:
    """Labels are shifted inside each shard of the sequence."""

    def score(h: Any, labels: Any, m: Any) -> Any:
        logs = torch.log_softmax(h, 1).gather(1, labels.unsqueeze(1)).squeeze(1)
        return -(logs * m).sum()

    def sequential(h: Any, tokens: Any) -> Any:
        labels = torch.cat([tokens[1:], tokens[:1]])
        return score(h, labels, last_masked(8, h))

    def distributed(h: Any, tokens: Any) -> Any:
        if bug in ("B095", "B101"):
            labels = torch.cat([tokens[1:], tokens[:1]])  # planted: B095, B101
            return p.summed(score(h, labels, last_masked(4, h)))  # carries: B095, B101
        whole = p.gathered(tokens)
        shifted = torch.cat([whole[1:], whole[:1]])
        return p.summed(score(h, p.mine(shifted), p.mine(last_masked(8, h))))

    def last_masked(n: int, like: Any) -> Any:
        return torch.cat([torch.ones(n - 1), torch.zeros(1)]).to(like.dtype)

    inputs = {"h": p.f32(8, 5, at=SEQUENCE), "tokens": p.i64(8, at=SEQUENCE)}
    return p.spec(sequential, distributed, CP2, inputs, step="forward")


def rotated(x: Any, positions: Any) -> Any:
    """Rotary embedding of pairs of features."""
    angle = positions.unsqueeze(1) * 0.5  # carries: B097, B100, G1
    a, b = x.chunk(2, 1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], 1)  # carries: B097, B100, G1


def rope(bug: str, mesh: Mesh, wrong: Any) -> Spec:
    """Positions of a contiguous shard; ``wrong`` gives the faulty ones."""

    def sequential(x: Any) -> Any:
        return rotated(x, torch.arange(8).to(x.dtype))

    def distributed(x: Any) -> Any:
        start = dist.get_rank() * x.shape[0]
        positions = torch.arange(start, start + x.shape[0])
        if bug:
            positions = wrong(x)
        return rotated(x, positions.to(x.dtype))

    at = {a: Shard(0) for a, _ in mesh.axes}
    return p.spec(sequential, distributed, mesh, {"x": p.f32(8, 2, at=at)}, step="forward",
                  outputs={"output": at})  # fmt: skip


def ring_rank_only(bug: str) -> Spec:
    """Positions follow the rank in the ring, not the one in the group inside."""

    def wrong(x: Any) -> Any:
        start = dist.get_rank() // 2 * 4
        return torch.arange(start, start + 2)  # planted: B097

    return rope(bug, Mesh(ring=2, uly=2), wrong)


def zigzag_positions(bug: str) -> Spec:
    """The helper assumes zigzag shards, the model cuts contiguous ones."""

    def wrong(x: Any) -> Any:
        r = dist.get_rank()
        first, last = torch.arange(2 * r, 2 * r + 2), torch.arange(6 - 2 * r, 8 - 2 * r)
        return torch.cat([first, last])  # planted: B100

    return rope(bug, CP2, wrong)


def no_offset(bug: str) -> Spec:
    """Every rank numbers its tokens from 0."""

    def wrong(x: Any) -> Any:
        return torch.arange(x.shape[0])  # planted: G1

    return rope(bug, Mesh(sp=2), wrong)


def sliced_table(bug: str) -> Spec:
    """The table of positions has several axes; the wrong one is cut."""

    def sequential(x: Any, freqs: Any) -> Any:
        return x * freqs.sum(0)

    def distributed(x: Any, freqs: Any) -> Any:
        if bug == "B098":
            own = p.mine(freqs, 0)[:, : x.shape[0]]  # planted: B098
        else:
            own = p.mine(freqs, 1)
        return x * own.sum(0)  # carries: B098

    inputs = {"x": p.f32(8, 4, at=SEQUENCE), "freqs": p.f32(4, 8, 4)}
    return p.spec(sequential, distributed, CP2, inputs, step="forward",
                  outputs={"output": SEQUENCE})  # fmt: skip


def micro_batch_labels(bug: str) -> Spec:
    """The last stage pairs outputs of one micro-batch with labels of the next."""

    def step(model: Any, optimizer: Any, x: Any, w: Any, y: Any) -> Any:
        if model is None:
            return (x @ w - y).square().mean()
        xs, ys = x.chunk(2), y.chunk(2)
        if bug == "B103":
            ys = (ys[1], ys[0])  # planted: B103
        pairs = zip(xs, ys, strict=True)
        return sum((a @ w - b).square().mean() for a, b in pairs) / 2  # carries: B103

    inputs = {"x": p.f32(6, 3), "w": p.f32(3), "y": p.f32(6)}
    return p.spec(None, None, Mesh(pp=1), inputs, whole_step=step)


def zigzag_response(bug: str) -> Spec:
    """Log-probabilities of the response are put back in order from zigzag shards."""

    def sequential(logs: Any) -> Any:
        return torch.tanh(logs)[3:]

    def distributed(logs: Any) -> Any:
        r = dist.get_rank()
        chunks = torch.tanh(logs).chunk(4)
        own = torch.cat([chunks[r], chunks[3 - r]])
        parts = p.gathered(own).chunk(4)
        if bug == "B104":
            return torch.cat([parts[0], parts[1], parts[2], parts[3]])[3:]  # planted: B104
        return torch.cat([parts[0], parts[2], parts[3], parts[1]])[3:]

    return p.spec(sequential, distributed, CP2, {"logs": p.f32(8)}, step="forward")


BUGS = [
    Bug("B091", "Y", "recomputation gathers over the wrong group", recompute_group),
    Bug("B092", "Y", "scattered over one group, gathered over another", scatter_group),
    Bug("B095", "Y", "labels shifted inside each shard", shifted_labels),
    Bug("B101", "Y", "shifted again from local labels", shifted_labels),
    Bug("B097", "Y", "positions of the ring rank for all peers inside", ring_rank_only),
    Bug("B100", "Y", "zigzag positions for contiguous shards", zigzag_positions),
    Bug("G1", "Y", "no position offset under sequence parallelism", no_offset),
    Bug("B098", "Y", "rotary table cut along the wrong dim", sliced_table),
    Bug("B103", "Y", "labels of the next micro-batch", micro_batch_labels),
    Bug("B104", "Y", "zigzag shards put back in another order", zigzag_response),
]
